//! Expiry of device codes, and limits of guesses and of open requests: A24, A27, A31, A32
//! (docs/authentication-rules.md).

use hotdesk::base::clock::Moment;
use hotdesk::domain::identity::api_key::MAX_KEYS;
use hotdesk::store::identity::oauth::device_codes::{CodeDigest, MAX_WAITING};
use reqwest::Method;
use serde_json::json;

use super::device::{boot_with_person, decide, poll, start, text};
use crate::harness::agent::fetch_json;
use crate::harness::browser::{Browser, page, person};
use crate::harness::simulation::Simulation;

#[tokio::test(flavor = "multi_thread")]
async fn a24_a_person_types_five_wrong_codes_and_no_more() {
    let (controller, browser) = boot_with_person().await;
    person(&controller.store().await, "bob@x.example").await;
    let bob = Browser::signed_in(&controller.base, "bob@x.example").await;
    let started = start(&controller).await;
    let right = text(&started, "user_code");
    // Malformed codes and the right code do not count as wrong.
    for _ in 0..10 {
        assert_eq!(browser.get("/cli/approve?code=hello").await.status, 400);
        assert_eq!(browser.get(&format!("/cli/approve?code={right}")).await.status, 200);
    }
    let wrong = if right.starts_with('B') { "CCCC-CCCC" } else { "BBBB-BBBB" };
    let mut statuses = Vec::new();
    for turn in 0..7 {
        // The page and its form share one count.
        statuses.push(match turn % 2 {
            0 => browser.get(&format!("/cli/approve?code={wrong}")).await.status,
            _ => decide(&browser, wrong, "approve").await,
        });
    }
    assert_eq!(statuses, [404, 404, 404, 404, 404, 429, 429]);
    let waits = browser.get(&format!("/cli/approve?code={right}")).await;
    assert_eq!(waits.status, 429);
    let seconds: u32 = waits.headers["retry-after"].to_str().expect("text").parse().expect("whole seconds");
    assert!((1..=901).contains(&seconds), "{seconds}");
    assert_eq!(decide(&browser, right, "approve").await, 429);
    assert_eq!(decide(&bob, right, "approve").await, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a24_no_other_site_s_page_uses_up_a_person_s_wrong_codes() {
    let (controller, browser) = boot_with_person().await;
    let started = start(&controller).await;
    let right = text(&started, "user_code");
    let wrong = if right.starts_with('B') { "CCCC-CCCC" } else { "BBBB-BBBB" };
    let open_from = |code: &str, site: &'static str| {
        page(
            browser.request(Method::GET, &format!("/cli/approve?code={code}")).header("sec-fetch-site", site),
        )
    };
    for site in ["cross-site", "same-site"] {
        for code in [wrong, wrong, wrong, wrong, wrong, wrong, right] {
            let page_shown = open_from(code, site).await;
            assert_eq!(page_shown.status, 200, "{site}: {}", page_shown.text);
            assert!(page_shown.text.contains(&format!("value=\"{code}\"")), "{}", page_shown.text);
            assert!(!page_shown.text.contains("buildbox") && !page_shown.text.contains("value=\"approve\""));
        }
    }
    // A click on that form, and a link that a program opened.
    for site in ["same-origin", "none"] {
        let page_shown = open_from(right, site).await;
        assert!(page_shown.text.contains("buildbox"), "{}", page_shown.text);
        assert_eq!(open_from(wrong, site).await.status, 404);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_gets_no_key_beyond_those_that_an_account_may_have() {
    let (controller, browser) = boot_with_person().await;
    let started = start(&controller).await;
    let user = text(&started, "user_code");
    let many = format!(
        "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {MAX_KEYS}) \
         INSERT INTO api_keys (id, account_id, name, digest, last_four, created_at) \
         SELECT 'key ' || i, accounts.id, 'filler', 'digest ' || i, '', 1 FROM n, accounts \
         WHERE accounts.email = 'ada@x.example'"
    );
    controller.sql(&many).await;
    assert_eq!(decide(&browser, user, "approve").await, 403);
    assert_eq!(poll(&controller, text(&started, "device_code")).await.body["status"], "pending");
    controller.sql("DELETE FROM api_keys WHERE id = 'key 1'").await;
    assert_eq!(decide(&browser, user, "approve").await, 200);
    assert_eq!(poll(&controller, text(&started, "device_code")).await.body["status"], "approved");
}

/// Changes of the clocks in ms: the host's clock since boot, the wall clock, whether the host has rebooted;
/// and whether the request is still valid.
const CLOCKS: [(i64, i64, bool, bool); 10] = [
    (0, 0, false, true),
    (870_000, 870_000, false, true),
    (0, 3_600_000, false, true),
    (0, -3_600_000, false, true),
    (900_000, 900_000, false, false),
    (900_000, 900_000 + 3_600_000, false, false),
    (900_000, 900_000 - 3_600_000, false, false),
    (0, 60_000, true, true),
    (0, 900_000, true, false),
    (0, -3_600_000, true, false),
];

#[tokio::test(flavor = "multi_thread")]
async fn a27_a_request_ends_in_time_whatever_is_done_to_the_clocks() {
    let (controller, browser) = boot_with_person().await;
    for (up, wall, booted, alive) in CLOCKS {
        let started = start(&controller).await;
        let boot = if booted { "'another'" } else { "boot_id" };
        // An earlier start simulates elapsed time.
        let shift = format!(
            "UPDATE device_requests SET began_up_ms = began_up_ms - {up}, began_at = began_at - {wall}, boot_id = {boot}"
        );
        controller.sql(&shift).await;
        let polled = poll(&controller, text(&started, "device_code")).await.body;
        let status = if alive { "pending" } else { "expired" };
        assert_eq!(polled["status"], status, "up {up}, wall {wall}, booted {booted}");
        if alive {
            // Removes the request before the next case.
            assert_eq!(decide(&browser, text(&started, "user_code"), "deny").await, 200);
            poll(&controller, text(&started, "device_code")).await;
        } else {
            person(&controller.store().await, &format!("{up}{wall}{booted}@x.example")).await;
            let other = Browser::signed_in(&controller.base, &format!("{up}{wall}{booted}@x.example")).await;
            assert_eq!(decide(&other, text(&started, "user_code"), "approve").await, 404);
            assert_eq!(poll(&controller, text(&started, "device_code")).await.body["status"], "expired");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a27_a_key_that_nobody_fetched_in_time_is_nobodys() {
    let (controller, browser) = boot_with_person().await;
    let store = controller.store().await;
    let started = start(&controller).await;
    assert_eq!(decide(&browser, text(&started, "user_code"), "approve").await, 200);
    controller.sql("UPDATE device_requests SET began_up_ms = began_up_ms - 900000").await;
    assert_eq!(poll(&controller, text(&started, "device_code")).await.body["status"], "expired");
    // The next start removes both the request and the key.
    controller.sql("UPDATE api_keys SET digest = 'known' WHERE name LIKE 'CLI on %'").await;
    assert!(store.key_owner("known").await.expect("the store").is_some());
    start(&controller).await;
    assert!(store.key_owner("known").await.expect("the store").is_none());
    // A key that is deleted before the poll is not handed out.
    let started = start(&controller).await;
    assert_eq!(decide(&browser, text(&started, "user_code"), "approve").await, 200);
    controller.sql("DELETE FROM api_keys WHERE name LIKE 'CLI on %'").await;
    assert_eq!(poll(&controller, text(&started, "device_code")).await.body["status"], "expired");
}

#[tokio::test(flavor = "multi_thread")]
async fn a31_a_denial_is_final_and_told_once() {
    let (controller, browser) = boot_with_person().await;
    let started = start(&controller).await;
    let (device, user) = (text(&started, "device_code"), text(&started, "user_code"));
    assert_eq!(decide(&browser, user, "deny").await, 200);
    assert_eq!(decide(&browser, user, "approve").await, 404);
    let answers = futures_util::future::join_all((0..20).map(|_| poll(&controller, device))).await;
    let denied = answers.iter().filter(|answer| answer.body == json!({"status": "denied"})).count();
    assert_eq!(denied, 1, "{answers:?}");
    assert!(answers.iter().all(|answer| answer.body["api_key"].is_null()));
    assert_eq!(poll(&controller, device).await.body, json!({"status": "expired"}));
    assert_eq!(decide(&browser, user, "approve").await, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn a32_starts_are_limited_by_source() {
    let controller = Simulation::boot_behind_a_proxy().await;
    let from = |address: &str| {
        let request = controller.bare(Method::POST, "/api/cli/auth/start").header("x-forwarded-for", address);
        fetch_json(request.json(&json!({"client": "c", "hostname": "h"})))
    };
    let answers = futures_util::future::join_all((0..40).map(|_| from("192.0.2.1"))).await;
    assert_eq!(answers.iter().filter(|answer| answer.status == 200).count(), 30);
    let refused = answers.iter().find(|answer| answer.status == 429).expect("one");
    assert!(
        refused.body["retry_after"].as_u64().is_some_and(|wait| (1..=61).contains(&wait)),
        "{}",
        refused.body
    );
    assert_eq!(from("192.0.2.2").await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a32_of_too_many_that_wait_the_one_that_waited_longest_goes() {
    let (controller, browser) = boot_with_person().await;
    let store = controller.store().await;
    let first = start(&controller).await;
    let second = start(&controller).await;
    assert_eq!(decide(&browser, text(&first, "user_code"), "approve").await, 200);
    let began = Moment::now().expect("the clocks");
    let Moment { wall, boot_id, up_ms } = &began;
    let many = format!(
        "WITH RECURSIVE n (i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < {MAX_WAITING} - 1) \
         INSERT INTO device_requests (device_digest, user_digest, client, hostname, source, status, began_at, \
         boot_id, began_up_ms) SELECT 'device ' || i, 'user ' || i, 'c', 'h', 's', 'pending', {}, \
         '{boot_id}', {up_ms} FROM n",
        wall.as_i64()
    );
    controller.sql(&many).await;
    assert_eq!(poll(&controller, text(&second, "device_code")).await.body["status"], "pending");
    start(&controller).await;
    assert_eq!(poll(&controller, text(&second, "device_code")).await.body["status"], "expired");
    assert!(store.device(CodeDigest::Device("device 2"), &began).await.expect("the store").is_some());
    // An approved request is not evicted by new ones.
    assert_eq!(poll(&controller, text(&first, "device_code")).await.body["status"], "approved");
}
