//! Request rate limits and the limit on wrong keys (A18, A19, docs/authentication-rules.md).

use reqwest::{Method, Response, StatusCode};
use serde_json::Value;

use hotdesk::controller::identity::auth::keys;

use crate::harness::agent::fetch_json;
use crate::harness::controller::RunningController;

/// Integer value of a parameter of a structured field (RFC 9651).
fn parameter(answer: &Response, field: &str, name: &str) -> u64 {
    let text = answer.headers()[field].to_str().expect("text");
    let (_, remainder) = text.split_once(&format!(";{name}=")).unwrap_or_else(|| panic!("{name} in {text}"));
    remainder.split(';').next().and_then(|number| number.parse().ok()).expect("a whole number")
}

/// Asserts a 429 that states the same waiting time in whole seconds in all three places. Returns that time.
fn check_refusal(answer: &Response, policy: &str) -> u64 {
    assert_eq!(answer.status(), StatusCode::TOO_MANY_REQUESTS);
    let wait: u64 = answer.headers()["retry-after"].to_str().expect("text").parse().expect("whole seconds");
    assert!((1..=61).contains(&wait), "{wait}");
    assert!(answer.headers()["ratelimit"].to_str().expect("text").starts_with(&format!("\"{policy}\";")));
    let stated = (parameter(answer, "ratelimit", "r"), parameter(answer, "ratelimit", "t"));
    assert_eq!(stated, (0, wait));
    assert!(parameter(answer, "ratelimit-policy", "q") > 0 && parameter(answer, "ratelimit-policy", "w") > 0);
    wait
}

async fn send_key(controller: &RunningController, from: &str, key: &str) -> Response {
    let request = controller.bare(Method::GET, "/api/workspaces").header("x-forwarded-for", from);
    request.header("authorization", key).send().await.expect("an answer")
}

#[tokio::test(flavor = "multi_thread")]
async fn a18_wrong_keys_are_limited_by_source_and_shut_no_right_one_out() {
    let limits = "trusted_proxies = \"127.0.0.1\"\n[limits]\nwrong_keys_per_minute = 6\n";
    let controller = RunningController::boot_with(limits).await;
    let (one, other) = ("198.51.100.1", "198.51.100.2");
    let unknown = format!("Bearer {}", keys::generate().reveal());
    let kinds = [&*unknown, "Bearer sk_live_mistyped", "Basic c2s6c2s="];
    for turn in 0..6 {
        assert_eq!(
            send_key(&controller, one, kinds[turn % 3]).await.status(),
            StatusCode::UNAUTHORIZED,
            "{turn}"
        );
    }
    for kind in kinds {
        let refused = send_key(&controller, one, kind).await;
        check_refusal(&refused, "wrong-keys");
        let body: Value = refused.json().await.expect("JSON");
        assert!(body["error"].as_str().is_some_and(|text| text.starts_with("Invalid API key")), "{body}");
        assert!(body["request_id"].is_string() && body["retry_after"].is_u64(), "{body}");
    }
    assert_eq!(send_key(&controller, other, &unknown).await.status(), StatusCode::UNAUTHORIZED);
    // A request without a key does not count.
    let bare = controller.bare(Method::GET, "/api/workspaces").header("x-forwarded-for", one);
    assert_eq!(fetch_json(bare).await.status, 401);
    // The correct key passes and resets the counter of wrong keys.
    let right = format!("Bearer {}", controller.key());
    assert_eq!(send_key(&controller, one, &right).await.status(), StatusCode::OK);
    assert_eq!(send_key(&controller, one, &unknown).await.status(), StatusCode::UNAUTHORIZED);
}

#[tokio::test(flavor = "multi_thread")]
async fn a18_an_address_that_nobody_vouches_for_is_no_way_around() {
    let controller = RunningController::boot().await;
    for turn in 0..20 {
        let from = format!("198.51.100.{turn}");
        assert_eq!(send_key(&controller, &from, "Bearer sk_live_x").await.status(), StatusCode::UNAUTHORIZED);
    }
    check_refusal(&send_key(&controller, "198.51.100.99", "Bearer sk_live_x").await, "wrong-keys");
}

#[tokio::test(flavor = "multi_thread")]
async fn a19_every_answer_tells_what_is_left() {
    let controller =
        RunningController::boot_with("[limits]\nrequests_per_second = 1\nrequest_burst = 50\n").await;
    let mut before = 50;
    for path in ["/workspaces", "/workspaces", "/computers/nonsense", "/keys?workspace_id=nonsense"] {
        let answer = controller.request(Method::GET, path).send().await.expect("an answer");
        assert_eq!(answer.headers()["ratelimit-policy"], "\"requests\";q=50;w=50", "{path}");
        let left = parameter(&answer, "ratelimit", "r");
        assert!(left < before, "{left} of {before} are left");
        assert_eq!(parameter(&answer, "ratelimit", "t"), left, "at one a second");
        before = left + 2;
    }
    let anonymous = controller.bare(Method::GET, "/api/workspaces").send().await.expect("an answer");
    assert!(!anonymous.headers().contains_key("ratelimit"), "an anonymous request has no key limit");
}

#[tokio::test(flavor = "multi_thread")]
async fn a19_no_spelling_is_a_way_around_the_limit() {
    let controller =
        RunningController::boot_with("[limits]\nrequests_per_second = 1\nrequest_burst = 5\n").await;
    let anonymous = uuid::Uuid::new_v4();
    let paths = [
        "/api/workspaces".to_owned(),
        "/workspaces".to_owned(),
        "/api/api/projects?x=1".to_owned(),
        "/api//workspaces".to_owned(),
        "//api/workspaces".to_owned(),
        "/api/Workspaces".to_owned(),
        "/API/workspaces".to_owned(),
        "/api/workspaces/".to_owned(),
        "/api%2fworkspaces".to_owned(),
        "/api/%77orkspaces".to_owned(),
        format!("/api/desktops/{anonymous}/proxy/health"),
        format!("/api/desktops/{anonymous}/proxy/%2fhealth"),
        format!("/desktops/{anonymous}/proxy//health"),
    ];
    let began = std::time::Instant::now();
    let asked = (0..8 * paths.len()).map(|turn| {
        let method = [Method::GET, Method::HEAD, Method::POST][turn % 3].clone();
        let claimed = format!("10.0.0.{turn}");
        let fields =
            [("x-forwarded-for", &*claimed), ("x-http-method-override", "GET"), ("x-real-ip", "1.2.3.4")];
        let request = controller.bare(method, &paths[turn % paths.len()]).bearer_auth(controller.key());
        fields.into_iter().fold(request, |request, (name, value)| request.header(name, value)).send()
    });
    let mut passed = 0;
    for answer in futures_util::future::join_all(asked).await {
        let answer = answer.expect("an answer");
        match answer.status().as_u16() {
            429 => drop(check_refusal(&answer, "requests")),
            // No such route or method: the controller did nothing for the key.
            404 | 405 if !answer.headers().contains_key("ratelimit") => {}
            _ => passed += 1,
        }
    }
    let most = 5 + began.elapsed().as_secs() + 1;
    assert!((5..=most).contains(&passed), "{passed} passed in {:?}", began.elapsed());
}
