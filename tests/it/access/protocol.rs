//! HTTP as programs of all kinds speak it: targets in absolute form, declared lengths, slow bodies, other
//! versions of WebSocket, and the format of the metrics.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

use hotdesk::controller::config::Config;
use reqwest::Method;
use serde_json::json;

use crate::harness::raw::exchange;
use crate::harness::simulation::Simulation;

/// Longest time of one exchange on a busy machine, with the time for which an unread body is discarded.
const EXCHANGE_DEADLINE: Duration = Duration::from_secs(30);
/// Longest time until a body that stalls is refused, which is 30 s, on a busy machine.
const STALL_DEADLINE: Duration = Duration::from_secs(90);

#[tokio::test(flavor = "multi_thread")]
async fn a77_the_host_of_a_target_in_absolute_form_counts_and_not_the_field() {
    let controller = Simulation::boot().await;
    for (target, host, status) in [
        ("http://localhost/health", "localhost", 200),
        ("http://127.0.0.1:8700/health", "evil.example", 200),
        ("http://evil.example/health", "localhost", 403),
        ("http://evil.example/api/workspaces", "localhost", 403),
        ("http://user@localhost/health", "localhost", 400),
    ] {
        let request = format!("GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        let raw = exchange(controller.address(), request.as_bytes(), EXCHANGE_DEADLINE).await;
        assert_eq!(raw.status(), status, "{target}: {}", raw.text);
        if status == 403 {
            assert_eq!(raw.body()["code"], "host_not_allowed", "{target}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_declared_length_beyond_the_bound_is_refused_before_any_of_it_is_sent() {
    let controller = Simulation::boot().await;
    let computer = controller.computer(&controller.workspace("demo").await, "desk").await;
    let proxied = format!("/desktops/{computer}/proxy/bash");
    for (path, fields, bytes) in [
        ("/api/workspaces", "", 3 << 20),
        ("/api/workspaces", "", 10_u64 << 30),
        ("/api/workspaces", "Idempotency-Key: one-of-one\r\n", 3 << 20),
        ("/api/files/upload", "Content-Type: multipart/form-data; boundary=x\r\n", 20 << 20),
        (proxied.as_str(), "", 17 << 20),
        ("/oauth/register", "", 1 << 20),
    ] {
        let request = format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\n{fields}Content-Length: {bytes}\r\n\r\n",
            controller.key()
        );
        let raw = exchange(controller.address(), request.as_bytes(), EXCHANGE_DEADLINE).await;
        assert_eq!(raw.status(), 413, "{path} {bytes}: {}", raw.text);
        assert!(raw.body()["error"].is_string(), "{path}: {}", raw.text);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn browsers_are_told_to_use_https_where_the_service_has_it() {
    for (public_url, policy) in
        [("https://desk.example", Some("max-age=31536000")), ("http://desk.example", None), ("", None)]
    {
        let config = Config { public_url: public_url.to_owned(), ..Config::default() };
        let controller = Simulation::boot_configured(config).await;
        for path in ["/health", "/api/workspaces", "/sign-in", "/nowhere"] {
            let answer = controller.bare(Method::GET, path).send().await.expect("an answer");
            let told = answer.headers().get("strict-transport-security").map(|it| it.to_str().expect("text"));
            assert_eq!(told, policy, "{public_url} {path}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn t13_a_body_that_stalls_is_refused_with_408() {
    let controller = Simulation::boot().await;
    let request = |fields: &str| {
        format!(
            "POST /api/workspaces HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\n{fields}Content-Length: 20\r\n\r\n{{",
            controller.key()
        )
    };
    let (plain, keyed) = (request(""), request("Idempotency-Key: one-of-one\r\n"));
    let (plain, keyed) = tokio::join!(
        exchange(controller.address(), plain.as_bytes(), STALL_DEADLINE),
        exchange(controller.address(), keyed.as_bytes(), STALL_DEADLINE),
    );
    for raw in [plain, keyed] {
        assert_eq!(raw.status(), 408, "{}", raw.text);
        assert_eq!(raw.body()["error"], "the request body did not arrive in time");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn another_version_of_websocket_is_told_the_one_that_is_spoken() {
    let controller = Simulation::boot().await;
    for (version, status) in [("8", 426), ("0", 426), ("13", 101)] {
        let request = format!(
            "GET /desktops/none/ws/events HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Version: {version}\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        );
        let raw = exchange(controller.address(), request.as_bytes(), EXCHANGE_DEADLINE).await;
        assert_eq!(raw.status(), status, "{version}: {}", raw.text);
        let lower = raw.text.to_ascii_lowercase();
        assert_eq!(lower.contains("sec-websocket-version: 13"), status == 426, "{}", raw.text);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_metric_has_a_help_text() {
    let controller = Simulation::boot().await;
    assert_eq!(controller.create("/workspaces", json!({"name": "demo"})).await["name"], "demo");
    let foreign = controller.bare(Method::GET, "/health").header("host", "evil.example");
    assert_eq!(foreign.send().await.expect("an answer").status(), 403);
    let text = controller.bare(Method::GET, "/metrics").send().await.expect("an answer").text().await;
    let text = text.expect("text");
    let named = |prefix: &str| -> BTreeSet<String> {
        let lines = text.lines().filter_map(|line| line.strip_prefix(prefix));
        lines.filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
    };
    let (typed, helped) = (named("# TYPE "), named("# HELP "));
    assert!(typed.len() >= 3 && typed == helped, "{typed:?} {helped:?}");
    // The documentation has every metric.
    let page = include_str!("../../../docs/operating.md");
    assert!(typed.iter().all(|name| page.contains(&format!("| `{name}` |"))), "{typed:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_metrics_are_for_this_machine_or_for_their_key() {
    let folder = tempfile::tempdir().expect("a folder");
    let (file, key) = (folder.path().join("key"), "k".repeat(32));
    std::fs::write(&file, &key).expect("a file");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).expect("a mode");
    for (has_key, shown, from, status) in [
        (false, None, None, 200),
        (false, None, Some("192.0.2.1"), 403),
        (true, None, None, 401),
        (true, Some("another key, of many characters"), None, 401),
        (true, Some(&*key), None, 200),
        (true, Some(&*key), Some("192.0.2.1"), 200),
    ] {
        let mut config = Config { trusted_proxies: "127.0.0.1".to_owned(), ..Config::default() };
        config.web.metrics_key_file = if has_key { file.clone() } else { PathBuf::new() };
        let controller = Simulation::boot_configured(config).await;
        assert_eq!(controller.get("/workspaces").await.status, 200, "a request that the metrics count");
        let mut request = controller.bare(Method::GET, "/metrics");
        request = if let Some(shown) = shown { request.bearer_auth(shown) } else { request };
        request = if let Some(from) = from { request.header("x-forwarded-for", from) } else { request };
        let answer = request.send().await.expect("an answer");
        assert_eq!(answer.status(), status, "{has_key} {shown:?} {from:?}");
        let text = answer.text().await.expect("a text");
        assert_eq!(text.contains("hotdesk_http_requests_total"), status == 200, "{text}");
        // A key of an account opens nothing here.
        let keyed = controller.bare(Method::GET, "/metrics").bearer_auth(controller.key()).send().await;
        assert_eq!(keyed.expect("an answer").status(), if has_key { 401 } else { 200 });
    }
}
