//! Pages of computers in a real browser that is signed in to the service (T4, docs/security.md).

use serde_json::{Value, json};

use super::links::link;
use super::open::boot;
use crate::harness::controller::RunningController;
use crate::people::chromium::wait_for_text;
use crate::vnc::puppet::PythonDriver;

/// Signs the browser in to the service.
async fn sign_in(browser: &mut PythonDriver, controller: &RunningController, base: &str) {
    let made = controller.create("/user/sign-in-links", json!({})).await;
    let url = made["url"].as_str().expect("a link");
    let (_, path) = url.split_once("/sign-in/").expect("a link");
    browser.run("open", json!({"url": format!("{base}/sign-in/{path}")}));
    // The console's script shows who is signed in.
    wait_for_text(browser, "operator@localhost");
    browser.run("open", json!({"url": format!("{base}/settings")}));
    wait_for_text(browser, "Signed in as");
}

/// What a page of the computer saw when it tried to reach the service.
fn visit(browser: &mut PythonDriver, url: &str, service: &str) -> Value {
    browser.run("open", json!({"url": format!("{url}page?service={service}")}));
    let seen = wait_for_text(browser, "\"socket\"");
    serde_json::from_str(&seen).expect("JSON")
}

fn check_unreached(seen: &Value) {
    for (name, expected) in [
        ("cookie", &["SecurityError", "", "guest=1"][..]),
        ("settings", &["TypeError"]),
        ("keys", &["TypeError"]),
        ("made", &["opaque 0", "TypeError"]),
        ("frame", &["SecurityError", "TypeError", "nothing"]),
        ("socket", &["hi"]),
    ] {
        let found = seen[name].as_str().unwrap_or_default();
        assert!(expected.contains(&found), "{name}: {seen}");
    }
}

async fn check_no_key_was_made(controller: &RunningController) {
    let keys = controller.get("/keys").await.body;
    assert!(!keys.to_string().contains("stolen"), "{keys}");
}

#[tokio::test(flavor = "multi_thread")]
async fn t4_pages_of_a_computer_reach_nothing_of_the_service() {
    let Some((controller, computer)) = boot("[web]\nports_host = \"*.computers.localhost\"\n").await else {
        return;
    };
    let Some(mut browser) = PythonDriver::chromium() else { return };
    let (_, listening) = controller.address().rsplit_once(':').expect("a port");
    let base = format!("http://localhost:{listening}");
    sign_in(&mut browser, &controller, &base).await;

    // Below a path: a page without an origin.
    let seen = visit(&mut browser, &format!("{base}/api/computers/{computer}/ports/3000/"), &base);
    check_unreached(&seen);
    assert_eq!(
        (&seen["origin"], &seen["storage"], &seen["own"]),
        (&json!("null"), &json!("SecurityError"), &json!("TypeError"))
    );

    // At a host of its own: an origin of its own, by the cookie of a link.
    let url = link(&controller, controller.key(), &computer, 3001).await;
    browser.run("open", json!({"url": url}));
    wait_for_text(&mut browser, "GET");
    let host = format!("http://3001-{computer}.computers.localhost:{listening}");
    let seen = visit(&mut browser, &format!("{host}/"), &base);
    check_unreached(&seen);
    assert_eq!(
        (&seen["origin"], &seen["storage"], &seen["own"]),
        (&json!(host), &json!("b"), &json!("basic 200"))
    );

    // A page of another computer's host does not use that cookie.
    let other = format!("http://3000-{computer}.computers.localhost:{listening}/");
    browser.run("open", json!({"url": format!("{other}page?service={base}")}));
    wait_for_text(&mut browser, "\"socket\"");
    let ask = format!(
        "fetch('{host}/told', {{credentials: 'include', mode: 'no-cors'}}).then(answer => answer.type, error => error.name)"
    );
    browser.run("look", json!({"script": ask}));
    check_no_key_was_made(&controller).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn t4_a_link_without_sub_domains_opens_a_page_whose_own_requests_work() {
    let Some((controller, computer)) = boot("").await else { return };
    let Some(mut browser) = PythonDriver::chromium() else { return };
    let base = controller.base().to_owned();
    sign_in(&mut browser, &controller, &base).await;
    let url = link(&controller, controller.key(), &computer, 3001).await;
    browser.run("open", json!({"url": url}));
    wait_for_text(&mut browser, "GET");
    let here = browser.run("look", json!({"script": "location.href"}));
    let root = here.as_str().expect("an address").to_owned();
    assert!(root.starts_with(&format!("{base}/ports/")), "{root}");
    let seen = visit(&mut browser, &root, &base);
    check_unreached(&seen);
    assert_eq!(
        (&seen["origin"], &seen["storage"], &seen["own"]),
        (&json!("null"), &json!("SecurityError"), &json!("cors 200"))
    );
    check_no_key_was_made(&controller).await;
}
