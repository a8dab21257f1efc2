//! Registry of one image, and pulls from it.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Path as RoutePath, State};
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use serde_json::Value;

use super::{
    OS_RELEASE, architecture, debian, digest, gzip, hotdesk_image, import, is_root, layer, refusal,
    write_layout,
};

/// A registry with one image of a layout, at the path `team/debian`.
pub(in crate::templates) struct Registry {
    pub(in crate::templates) address: String,
    _serving: tokio::task::JoinHandle<()>,
}

impl Registry {
    #[allow(clippy::disallowed_methods, reason = "the test ends with this task")]
    pub(in crate::templates) async fn serve(layout: PathBuf) -> Self {
        type Layout = State<Arc<PathBuf>>;
        async fn manifest(State(layout): Layout, RoutePath(tag): RoutePath<String>) -> impl IntoResponse {
            let name = tag.strip_prefix("sha256:").map(str::to_owned).or_else(|| {
                let index: Value = serde_json::from_slice(&fs::read(layout.join("index.json")).ok()?).ok()?;
                (tag == "1")
                    .then(|| index["manifests"][0]["digest"].as_str().map(|digest| digest[7..].to_owned()))?
            });
            match name.and_then(|name| fs::read(layout.join("blobs/sha256").join(name)).ok()) {
                Some(text) => {
                    Ok(([(header::CONTENT_TYPE, "application/vnd.oci.image.manifest.v1+json")], text))
                }
                None => Err(StatusCode::NOT_FOUND),
            }
        }
        async fn blob(State(layout): Layout, RoutePath(digest): RoutePath<String>) -> impl IntoResponse {
            let name = digest.trim_start_matches("sha256:").to_owned();
            fs::read(layout.join("blobs/sha256").join(name)).map_err(|_| StatusCode::NOT_FOUND)
        }
        let router = Router::new()
            .route("/v2/", get(|| async {}))
            .route("/v2/team/debian/manifests/{tag}", get(manifest))
            .route("/v2/team/debian/blobs/{digest}", get(blob))
            .with_state(Arc::new(layout));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let serving = async { axum::serve(listener, router).await.expect("a server") };
        Self { address, _serving: tokio::spawn(serving) }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_is_pulled_from_a_registry() {
    if !is_root() {
        return;
    }
    let temp = tempfile::tempdir().expect("a folder");
    let (data, layout) = (temp.path().join("data"), temp.path().join("layout"));
    fs::create_dir(&data).expect("a folder");
    let layers = [gzip(&layer(&debian()))];
    let manifest = write_layout(&layout, architecture(), &layers);
    let registry = Registry::serve(layout.clone()).await;
    let reference = format!("{}/team/debian:1", registry.address);
    let root = import(&data, "pulled", &reference, &[]);
    assert_eq!(fs::read_to_string(root.join("usr/lib/os-release")).expect("a file"), OS_RELEASE);
    assert_eq!(fs::read_dir(data.join("bases/pulled")).expect("a folder").count(), 2, "no blob stays");
    assert!(hotdesk_image(&data, &["remove", "pulled"]).status.success());

    for missing in ["team/debian:2", "team/other:1"] {
        let error = refusal(&data, &format!("{}/{missing}", registry.address), &[]);
        assert!(error.contains("cannot pull"), "{error}");
    }
    let blobs = layout.join("blobs/sha256");
    let (blob, mut damaged) = (blobs.join(&digest(&layers[0])[7..]), layers[0].clone());
    damaged[20] ^= 1;
    fs::write(&blob, &damaged).expect("a blob");
    let error = refusal(&data, &reference, &[]);
    assert!(error.contains("cannot pull sha256:"), "{error}");
    damaged.extend([0; 1000]);
    fs::write(&blob, &damaged).expect("a blob");
    assert!(refusal(&data, &reference, &[]).contains("it is longer than the"));
    fs::write(&blob, &layers[0]).expect("a blob");
    let mut text = fs::read_to_string(blobs.join(&manifest[7..])).expect("a manifest");
    text.push(' ');
    fs::write(blobs.join(&manifest[7..]), text).expect("a manifest");
    let _error = refusal(&data, &format!("{}/team/debian@{manifest}", registry.address), &[]);
}
