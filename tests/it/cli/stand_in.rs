//! Stub server with scripted responses that records its requests.
//!
//! It produces responses that a real controller never sends.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

/// A received request.
#[derive(Clone, Debug)]
pub struct RecordedRequest {
    /// `METHOD PATH?QUERY`.
    pub line: String,
    pub authorization: Option<String>,
    pub body: String,
}

#[derive(Clone, Debug)]
struct StubResponse {
    status: u16,
    header: Option<(header::HeaderName, String)>,
    body: String,
}

#[derive(Default)]
struct StubState {
    responses: HashMap<String, StubResponse>,
    requests: Vec<RecordedRequest>,
}

pub struct StubServer {
    pub url: String,
    state: Arc<Mutex<StubState>>,
    server: tokio::task::JoinHandle<()>,
}

impl StubServer {
    #[allow(clippy::disallowed_methods, reason = "a test's server, aborted with it")]
    pub async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("bound"));
        let state: Arc<Mutex<StubState>> = Arc::default();
        let app = Router::new().fallback(answer).with_state(Arc::clone(&state));
        let server = tokio::spawn(async move {
            axum::serve(listener, app).await.expect("the server runs");
        });
        Self { url, state, server }
    }

    /// Sets the response to `METHOD PATH` (without its query).
    pub fn respond(&self, to: &str, status: u16, body: impl ToString) -> &Self {
        self.insert(to, StubResponse { status, header: None, body: body.to_string() })
    }

    /// Sets a redirect as the response to `METHOD PATH`.
    pub fn redirect(&self, to: &str, location: &str) -> &Self {
        let header = Some((header::LOCATION, location.to_owned()));
        self.insert(to, StubResponse { status: 307, header, body: String::new() })
    }

    /// Adds computers, in a list and each alone.
    pub fn add_computers(&self, computers: &[Value]) -> &Self {
        let list = json!({"computers": computers, "desktops": computers, "total": computers.len(), "next_offset": null});
        self.respond("GET /api/computers", 200, list);
        for computer in computers {
            self.respond(
                &format!("GET /api/computers/{}", computer["id"].as_str().expect("an id")),
                200,
                computer,
            );
        }
        self
    }

    /// Requests so far, in order.
    pub fn requests(&self) -> Vec<RecordedRequest> {
        self.state.lock().expect("not poisoned").requests.clone()
    }

    /// Request lines so far, in order.
    pub fn lines(&self) -> Vec<String> {
        self.requests().into_iter().map(|request| request.line).collect()
    }

    fn insert(&self, to: &str, stub: StubResponse) -> &Self {
        self.state.lock().expect("not poisoned").responses.insert(to.to_owned(), stub);
        self
    }
}

impl Drop for StubServer {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn answer(
    State(state): State<Arc<Mutex<StubState>>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let mut state = state.lock().expect("not poisoned");
    let authorization = headers.get(header::AUTHORIZATION);
    state.requests.push(RecordedRequest {
        line: format!("{method} {uri}"),
        authorization: authorization.map(|value| value.to_str().expect("ASCII").to_owned()),
        body: String::from_utf8_lossy(&body).into_owned(),
    });
    let Some(stub) = state.responses.get(&format!("{method} {}", uri.path())).cloned() else {
        let body = json!({"error": "Not found", "request_id": "stand-in"}).to_string();
        return (StatusCode::NOT_FOUND, body).into_response();
    };
    let mut response = stub.body.into_response();
    *response.status_mut() = StatusCode::from_u16(stub.status).expect("a status");
    if let Some((name, value)) = stub.header {
        response.headers_mut().insert(name, value.parse().expect("a header"));
    }
    response
}

/// A computer's record.
pub fn computer(id: &str, name: &str, workspace: &str) -> Value {
    json!({
        "id": id, "name": name, "workspace_id": "w", "project_id": "w", "project_name": workspace, "user_id": "u",
        "os": "linux", "cpu": 1.0, "ram": 4, "disk_size_gb": 8, "isolation": "shared", "gpu": "none", "resolution": "1280x720x24",
        "status": "running", "auto_stop_minutes": 0, "url": "http://x", "hostname": "x", "instance_id": "0a1b2c3d",
        "fly_instance_id": "0a1b2c3d", "api_port": null, "novnc_port": null, "ssh_host_port": null, "ip": null,
        "instance_details": null, "created_at": "2026-11-21T10:00:00Z", "updated_at": "2026-11-21T10:00:00Z"
    })
}
