//! Viewer page in Chromium: it shows the desktop and sends input.

use std::time::Duration;

use hotdesk::base::wait;
use reqwest::Method;
use serde_json::{Value, json};

use super::pixels::Pixels;
use super::puppet::PythonDriver;
use super::{create_ticket, open_terminal, screenshot, typed_text};
use crate::harness::agent::fetch_json;
use crate::harness::controller::RunningController;
use crate::harness::simulation::Simulation;

/// Waits until the page shows a state.
fn until_state(browser: &mut PythonDriver, state: &str) {
    let script = format!("document.getElementById('state-text').textContent === {state:?}");
    browser.run("wait", json!({"script": script, "seconds": 60}));
}

/// The content of the canvas in its own size.
fn canvas(browser: &mut PythonDriver) -> Pixels {
    let script = "document.querySelector('#screen canvas').toDataURL('image/png')";
    let url = browser.run("look", json!({"script": script}));
    let data = url.as_str().and_then(|url| url.strip_prefix("data:image/png;base64,")).expect("a picture");
    Pixels::of(&crate::harness::picture::from_base64(data))
}

async fn wait_until_similar(controller: &RunningController, id: &str, browser: &mut PythonDriver) {
    let mut similarity = 0.0;
    let deadline = std::time::Instant::now() + Duration::from_secs(30);
    while similarity < 0.99 {
        assert!(std::time::Instant::now() < deadline, "only {similarity} of the pixels are equal");
        similarity = canvas(browser).similarity(&screenshot(controller, id, "default").await);
    }
}

/// Colour of a wide terminal that the browser's window must show.
const TEAL: [u8; 3] = [0, 128, 128];

#[tokio::test(flavor = "multi_thread")]
async fn the_viewer_page_shows_a_desktop_and_types_into_it() {
    let Some((controller, _, id)) = RunningController::with_a_computer().await else { return };
    let Some(mut browser) = PythonDriver::chromium() else { return };
    let terminal =
        ["xterm", "-bg", "#008080", "-fg", "#008080", "-cr", "#008080", "-geometry", "120x30+400+250"];
    let launched = controller.act(&id, "launch", json!({"argv": terminal, "wait_seconds": 30})).await;
    assert!(launched.body["window"].is_object(), "{}", launched.body);
    open_terminal(&controller, &id).await;

    // The address in the record leads to the viewer page.
    let entered =
        controller.request(Method::GET, &format!("/computers/{id}")).send().await.expect("a record");
    let record: Value = entered.json().await.expect("JSON");
    let page = reqwest::get(record["url"].as_str().expect("an address")).await.expect("an answer");
    assert_eq!((page.status().as_u16(), page.url().path().ends_with("/view")), (200, true), "{}", page.url());
    // A link with a ticket.
    let link = create_ticket(&controller, &id, json!({"mode": "control"})).await["url"].clone();
    // Best quality, so that the pixels can be compared.
    let link = link.as_str().expect("a link").replace('#', "&quality=9#");
    browser.run("open", json!({"url": link}));
    until_state(&mut browser, "Connected");
    let address = browser.run("look", json!({"script": "location.href"}));
    assert!(!address.as_str().expect("an address").contains('#'), "{address}");
    wait_until_similar(&controller, &id, &mut browser).await;
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("page.png");
    browser.run("picture", json!({"file": file}));
    let (on_page, on_screen) =
        (Pixels::of_file(&file).share_of(TEAL), screenshot(&controller, &id, "default").await.share_of(TEAL));
    assert!(on_screen > 0.1 && on_page > on_screen / 2.0, "{on_page} of the page, {on_screen} of the screen");
    // A click on the terminal. The page scales the screen.
    browser.run("click", json!({"where": "#screen canvas", "at": {"x": 200, "y": 170}}));
    browser.run("type", json!({"text": "from a browser"}));
    browser.run("press", json!({"keys": "Enter"}));
    assert_eq!(typed_text(&controller, &id, "from a browser").await, "from a browser");

    // The page follows a change of the size.
    let path = format!("/computers/{id}/screens/default");
    assert_eq!(controller.patch(&path, json!({"width": 1000, "height": 600})).await.status, 200);
    let grown = "(c => c.width === 1000 && c.height === 600)(document.querySelector('#screen canvas'))";
    browser.run("wait", json!({"script": grown}));
    wait_until_similar(&controller, &id, &mut browser).await;

    // Text goes to the desktop's clipboard and back.
    browser.run("click", json!({"where": "#clipboard"}));
    browser.run("fill", json!({"where": "#clipboard-text", "text": "grüße ✓"}));
    browser.run("click", json!({"where": "#clipboard-send"}));
    let clipboard_set = wait::until(Duration::from_secs(20), || async {
        let text = controller.get(&format!("/computers/{id}/clipboard")).await.body["text"].clone();
        (text == "grüße ✓").then_some(())
    });
    assert!(clipboard_set.await.is_some(), "the page did not set the desktop's clipboard");
    let clipboard = controller.request(Method::PUT, &format!("/computers/{id}/clipboard"));
    let set = fetch_json(clipboard.json(&json!({"text": "from the desktop"}))).await;
    assert_eq!(set.status, 200, "{}", set.body);
    let received = "document.getElementById('clipboard-text').value === 'from the desktop'";
    browser.run("wait", json!({"script": received}));

    // The ticket of the link works once.
    browser.run("open", json!({"url": link}));
    until_state(&mut browser, "Not connected");
    let title = browser.run("look", json!({"script": "document.getElementById('card-title').textContent"}));
    assert_eq!(title, "This link was used or has expired");
    // The password works, and the page reconnects by itself when the screen is back.
    browser.run("fill", json!({"where": "#password", "text": "wrong"}));
    browser.run("click", json!({"where": "#go"}));
    let refused = "document.getElementById('card-title').textContent === 'That is not the password'";
    browser.run("wait", json!({"script": refused}));
    let password = controller.get(&format!("/computers/{id}/vnc-password")).await.body["password"].clone();
    browser.run("fill", json!({"where": "#password", "text": password}));
    browser.run("press", json!({"keys": "Enter"}));
    until_state(&mut browser, "Connected");
    // The page may reconnect quickly: it records its states itself.
    let record_states = "(() => { const state = document.getElementById('state-text'); window.states = []; \
        new MutationObserver(() => window.states.push(state.textContent)).observe(state, {childList: true}); })()";
    browser.run("look", json!({"script": record_states}));
    controller.bash(&id, "kill -9 $(pgrep -x Xvnc || pgrep -x Xtigervnc)").await;
    browser.run("wait", json!({"script": "window.states.includes('Reconnecting')", "seconds": 60}));
    until_state(&mut browser, "Connected");
    assert_eq!(browser.run("complaints", json!({})), no_violations());
}

/// The expected violations of the content security policy: none.
fn no_violations() -> Value {
    json!([])
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_for_watching_types_nothing() {
    let Some((controller, _, id)) = RunningController::with_a_computer().await else { return };
    let Some(mut browser) = PythonDriver::chromium() else { return };
    open_terminal(&controller, &id).await;
    let link = create_ticket(&controller, &id, json!({"mode": "view"})).await["url"].clone();
    // Without the parameter, the page allows input: the ticket does not.
    let link = link.as_str().expect("a link").replace("&view_only=true", "");
    browser.run("open", json!({"url": link}));
    until_state(&mut browser, "Connected");
    browser.run("click", json!({"where": "#screen canvas", "at": {"x": 200, "y": 170}}));
    browser.run("type", json!({"text": "not this"}));
    browser.run("press", json!({"keys": "Enter"}));
    // A later change on the same connection is visible, so the server has read the input.
    controller.bash(&id, "xsetroot -display :99 -solid '#102030' 2>/dev/null; true").await;
    wait_until_similar(&controller, &id, &mut browser).await;
    let link = create_ticket(&controller, &id, json!({"mode": "view"})).await["url"].clone();
    browser.run("open", json!({"url": link}));
    until_state(&mut browser, "Watching");
    let locked =
        "document.getElementById('view-only').disabled && document.getElementById('clipboard').disabled";
    assert_eq!(browser.run("look", json!({"script": locked})), true);
    controller.act(&id, "type", json!({"text": "but this\n"})).await;
    assert_eq!(typed_text(&controller, &id, "but this").await, "but this");
    assert_eq!(browser.run("complaints", json!({})), no_violations());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_password_opens_the_screen_and_the_way_that_the_address_names() {
    let Some((controller, _, id)) = RunningController::with_a_computer().await else { return };
    let Some(mut browser) = PythonDriver::chromium() else { return };
    let created =
        controller.create(&format!("/computers/{id}/screens"), json!({"width": 640, "height": 480})).await;
    let second = created["id"].as_str().expect("an id");
    let moved = controller.act(&id, &format!("move?screen={second}"), json!({"x": 20, "y": 20})).await;
    assert_eq!(moved.status, 200, "{}", moved.body);
    let pointer = async || {
        let at = controller.get(&format!("/computers/{id}/cursor_position?screen={second}")).await.body;
        (at["x"].as_i64().expect("x"), at["y"].as_i64().expect("y"))
    };
    let password = controller.get(&format!("/computers/{id}/vnc-password")).await.body["password"].clone();
    let page = format!("{}/desktops/{id}/view?screen={second}", controller.base());
    for (address, state) in [(format!("{page}&view_only=true"), "Watching"), (page, "Connected")] {
        assert_eq!(pointer().await, (20, 20));
        browser.run("open", json!({"url": address}));
        browser.run("fill", json!({"where": "#password", "text": password}));
        browser.run("click", json!({"where": "#go"}));
        until_state(&mut browser, state);
        let sized = "(c => c.width === 640 && c.height === 480)(document.querySelector('#screen canvas'))";
        browser.run("wait", json!({"script": sized}));
        browser.run("click", json!({"where": "#screen canvas", "at": {"x": 200, "y": 170}}));
    }
    let moved_again =
        wait::until(Duration::from_secs(20), || async { (pointer().await != (20, 20)).then_some(()) });
    assert!(moved_again.await.is_some(), "the click did not reach the screen");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_holds_no_secret_and_runs_nothing_but_its_own() {
    let controller = Simulation::boot().await;
    let page =
        reqwest::get(format!("{}/desktops/any/view?screen=x", controller.base)).await.expect("an answer");
    assert_eq!(page.status(), 200);
    let field = |name: &str| page.headers()[name].to_str().expect("text").to_owned();
    assert_eq!(field("content-type"), "text/html; charset=utf-8");
    assert_eq!(field("referrer-policy"), "no-referrer");
    assert_eq!(field("x-frame-options"), "DENY");
    assert_eq!(field("x-content-type-options"), "nosniff");
    let policy = field("content-security-policy");
    assert!(policy.contains("script-src 'self';") && policy.contains("frame-ancestors 'none'"), "{policy}");
    assert!(!policy.contains("unsafe"), "{policy}");
    let text = page.text().await.expect("text");
    assert!(!text.contains("any/view") && !text.contains("<script>") && !text.contains("{assets}"));
    let mut fetched = 0;
    let is_file = |part: &&str| part.starts_with("../../viewer/") || part.starts_with("../../app/");
    for part in text.split(['"', '\'']).filter(is_file) {
        let url = format!("{}/{}", controller.base, part.trim_start_matches("../"));
        let answer = reqwest::get(&url).await.expect("an answer");
        assert_eq!(answer.status(), 200, "{url}");
        let kind = answer.headers()["content-type"].to_str().expect("text").to_owned();
        assert!(
            part.rsplit('.').next().is_some_and(|end| match end {
                "js" => kind.starts_with("text/javascript"),
                "css" => kind.starts_with("text/css"),
                "svg" => kind == "image/svg+xml",
                "txt" => kind.starts_with("text/plain"),
                _ => false,
            }),
            "{url}: {kind}"
        );
        assert!(answer.headers()["cache-control"].to_str().expect("text").contains("immutable"));
        fetched += 1;
    }
    // Icon, licences, style sheet, two scripts and noVNC.
    assert_eq!(fetched, 6, "{text}");
    for path in ["/viewer/0/viewer.js", "/viewer/x/../../openapi.json", "/viewer/"] {
        assert_eq!(
            reqwest::get(format!("{}{path}x", controller.base)).await.expect("an answer").status(),
            404
        );
    }
}
