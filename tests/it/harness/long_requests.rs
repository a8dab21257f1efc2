//! What goes on for long: a command, an upload, a proxied stream and a download, at an agent that ends none of them.

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

/// How long a stream may go on: a second is the rule (A11), which a test prints; a busy machine gets more, and less than
/// the 15 s after which what was missed is ended again.
pub const SOON: Duration = Duration::from_secs(10);
/// How long a request may take to reach the agent.
pub const TIMEOUT: Duration = Duration::from_secs(30);

/// A piece now and then, without end.
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

/// An agent whose commands, uploads and downloads have no end; it counts the first two.
pub fn patient_agent(begun: &Arc<AtomicUsize>) -> Router {
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

/// One of each kind.
pub struct Streams {
    command: JoinHandle<reqwest::Result<Response>>,
    upload: JoinHandle<reqwest::Result<Response>>,
    proxied: Response,
    download: Response,
}

#[allow(clippy::disallowed_methods, reason = "a client of its own, ended by the test")]
pub fn begin(request: RequestBuilder) -> JoinHandle<reqwest::Result<Response>> {
    tokio::spawn(request.send())
}

impl Streams {
    /// Begins them at a computer.
    pub async fn open(house: &Simulation, key: &str, computer: &str) -> Self {
        let ask = |method, path: String| house.request_with(key, method, &path);
        let open = async |path: String| {
            let mut answer = ask(Method::GET, path).send().await.expect("an answer");
            assert_eq!(answer.status(), 200);
            assert!(answer.chunk().await.expect("a body").is_some());
            answer
        };
        let content = format!("/computers/{computer}/files/content?path=x");
        let command = ask(Method::POST, format!("/computers/{computer}/bash")).json(&json!({"command": "x"}));
        let upload = ask(Method::PUT, content.clone()).body(reqwest::Body::wrap_stream(endless()));
        Self {
            command: begin(command),
            upload: begin(upload),
            proxied: open(format!("/desktops/{computer}/proxy/events")).await,
            download: open(content).await,
        }
    }

    /// Each of them goes on.
    pub async fn flow(&mut self) {
        assert!(!self.command.is_finished() && !self.upload.is_finished());
        for answer in [&mut self.proxied, &mut self.download] {
            assert!(answer.chunk().await.expect("it goes on").is_some());
        }
    }

    /// Waits until all of them have ended, none as if it were whole; what the command and the upload were answered.
    pub async fn end(mut self) -> Vec<Response> {
        for answer in [&mut self.proxied, &mut self.download] {
            while let Ok(piece) = answer.chunk().await {
                assert!(piece.is_some(), "it broke off and does not look whole");
            }
        }
        let mut answers = Vec::new();
        for request in [self.command, self.upload] {
            // A client that still sends may see its connection closed before the answer.
            answers.extend(request.await.expect("no panic").ok());
        }
        answers
    }
}

/// Waits until so many commands and uploads have reached the agent.
pub async fn until(begun: &AtomicUsize, count: usize) {
    let all = wait::until(TIMEOUT, async || (begun.load(Ordering::SeqCst) == count).then_some(()));
    assert!(all.await.is_some(), "{} of {count} reached the agent", begun.load(Ordering::SeqCst));
}
