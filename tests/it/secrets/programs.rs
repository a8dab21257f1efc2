//! Secrets of programs: keys of every kind, links, signatures of a payment service, and repeated requests.

use hmac::{Hmac, KeyInit, Mac};
use hotdesk::base::clock;
use hotdesk::base::hex::hex;
use hotdesk::base::secret::Secret;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use sha2::Sha256;

use super::look::Canaries;
use crate::harness::agent::fetch_json;
use crate::harness::caller::Caller;

/// The text of a field.
#[track_caller]
pub fn text<'a>(body: &'a Value, field: &str) -> &'a str {
    body[field].as_str().unwrap_or_else(|| panic!("no {field} in {body}"))
}

/// Sends a request twice with one `Idempotency-Key`. Asserts that the second response is not stored, and
/// returns the first.
pub async fn post_twice(controller: &Caller, key: &str, path: &str, body: &Value, status: u16) -> Value {
    let digits = format!("canary-{}", path.replace('/', "."));
    let send = || {
        let request = controller.request_with(key, Method::POST, path).header("Idempotency-Key", &digits);
        fetch_json(request.json(body))
    };
    let first = send().await;
    assert_eq!(first.status, status, "{path}: {}", first.body);
    let again = send().await;
    assert_eq!(
        (again.status, &again.body["code"]),
        (409, &json!("answer_not_kept")),
        "{path}: {}",
        again.body
    );
    first.body
}

/// Whether a key is valid.
async fn is_valid(controller: &Caller, key: &str) -> bool {
    fetch_json(controller.request_with(key, Method::GET, "/workspaces")).await.status == 200
}

/// Keys of the account, of a workspace and of a client; one of them is deleted.
pub async fn keys(controller: &Caller, secrets: &mut Canaries, workspace: &str) {
    let own = controller.key.as_str();
    let wide = post_twice(controller, own, "/keys", &json!({"name": "ci"}), 201).await;
    let wide = secrets.record("an account's key", text(&wide, "key"));
    let scoped = controller.create("/keys", json!({"name": "scoped", "workspace_id": workspace})).await;
    let scoped_text = secrets.record("a workspace's key", text(&scoped, "key"));
    let client = json!({"external_id": "acme", "name": "Acme"});
    let client = post_twice(controller, own, "/v1/accounts", &client, 201).await;
    let client = secrets.record("a client's key", text(&client, "key"));
    for key in [&wide, &scoped_text, &client] {
        assert!(is_valid(controller, key).await);
    }
    assert_eq!(controller.delete(&format!("/keys/{}", text(&scoped, "id"))).await.status, 200);
    assert!(!is_valid(controller, &scoped_text).await, "a deleted key");
    let unknown =
        secrets.record("an unknown key", hotdesk::controller::identity::auth::keys::generate().reveal());
    assert!(!is_valid(controller, &unknown).await);
}

/// Creates an agent's account and records its key and the codes of its claim links. Returns the valid code.
pub async fn agent(controller: &Caller, secrets: &mut Canaries) -> String {
    let created = controller.bare(Method::POST, "/api/agent-accounts").json(&json!({"name": "helper"}));
    let created = fetch_json(created).await;
    assert_eq!(created.status, 201, "{}", created.body);
    let code = |body: &Value| text(body, "claim_url").rsplit('/').next().expect("a code").to_owned();
    let key = secrets.record("an agent's key", text(&created.body, "key"));
    secrets.record("a claim link's code", &code(&created.body));
    let link = post_twice(controller, &key, "/agent-accounts/claim-link", &json!({}), 201).await;
    secrets.record("another claim link's code", &code(&link))
}

/// Sends a signed event of a payment service, whose secret is in a file of the operator.
pub async fn event(controller: &Caller, secrets: &mut Canaries, secret: &str) {
    let account = controller.get("/user/profile").await.body;
    let event = json!({"id": "evt_1", "account_id": account["id"], "plan": null, "payment": "current",
        "occurred_at": clock::now().iso8601()});
    let (seconds, body) = (clock::now().as_seconds(), event.to_string());
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).expect("a key");
    mac.update(format!("{seconds}.{body}").as_bytes());
    let signature = secrets.record("an event's signature", &hex(&mac.finalize().into_bytes()));
    let request = controller.bare(Method::POST, "/api/billing/webhook");
    let request = request.header("hotdesk-signature", format!("t={seconds},v1={signature}")).body(body);
    let answer = fetch_json(request).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
}

/// Saves a connection to an RTMP server. No response may show its key.
pub async fn connection(controller: &Caller, secrets: &mut Canaries) {
    let key = secrets.record("a stream's key", Secret::random(24).reveal());
    let body = json!({"name": "live", "url": "rtmp://live.example.org/app", "key": key});
    let saved = controller.create("/stream/connections", body).await;
    assert!(!saved.to_string().contains(&key), "{saved}");
}

/// Stores a secret for computers, replaces its value, and sends it in wrong requests. No response may show a
/// value.
pub async fn vault(controller: &Caller, secrets: &mut Canaries, workspace: &str) {
    let values = ["a former value of the vault", "a value of the vault"]
        .map(|what| secrets.record(what, Secret::random(24).reveal()));
    let send = async |name: &str, body: Value| {
        let request = controller.request(Method::PUT, &format!("/secrets/{name}"));
        fetch_json(request.header("Idempotency-Key", Secret::random(20).reveal()).json(&body)).await
    };
    for value in &values {
        for (name, body, status) in [
            ("CANARY", json!({"value": value, "workspace_id": workspace}), 200),
            ("CANARY", json!({ "value": value }), 200),
            ("CANARY", json!({"value": [value]}), 400),
            ("CANARY", json!({"value": format!("{value}\0")}), 400),
            ("canary", json!({ "value": value }), 400),
            (value.as_str(), json!({"value": "x"}), 400),
        ] {
            let answer = send(name, body).await;
            assert_eq!(answer.status, status, "{}", answer.body);
            assert!(!answer.body.to_string().contains(value), "{}", answer.body);
        }
    }
}

/// Uploads a file and follows its signed link.
pub async fn link(controller: &Caller, secrets: &mut Canaries, workspace: &str) {
    let form = reqwest::multipart::Form::new()
        .text("projectId", workspace.to_owned())
        .part("file", reqwest::multipart::Part::text("hi").file_name("a.txt"));
    let stored = fetch_json(controller.request(Method::POST, "/files/upload").multipart(form)).await;
    let path = format!("/files/download?id={}", text(&stored.body["file"], "id"));
    let link = controller.get(&path).await.body;
    let url = text(&link, "url");
    secrets.record("a link's signature", url.rsplit("signature=").next().expect("a signature"));
    assert_eq!(controller.client.get(url).send().await.expect("an answer").status(), StatusCode::OK);
}

/// Sends every secret in every wrong place, and returns the refusals that echo one.
pub async fn misuse(controller: &Caller, secrets: &Canaries) -> Vec<String> {
    let form =
        |path: &str, fields: &[(&str, &str)]| crate::oauth::form(controller.bare(Method::POST, path), fields);
    let mut leaks = Vec::new();
    for (what, secret) in secrets.all() {
        let query = [("token", secret), ("api_key", secret), ("access_token", secret)];
        let requests = [
            controller.bare(Method::GET, "/api/workspaces").bearer_auth(secret.to_owned() + "x"),
            controller.bare(Method::GET, "/api/workspaces").query(&query),
            controller
                .bare(Method::GET, "/api/workspaces")
                .header("x-api-key", secret)
                .header("cookie", secret),
            controller.bare(Method::POST, "/mcp").bearer_auth(secret.to_owned() + "x"),
            controller.bare(Method::GET, &format!("/claim/{secret}x")),
            controller.bare(Method::GET, "/invitation").query(&[("token", secret.to_owned() + "x")]),
            controller.bare(Method::GET, &format!("/api/{secret}")),
            controller.request(Method::GET, &format!("/computers/{secret}")),
            form(
                "/oauth/token",
                &[("grant_type", "refresh_token"), ("client_id", "x"), ("refresh_token", secret)],
            ),
            form(
                "/oauth/token",
                &[("grant_type", "authorization_code"), ("client_id", "x"), ("code", secret)],
            ),
            form("/sign-in", &[("email", "nobody@x.example"), ("password", secret)]),
        ];
        for request in requests {
            let answer = request.send().await.expect("an answer");
            if answer.status().is_client_error() || answer.status().is_server_error() {
                let (url, status) = (answer.url().path().replace(secret, "..."), answer.status());
                let body = answer.text().await.expect("a body");
                let found = secrets.find_in_text(&body).into_iter();
                leaks.extend(
                    found.map(|echoed| format!("{status} of {url} with {what} shows {echoed}: {body}")),
                );
            }
        }
    }
    leaks
}
