//! The secrets of programs: keys of every kind, links, what a payment service signs with, and what is asked twice.

use hmac::{Hmac, KeyInit, Mac};
use hotdesk::base::clock::{iso8601, now_ms};
use hotdesk::base::hex::hex;
use hotdesk::base::secret::Secret;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use sha2::Sha256;

use super::look::Canaries;
use crate::harness::agent::answered;
use crate::harness::caller::Caller;

/// What a field of an answer holds.
#[track_caller]
pub fn text<'a>(body: &'a Value, field: &str) -> &'a str {
    body[field].as_str().unwrap_or_else(|| panic!("no {field} in {body}"))
}

/// Asks twice under one `Idempotency-Key`: the answer, which is told once.
pub async fn once(house: &Caller, key: &str, path: &str, body: &Value, status: u16) -> Value {
    let digits = format!("canary-{}", path.replace('/', "."));
    let ask = || {
        let request = house.request_with(key, Method::POST, path).header("Idempotency-Key", &digits);
        answered(request.json(body))
    };
    let first = ask().await;
    assert_eq!(first.status, status, "{path}: {}", first.body);
    let again = ask().await;
    assert_eq!(
        (again.status, &again.body["code"]),
        (409, &json!("answer_not_kept")),
        "{path}: {}",
        again.body
    );
    first.body
}

/// Whether a key opens the API.
async fn opens(house: &Caller, key: &str) -> bool {
    answered(house.request_with(key, Method::GET, "/workspaces")).await.status == 200
}

/// Keys of the account, of a workspace and of a client; one of them has ended.
pub async fn keys(house: &Caller, secrets: &mut Canaries, workspace: &str) {
    let own = house.key.as_str();
    let wide = once(house, own, "/keys", &json!({"name": "ci"}), 201).await;
    let wide = secrets.keep("an account's key", text(&wide, "key"));
    let scoped = house.made("/keys", json!({"name": "scoped", "workspace_id": workspace})).await;
    let scoped_text = secrets.keep("a workspace's key", text(&scoped, "key"));
    let client = json!({"external_id": "acme", "name": "Acme"});
    let client = once(house, own, "/v1/accounts", &client, 201).await;
    let client = secrets.keep("a client's key", text(&client, "key"));
    for key in [&wide, &scoped_text, &client] {
        assert!(opens(house, key).await);
    }
    assert_eq!(house.delete(&format!("/keys/{}", text(&scoped, "id"))).await.status, 200);
    assert!(!opens(house, &scoped_text).await, "it has ended");
    let unknown = secrets.keep("a key that is none", hotdesk::controller::auth::keys::fresh().reveal());
    assert!(!opens(house, &unknown).await);
}

/// An agent's account: its key, and the codes of its links; the one that counts by now.
pub async fn agent(house: &Caller, secrets: &mut Canaries) -> String {
    let made = house.bare(Method::POST, "/api/agent-accounts").json(&json!({"name": "helper"}));
    let made = answered(made).await;
    assert_eq!(made.status, 201, "{}", made.body);
    let code = |body: &Value| text(body, "claim_url").rsplit('/').next().expect("a code").to_owned();
    let key = secrets.keep("an agent's key", text(&made.body, "key"));
    secrets.keep("a claim link's code", &code(&made.body));
    let link = once(house, &key, "/agent-accounts/claim-link", &json!({}), 201).await;
    secrets.keep("another claim link's code", &code(&link))
}

/// An event of a payment service, whose secret is in a file of the operator's.
pub async fn event(house: &Caller, secrets: &mut Canaries, secret: &str) {
    let account = house.get("/user/profile").await.body;
    let event = json!({"id": "evt_1", "account_id": account["id"], "plan": null, "payment": "current",
        "occurred_at": iso8601(now_ms())});
    let (seconds, body) = (now_ms() / 1000, event.to_string());
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).expect("a key");
    mac.update(format!("{seconds}.{body}").as_bytes());
    let signature = secrets.keep("an event's signature", &hex(&mac.finalize().into_bytes()));
    let request = house.bare(Method::POST, "/api/billing/webhook");
    let told = request.header("hotdesk-signature", format!("t={seconds},v1={signature}")).body(body);
    let told = answered(told).await;
    assert_eq!(told.status, 200, "{}", told.body);
}

/// A connection to an RTMP server, whose key is shown to no reader.
pub async fn connection(house: &Caller, secrets: &mut Canaries) {
    let key = secrets.keep("a stream's key", Secret::random(24).reveal());
    let body = json!({"name": "live", "url": "rtmp://live.example.org/app", "key": key});
    let saved = house.made("/stream/connections", body).await;
    assert!(!saved.to_string().contains(&key), "{saved}");
}

/// A file, and the link by which it is fetched without a key.
pub async fn link(house: &Caller, secrets: &mut Canaries, workspace: &str) {
    let form = reqwest::multipart::Form::new()
        .text("projectId", workspace.to_owned())
        .part("file", reqwest::multipart::Part::text("hi").file_name("a.txt"));
    let stored = answered(house.request(Method::POST, "/files/upload").multipart(form)).await;
    let path = format!("/files/download?id={}", text(&stored.body["file"], "id"));
    let link = house.get(&path).await.body;
    let url = text(&link, "url");
    secrets.keep("a link's signature", url.rsplit("signature=").next().expect("a signature"));
    assert_eq!(house.client.get(url).send().await.expect("an answer").status(), StatusCode::OK);
}

/// Every secret in every place where none of its kind is expected: what the answers say that refuse it.
pub async fn misused(house: &Caller, secrets: &Canaries) -> Vec<String> {
    let form =
        |path: &str, fields: &[(&str, &str)]| crate::oauth::form(house.bare(Method::POST, path), fields);
    let mut told = Vec::new();
    for (what, secret) in secrets.all() {
        let query = [("token", secret), ("api_key", secret), ("access_token", secret)];
        let requests = [
            house.bare(Method::GET, "/api/workspaces").bearer_auth(secret.to_owned() + "x"),
            house.bare(Method::GET, "/api/workspaces").query(&query),
            house.bare(Method::GET, "/api/workspaces").header("x-api-key", secret).header("cookie", secret),
            house.bare(Method::POST, "/mcp").bearer_auth(secret.to_owned() + "x"),
            house.bare(Method::GET, &format!("/claim/{secret}x")),
            house.bare(Method::GET, "/invitation").query(&[("token", secret.to_owned() + "x")]),
            house.bare(Method::GET, &format!("/api/{secret}")),
            house.request(Method::GET, &format!("/computers/{secret}")),
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
                let shown = secrets.shown_in(&body).into_iter();
                told.extend(
                    shown.map(|shows| format!("{status} of {url} with {what} shows {shows}: {body}")),
                );
            }
        }
    }
    told
}
