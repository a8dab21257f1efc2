//! MCP client with a token for one workspace of a simulated controller, and its messages.

use std::time::Duration;

use axum::Router;
use hotdesk::base::clock;
use hotdesk::base::ids::AccountId;
use hotdesk::base::secret::Secret;
use hotdesk::controller::config::Limits;
use hotdesk::controller::identity::auth::keys;
use hotdesk::store::Store;
use hotdesk::store::identity::oauth::grants::{NewGrant, TokenDigests};
use reqwest::{Method, RequestBuilder, Response};
use serde_json::{Value, json};

use crate::harness::agent::fetch_json;
use crate::harness::simulation::Simulation;

/// The latest protocol revision, without sessions.
pub const LATEST_REVISION: &str = "2026-07-28";
/// The last protocol revision with sessions.
pub const SESSION_REVISION: &str = "2025-11-25";

/// A person's consent to a connection to a workspace.
pub fn consent<'a>(account: AccountId, workspace: &str, code: &'a str) -> NewGrant<'a> {
    let expires_at = clock::now().plus(Duration::from_secs(3600));
    NewGrant {
        account,
        workspace: workspace.parse().expect("an id"),
        client_id: "https://client.example/id.json",
        client_name: Some("test"),
        redirect_uri: "http://127.0.0.1/back",
        resource: "http://127.0.0.1/mcp",
        challenge: "x",
        code,
        code_expires_at: expires_at,
        expires_at,
    }
}

/// Adds a grant to the store and returns its access token, as after a person's consent.
pub async fn token(store: &Store, account: AccountId, workspace: &str) -> String {
    let [token, refresh, family, code] = [(); 4].map(|()| Secret::random(43));
    let digest = |secret: &Secret| keys::digest(secret.reveal());
    let code = digest(&code);
    let new = consent(account, workspace, &code);
    let grant = store.add_grant(&new).await.expect("a stored grant");
    let access_expires_at = new.expires_at;
    let (family, refresh, access) = (digest(&family), digest(&refresh), digest(&token));
    let first = TokenDigests { family, refresh, access, access_expires_at };
    assert!(store.redeem(grant, &first).await.expect("the store"), "the code is valid");
    token.reveal().to_owned()
}

/// A controller with a computer in the workspaces `home` and `away`, and a token for `home`.
pub struct Scene {
    pub controller: Simulation,
    pub home: String,
    pub away: String,
    pub computer: String,
    pub elsewhere: String,
    pub token: String,
}

impl Scene {
    pub async fn boot() -> Self {
        Self::boot_with(Router::new()).await
    }

    /// A scene whose agents have these routes.
    pub async fn boot_with(routes: Router) -> Self {
        Self::of(Simulation::boot_with(routes).await).await
    }

    /// A scene with these limits.
    pub async fn boot_limited(limits: Limits) -> Self {
        Self::of(Simulation::boot_limited(limits).await).await
    }

    async fn of(controller: Simulation) -> Self {
        let (home, away) = (controller.workspace("home").await, controller.workspace("away").await);
        let (computer, elsewhere) =
            (controller.computer(&home, "desk").await, controller.computer(&away, "desk").await);
        let store = controller.store().await;
        let operator = store.operator_account().await.expect("the operator");
        let token = token(&store, operator, &home).await;
        Self { controller, home, away, computer, elsewhere, token }
    }

    /// Another token of the same account.
    pub async fn another_token(&self) -> String {
        let store = self.controller.store().await;
        let operator = store.operator_account().await.expect("the operator");
        token(&store, operator, &self.home).await
    }

    /// A request to `/mcp` without a token.
    pub fn bare(&self, method: Method) -> RequestBuilder {
        let request = self.controller.bare(method, "/mcp");
        request
            .header("accept", "application/json, text/event-stream")
            .header("content-type", "application/json")
    }

    /// A message of the latest revision, without a session.
    pub fn message(&self, method: &str, params: Value) -> RequestBuilder {
        let request =
            self.bare(Method::POST).bearer_auth(&self.token).header("mcp-protocol-version", LATEST_REVISION);
        let request = request.header("mcp-method", method).json(&stateless(method, &params));
        match params["name"].as_str() {
            Some(name) => request.header("mcp-name", name),
            None => request,
        }
    }

    /// Calls a tool with the latest revision and returns its result.
    pub async fn call(&self, tool: &str, arguments: Value) -> Value {
        let answer = self.message("tools/call", json!({"name": tool, "arguments": arguments})).send().await;
        let answer = answer.expect("an answer");
        assert_eq!(answer.status(), 200);
        assert_eq!(answer.headers()["content-type"], "application/json");
        let body: Value = answer.json().await.expect("JSON");
        assert!(body["error"].is_null(), "{body}");
        body["result"].clone()
    }

    /// A message of the latest revision with the key of the account, as the relay `hotdesk mcp` sends it.
    pub fn key_message(&self, message: &Value) -> RequestBuilder {
        let request = self.controller.bare(Method::POST, "/mcp/stdio");
        let request = request.header("accept", "application/json, text/event-stream");
        let method = message["method"].as_str().expect("a method");
        let request = request.header("mcp-protocol-version", LATEST_REVISION).header("mcp-method", method);
        let request = request.bearer_auth(self.controller.key()).json(message);
        match message["params"]["name"].as_str() {
            Some(name) => request.header("mcp-name", name),
            None => request,
        }
    }

    /// Calls a tool with the key of the account and returns its result.
    pub async fn call_with_key(&self, tool: &str, arguments: Value) -> Value {
        let message = stateless("tools/call", &json!({"name": tool, "arguments": arguments}));
        let answer = fetch_json(self.key_message(&message)).await;
        assert!(answer.body["result"].is_object(), "{tool}: {}", answer.body);
        answer.body["result"].clone()
    }

    /// A message of the session revision, with or without a session id.
    pub fn session_message(&self, token: &str, session: Option<&str>, message: &Value) -> RequestBuilder {
        let request = self.bare(Method::POST).bearer_auth(token).json(message);
        match session {
            Some(session) => {
                request.header("mcp-session-id", session).header("mcp-protocol-version", SESSION_REVISION)
            }
            None => request,
        }
    }

    /// Opens a session and returns its id.
    pub async fn open(&self, token: &str) -> String {
        let answer = self.session_message(token, None, &initialize()).send().await.expect("an answer");
        assert_eq!(answer.status(), 200);
        let id = answer.headers()["mcp-session-id"].to_str().expect("text").to_owned();
        assert_eq!(event(answer).await["result"]["protocolVersion"], SESSION_REVISION);
        let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        let initialized =
            self.session_message(token, Some(&id), &initialized).send().await.expect("an answer");
        assert_eq!(initialized.status(), 202);
        id
    }
}

/// A message with the `_meta` object that the latest revision requires.
pub fn stateless(method: &str, params: &Value) -> Value {
    let mut params = params.clone();
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": LATEST_REVISION,
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    });
    json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
}

/// The first message of a session.
pub fn initialize() -> Value {
    let info = json!({"name": "test", "version": "1"});
    let params = json!({"protocolVersion": SESSION_REVISION, "capabilities": {}, "clientInfo": info});
    json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})
}

/// A message of the session revision.
pub fn request(method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
}

/// The first message of an event stream.
pub async fn event(answer: Response) -> Value {
    assert_eq!(answer.headers()["content-type"], "text/event-stream");
    let text = answer.text().await.expect("a stream that ends");
    let data = text
        .lines()
        .filter_map(|line| line.strip_prefix("data:"))
        .map(str::trim)
        .find(|data| !data.is_empty());
    serde_json::from_str(data.unwrap_or_else(|| panic!("no message in {text:?}"))).expect("JSON")
}
