//! Long-running requests: a command, an upload, a proxied stream and a download, at an agent that ends none
//! of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::header;
use axum::response::Response as Answer;
use axum::routing::{get, post};
use futures_util::{Stream, StreamExt, stream};
use hotdesk::base::wait;
use reqwest::{Method, RequestBuilder, Response};
use serde_json::json;
use tokio::task::JoinHandle;

use super::simulation::Simulation;

/// Longest time until a revoked request ends. A11 (docs/authentication-rules.md) demands one second; a busy
/// machine gets more. It is below 15 s, when the next sweep would end a request that the first one missed.
pub const REVOCATION_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest time until a request reaches the agent.
pub const TIMEOUT: Duration = Duration::from_secs(30);

/// An endless stream with a chunk every 10 ms.
pub fn endless() -> impl Stream<Item = Result<Bytes, std::io::Error>> + Send + 'static {
    stream::unfold((), async |()| {
        tokio::time::sleep(Duration::from_millis(10)).await;
        Some((Ok(Bytes::from_static(b"drop by drop\n")), ()))
    })
}

fn drip(length: Option<u64>) -> Answer {
    let mut answer = Answer::new(Body::from_stream(endless()));
    if let Some(length) = length {
        answer.headers_mut().insert(header::CONTENT_LENGTH, length.into());
    }
    answer
}

/// An agent whose commands, uploads and downloads never end. `begun` counts the commands and uploads.
pub fn hanging_agent(begun: &Arc<AtomicUsize>) -> Router {
    let (commands, uploads) = (Arc::clone(begun), Arc::clone(begun));
    let command = async move || {
        commands.fetch_add(1, Ordering::SeqCst);
        std::future::pending::<()>().await;
    };
    let upload = async move |request: Request| {
        let mut body = request.into_body().into_data_stream();
        let _first = body.next().await;
        uploads.fetch_add(1, Ordering::SeqCst);
        while let Some(Ok(_)) = body.next().await {}
    };
    Router::new()
        .route("/bash", post(command))
        .route("/events", get(async || drip(None)))
        .route("/files/content", get(async || drip(Some(1 << 40))).put(upload))
}

/// One running request of each kind.
pub struct Streams {
    command: JoinHandle<reqwest::Result<Response>>,
    upload: JoinHandle<reqwest::Result<Response>>,
    proxied: Response,
    download: Response,
}

#[allow(clippy::disallowed_methods, reason = "the test ends this task")]
pub fn begin(request: RequestBuilder) -> JoinHandle<reqwest::Result<Response>> {
    tokio::spawn(request.send())
}

impl Streams {
    /// Begins one request of each kind at a computer.
    pub async fn open(controller: &Simulation, key: &str, computer: &str) -> Self {
        let request = |method, path: String| controller.request_with(key, method, &path);
        let open = async |path: String| {
            let mut answer = request(Method::GET, path).send().await.expect("an answer");
            assert_eq!(answer.status(), 200);
            assert!(answer.chunk().await.expect("a body").is_some());
            answer
        };
        let content = format!("/computers/{computer}/files/content?path=x");
        let command =
            request(Method::POST, format!("/computers/{computer}/bash")).json(&json!({"command": "x"}));
        let upload = request(Method::PUT, content.clone()).body(reqwest::Body::wrap_stream(endless()));
        Self {
            command: begin(command),
            upload: begin(upload),
            proxied: open(format!("/desktops/{computer}/proxy/events")).await,
            download: open(content).await,
        }
    }

    /// Asserts that all requests are still running.
    pub async fn flow(&mut self) {
        assert!(!self.command.is_finished() && !self.upload.is_finished());
        for answer in [&mut self.proxied, &mut self.download] {
            assert!(answer.chunk().await.expect("a running stream").is_some());
        }
    }

    /// Waits until all requests have ended and returns the responses of the command and the upload. Panics
    /// when a stream ends like a complete body.
    pub async fn end(mut self) -> Vec<Response> {
        for answer in [&mut self.proxied, &mut self.download] {
            while let Ok(piece) = answer.chunk().await {
                assert!(piece.is_some(), "a revoked stream must not end like a complete body");
            }
        }
        let mut answers = Vec::new();
        for request in [self.command, self.upload] {
            // A client that still sends may lose its connection before it reads the response.
            answers.extend(request.await.expect("no panic").ok());
        }
        answers
    }
}

/// Waits until `count` commands and uploads have reached the agent.
pub async fn until(begun: &AtomicUsize, count: usize) {
    let all = wait::until(TIMEOUT, async || (begun.load(Ordering::SeqCst) == count).then_some(()));
    assert!(all.await.is_some(), "{} of {count} reached the agent", begun.load(Ordering::SeqCst));
}
