//! A server that answers what a test says and remembers what it was asked, for what a real controller never does.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

/// One request as it came.
#[derive(Clone, Debug)]
pub struct Asked {
    /// `METHOD PATH?QUERY`.
    pub line: String,
    pub authorization: Option<String>,
    pub body: String,
}

#[derive(Clone, Debug)]
struct Canned {
    status: u16,
    header: Option<(header::HeaderName, String)>,
    body: String,
}

#[derive(Default)]
struct Script {
    answers: HashMap<String, Canned>,
    asked: Vec<Asked>,
}

pub struct StandIn {
    pub url: String,
    script: Arc<Mutex<Script>>,
    serving: tokio::task::JoinHandle<()>,
}

impl StandIn {
    #[allow(clippy::disallowed_methods, reason = "a test's server, aborted with it")]
    pub async fn listening() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("bound"));
        let script: Arc<Mutex<Script>> = Arc::default();
        let app = Router::new().fallback(answer).with_state(Arc::clone(&script));
        let serving = tokio::spawn(async move {
            axum::serve(listener, app).await.expect("it serves");
        });
        Self { url, script, serving }
    }

    /// From now on `METHOD PATH` (without its query) is answered so.
    pub fn answers(&self, to: &str, status: u16, body: impl ToString) -> &Self {
        self.put(to, Canned { status, header: None, body: body.to_string() })
    }

    /// From now on `METHOD PATH` redirects.
    pub fn redirects(&self, to: &str, location: &str) -> &Self {
        let header = Some((header::LOCATION, location.to_owned()));
        self.put(to, Canned { status: 307, header, body: String::new() })
    }

    /// Has these computers, in a list and each alone.
    pub fn has_computers(&self, computers: &[Value]) -> &Self {
        let list = json!({"computers": computers, "desktops": computers, "total": computers.len(), "next_offset": null});
        self.answers("GET /api/computers", 200, list);
        for computer in computers {
            self.answers(
                &format!("GET /api/computers/{}", computer["id"].as_str().expect("an id")),
                200,
                computer,
            );
        }
        self
    }

    /// What was asked so far, in order.
    pub fn asked(&self) -> Vec<Asked> {
        self.script.lock().expect("not poisoned").asked.clone()
    }

    /// The request lines so far, in order.
    pub fn lines(&self) -> Vec<String> {
        self.asked().into_iter().map(|asked| asked.line).collect()
    }

    fn put(&self, to: &str, canned: Canned) -> &Self {
        self.script.lock().expect("not poisoned").answers.insert(to.to_owned(), canned);
        self
    }
}

impl Drop for StandIn {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn answer(
    State(script): State<Arc<Mutex<Script>>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let mut script = script.lock().expect("not poisoned");
    let authorization = headers.get(header::AUTHORIZATION);
    script.asked.push(Asked {
        line: format!("{method} {uri}"),
        authorization: authorization.map(|value| value.to_str().expect("ASCII").to_owned()),
        body: String::from_utf8_lossy(&body).into_owned(),
    });
    let Some(canned) = script.answers.get(&format!("{method} {}", uri.path())).cloned() else {
        let body = json!({"error": "Not found", "request_id": "stand-in"}).to_string();
        return (StatusCode::NOT_FOUND, body).into_response();
    };
    let mut response = canned.body.into_response();
    *response.status_mut() = StatusCode::from_u16(canned.status).expect("a status");
    if let Some((name, value)) = canned.header {
        response.headers_mut().insert(name, value.parse().expect("a header"));
    }
    response
}

/// A computer's record.
pub fn computer(id: &str, name: &str, workspace: &str) -> Value {
    json!({
        "id": id, "name": name, "workspace_id": "w", "project_id": "w", "project_name": workspace, "user_id": "u",
        "os": "linux", "cpu": 1.0, "ram": 4, "disk_size_gb": 8, "gpu": "none", "resolution": "1280x720x24",
        "status": "running", "auto_stop_minutes": 0, "url": "http://x", "hostname": "x", "instance_id": "0a1b2c3d",
        "fly_instance_id": "0a1b2c3d", "api_port": null, "novnc_port": null, "ssh_host_port": null, "ip": null,
        "instance_details": null, "created_at": "2026-11-21T10:00:00Z", "updated_at": "2026-11-21T10:00:00Z"
    })
}
