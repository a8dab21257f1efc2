//! Uploads with an idempotency key: a repeated one is stored once, whatever its multipart boundary, and one
//! over 2 MiB is refused.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::extract::Request;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::{patch, put};
use hotdesk::base::hex::hex;
use reqwest::multipart::{Form, Part};
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::{count_keys, keyed};
use crate::harness::agent::fetch_json;
use crate::harness::simulation::Simulation;

/// Length of a file whose form is within the limit of a body with a key.
const LONG: usize = 2_000_000;
/// Length that is over this limit, and within the limit of the route.
const TOO_LONG: usize = 3_000_000;

/// An upload request. reqwest chooses a random boundary for each form.
fn upload(controller: &Simulation, key: &str, workspace: &str, name: &str, bytes: Vec<u8>) -> RequestBuilder {
    let file = Part::bytes(bytes).file_name(name.to_owned());
    let form = Form::new().text("projectId", workspace.to_owned()).part("file", file);
    keyed(controller, Method::POST, "/files/upload", key).multipart(form)
}

fn long(fill: u8) -> Vec<u8> {
    vec![fill; LONG]
}

/// Number of files of a workspace, and number of blobs.
async fn stored(controller: &Simulation, workspace: &str) -> (Option<usize>, usize) {
    let listed = controller.get(&format!("/files?projectId={workspace}")).await;
    let blobs = controller.store_file().with_file_name("blobs").join("files");
    let blobs = std::fs::read_dir(blobs).expect("the blobs").count();
    (listed.body["files"].as_array().map(Vec::len), blobs)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_upload_sent_again_is_stored_once() {
    let controller = Simulation::boot().await;
    let workspace = controller.workspace("w").await;
    let first = fetch_json(upload(&controller, "key-number-1", &workspace, "a.bin", long(1))).await;
    assert_eq!(first.status, 200, "{}", first.body);
    assert_eq!(first.body["file"]["size_bytes"], LONG, "{}", first.body);
    for _ in 0..2 {
        let again = upload(&controller, "key-number-1", &workspace, "a.bin", long(1));
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
        let reused = fetch_json(upload(&controller, "key-number-1", &workspace, name, bytes)).await;
        assert_eq!((reused.status, &reused.body["code"]), (422, &json!("idempotency_key_reused")), "{name}");
    }
    assert_eq!(stored(&controller, &workspace).await, (Some(1), 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_over_the_limit_is_refused_and_its_key_stays_free() {
    let controller = Simulation::boot().await;
    let workspace = controller.workspace("w").await;
    let huge = vec![1; TOO_LONG];
    let refused = fetch_json(upload(&controller, "key-number-1", &workspace, "a.bin", huge.clone())).await;
    assert_eq!(refused.status, 413, "{}", refused.body);
    let message = refused.body["error"].as_str().expect("a message");
    assert!(message.contains("send it without a key") && message.contains("in pieces"), "{message}");
    assert_eq!((count_keys(&controller).await, stored(&controller, &workspace).await), (0, (Some(0), 0)));
    // Without a key the same file is stored, and the key is free for another request.
    let file = Part::bytes(huge).file_name("a.bin");
    let form = Form::new().text("projectId", workspace.clone()).part("file", file);
    let without = fetch_json(controller.request(Method::POST, "/files/upload").multipart(form)).await;
    assert_eq!((without.status, &without.body["file"]["size_bytes"]), (200, &json!(TOO_LONG)));
    let small = fetch_json(upload(&controller, "key-number-1", &workspace, "b.bin", long(1))).await;
    assert_eq!(small.status, 200, "{}", small.body);
    assert_eq!((count_keys(&controller).await, stored(&controller, &workspace).await), (1, (Some(2), 2)));
}

#[tokio::test(flavor = "multi_thread")]
async fn pieces_of_a_resumable_upload_have_keys_of_their_own() {
    let received = Arc::new(AtomicUsize::new(0));
    let total = Arc::clone(&received);
    let append = patch(async move |request: Request| {
        let bytes = axum::body::to_bytes(request.into_body(), usize::MAX).await.expect("the whole body");
        let offset = total.fetch_add(bytes.len(), Ordering::Relaxed) + bytes.len();
        let fields = [("connection", "close".to_owned()), ("upload-offset", offset.to_string())];
        (StatusCode::NO_CONTENT, fields).into_response()
    });
    let controller = Simulation::boot_with(Router::new().route("/files/uploads/{id}", append)).await;
    let workspace = controller.workspace("w").await;
    let computer = controller.computer(&workspace, "desk").await;
    let path = format!("/computers/{computer}/files/uploads/00000000-0000-4000-8000-000000000000");
    let send = async |key: &str, offset: usize, length: usize| {
        let piece = keyed(&controller, Method::PATCH, &path, key)
            .header("Tus-Resumable", "1.0.0")
            .header("Upload-Offset", offset)
            .header("Content-Type", "application/offset+octet-stream");
        let answer = piece.body(vec![1; length]).send().await.expect("an answer");
        let offset = answer.headers().get("upload-offset").map(|value| value.to_str().unwrap().to_owned());
        (answer.status().as_u16(), offset.unwrap_or_default())
    };
    // A piece over the limit does not reach the computer, and its key stays free.
    assert_eq!(send("key-number-1", 0, TOO_LONG).await, (413, String::new()));
    assert_eq!(received.load(Ordering::Relaxed), 0);
    // Each piece is sent twice and reaches the computer once.
    for (key, offset) in [("key-number-1", 0), ("key-number-2", LONG)] {
        for _ in 0..2 {
            assert_eq!(send(key, offset, LONG).await, (204, (offset + LONG).to_string()));
        }
    }
    assert_eq!(send("key-number-1", LONG, LONG).await.0, 422);
    assert_eq!(received.load(Ordering::Relaxed), 2 * LONG);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_hangs_up_during_the_body_leaves_the_key_free() {
    let controller = Simulation::boot().await;
    let workspace = controller.workspace("w").await;
    let mut half = TcpStream::connect(controller.address()).await.expect("a connection");
    let head = format!(
        "POST /api/files/upload HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nIdempotency-Key: key-number-1\r\n\
         Content-Type: multipart/form-data; boundary=edge\r\nContent-Length: {LONG}\r\n\r\n\
         --edge\r\nContent-Disposition: form-data; name=\"file\"; filename=\"half.bin\"\r\n\r\n",
        controller.address(),
        controller.key()
    );
    half.write_all(head.as_bytes()).await.expect("the head is sent");
    half.write_all(&long(0)[..LONG / 2]).await.expect("half of the body is sent");
    drop(half);
    // A different request under the same key succeeds: the truncated one has not claimed it.
    let whole = fetch_json(upload(&controller, "key-number-1", &workspace, "whole.bin", long(1))).await;
    assert_eq!(whole.status, 200, "{}", whole.body);
    assert_eq!((count_keys(&controller).await, stored(&controller, &workspace).await), (1, (Some(1), 1)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_file_for_a_computer_reaches_it_once_and_whole() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let write = put(async move |request: Request| {
        counted.fetch_add(1, Ordering::Relaxed);
        let bytes = axum::body::to_bytes(request.into_body(), usize::MAX).await.expect("the whole body");
        let digest = hex(&Sha256::digest(&bytes));
        let record = json!({"path": "/root/x", "size": bytes.len(), "sha256": digest, "outcome": "created"});
        ([(header::CONNECTION, "close")], axum::Json(record)).into_response()
    });
    let controller = Simulation::boot_with(Router::new().route("/files/content", write)).await;
    let workspace = controller.workspace("w").await;
    let computer = controller.computer(&workspace, "desk").await;
    let path = format!("/computers/{computer}/files/content?path=x");
    let bytes: Vec<u8> = (0..LONG).map(|at| (at % 251) as u8).collect();
    let write = |bytes: Vec<u8>| keyed(&controller, Method::PUT, &path, "key-number-1").body(bytes);
    let first = fetch_json(write(bytes.clone())).await;
    assert_eq!((first.status, &first.body["size"]), (200, &json!(LONG)), "{}", first.body);
    assert_eq!(first.body["sha256"], hex(&Sha256::digest(&bytes)));
    let again = fetch_json(write(bytes.clone())).await;
    assert_eq!((again.status, &again.body), (200, &first.body));
    assert_eq!(fetch_json(write(bytes[1..].to_vec())).await.status, 422);
    assert_eq!(calls.load(Ordering::Relaxed), 1);
}
