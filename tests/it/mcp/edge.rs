//! Access to `/mcp`: tokens, origins, host names and rate limits. A39, A40, A57, A75, A76, A77
//! (docs/authentication-rules.md).

use std::time::Duration;

use hotdesk::controller::config::Limits;
use reqwest::{Method, Response};
use serde_json::{Value, json};

use super::scene::{LATEST_REVISION, Scene, initialize, stateless};
use crate::harness::agent::fetch_json;
use crate::harness::controller::RunningController;
use crate::harness::raw::exchange;

/// Longest wait for a raw exchange, on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(10);

#[tokio::test(flavor = "multi_thread")]
async fn a39_a40_a75_every_request_needs_a_token_and_is_told_where_to_get_one() {
    let scene = Scene::boot().await;
    let metadata_url = format!("{}/.well-known/oauth-protected-resource/mcp", scene.controller.base);
    let unknown = format!("{}x", scene.token);
    for method in [Method::POST, Method::GET, Method::DELETE, Method::PUT] {
        let ask = || scene.bare(method.clone()).json(&stateless("tools/list", &json!({})));
        let twice = ask().bearer_auth(&scene.token).bearer_auth(&scene.token);
        for (what, request, error) in [
            ("nothing", ask(), ""),
            ("another token", ask().bearer_auth(&unknown), "error=\"invalid_token\", "),
            ("an API key", ask().bearer_auth(scene.controller.key()), "error=\"invalid_token\", "),
            ("another scheme", ask().basic_auth("a", Some(&scene.token)), "error=\"invalid_token\", "),
            ("two", twice, "error=\"invalid_token\", "),
            // A75: a token anywhere else does not count.
            ("a query", ask().query(&[("access_token", &scene.token), ("token", &scene.token)]), ""),
            ("a cookie", ask().header("cookie", format!("access_token={}", scene.token)), ""),
            ("another field", ask().header("x-api-key", &scene.token), ""),
        ] {
            let answer = request.send().await.expect("an answer");
            assert_eq!(answer.status(), 401, "{method} with {what}");
            let expected = format!("Bearer {error}resource_metadata=\"{metadata_url}\", scope=\"mcp:tools\"");
            assert_eq!(answer.headers()["www-authenticate"], expected.as_str(), "{method} with {what}");
            let body: Value = answer.json().await.expect("JSON");
            assert!(body["error"].is_string() && body["request_id"].is_string(), "{body}");
            let explained =
                body["error"].as_str().is_some_and(|text| text.contains("send an OAuth access token"));
            assert_eq!(explained, what == "an API key", "{body}");
        }
    }
    assert_eq!(scene.message("tools/list", json!({})).send().await.expect("an answer").status(), 200);
}

/// Checks a 429 response with its `Retry-After` and `RateLimit` headers, and returns its error text.
async fn too_many(answer: Response, policy: &str) -> String {
    assert_eq!(answer.status(), 429);
    let wait: u64 = answer.headers()["retry-after"].to_str().expect("text").parse().expect("whole seconds");
    assert!((1..=61).contains(&wait), "{wait}");
    let ratelimit = answer.headers()["ratelimit"].to_str().expect("text");
    assert!(ratelimit.starts_with(&format!("\"{policy}\";r=0;")), "{ratelimit}");
    let body: Value = answer.json().await.expect("JSON");
    body["error"].as_str().expect("a sentence").to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a18_wrong_tokens_are_limited_by_source_and_shut_no_right_one_out() {
    let limits = Limits { wrong_keys_per_minute: 6, ..Limits::default() };
    let scene = Scene::boot_limited(limits).await;
    let (wrong, key) = (format!("{}x", scene.token), scene.controller.key());
    let show = async |token: &str| {
        let request = scene.bare(Method::POST).bearer_auth(token).json(&initialize());
        request.send().await.expect("an answer")
    };
    for turn in 0..6 {
        assert_eq!(show([&*wrong, key][turn % 2]).await.status(), 401, "{turn}");
    }
    for token in [&*wrong, key] {
        let why = too_many(show(token).await, "wrong-keys").await;
        assert!(why.starts_with("Invalid access token"), "{why}");
    }
    // Wrong tokens and wrong keys of one source share a limit.
    let elsewhere = scene.controller.request_with(&wrong, Method::GET, "/workspaces");
    too_many(elsewhere.send().await.expect("an answer"), "wrong-keys").await;
    // A request without a token does not count as an attempt.
    let bare = scene.bare(Method::POST).json(&initialize()).send().await.expect("an answer");
    assert_eq!(bare.status(), 401);
    // The right token passes and resets the count.
    assert_eq!(show(&scene.token).await.status(), 200);
    assert_eq!(show(&wrong).await.status(), 401);
}

#[tokio::test(flavor = "multi_thread")]
async fn a19_a_token_has_a_limit_of_its_own_and_is_told_when_to_come_back() {
    let limits = Limits { requests_per_second: 1, request_burst: 20, ..Limits::default() };
    let scene = Scene::boot_limited(limits).await;
    let mut refused = None;
    // The limit refills by one request a second during the loop.
    for _ in 0..200 {
        let answer = scene.message("tools/list", json!({})).send().await.expect("an answer");
        if answer.status() != 200 {
            refused = Some(answer);
            break;
        }
    }
    too_many(refused.expect("there is a limit"), "requests").await;
    let other = scene.another_token().await;
    let list = scene.bare(Method::POST).bearer_auth(other).json(&initialize());
    assert_eq!(list.send().await.expect("an answer").status(), 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a57_a_token_is_for_the_mcp_server_alone_and_goes_no_further() {
    let scene = Scene::boot().await;
    for path in ["/workspaces", "/computers", &format!("/computers/{}", scene.computer)] {
        let refused = fetch_json(scene.controller.request_with(&scene.token, Method::GET, path)).await;
        assert_eq!(refused.status, 401, "{path}");
        assert!(refused.body["error"].as_str().expect("a sentence").starts_with("Invalid API key"));
    }
    // The agent gets its own token, and nothing of the client's headers.
    let agent = scene.controller.replace_agent(&scene.computer);
    let call = scene.call("bash", json!({"computer_id": scene.computer, "command": "true"}));
    let received = async {
        let accepted = tokio::time::timeout(TIMEOUT, agent.accept()).await.expect("in time");
        let (mut stream, _) = accepted.expect("a connection");
        let mut received = vec![0; 16 * 1024];
        let length = tokio::io::AsyncReadExt::read(&mut stream, &mut received).await.expect("a request");
        String::from_utf8_lossy(&received[..length]).into_owned()
    };
    let (_, received) = tokio::join!(call, received);
    assert!(received.contains("authorization: Bearer"), "{received}");
    assert!(!received.contains(&scene.token) && !received.contains("mcp-"), "{received}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a76_a_page_that_is_not_allowed_is_refused_before_anything_else() {
    let pages = "[web]\nallowed_origins = \"https://inspector.example, http://localhost:6274\"\n";
    let controller = RunningController::boot_with(pages).await;
    let own = controller.base().to_owned();
    let ask = |method: Method, page: &str| controller.bare(method, "/mcp").header("origin", page);
    let refused = [
        "https://evil.example",
        "null",
        "http://localhost:6275",
        "https://inspector.example.evil",
        "inspector.example",
        "",
    ];
    for page in refused {
        for method in [Method::POST, Method::GET, Method::DELETE, Method::OPTIONS] {
            let answer = ask(method.clone(), page).send().await.expect("an answer");
            assert_eq!(answer.status(), 403, "{method} from {page:?}");
            assert!(answer.headers().get("access-control-allow-origin").is_none());
            let body: Value = answer.json().await.expect("JSON");
            assert_eq!(body["code"], "origin_not_allowed");
        }
    }
    let twice = ask(Method::POST, &own).header("origin", "https://evil.example");
    assert_eq!(fetch_json(twice).await.status, 403, "two origins are ambiguous");
    for page in [&own, "https://inspector.example", "http://localhost:6274"] {
        let answer = ask(Method::POST, page).json(&initialize()).send().await.expect("an answer");
        assert_eq!(answer.status(), 401, "{page}: the token check comes next");
        assert_eq!(answer.headers()["access-control-allow-origin"], page);
        let flight = ask(Method::OPTIONS, page)
            .header("access-control-request-method", "POST")
            .send()
            .await
            .expect("one");
        assert_eq!(flight.status(), 204, "{page}");
        assert_eq!(flight.headers()["access-control-allow-headers"], "authorization, *");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a77_only_names_of_ours_are_answered() {
    let names =
        "public_url = \"https://desk.example\"\n[web]\nallowed_hosts = \"other.example, third.example\"\n";
    let controller = RunningController::boot_with(names).await;
    let ask = async |host: &str, path: &str| {
        let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        exchange(controller.address(), request.as_bytes(), TIMEOUT).await
    };
    for host in [
        "desk.example",
        "DESK.EXAMPLE:8700",
        "other.example",
        "third.example",
        "localhost:1",
        "127.0.0.1",
        "[::1]:80",
    ] {
        assert_eq!(ask(host, "/health").await.status(), 200, "{host}");
        assert_eq!(ask(host, "/mcp").await.status(), 401, "{host}");
    }
    for host in
        ["evil.example", "desk.example.evil", "127.0.0.1.evil.example", "a.desk.example", "xlocalhost"]
    {
        for path in ["/health", "/api/workspaces", "/openapi.json", "/sign-in", "/mcp"] {
            let raw = ask(host, path).await;
            assert_eq!(
                (raw.status(), &raw.body()["code"]),
                (403, &json!("host_not_allowed")),
                "{host} {path}"
            );
        }
    }
    let metrics = ask("localhost", "/metrics").await.text;
    assert!(metrics.contains("hotdesk_hosts_refused_total 25"), "{metrics}");
}

#[tokio::test(flavor = "multi_thread")]
async fn t14_what_is_no_message_is_refused_and_bounded() {
    let scene = Scene::boot().await;
    let post =
        || scene.bare(Method::POST).bearer_auth(&scene.token).header("mcp-protocol-version", LATEST_REVISION);
    let cases: [(&str, reqwest::RequestBuilder, u16); 6] = [
        ("no JSON", post().body("{"), 400),
        ("no message", post().body("{\"jsonrpc\":\"2.0\"}"), 400),
        ("a list", post().json(&json!([stateless("ping", &json!({}))])), 400),
        ("too much", post().body(format!("\"{}\"", "x".repeat(3 * 1024 * 1024))), 413),
        ("no type", scene.controller.bare(Method::POST, "/mcp").bearer_auth(&scene.token).body("{}"), 406),
        ("no such method", scene.bare(Method::PUT).bearer_auth(&scene.token), 405),
    ];
    for (what, request, status) in cases {
        let answer = request.send().await.expect("an answer");
        assert_eq!(answer.status(), status, "{what}");
        assert_eq!(answer.headers().contains_key("allow"), status == 405, "{what}");
        let body: Value = answer.json().await.expect("JSON");
        assert!(body["error"].is_string() && body["request_id"].is_string(), "{what}: {body}");
    }
}
