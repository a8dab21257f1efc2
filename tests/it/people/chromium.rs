//! Device authorization in a real browser: Chromium signs in, compares the code and approves, without
//! JavaScript.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::device::{poll, start, text};
use crate::harness::browser::{PASSWORD, person};
use crate::harness::simulation::Simulation;
use crate::vnc::puppet::PythonDriver;

/// Waits until the page contains a text, and returns the page's text. During a navigation there is no page to
/// query.
pub fn wait_for_text(browser: &mut PythonDriver, what: &str) -> String {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let result = browser.command(&json!({"do": "look", "script": "document.body.innerText"}));
        let text = result.as_ref().ok().and_then(Value::as_str).unwrap_or_default();
        if text.contains(what) {
            return text.to_owned();
        }
        assert!(Instant::now() < deadline, "{what:?} is not in {result:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_signs_in_and_approves_a_program() {
    let controller = Simulation::boot().await;
    person(&controller.store().await, "ada@x.example").await;
    let Some(mut browser) = PythonDriver::chromium() else { return };
    let started = start(&controller).await;
    browser.run("open", json!({"url": started["verification_uri_complete"]}));
    wait_for_text(&mut browser, "Password");
    browser.run("fill", json!({"where": "input[name=email]", "text": "Ada@x.example"}));
    browser.run("fill", json!({"where": "input[name=password]", "text": PASSWORD}));
    browser.run("press", json!({"keys": "Enter"}));
    let asked = wait_for_text(&mut browser, text(&started, "user_code"));
    assert!(asked.contains("bops <b>CLI</b>") && asked.contains("buildbox"), "{asked}");
    assert!(asked.contains("Approve only if you started this yourself."), "{asked}");
    assert_eq!(poll(&controller, text(&started, "device_code")).await.body["status"], "pending");
    browser.run("click", json!({"where": "button[value=approve]"}));
    let done = wait_for_text(&mut browser, "Approved");
    assert!(done.contains("receives its key in a moment"), "{done}");
    assert_eq!(poll(&controller, text(&started, "device_code")).await.body["status"], "approved");

    // The settings and the sign-out; after that, the settings require a sign-in.
    browser.run("open", json!({"url": format!("{}/settings", controller.base)}));
    assert!(wait_for_text(&mut browser, "Signed in as").contains("ada@x.example"));
    browser.run("click", json!({"where": "form[action='/sign-out'] button"}));
    wait_for_text(&mut browser, "Sign in");
    browser.run("open", json!({"url": format!("{}/settings", controller.base)}));
    wait_for_text(&mut browser, "Password");
    assert_eq!(
        browser.run("complaints", json!({})),
        json!([]),
        "no violation of the content security policy"
    );
}
