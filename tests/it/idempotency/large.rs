//! Is an upload that is sent again with its key stored once, however long it is and however its form is put together?

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::extract::Request;
use axum::http::header;
use axum::response::IntoResponse;
use axum::routing::put;
use hotdesk::base::hex::hex;
use reqwest::multipart::{Form, Part};
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::{keyed, remembered};
use crate::harness::agent::answered;
use crate::harness::simulation::Simulation;

const LONG: usize = 5 * 1024 * 1024;

/// An upload; each form has a boundary of its own, which reqwest makes up.
fn upload(house: &Simulation, key: &str, workspace: &str, name: &str, bytes: Vec<u8>) -> RequestBuilder {
    let file = Part::bytes(bytes).file_name(name.to_owned());
    let form = Form::new().text("projectId", workspace.to_owned()).part("file", file);
    keyed(house, Method::POST, "/files/upload", key).multipart(form)
}

fn long(fill: u8) -> Vec<u8> {
    vec![fill; LONG]
}

/// How many files a workspace has, and how many blobs there are.
async fn stored(house: &Simulation, workspace: &str) -> (Option<usize>, usize) {
    let listed = house.get(&format!("/files?projectId={workspace}")).await;
    let blobs = house.store_file().with_file_name("blobs").join("files");
    let blobs = std::fs::read_dir(blobs).expect("the blobs").count();
    (listed.body["files"].as_array().map(Vec::len), blobs)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_upload_sent_again_is_stored_once() {
    let house = Simulation::boot().await;
    let workspace = house.workspace("w").await;
    let first = answered(upload(&house, "key-number-1", &workspace, "a.bin", long(1))).await;
    assert_eq!(first.status, 200, "{}", first.body);
    assert_eq!(first.body["file"]["size_bytes"], LONG, "{}", first.body);
    for _ in 0..2 {
        let again = upload(&house, "key-number-1", &workspace, "a.bin", long(1));
        let again = again.send().await.expect("an answer");
        assert_eq!(
            (again.status().as_u16(), &again.headers()["idempotency-replayed"]),
            (200, &"true".parse().unwrap())
        );
        assert_eq!(again.json::<Value>().await.expect("JSON"), first.body);
    }
    let mut other = long(1);
    other[LONG - 1] = 2;
    for (name, bytes) in [("a.bin", other), ("b.bin", long(1)), ("a.bin", long(1)[1..].to_vec())] {
        let reused = answered(upload(&house, "key-number-1", &workspace, name, bytes)).await;
        assert_eq!((reused.status, &reused.body["code"]), (422, &json!("idempotency_key_reused")), "{name}");
    }
    assert_eq!(stored(&house, &workspace).await, (Some(1), 1));
    // The route's own limit holds, and what is past it was not asked for.
    let huge = answered(upload(&house, "key-number-2", &workspace, "c.bin", vec![0; 11 << 20])).await;
    assert_eq!(huge.status, 413, "{}", huge.body);
    let small = answered(upload(&house, "key-number-2", &workspace, "c.bin", vec![0; 10 << 20])).await;
    assert_eq!(small.status, 200, "{}", small.body);
    assert_eq!(stored(&house, &workspace).await, (Some(2), 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_hangs_up_during_the_body_leaves_the_key_free() {
    let house = Simulation::boot().await;
    let workspace = house.workspace("w").await;
    let mut half = TcpStream::connect(house.address()).await.expect("a connection");
    let head = format!(
        "POST /api/files/upload HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nIdempotency-Key: key-number-1\r\n\
         Content-Type: multipart/form-data; boundary=edge\r\nContent-Length: {LONG}\r\n\r\n\
         --edge\r\nContent-Disposition: form-data; name=\"file\"; filename=\"half.bin\"\r\n\r\n",
        house.address(),
        house.key()
    );
    half.write_all(head.as_bytes()).await.expect("the head is sent");
    half.write_all(&long(0)[..LONG / 2]).await.expect("half of the body is sent");
    drop(half);
    // Another request under the key, which would be refused if the half one had it.
    let whole = answered(upload(&house, "key-number-1", &workspace, "whole.bin", long(1))).await;
    assert_eq!(whole.status, 200, "{}", whole.body);
    assert_eq!((remembered(&house).await, stored(&house, &workspace).await), (1, (Some(1), 1)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_file_for_a_computer_reaches_it_once_and_whole() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let write = put(async move |request: Request| {
        counted.fetch_add(1, Ordering::Relaxed);
        let bytes = axum::body::to_bytes(request.into_body(), usize::MAX).await.expect("the whole body");
        let digest = hex(&Sha256::digest(&bytes));
        let told = json!({"path": "/root/x", "size": bytes.len(), "sha256": digest, "outcome": "created"});
        ([(header::CONNECTION, "close")], axum::Json(told)).into_response()
    });
    let house = Simulation::boot_with(Router::new().route("/files/content", write)).await;
    let workspace = house.workspace("w").await;
    let computer = house.computer(&workspace, "desk").await;
    let path = format!("/computers/{computer}/files/content?path=x");
    let bytes: Vec<u8> = (0..LONG).map(|at| (at % 251) as u8).collect();
    let write = |bytes: Vec<u8>| keyed(&house, Method::PUT, &path, "key-number-1").body(bytes);
    let first = answered(write(bytes.clone())).await;
    assert_eq!((first.status, &first.body["size"]), (200, &json!(LONG)), "{}", first.body);
    assert_eq!(first.body["sha256"], hex(&Sha256::digest(&bytes)));
    let again = answered(write(bytes.clone())).await;
    assert_eq!((again.status, &again.body), (200, &first.body));
    assert_eq!(answered(write(bytes[1..].to_vec())).await.status, 422);
    assert_eq!(calls.load(Ordering::Relaxed), 1);
}
