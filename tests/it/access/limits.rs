//! How often may somebody ask, and how often be wrong? (access.md A18, A19)

use reqwest::{Method, Response, StatusCode};
use serde_json::Value;

use hotdesk::controller::auth::keys;

use crate::harness::agent::answered;
use crate::harness::controller::RunningController;

/// The whole number of a parameter of a structured field (RFC 9651).
fn parameter(answer: &Response, field: &str, name: &str) -> u64 {
    let text = answer.headers()[field].to_str().expect("text");
    let (_, rest) = text.split_once(&format!(";{name}=")).unwrap_or_else(|| panic!("{name} in {text}"));
    rest.split(';').next().and_then(|number| number.parse().ok()).expect("a whole number")
}

/// A 429 tells when to come back, in whole seconds, three times alike.
fn check_refusal(answer: &Response, policy: &str) -> u64 {
    assert_eq!(answer.status(), StatusCode::TOO_MANY_REQUESTS);
    let wait: u64 = answer.headers()["retry-after"].to_str().expect("text").parse().expect("whole seconds");
    assert!((1..=61).contains(&wait), "{wait}");
    assert!(answer.headers()["ratelimit"].to_str().expect("text").starts_with(&format!("\"{policy}\";")));
    let told = (parameter(answer, "ratelimit", "r"), parameter(answer, "ratelimit", "t"));
    assert_eq!(told, (0, wait));
    assert!(parameter(answer, "ratelimit-policy", "q") > 0 && parameter(answer, "ratelimit-policy", "w") > 0);
    wait
}

async fn wrong(house: &RunningController, from: &str, key: &str) -> Response {
    let request = house.bare(Method::GET, "/api/workspaces").header("x-forwarded-for", from);
    request.header("authorization", key).send().await.expect("an answer")
}

#[tokio::test(flavor = "multi_thread")]
async fn a18_wrong_keys_are_limited_by_source_and_shut_no_right_one_out() {
    let limits = "trusted_proxies = \"127.0.0.1\"\n[limits]\nwrong_keys_per_minute = 6\n";
    let house = RunningController::boot_with(limits).await;
    let (one, other) = ("198.51.100.1", "198.51.100.2");
    let unknown = format!("Bearer {}", keys::fresh().reveal());
    let kinds = [&*unknown, "Bearer sk_live_mistyped", "Basic c2s6c2s="];
    for turn in 0..6 {
        assert_eq!(wrong(&house, one, kinds[turn % 3]).await.status(), StatusCode::UNAUTHORIZED, "{turn}");
    }
    for kind in kinds {
        let refused = wrong(&house, one, kind).await;
        check_refusal(&refused, "wrong-keys");
        let body: Value = refused.json().await.expect("JSON");
        assert!(body["error"].as_str().is_some_and(|text| text.starts_with("Invalid API key")), "{body}");
        assert!(body["request_id"].is_string() && body["retry_after"].is_u64(), "{body}");
    }
    assert_eq!(wrong(&house, other, &unknown).await.status(), StatusCode::UNAUTHORIZED);
    // Nothing shown is nothing tried.
    let bare = house.bare(Method::GET, "/api/workspaces").header("x-forwarded-for", one);
    assert_eq!(answered(bare).await.status, 401);
    // The right key passes, and with it what was tried before is forgotten.
    let right = format!("Bearer {}", house.key());
    assert_eq!(wrong(&house, one, &right).await.status(), StatusCode::OK);
    assert_eq!(wrong(&house, one, &unknown).await.status(), StatusCode::UNAUTHORIZED);
}

#[tokio::test(flavor = "multi_thread")]
async fn a18_an_address_that_nobody_vouches_for_is_no_way_around() {
    let house = RunningController::boot().await;
    for turn in 0..20 {
        let from = format!("198.51.100.{turn}");
        assert_eq!(wrong(&house, &from, "Bearer sk_live_x").await.status(), StatusCode::UNAUTHORIZED);
    }
    check_refusal(&wrong(&house, "198.51.100.99", "Bearer sk_live_x").await, "wrong-keys");
}

#[tokio::test(flavor = "multi_thread")]
async fn a19_every_answer_tells_what_is_left() {
    let house = RunningController::boot_with("[limits]\nrequests_per_second = 1\nrequest_burst = 50\n").await;
    let mut before = 50;
    for path in ["/workspaces", "/workspaces", "/computers/nonsense", "/keys?workspace_id=nonsense"] {
        let answer = house.request(Method::GET, path).send().await.expect("an answer");
        assert_eq!(answer.headers()["ratelimit-policy"], "\"requests\";q=50;w=50", "{path}");
        let left = parameter(&answer, "ratelimit", "r");
        assert!(left < before, "{left} of {before} are left");
        assert_eq!(parameter(&answer, "ratelimit", "t"), left, "at one a second");
        before = left + 2;
    }
    let nobody = house.bare(Method::GET, "/api/workspaces").send().await.expect("an answer");
    assert!(!nobody.headers().contains_key("ratelimit"), "nobody has no limit of a key's");
}

#[tokio::test(flavor = "multi_thread")]
async fn a19_no_spelling_is_a_way_around_the_limit() {
    let house = RunningController::boot_with("[limits]\nrequests_per_second = 1\nrequest_burst = 5\n").await;
    let nobody = uuid::Uuid::new_v4();
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
        format!("/api/desktops/{nobody}/proxy/health"),
        format!("/api/desktops/{nobody}/proxy/%2fhealth"),
        format!("/desktops/{nobody}/proxy//health"),
    ];
    let began = std::time::Instant::now();
    let asked = (0..8 * paths.len()).map(|turn| {
        let method = [Method::GET, Method::HEAD, Method::POST][turn % 3].clone();
        let claimed = format!("10.0.0.{turn}");
        let fields =
            [("x-forwarded-for", &*claimed), ("x-http-method-override", "GET"), ("x-real-ip", "1.2.3.4")];
        let request = house.bare(method, &paths[turn % paths.len()]).bearer_auth(house.key());
        fields.into_iter().fold(request, |request, (name, value)| request.header(name, value)).send()
    });
    let mut passed = 0;
    for answer in futures_util::future::join_all(asked).await {
        let answer = answer.expect("an answer");
        match answer.status().as_u16() {
            429 => drop(check_refusal(&answer, "requests")),
            // No route, or a method that it has not: nothing was done for the key.
            404 | 405 if !answer.headers().contains_key("ratelimit") => {}
            _ => passed += 1,
        }
    }
    let most = 5 + began.elapsed().as_secs() + 1;
    assert!((5..=most).contains(&passed), "{passed} passed in {:?}", began.elapsed());
}
