//! Does a person get through with a real browser? Chromium signs in, compares a code and approves, without a script.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::device::{poll, start, text};
use crate::harness::browser::{PASSWORD, person};
use crate::harness::simulation::Simulation;
use crate::vnc::puppet::Puppet;

/// Waits until the page's text has something in it; while one page gives way to another there is none to ask.
fn until_it_says(browser: &mut Puppet, what: &str) -> String {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let look = browser.order(&json!({"do": "look", "script": "document.body.innerText"}));
        let said = look.as_ref().ok().and_then(Value::as_str).unwrap_or_default();
        if said.contains(what) {
            return said.to_owned();
        }
        assert!(Instant::now() < deadline, "{what:?} is not in {look:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_signs_in_and_approves_a_program() {
    let house = Simulation::boot().await;
    person(&house.store().await, "ada@x.example").await;
    let Some(mut browser) = Puppet::chromium() else { return };
    let started = start(&house).await;
    browser.does("open", json!({"url": started["verification_uri_complete"]}));
    until_it_says(&mut browser, "Password");
    browser.does("fill", json!({"where": "input[name=email]", "text": "Ada@x.example"}));
    browser.does("fill", json!({"where": "input[name=password]", "text": PASSWORD}));
    browser.does("press", json!({"keys": "Enter"}));
    let asked = until_it_says(&mut browser, text(&started, "user_code"));
    assert!(asked.contains("bops <b>CLI</b>") && asked.contains("buildbox"), "{asked}");
    assert!(asked.contains("Approve only if you started this yourself."), "{asked}");
    assert_eq!(poll(&house, text(&started, "device_code")).await.body["status"], "pending");
    browser.does("click", json!({"where": "button[value=approve]"}));
    let done = until_it_says(&mut browser, "Approved");
    assert!(done.contains("has its key in a moment"), "{done}");
    assert_eq!(poll(&house, text(&started, "device_code")).await.body["status"], "approved");

    // The settings, and out again; whoever goes back then is asked to sign in.
    browser.does("open", json!({"url": format!("{}/settings", house.base)}));
    assert!(until_it_says(&mut browser, "Signed in as").contains("ada@x.example"));
    browser.does("click", json!({"where": "form[action='/sign-out'] button"}));
    until_it_says(&mut browser, "Sign in");
    browser.does("open", json!({"url": format!("{}/settings", house.base)}));
    until_it_says(&mut browser, "Password");
    assert_eq!(browser.does("complaints", json!({})), json!([]), "nothing that its policy forbids");
}
