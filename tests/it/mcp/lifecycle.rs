//! MCP sessions belong to their token, and the latest revision needs none: A75, A78
//! (docs/authentication-rules.md).

use reqwest::Method;
use serde_json::{Value, json};

use super::scene::{LATEST_REVISION, SESSION_REVISION, Scene, event, initialize, request, stateless, token};
use crate::harness::agent::fetch_json;
use crate::harness::caller::{Caller, id_of};

/// Longest time until a stream ends after its connection. The rule is one second (A63); a busy machine gets
/// more.
const STREAM_END_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(10);

/// Asserts that the server declares nothing but what it serves: no prompts, log and completions.
fn assert_only_offers(capabilities: &Value) {
    let declared: Vec<&String> = capabilities.as_object().expect("an object").keys().collect();
    assert_eq!(declared, ["resources", "tools"], "{capabilities}");
    assert_eq!(capabilities["resources"], json!({"subscribe": true}), "{capabilities}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a78_a_session_is_who_opened_it_s_and_ends_once() {
    let scene = Scene::boot().await;
    let session = scene.open(&scene.token).await;
    assert!(session.len() >= 32 && session.bytes().all(|byte| byte.is_ascii_graphic()), "{session}");
    assert_ne!(session, scene.open(&scene.token).await);
    let list = request("tools/list", json!({}));
    let listed = scene.session_message(&scene.token, Some(&session), &list).send().await.expect("an answer");
    assert!(event(listed).await["result"]["tools"].as_array().is_some_and(|tools| !tools.is_empty()));

    // For another account, for another connection of the same account, and under an unknown id, the session
    // does not exist.
    let store = scene.controller.store().await;
    let (other_account, key) = scene.controller.account("other@localhost").await;
    let other_workspace = Caller::new(scene.controller.base.clone(), "/api", key)
        .create("/workspaces", json!({"name": "w"}))
        .await;
    let other_account_token = token(&store, other_account, &id_of(&other_workspace)).await;
    for (what, token, id) in [
        ("a stranger", &other_account_token, &*session),
        ("another connection", &scene.another_token().await, &*session),
        ("an unknown session", &scene.token, "00000000-0000-4000-8000-000000000000"),
    ] {
        for method in [Method::POST, Method::GET, Method::DELETE] {
            let message = scene.bare(method.clone()).bearer_auth(token).json(&list);
            let message =
                message.header("mcp-session-id", id).header("mcp-protocol-version", SESSION_REVISION);
            let refused = fetch_json(message).await;
            assert_eq!(refused.status, 404, "{method} by {what}: {}", refused.body);
        }
    }
    let without = fetch_json(scene.bare(Method::POST).bearer_auth(&scene.token).json(&list)).await;
    assert_eq!(without.status, 400, "{}", without.body);

    let ended = scene.bare(Method::DELETE).bearer_auth(&scene.token).header("mcp-session-id", &session);
    assert!(ended.send().await.expect("an answer").status().is_success());
    for method in [Method::POST, Method::GET, Method::DELETE] {
        let message = scene.bare(method.clone()).bearer_auth(&scene.token).json(&list);
        assert_eq!(
            fetch_json(message.header("mcp-session-id", &session)).await.status,
            404,
            "{method} after the end"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a78_too_many_sessions_end_the_oldest() {
    let scene = Scene::boot().await;
    let first = scene.open(&scene.token).await;
    let mut last = String::new();
    for _ in 0..32 {
        last = scene.open(&scene.token).await;
    }
    let list = request("tools/list", json!({}));
    let gone = fetch_json(scene.session_message(&scene.token, Some(&first), &list)).await;
    assert_eq!(gone.status, 404, "{}", gone.body);
    assert_eq!(
        scene.session_message(&scene.token, Some(&last), &list).send().await.expect("an answer").status(),
        200
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a78_versions_and_headers_must_be_known_and_agree() {
    let scene = Scene::boot().await;
    let session = scene.open(&scene.token).await;
    let list = request("tools/list", json!({}));
    for version in ["1999-01-01", "latest"] {
        for request in [
            scene.bare(Method::POST).json(&list).header("mcp-session-id", &session),
            scene.bare(Method::GET).header("mcp-session-id", &session),
            scene.bare(Method::DELETE).header("mcp-session-id", &session),
        ] {
            let refused =
                fetch_json(request.bearer_auth(&scene.token).header("mcp-protocol-version", version)).await;
            assert_eq!(refused.status, 400, "{version}: {}", refused.body);
        }
    }
    // Latest revision: header fields repeat values of the body (SEP-2243).
    let call = json!({"name": "get_computer", "arguments": {"computer_id": scene.computer}});
    let body = stateless("tools/call", &call);
    let fields = [
        ("mcp-protocol-version", LATEST_REVISION),
        ("mcp-method", "tools/call"),
        ("mcp-name", "get_computer"),
    ];
    let wrong =
        [("mcp-protocol-version", SESSION_REVISION), ("mcp-method", "tools/list"), ("mcp-name", "bash")];
    for (at, bad) in wrong.into_iter().enumerate() {
        let mut request = scene.bare(Method::POST).bearer_auth(&scene.token).json(&body);
        for (other, field) in fields.into_iter().enumerate() {
            let (name, value) = if other == at { bad } else { field };
            request = request.header(name, value);
        }
        let refused = fetch_json(request).await;
        assert_eq!(
            (refused.status, &refused.body["error"]["code"]),
            (400, &json!(-32020)),
            "{bad:?}: {}",
            refused.body
        );
    }
    for method in ["tools/nonsense", "prompts/list"] {
        let unknown = fetch_json(scene.message(method, json!({}))).await;
        let code = &unknown.body["error"]["code"];
        assert_eq!((unknown.status, code), (404, &json!(-32601)), "{method}: {}", unknown.body);
        assert_eq!(unknown.body["error"]["message"], format!("unknown method: {method}"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a78_the_present_revision_has_no_sessions() {
    let scene = Scene::boot().await;
    let found = scene.message("server/discover", json!({})).send().await.expect("an answer");
    assert_eq!(found.status(), 200);
    assert!(found.headers().get("mcp-session-id").is_none());
    let found: Value = found.json().await.expect("JSON");
    let versions = found["result"]["supportedVersions"].as_array().expect("versions");
    assert!(
        versions.contains(&json!(LATEST_REVISION)) && versions.contains(&json!(SESSION_REVISION)),
        "{found}"
    );
    assert_only_offers(&found["result"]["capabilities"]);
    let opened = scene.session_message(&scene.token, None, &initialize()).send().await.expect("an answer");
    assert_only_offers(&event(opened).await["result"]["capabilities"]);
    // The latest revision ignores a session id.
    let odd = scene.message("tools/list", json!({})).header("mcp-session-id", "whatever");
    assert_eq!(fetch_json(odd).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a63_what_is_open_ends_with_its_connection() {
    let scene = Scene::boot().await;
    let (session, other) = (scene.open(&scene.token).await, scene.another_token().await);
    let other_session = scene.open(&other).await;
    let listen = async |token: &str, session: &str| {
        let message = scene.bare(Method::GET).bearer_auth(token).header("mcp-session-id", session);
        let stream =
            message.header("mcp-protocol-version", SESSION_REVISION).send().await.expect("an answer");
        assert_eq!(stream.status(), 200);
        stream
    };
    let (mut ending, mut going) =
        (listen(&scene.token, &session).await, listen(&other, &other_session).await);
    let revoke = scene.controller.bare(Method::POST, "/oauth/revoke").body(format!("token={}", scene.token));
    let revoke = revoke.header("content-type", "application/x-www-form-urlencoded");
    assert_eq!(revoke.send().await.expect("an answer").status(), 200);
    let ended =
        tokio::time::timeout(STREAM_END_TIMEOUT, async { while let Ok(Some(_)) = ending.chunk().await {} });
    assert!(ended.await.is_ok(), "the stream did not end");
    let list = request("tools/list", json!({}));
    assert_eq!(fetch_json(scene.session_message(&scene.token, Some(&session), &list)).await.status, 401);
    assert_eq!(
        scene.session_message(&other, Some(&other_session), &list).send().await.expect("an answer").status(),
        200
    );
    let more = async { while let Ok(Some(_)) = going.chunk().await {} };
    assert!(
        tokio::time::timeout(std::time::Duration::from_millis(300), more).await.is_err(),
        "the other stream ended"
    );
}
