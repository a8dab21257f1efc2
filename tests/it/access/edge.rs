//! Rate limits, the `Host` check, slow headers and oversized headers.
//!
//! A19 and A77 (docs/authentication-rules.md), T13 (docs/security.md).

use std::time::{Duration, Instant};

use hotdesk::controller::identity::auth::keys;
use hotdesk::store::Store;
use hotdesk::store::identity::accounts::NewKey;
use reqwest::Method;

use crate::harness::agent::fetch_json;
use crate::harness::controller::RunningController;
use crate::harness::raw::exchange;
use crate::harness::simulation::Simulation;

/// Longest time of one exchange on a busy machine. It is below the header timeout (10 s), which closes the
/// connection too.
const EXCHANGE_DEADLINE: Duration = Duration::from_secs(9);
/// Longest time for which a connection without a complete header may stay open on a busy machine.
const HEADER_DEADLINE: Duration = Duration::from_secs(30);

#[tokio::test(flavor = "multi_thread")]
async fn a19_too_many_requests_of_one_key_do_not_touch_another_s() {
    let controller =
        RunningController::boot_with("[limits]\nrequests_per_second = 1\nrequest_burst = 5\n").await;
    let store = Store::open(&controller.data_dir().join("hotdesk.db")).await.expect("the store");
    let (text, account) = (keys::generate(), store.operator_account().await.expect("the operator"));
    let digest = keys::digest(text.reveal());
    let key = NewKey {
        account,
        workspace: None,
        name: "other",
        digest: &digest,
        last_four: keys::last_four(&text),
    };
    store.add_key(&key).await.expect("a second key");

    let began = Instant::now();
    let requests = (0..30).map(|turn| {
        // Neither another spelling of the path nor a forged client address avoids the limit.
        let path = ["/api/workspaces", "/api/api/projects", "/workspaces?x=1"][turn % 3];
        let forwarded_for = format!("10.0.0.{turn}");
        controller
            .bare(Method::GET, path)
            .bearer_auth(controller.key())
            .header("x-forwarded-for", forwarded_for)
            .send()
    });
    let answers = futures_util::future::join_all(requests).await;
    let mut passed = 0;
    for answer in answers {
        let answer = answer.expect("an answer");
        if answer.status() == 200 {
            passed += 1;
            continue;
        }
        assert_eq!(answer.status(), 429);
        let wait: u64 =
            answer.headers()["retry-after"].to_str().expect("text").parse().expect("whole seconds");
        assert!((1..=10).contains(&wait), "{wait}");
        let body: serde_json::Value = answer.json().await.expect("JSON");
        assert!(
            body["error"].is_string() && body["request_id"].is_string() && body["retry_after"] == wait,
            "{body}"
        );
    }
    let most = 5 + began.elapsed().as_secs() + 1;
    assert!((5..=most).contains(&passed), "{passed} of 30 passed in {:?}", began.elapsed());
    let other = controller.bare(Method::GET, "/api/workspaces").bearer_auth(text.reveal());
    assert_eq!(fetch_json(other).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proxy_that_nobody_named_is_noticed_once() {
    let controller = RunningController::boot().await;
    for _ in 0..3 {
        let request = controller.bare(Method::GET, "/api/workspaces").header("x-forwarded-for", "192.0.2.1");
        assert_eq!(fetch_json(request).await.status, 401);
    }
    assert_eq!(controller.log().matches("trusted_proxies does not name it").count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a77_a_request_needs_exactly_one_host() {
    let controller = Simulation::boot().await;
    let with = |hosts: &str| {
        format!(
            "GET /api/workspaces HTTP/1.1\r\n{hosts}Authorization: Bearer {}\r\nConnection: close\r\n\r\n",
            controller.key()
        )
    };
    for (hosts, expected) in [
        ("Host: localhost\r\n", 200),
        ("Host: 192.0.2.1:8700\r\n", 200),
        // The configuration does not name this host.
        ("Host: desk.example\r\n", 403),
        ("", 400),
        ("Host: a\r\nHost: b\r\n", 400),
        ("Host: a\r\nHost: a\r\n", 400),
        ("Host:\r\n", 400),
        ("Host: a/../b\r\n", 400),
        ("Host: a\"b\r\n", 400),
    ] {
        let raw = exchange(controller.address(), with(hosts).as_bytes(), EXCHANGE_DEADLINE).await;
        assert_eq!(raw.status(), expected, "{hosts:?}: {}", raw.text);
        if expected == 400 {
            assert!(
                raw.body()["error"].is_string() && raw.body()["request_id"].is_string(),
                "{hosts:?}: {}",
                raw.text
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn t13_a_slow_header_is_closed_and_a_huge_one_refused() {
    let controller = Simulation::boot().await;
    let slow = exchange(
        controller.address(),
        b"GET /api/workspaces HTTP/1.1\r\nHost: localhost\r\nX-Sl",
        HEADER_DEADLINE,
    );
    let silent = exchange(controller.address(), b"", HEADER_DEADLINE);
    let bomb = format!(
        "GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nX-Bomb: {}\r\n\r\n",
        "x".repeat(100 * 1024)
    );
    let many = format!(
        "GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{}\r\n",
        "X-Bomb: 1\r\n".repeat(9_000)
    );
    let long =
        format!("GET /{} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", "x".repeat(100 * 1024));
    for (what, request) in [("one huge field", bomb), ("many fields", many), ("a long path", long)] {
        let raw = exchange(controller.address(), request.as_bytes(), EXCHANGE_DEADLINE).await;
        assert!([0, 400, 414, 431].contains(&raw.status()), "{what}: {}", raw.text);
        assert_eq!(controller.get("/workspaces").await.status, 200, "{what}");
    }
    // Two lengths, or a length and chunked encoding, permit request smuggling (T25, docs/security.md).
    for twice in
        ["Content-Length: 2\r\nContent-Length: 3\r\n", "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n"]
    {
        let request = format!(
            "POST /api/workspaces HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\nConnection: close\r\n{twice}\r\n{{}}\r\n\
             GET /smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n",
            controller.key()
        );
        let raw = exchange(controller.address(), request.as_bytes(), EXCHANGE_DEADLINE).await;
        assert_eq!(raw.status(), 400, "{twice}: {}", raw.text);
        assert_eq!(raw.text.matches("HTTP/1.1").count(), 1, "{twice}: {}", raw.text);
    }
    let (slow, silent) = tokio::join!(slow, silent);
    let quickest = slow.took.min(silent.took);
    assert!(quickest < Duration::from_secs(15), "closed after {quickest:?}");
    for (what, raw) in [("a slow header", slow), ("silence", silent)] {
        assert!(raw.took > Duration::from_secs(5), "{what} was closed after {:?}", raw.took);
    }
}
