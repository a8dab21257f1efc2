//! Device authorization (RFC 8628): a program gets a key only after a person's approval. A21-A23, A25, A26,
//! A28-A30 (docs/authentication-rules.md).

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::browser::{Browser, person};
use crate::harness::caller::{Caller, HttpAnswer};
use crate::harness::simulation::Simulation;

/// Starts a device authorization, as the command-line client does.
pub async fn start(controller: &Caller) -> Value {
    let body = json!({"client": "bops <b>CLI</b>", "hostname": "build\u{202e}box"});
    let answer =
        controller.bare(Method::POST, "/api/cli/auth/start").json(&body).send().await.expect("an answer");
    assert_eq!(answer.status(), 200);
    assert_eq!(answer.headers()["cache-control"], "no-store");
    answer.json().await.expect("JSON")
}

pub async fn poll(controller: &Caller, code: &str) -> HttpAnswer {
    let request = controller.bare(Method::POST, "/api/cli/auth/poll").json(&json!({ "device_code": code }));
    crate::harness::agent::fetch_json(request).await
}

pub fn text<'a>(record: &'a Value, field: &str) -> &'a str {
    record[field].as_str().unwrap_or_else(|| panic!("no {field} in {record}"))
}

/// A controller and the browser of a signed-in person.
pub async fn boot_with_person() -> (Simulation, Browser) {
    let controller = Simulation::boot().await;
    person(&controller.store().await, "ada@x.example").await;
    let browser = Browser::signed_in(&controller.base, "ada@x.example").await;
    (controller, browser)
}

pub async fn decide(browser: &Browser, code: &str, decision: &str) -> u16 {
    browser.post("/cli/approve", &[("code", code), ("decision", decision)]).await.status
}

#[tokio::test(flavor = "multi_thread")]
async fn a21_a_start_tells_the_codes_and_their_times() {
    let controller = Simulation::boot().await;
    let started = start(&controller).await;
    assert_eq!((&started["interval_seconds"], &started["expires_in_seconds"]), (&json!(5), &json!(900)));
    let page = format!("{}/cli/approve", controller.base);
    assert_eq!(started["verification_uri"], page);
    assert_eq!(started["verification_uri_complete"], format!("{page}?code={}", text(&started, "user_code")));
    let other = start(&controller).await;
    assert_ne!(started["device_code"], other["device_code"]);
    assert_ne!(started["user_code"], other["user_code"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a22_codes_are_long_hashed_and_not_shown() {
    let (controller, browser) = boot_with_person().await;
    let started = start(&controller).await;
    let (device, user) = (text(&started, "device_code"), text(&started, "user_code"));
    // 43 characters of an alphabet of 62 are 256 bits.
    assert!(device.len() == 43 && device.bytes().all(|byte| byte.is_ascii_alphanumeric()), "{device}");
    let page = browser.get(&format!("/cli/approve?code={user}")).await.text;
    assert!(!page.contains(device));
    for file in ["db", "db-wal"] {
        let bytes = std::fs::read(controller.store_file().with_extension(file)).expect("the store's file");
        for secret in [device, user, &*user.replace('-', "")] {
            let found = bytes.windows(secret.len()).any(|window| window == secret.as_bytes());
            assert!(!found, "{file} contains a code");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a23_a_user_code_is_eight_letters_and_typed_as_people_type() {
    let (controller, browser) = boot_with_person().await;
    let started = start(&controller).await;
    let code = text(&started, "user_code");
    let (first, second) = code.split_once('-').expect("a hyphen in the middle");
    assert_eq!((first.len(), second.len()), (4, 4));
    assert!((first.to_owned() + second).chars().all(|c| "BCDFGHJKLMNPQRSTVWXZ".contains(c)), "{code}");
    let typed = format!("%20{}.+{}!", first.to_lowercase(), second.to_lowercase());
    let page = browser.get(&format!("/cli/approve?code={typed}")).await;
    assert_eq!(page.status, 200, "{}", page.text);
    assert!(page.text.contains(code), "{}", page.text);
    assert_eq!(decide(&browser, &format!(" {} {second}", first.to_lowercase()), "approve").await, 200);
    assert_eq!(poll(&controller, text(&started, "device_code")).await.body["status"], "approved");
}

#[tokio::test(flavor = "multi_thread")]
async fn a25_no_poll_before_the_approval_has_a_key_and_dead_codes_are_alike() {
    let (controller, browser) = boot_with_person().await;
    let (used, over) = (start(&controller).await, start(&controller).await);
    let pending = poll(&controller, text(&used, "device_code")).await;
    assert_eq!(pending.body, json!({"status": "pending", "interval_seconds": 5}));
    assert_eq!(decide(&browser, text(&used, "user_code"), "approve").await, 200);
    let approved = poll(&controller, text(&used, "device_code")).await.body;
    assert_eq!(approved["user"]["email"], "ada@x.example");
    let key = text(&approved, "api_key");
    assert!(key.starts_with("sk_live_"), "{approved}");
    controller.sql("UPDATE device_requests SET began_up_ms = began_up_ms - 900000").await;
    // A user code is not valid as a device code, and dead codes all look alike.
    for code in
        ["", "unknown", text(&used, "device_code"), text(&over, "device_code"), text(&over, "user_code"), key]
    {
        let dead = poll(&controller, code).await;
        assert_eq!((dead.status, dead.body), (200, json!({"status": "expired"})), "{code}");
    }
    // The key belongs to the person, covers the account, and has the host's name.
    let caller = Caller::new(controller.base.clone(), "/api", key.to_owned());
    assert_eq!(caller.get("/user/profile").await.body["email"], "ada@x.example");
    assert_eq!(caller.post("/workspaces", json!({"name": "mine"})).await.status, 201);
}

#[tokio::test(flavor = "multi_thread")]
async fn a26_who_polls_too_fast_is_told_to_wait_longer() {
    let controller = Simulation::boot().await;
    let (fast, slow) = (start(&controller).await, start(&controller).await);
    for interval in (5..=60).step_by(5) {
        let polled = poll(&controller, text(&fast, "device_code")).await;
        assert_eq!(
            (polled.status, &polled.body["interval_seconds"]),
            (200, &json!(interval)),
            "{}",
            polled.body
        );
        assert_eq!(polled.body["status"], "pending");
    }
    let flood = poll(&controller, text(&fast, "device_code")).await;
    assert_eq!((flood.status, &flood.body["retry_after"]), (429, &json!(60)), "{}", flood.body);
    // Another device's interval does not change.
    assert_eq!(poll(&controller, text(&slow, "device_code")).await.body["interval_seconds"], 5);
    // Polls with unknown codes are limited too, without an effect on others.
    let unknown =
        futures_util::future::join_all((0..130).map(|n| poll(&controller, ["a", "b"][n % 2]))).await;
    assert_eq!(unknown.iter().filter(|answer| answer.status == 200).count(), 120);
    assert!(unknown.iter().all(|answer| [200, 429].contains(&answer.status)));
    assert_eq!(poll(&controller, text(&slow, "device_code")).await.body["status"], "pending");
}

#[tokio::test(flavor = "multi_thread")]
async fn a28_of_fifty_polls_at_once_one_gets_the_key() {
    let (mut controller, browser) = boot_with_person().await;
    let started = start(&controller).await;
    let (device, user) = (text(&started, "device_code"), text(&started, "user_code"));
    // The codes are in the store: another controller process may answer the poll.
    controller.restart().await;
    let browser = browser.at(&controller.base);
    assert_eq!(decide(&browser, user, "approve").await, 200);
    controller.restart().await;
    let answers = futures_util::future::join_all((0..50).map(|_| poll(&controller, device))).await;
    let keys: Vec<_> = answers.iter().filter_map(|answer| answer.body["api_key"].as_str()).collect();
    assert_eq!(keys.len(), 1, "{answers:?}");
    let expired = answers.iter().filter(|answer| answer.body["status"] == "expired").count();
    assert_eq!(expired, 49, "{answers:?}");
    let caller = Caller::new(controller.base.clone(), "/api", keys[0].to_owned());
    assert_eq!(caller.get("/workspaces").await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a29_only_a_form_of_a_signed_in_person_approves() {
    let (controller, browser) = boot_with_person().await;
    let started = start(&controller).await;
    let (device, user) = (text(&started, "device_code"), text(&started, "user_code"));
    let stranger = Browser::new(&controller.base);
    let path = format!("/cli/approve?code={user}&decision=approve");
    let sent = stranger.get(&path).await;
    assert_eq!(sent.status, 303);
    assert!(sent.location().starts_with("/sign-in?next=%2Fcli%2Fapprove%3Fcode%3D"), "{}", sent.location());
    let fields = [("code", user), ("decision", "approve")];
    assert_eq!(stranger.send("/cli/approve", &fields).await.status, 303);
    // With the cookie, but without the CSRF token.
    assert_eq!(browser.send("/cli/approve", &fields).await.status, 403);
    let asked = browser.get(&path).await;
    let field = |name: &str| asked.headers[name].to_str().expect("text").to_owned();
    assert!(field("content-security-policy").contains("frame-ancestors 'none'"));
    assert!(!field("content-security-policy").contains("script-src"), "the page must not run scripts");
    assert_eq!(
        (field("x-frame-options"), field("cache-control")),
        ("DENY".to_owned(), "no-store".to_owned())
    );
    assert_eq!(poll(&controller, device).await.body["status"], "pending");
    assert_eq!(decide(&browser, user, "maybe").await, 400);
    assert_eq!(poll(&controller, device).await.body["status"], "pending");
    assert_eq!(decide(&browser, user, "approve").await, 200);
    assert_eq!(poll(&controller, device).await.body["status"], "approved");
}

#[tokio::test(flavor = "multi_thread")]
async fn a30_the_page_says_which_program_asks_from_where() {
    let (controller, browser) = boot_with_person().await;
    let started = start(&controller).await;
    let page = browser.get(&format!("/cli/approve?code={}", text(&started, "user_code"))).await.text;
    for shown in [
        text(&started, "user_code"),
        "bops &lt;b&gt;CLI&lt;/b&gt;",
        "buildbox",
        "this machine",
        "only if you started this",
        "value=\"deny\"",
    ] {
        assert!(page.contains(shown), "{shown} is not in {page}");
    }
    assert!(!page.contains("<b>") && !page.contains('\u{202e}'), "{page}");
    // Long names are truncated.
    let long = json!({"client": "x".repeat(100_000), "hostname": "y".repeat(100_000)});
    let request = controller.bare(Method::POST, "/api/cli/auth/start").json(&long);
    let started = crate::harness::agent::fetch_json(request).await.body;
    let page = browser.get(&format!("/cli/approve?code={}", text(&started, "user_code"))).await.text;
    assert!(page.contains(&"x".repeat(64)) && !page.contains(&"x".repeat(65)));
    // Behind a trusted proxy, the page shows the forwarded address.
    let controller = Simulation::boot_behind_a_proxy().await;
    person(&controller.store().await, "ada@x.example").await;
    let browser = Browser::signed_in(&controller.base, "ada@x.example").await;
    let request = controller.bare(Method::POST, "/api/cli/auth/start").header("x-forwarded-for", "192.0.2.7");
    let started = crate::harness::agent::fetch_json(request.json(&json!({}))).await.body;
    let page = browser.get(&format!("/cli/approve?code={}", text(&started, "user_code"))).await.text;
    assert!(page.contains("192.0.2.7") && page.contains("unknown"), "{page}");
}
