//! Pull of an image from a registry into a layout folder.

use std::fs;
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use futures_util::StreamExt;
use oci_client::client::{ClientConfig, ClientProtocol};
use oci_client::secrets::RegistryAuth;
use oci_client::{Client, Reference};
use serde_json::json;
use tokio::fs::File;
use tokio::io::AsyncWriteExt;

use super::layout::{
    Descriptor, Index, MAX_DOCUMENT, Manifest, blob_path, check_layer_count, choose, is_index, parse,
};
use super::reference;
use crate::failure::Outcome;
use hotdesk_engine::check_free;

/// Media types of manifests and indices that are read.
const ACCEPTED: [&str; 4] = [
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.docker.distribution.manifest.v2+json",
];
/// Longest silence of a registry.
const TIMEOUT: Duration = Duration::from_secs(60);
/// For a manifest and the token for it. The client reads each answer into memory, and only this bounds it.
const MANIFEST_TIMEOUT: Duration = Duration::from_secs(120);

/// Pulls an image without credentials into the folder `layout`. Layers have at most `most_bytes` together.
///
/// # Errors
/// When the text is no reference, the registry has no such image for this host's platform or does not answer, or a blob is damaged.
pub async fn pull(text: &str, layout: &Path, most_bytes: u64) -> Outcome<()> {
    pull_within(text, layout, most_bytes, MANIFEST_TIMEOUT).await
}

async fn pull_within(text: &str, layout: &Path, most_bytes: u64, manifest_timeout: Duration) -> Outcome<()> {
    let reference = reference::parse(text).map_err(|error| {
        format!("{text} is no file, no folder and no reference to an image: {}", error.text())
    })?;
    let registry = reference.resolve_registry().to_owned();
    let failed = |error| format!("cannot pull {reference}: {error}");
    // Another part of the program may have chosen it already.
    drop(rustls::crypto::ring::default_provider().install_default());
    let plain = if is_loopback(&registry) { vec![registry] } else { Vec::new() };
    let client = Client::new(ClientConfig {
        protocol: ClientProtocol::HttpsExcept(plain),
        read_timeout: Some(TIMEOUT),
        connect_timeout: Some(TIMEOUT),
        ..ClientConfig::default()
    });
    let manifest_of = async |reference: &Reference| -> Outcome<(Vec<u8>, String)> {
        let pulled = client.pull_manifest_raw(reference, &RegistryAuth::Anonymous, &ACCEPTED);
        let pulled = tokio::time::timeout(manifest_timeout, pulled).await.map_err(|_| {
            format!("cannot pull {reference}: no whole manifest in {} s", manifest_timeout.as_secs())
        })?;
        let (text, digest) = pulled.map_err(failed)?;
        if text.len() as u64 > MAX_DOCUMENT {
            return Err(format!("a manifest of {reference} has {} bytes", text.len()).into());
        }
        Ok((text.to_vec(), digest))
    };
    let (mut text, mut digest) = manifest_of(&reference).await?;
    if is_index(&media_type(&text)?) {
        let chosen = choose(&parse::<Index>(&digest, &text)?)?;
        digest = chosen.digest;
        (text, _) = manifest_of(&reference.clone_with_digest(digest.clone())).await?;
    }
    let Manifest { config, layers } = parse(&digest, &text)?;
    check_layer_count(layers.len())?;
    let all: u64 = layers.iter().map(|layer| layer.size).fold(config.size, u64::saturating_add);
    if all > most_bytes {
        return Err(
            format!("{reference} has {all} compressed bytes, and at most {most_bytes} are allowed").into()
        );
    }
    for blob in layers.iter().chain([&config]) {
        pull_blob(&client, &reference, blob, layout).await?;
    }
    let index = json!({"schemaVersion": 2, "manifests": [{
        "mediaType": ACCEPTED[1], "digest": digest, "size": text.len(),
    }]});
    let written = fs::write(blob_path(layout, &digest)?, &text)
        .and_then(|()| fs::write(layout.join("index.json"), index.to_string()));
    written.map_err(|error| format!("cannot write to {}: {error}", layout.display()).into())
}

/// Downloads a blob of at most the size that its manifest says. The client checks its digest.
async fn pull_blob(client: &Client, reference: &Reference, blob: &Descriptor, layout: &Path) -> Outcome<()> {
    let failed =
        |error: &dyn std::fmt::Display| format!("cannot pull {} of {reference}: {error}", blob.digest);
    let path = blob_path(layout, &blob.digest)?;
    check_free(layout, blob.size, 0).map_err(|error| format!("cannot pull {}: {error:#}", blob.digest))?;
    let mut file = File::create(&path).await.map_err(|error| failed(&error))?;
    let mut content =
        client.pull_blob_stream(reference, blob.digest.as_str()).await.map_err(|error| failed(&error))?;
    let mut bytes = 0;
    while let Some(piece) = content.next().await {
        let piece = piece.map_err(|error| failed(&error))?;
        bytes += piece.len() as u64;
        if bytes > blob.size {
            return Err(failed(&format!("it is longer than the {} bytes of its manifest", blob.size)).into());
        }
        file.write_all(&piece).await.map_err(|error| failed(&error))?;
    }
    file.flush().await.map_err(|error| failed(&error).into())
}

/// The media type that a document names; old manifests and some indices name none.
fn media_type(text: &[u8]) -> Outcome<String> {
    let document: serde_json::Value = parse("the manifest", text)?;
    if document["manifests"].is_array() {
        return Ok(ACCEPTED[0].to_owned());
    }
    Ok(document["mediaType"].as_str().unwrap_or_default().to_owned())
}

/// Whether a registry is a program of this host, whose connection needs no encryption.
fn is_loopback(registry: &str) -> bool {
    let host = registry.rsplit_once(':').map_or(registry, |(host, _)| host);
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::net::TcpListener;

    use super::*;

    /// A registry that begins with `length` bytes of a manifest, and then goes on byte by byte for `more`.
    fn serve(length: usize, more: usize) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        // It ends with the process of the test.
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let lines = BufReader::new(stream.try_clone().unwrap()).lines();
                let request: Vec<String> =
                    lines.map_while(Result::ok).take_while(|line| !line.is_empty()).collect();
                let is_manifest = request.first().is_some_and(|line| line.contains("/manifests/"));
                let (length, more) = if is_manifest { (length, more) } else { (0, 0) };
                let kind = ACCEPTED[1];
                let total = length + more;
                let head = format!(
                    "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {total}\r\nConnection: close\r\n\r\n"
                );
                // The client may have gone.
                drop(stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&vec![b' '; length])));
                for _ in 0..more {
                    std::thread::sleep(Duration::from_millis(20));
                    if stream.write_all(b" ").is_err() {
                        break;
                    }
                }
            }
        });
        format!("{address}/team/debian:1")
    }

    async fn refusal(reference: &str, timeout: Duration) -> String {
        let layout = tempfile::tempdir().unwrap();
        let refused = pull_within(reference, layout.path(), 1 << 30, timeout).await.unwrap_err();
        assert_eq!(fs::read_dir(layout.path()).unwrap().count(), 0);
        refused.text().to_owned()
    }

    #[tokio::test]
    async fn a_manifest_is_bounded_in_bytes_and_in_time() {
        let bytes = MAX_DOCUMENT as usize + 1;
        let refused = refusal(&serve(bytes, 0), MANIFEST_TIMEOUT).await;
        assert!(refused.contains(&format!("has {bytes} bytes")), "{refused}");
        // One that is never silent for long, and has no end.
        let refused = refusal(&serve(1, 1 << 20), Duration::from_secs(1)).await;
        assert!(refused.ends_with("no whole manifest in 1 s"), "{refused}");
    }
}
