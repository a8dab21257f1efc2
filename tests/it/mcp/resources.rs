//! Screens as resources: lists, pictures, subscriptions and their end.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use axum::Router;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response as AgentResponse};
use axum::routing::get;
use reqwest::{Method, Response};
use serde_json::{Value, json};

use super::scene::{SESSION_REVISION, Scene, event, request};
use super::streams::Messages;
use super::tools::agent;
use crate::events::source::wait_for;
use crate::harness::agent::fetch_json;
use crate::harness::picture::PNG_HEADER;

fn uri(computer: &str) -> String {
    format!("hotdesk://computers/{computer}/screen")
}

#[tokio::test(flavor = "multi_thread")]
async fn screens_are_listed_and_read_in_the_workspace_alone() {
    let scene = Scene::boot_with(agent()).await;
    let answer = async |method: &str, params: Value| {
        let mut message = scene.message(method, params.clone());
        if let Some(uri) = params["uri"].as_str() {
            message = message.header("mcp-name", uri);
        }
        fetch_json(message).await.body
    };
    let listed = answer("resources/list", json!({})).await;
    let resources = listed["result"]["resources"].as_array().expect("a list");
    assert_eq!(resources.len(), 1, "{listed}");
    assert_eq!(
        (&resources[0]["uri"], &resources[0]["mimeType"]),
        (&json!(uri(&scene.computer)), &json!("image/jpeg"))
    );
    assert_eq!(listed["result"]["cacheScope"], "private", "{listed}");
    let templates = answer("resources/templates/list", json!({})).await;
    let template = &templates["result"]["resourceTemplates"][0]["uriTemplate"];
    assert_eq!(*template, "hotdesk://computers/{id}/screen", "{templates}");
    let read = answer("resources/read", json!({"uri": uri(&scene.computer)})).await;
    let content = &read["result"]["contents"][0];
    assert_eq!((&content["uri"], &content["mimeType"]), (&json!(uri(&scene.computer)), &json!("image/png")));
    assert!(content["blob"].as_str().is_some_and(|blob| blob.starts_with("iVBOR")), "{read}");
    let unknown = "00000000-0000-4000-8000-000000000000";
    for bad in
        [uri(&scene.elsewhere), uri(unknown), "file:///etc/passwd".to_owned(), "hotdesk://x".to_owned()]
    {
        let refused = answer("resources/read", json!({"uri": bad})).await;
        // Revision 2026-07-28 has no code of its own for this.
        assert_eq!(refused["error"]["code"], -32602, "{bad}: {refused}");
    }
    let refused = answer("resources/list", json!({"cursor": "x"})).await;
    assert_eq!(refused["error"]["code"], -32602, "{refused}");
    scene.controller.command(format!("/computers/{}/stop", scene.computer)).await;
    scene.controller.until_status(&scene.computer, "stopped").await;
    let listed = answer("resources/list", json!({})).await;
    assert_eq!(listed["result"]["resources"], json!([]), "{listed}");
}

/// Opens the stream of a session's notifications.
async fn listen(scene: &Scene, session: &str) -> Response {
    let message = scene.bare(Method::GET).bearer_auth(&scene.token).header("mcp-session-id", session);
    let stream = message.header("mcp-protocol-version", SESSION_REVISION).send().await.expect("an answer");
    assert_eq!(stream.status(), 200);
    stream
}

async fn ask(scene: &Scene, session: &str, method: &str, params: Value) -> Value {
    let message = request(method, params);
    event(scene.session_message(&scene.token, Some(session), &message).send().await.expect("an answer")).await
}

/// The screen of an agent: the test says when something is painted.
#[derive(Clone, Default)]
pub struct PaintedScreen {
    frame: Arc<AtomicUsize>,
    looks: Arc<AtomicUsize>,
}

impl PaintedScreen {
    /// Routes of an agent with this screen.
    pub fn router(&self) -> Router {
        let screen = self.clone();
        Router::new().route("/screenshot", get(async move |headers: HeaderMap| screen.picture(&headers)))
    }

    /// The picture, or 304 for a client that has it.
    fn picture(&self, headers: &HeaderMap) -> AgentResponse {
        let frame = format!("f-{}", self.frame.load(Ordering::Relaxed));
        // After that, so that a test that saw the look paints another frame.
        self.looks.fetch_add(1, Ordering::Relaxed);
        let held = headers
            .get("if-none-match")
            .is_some_and(|tags| tags.to_str().expect("text").contains(&format!("\"{frame}\"")));
        let marks = [
            ("x-hotdesk-frame", frame.as_str()),
            ("x-hotdesk-screen", "default"),
            ("x-hotdesk-scale", "1"),
            ("x-hotdesk-width", "1"),
            ("x-hotdesk-height", "1"),
            ("connection", "close"),
        ];
        match held {
            true => (StatusCode::NOT_MODIFIED, marks).into_response(),
            false => (marks, PNG_HEADER.to_vec()).into_response(),
        }
    }

    /// Paints something.
    pub fn paint(&self) {
        self.frame.fetch_add(1, Ordering::Relaxed);
    }

    /// The number of looks so far.
    pub fn looks(&self) -> usize {
        self.looks.load(Ordering::Relaxed)
    }

    /// Waits until nobody looks at the screen any more: for longer than the time between two looks.
    pub async fn until_unwatched(&self) {
        let mut last = (self.looks.load(Ordering::Relaxed), Instant::now());
        wait_for("nobody looks at the screen", || {
            let looks = self.looks.load(Ordering::Relaxed);
            if looks != last.0 {
                last = (looks, Instant::now());
            }
            last.1.elapsed() > Duration::from_secs(3)
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_told_of_a_changed_screen_until_it_ends() {
    let screen = PaintedScreen::default();
    let scene = Scene::boot_with(screen.router()).await;
    let session = scene.open(&scene.token).await;
    let mut stream = Messages::of(listen(&scene, &session).await);
    for bad in [uri(&scene.elsewhere), "hotdesk://x".to_owned()] {
        let refused = ask(&scene, &session, "resources/subscribe", json!({"uri": bad})).await;
        assert_eq!(refused["error"]["code"], -32002, "{refused}");
    }
    let one = json!({"uri": uri(&scene.computer)});
    for _ in 0..2 {
        let done = ask(&scene, &session, "resources/subscribe", one.clone()).await;
        assert!(done["result"].is_object(), "{done}");
    }
    for _ in 0..2 {
        screen.paint();
        let told = stream.next().await;
        assert_eq!(
            (&told["method"], &told["params"]["uri"]),
            (&json!("notifications/resources/updated"), &one["uri"]),
            "{told}"
        );
    }
    let ended = scene.bare(Method::DELETE).bearer_auth(&scene.token).header("mcp-session-id", &session);
    assert!(ended.send().await.expect("an answer").status().is_success());
    screen.until_unwatched().await;
}

/// Opens a stream of the latest revision with changes of these resources. Returns it with the
/// acknowledgement.
async fn subscribe(scene: &Scene, uris: &[String]) -> (Messages, Value) {
    let wanted = json!({"notifications": {"resourceSubscriptions": uris, "toolsListChanged": true}});
    let answer = scene.message("subscriptions/listen", wanted).send().await.expect("an answer");
    assert_eq!(answer.status(), 200);
    let mut stream = Messages::of(answer);
    let acknowledged = stream.next().await;
    assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged", "{acknowledged}");
    (stream, acknowledged)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_of_the_latest_revision_is_told_of_changes_until_its_token_ends() {
    let screen = PaintedScreen::default();
    let scene = Scene::boot_with(screen.router()).await;
    let own = uri(&scene.computer);
    let uris = [own.clone(), "hotdesk://x".to_owned(), own.clone()];
    let (mut stream, acknowledged) = subscribe(&scene, &uris).await;
    let accepted = &acknowledged["params"]["notifications"];
    assert_eq!(accepted["resourceSubscriptions"], json!([own, own]), "{acknowledged}");
    assert!(accepted["toolsListChanged"].is_null(), "the list of tools does not change: {acknowledged}");
    let id = "io.modelcontextprotocol/subscriptionId";
    assert_eq!(acknowledged["params"]["_meta"][id], 1, "{acknowledged}");
    // The first notification needs no change: there may have been one before the first look.
    for _ in 0..3 {
        let told = stream.next().await;
        screen.paint();
        assert_eq!(told["method"], "notifications/resources/updated", "{told}");
        assert_eq!(
            (&told["params"]["uri"], &told["params"]["_meta"][id]),
            (&json!(own), &json!(1)),
            "{told}"
        );
    }
    let revoke = scene.controller.bare(Method::POST, "/oauth/revoke").body(format!("token={}", scene.token));
    let revoke = revoke.header("content-type", "application/x-www-form-urlencoded");
    assert_eq!(revoke.send().await.expect("an answer").status(), 200);
    stream.end().await;
    screen.until_unwatched().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_disconnects_is_not_told_any_more() {
    let screen = PaintedScreen::default();
    let scene = Scene::boot_with(screen.router()).await;
    let (stream, _) = subscribe(&scene, &[uri(&scene.computer)]).await;
    wait_for("a look", || screen.looks.load(Ordering::Relaxed) > 0).await;
    drop(stream);
    screen.until_unwatched().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn subscriptions_need_access_and_are_bounded_by_account() {
    let scene = Scene::boot_with(PaintedScreen::default().router()).await;
    let (mut stream, _) = subscribe(&scene, &[uri(&scene.elsewhere)]).await;
    let refused = stream.next().await;
    // Revision 2026-07-28 has no code of its own for this.
    assert_eq!(refused["error"]["code"], -32602, "{refused}");
    assert_eq!(refused["error"]["data"]["code"], "workspace_scope_mismatch", "{refused}");
    let mut all = Vec::new();
    for _ in 0..32 {
        let (stream, acknowledged) = subscribe(&scene, &[]).await;
        assert_eq!(acknowledged["params"]["notifications"], json!({}), "{acknowledged}");
        all.push(stream);
    }
    // A request counts when it is served, just after its acknowledgement, so that any of them may be the one
    // too many.
    let (one_more, _) = subscribe(&scene, &[]).await;
    all.push(one_more);
    let refused = futures_util::future::select_all(all.iter_mut().map(|stream| Box::pin(stream.next())));
    let refused = refused.await.0;
    assert_eq!(refused["error"]["data"]["code"], "too_many_calls", "{refused}");
}
