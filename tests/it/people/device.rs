//! Does a program get a key by a person's approval, and only so? (access.md A21-A23, A25, A26, A28-A30; RFC 8628)

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::browser::{Browser, person};
use crate::harness::caller::{Answered, Caller};
use crate::harness::simulation::Simulation;

/// Begins to ask for a key, as an existing client does.
pub async fn start(house: &Caller) -> Value {
    let body = json!({"client": "bops <b>CLI</b>", "hostname": "build\u{202e}box"});
    let answer = house.bare(Method::POST, "/api/cli/auth/start").json(&body).send().await.expect("an answer");
    assert_eq!(answer.status(), 200);
    assert_eq!(answer.headers()["cache-control"], "no-store");
    answer.json().await.expect("JSON")
}

pub async fn poll(house: &Caller, code: &str) -> Answered {
    let request = house.bare(Method::POST, "/api/cli/auth/poll").json(&json!({ "device_code": code }));
    crate::harness::agent::answered(request).await
}

pub fn text<'a>(record: &'a Value, field: &str) -> &'a str {
    record[field].as_str().unwrap_or_else(|| panic!("no {field} in {record}"))
}

/// A house, and a person who is signed in there.
pub async fn house_and_person() -> (Simulation, Browser) {
    let house = Simulation::boot().await;
    person(&house.store().await, "ada@x.example").await;
    let browser = Browser::signed_in(&house.base, "ada@x.example").await;
    (house, browser)
}

pub async fn decide(browser: &Browser, code: &str, decision: &str) -> u16 {
    browser.post("/cli/approve", &[("code", code), ("decision", decision)]).await.status
}

#[tokio::test(flavor = "multi_thread")]
async fn a21_a_start_tells_the_codes_and_their_times() {
    let house = Simulation::boot().await;
    let started = start(&house).await;
    assert_eq!((&started["interval_seconds"], &started["expires_in_seconds"]), (&json!(5), &json!(900)));
    let page = format!("{}/cli/approve", house.base);
    assert_eq!(started["verification_uri"], page);
    assert_eq!(started["verification_uri_complete"], format!("{page}?code={}", text(&started, "user_code")));
    let other = start(&house).await;
    assert_ne!(started["device_code"], other["device_code"]);
    assert_ne!(started["user_code"], other["user_code"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a22_codes_are_long_hashed_and_not_shown() {
    let (house, browser) = house_and_person().await;
    let started = start(&house).await;
    let (device, user) = (text(&started, "device_code"), text(&started, "user_code"));
    // 43 of 62 characters are 256 bits.
    assert!(device.len() == 43 && device.bytes().all(|byte| byte.is_ascii_alphanumeric()), "{device}");
    let page = browser.get(&format!("/cli/approve?code={user}")).await.text;
    assert!(!page.contains(device));
    for file in ["db", "db-wal"] {
        let bytes = std::fs::read(house.store_file().with_extension(file)).expect("the store's file");
        for secret in [device, user, &*user.replace('-', "")] {
            let kept = bytes.windows(secret.len()).any(|window| window == secret.as_bytes());
            assert!(!kept, "{file} holds a code");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a23_a_user_code_is_eight_letters_and_typed_as_people_type() {
    let (house, browser) = house_and_person().await;
    let started = start(&house).await;
    let code = text(&started, "user_code");
    let (first, second) = code.split_once('-').expect("a hyphen in the middle");
    assert_eq!((first.len(), second.len()), (4, 4));
    assert!((first.to_owned() + second).chars().all(|c| "BCDFGHJKLMNPQRSTVWXZ".contains(c)), "{code}");
    let typed = format!("%20{}.+{}!", first.to_lowercase(), second.to_lowercase());
    let page = browser.get(&format!("/cli/approve?code={typed}")).await;
    assert_eq!(page.status, 200, "{}", page.text);
    assert!(page.text.contains(code), "{}", page.text);
    assert_eq!(decide(&browser, &format!(" {} {second}", first.to_lowercase()), "approve").await, 200);
    assert_eq!(poll(&house, text(&started, "device_code")).await.body["status"], "approved");
}

#[tokio::test(flavor = "multi_thread")]
async fn a25_no_poll_before_the_approval_has_a_key_and_dead_codes_are_alike() {
    let (house, browser) = house_and_person().await;
    let (used, over) = (start(&house).await, start(&house).await);
    let pending = poll(&house, text(&used, "device_code")).await;
    assert_eq!(pending.body, json!({"status": "pending", "interval_seconds": 5}));
    assert_eq!(decide(&browser, text(&used, "user_code"), "approve").await, 200);
    let approved = poll(&house, text(&used, "device_code")).await.body;
    assert_eq!(approved["user"]["email"], "ada@x.example");
    let key = text(&approved, "api_key");
    assert!(key.starts_with("sk_live_"), "{approved}");
    house.sql("UPDATE device_requests SET began_up_ms = began_up_ms - 900000").await;
    // Neither code is good in the other's place.
    for code in
        ["", "unknown", text(&used, "device_code"), text(&over, "device_code"), text(&over, "user_code"), key]
    {
        let dead = poll(&house, code).await;
        assert_eq!((dead.status, dead.body), (200, json!({"status": "expired"})), "{code}");
    }
    // The key is the person's own, account-wide, and named after the host.
    let made = Caller::new(house.base.clone(), "/api", key.to_owned());
    assert_eq!(made.get("/user/profile").await.body["email"], "ada@x.example");
    assert_eq!(made.post("/workspaces", json!({"name": "mine"})).await.status, 201);
}

#[tokio::test(flavor = "multi_thread")]
async fn a26_who_polls_too_fast_is_told_to_wait_longer() {
    let house = Simulation::boot().await;
    let (fast, slow) = (start(&house).await, start(&house).await);
    for interval in (5..=60).step_by(5) {
        let told = poll(&house, text(&fast, "device_code")).await;
        assert_eq!((told.status, &told.body["interval_seconds"]), (200, &json!(interval)), "{}", told.body);
        assert_eq!(told.body["status"], "pending");
    }
    let flood = poll(&house, text(&fast, "device_code")).await;
    assert_eq!((flood.status, &flood.body["retry_after"]), (429, &json!(60)), "{}", flood.body);
    // Another's pace is its own.
    assert_eq!(poll(&house, text(&slow, "device_code")).await.body["interval_seconds"], 5);
    // Who asks for what is not there is slowed down as well, and nobody else by that.
    let strays = futures_util::future::join_all((0..130).map(|n| poll(&house, ["a", "b"][n % 2]))).await;
    assert_eq!(strays.iter().filter(|stray| stray.status == 200).count(), 120);
    assert!(strays.iter().all(|stray| [200, 429].contains(&stray.status)));
    assert_eq!(poll(&house, text(&slow, "device_code")).await.body["status"], "pending");
}

#[tokio::test(flavor = "multi_thread")]
async fn a28_of_fifty_polls_at_once_one_gets_the_key() {
    let (mut house, browser) = house_and_person().await;
    let started = start(&house).await;
    let (device, user) = (text(&started, "device_code"), text(&started, "user_code"));
    // The codes are in the store: the controller that answers may be another than the one that was asked.
    house.restart().await;
    let browser = browser.at(&house.base);
    assert_eq!(decide(&browser, user, "approve").await, 200);
    house.restart().await;
    let answers = futures_util::future::join_all((0..50).map(|_| poll(&house, device))).await;
    let keys: Vec<_> = answers.iter().filter_map(|answer| answer.body["api_key"].as_str()).collect();
    assert_eq!(keys.len(), 1, "{answers:?}");
    let expired = answers.iter().filter(|answer| answer.body["status"] == "expired").count();
    assert_eq!(expired, 49, "{answers:?}");
    let made = Caller::new(house.base.clone(), "/api", keys[0].to_owned());
    assert_eq!(made.get("/workspaces").await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a29_only_a_form_of_a_signed_in_person_approves() {
    let (house, browser) = house_and_person().await;
    let started = start(&house).await;
    let (device, user) = (text(&started, "device_code"), text(&started, "user_code"));
    let stranger = Browser::new(&house.base);
    let path = format!("/cli/approve?code={user}&decision=approve");
    let sent = stranger.get(&path).await;
    assert_eq!(sent.status, 303);
    assert!(sent.location().starts_with("/sign-in?next=%2Fcli%2Fapprove%3Fcode%3D"), "{}", sent.location());
    let fields = [("code", user), ("decision", "approve")];
    assert_eq!(stranger.send("/cli/approve", &fields).await.status, 303);
    // With the cookie, but not from the page.
    assert_eq!(browser.send("/cli/approve", &fields).await.status, 403);
    let asked = browser.get(&path).await;
    let field = |name: &str| asked.headers[name].to_str().expect("text").to_owned();
    assert!(field("content-security-policy").contains("frame-ancestors 'none'"));
    assert!(!field("content-security-policy").contains("script-src"), "no script runs there at all");
    assert_eq!(
        (field("x-frame-options"), field("cache-control")),
        ("DENY".to_owned(), "no-store".to_owned())
    );
    assert_eq!(poll(&house, device).await.body["status"], "pending");
    assert_eq!(decide(&browser, user, "maybe").await, 400);
    assert_eq!(poll(&house, device).await.body["status"], "pending");
    assert_eq!(decide(&browser, user, "approve").await, 200);
    assert_eq!(poll(&house, device).await.body["status"], "approved");
}

#[tokio::test(flavor = "multi_thread")]
async fn a30_the_page_says_which_program_asks_from_where() {
    let (house, browser) = house_and_person().await;
    let started = start(&house).await;
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
    // What is long is cut.
    let long = json!({"client": "x".repeat(100_000), "hostname": "y".repeat(100_000)});
    let request = house.bare(Method::POST, "/api/cli/auth/start").json(&long);
    let started = crate::harness::agent::answered(request).await.body;
    let page = browser.get(&format!("/cli/approve?code={}", text(&started, "user_code"))).await.text;
    assert!(page.contains(&"x".repeat(64)) && !page.contains(&"x".repeat(65)));
    // And behind a proxy, from where it came to that.
    let house = Simulation::boot_behind_a_proxy().await;
    person(&house.store().await, "ada@x.example").await;
    let browser = Browser::signed_in(&house.base, "ada@x.example").await;
    let request = house.bare(Method::POST, "/api/cli/auth/start").header("x-forwarded-for", "192.0.2.7");
    let started = crate::harness::agent::answered(request.json(&json!({}))).await.body;
    let page = browser.get(&format!("/cli/approve?code={}", text(&started, "user_code"))).await.text;
    assert!(page.contains("192.0.2.7") && page.contains("unknown"), "{page}");
}
