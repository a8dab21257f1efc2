//! Does a browser on the viewer page show the desktop and act on it? Chromium, without hotdesk's help.

use std::time::Duration;

use hotdesk::base::wait;
use reqwest::Method;
use serde_json::{Value, json};

use super::pixels::Pixels;
use super::puppet::Puppet;
use super::{heard, listener, screenshot, ticket};
use crate::harness::agent::answered;
use crate::harness::controller::RunningController;
use crate::harness::simulation::Simulation;

/// Waits until the page's state reads so.
fn until_state(browser: &mut Puppet, state: &str) {
    let script = format!("document.getElementById('state-text').textContent === {state:?}");
    browser.does("wait", json!({"script": script, "seconds": 60}));
}

/// What the canvas shows, as a picture of its own size.
fn canvas(browser: &mut Puppet) -> Pixels {
    let script = "document.querySelector('#screen canvas').toDataURL('image/png')";
    let url = browser.does("look", json!({"script": script}));
    let data = url.as_str().and_then(|url| url.strip_prefix("data:image/png;base64,")).expect("a picture");
    Pixels::of(&crate::harness::picture::from_base64(data))
}

async fn until_alike(house: &RunningController, id: &str, browser: &mut Puppet) {
    let mut alike = 0.0;
    let deadline = std::time::Instant::now() + Duration::from_secs(30);
    while alike < 0.99 {
        assert!(std::time::Instant::now() < deadline, "only {alike} of the pixels are alike");
        alike = canvas(browser).alike(&screenshot(house, id, "default").await);
    }
}

/// A wide page of one colour in the terminal, which the browser's window must show.
const TEAL: [u8; 3] = [0, 128, 128];

#[tokio::test(flavor = "multi_thread")]
async fn the_viewer_page_shows_a_desktop_and_types_into_it() {
    let Some((house, _, id)) = RunningController::with_a_computer().await else { return };
    let Some(mut browser) = Puppet::chromium() else { return };
    let wall = ["xterm", "-bg", "#008080", "-fg", "#008080", "-cr", "#008080", "-geometry", "120x30+400+250"];
    let made = house.act(&id, "launch", json!({"argv": wall, "wait_seconds": 30})).await;
    assert!(made.body["window"].is_object(), "{}", made.body);
    listener(&house, &id).await;

    // Who opens the record's address gets to the page.
    let entered = house.request(Method::GET, &format!("/computers/{id}")).send().await.expect("a record");
    let record: Value = entered.json().await.expect("JSON");
    let there = reqwest::get(record["url"].as_str().expect("an address")).await.expect("an answer");
    assert_eq!(
        (there.status().as_u16(), there.url().path().ends_with("/view")),
        (200, true),
        "{}",
        there.url()
    );
    // By a link with a ticket.
    let link = ticket(&house, &id, json!({"mode": "control"})).await["url"].clone();
    // In the finest pictures, to be compared with what is there.
    let link = link.as_str().expect("a link").replace('#', "&quality=9#");
    browser.does("open", json!({"url": link}));
    until_state(&mut browser, "Connected");
    let address = browser.does("look", json!({"script": "location.href"}));
    assert!(!address.as_str().expect("an address").contains('#'), "{address}");
    until_alike(&house, &id, &mut browser).await;
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("page.png");
    browser.does("picture", json!({"file": file}));
    let (shown, there) =
        (Pixels::of_file(&file).part_of(TEAL), screenshot(&house, &id, "default").await.part_of(TEAL));
    assert!(there > 0.1 && shown > there / 2.0, "{shown} of the page, {there} of the screen");
    // A click on the terminal; the screen is scaled to the page.
    browser.does("click", json!({"where": "#screen canvas", "at": {"x": 200, "y": 170}}));
    browser.does("type", json!({"text": "from a browser"}));
    browser.does("press", json!({"keys": "Enter"}));
    assert_eq!(heard(&house, &id, "from a browser").await, "from a browser");

    // A size that changes is followed.
    let path = format!("/computers/{id}/screens/default");
    assert_eq!(house.patch(&path, json!({"width": 1000, "height": 600})).await.status, 200);
    let grown = "(c => c.width === 1000 && c.height === 600)(document.querySelector('#screen canvas'))";
    browser.does("wait", json!({"script": grown}));
    until_alike(&house, &id, &mut browser).await;

    // Text goes to the desktop's clipboard and comes from it.
    browser.does("click", json!({"where": "#clipboard"}));
    browser.does("fill", json!({"where": "#clipboard-text", "text": "grüße ✓"}));
    browser.does("click", json!({"where": "#clipboard-send"}));
    let arrived = wait::until(Duration::from_secs(20), || async {
        let text = house.get(&format!("/computers/{id}/clipboard")).await.body["text"].clone();
        (text == "grüße ✓").then_some(())
    });
    assert!(arrived.await.is_some(), "the clipboard's text did not arrive");
    let clipboard = house.request(Method::PUT, &format!("/computers/{id}/clipboard"));
    let set = answered(clipboard.json(&json!({"text": "from the desktop"}))).await;
    assert_eq!(set.status, 200, "{}", set.body);
    let came = "document.getElementById('clipboard-text').value === 'from the desktop'";
    browser.does("wait", json!({"script": came}));

    // The link is used up: loading it again opens nothing.
    browser.does("open", json!({"url": link}));
    until_state(&mut browser, "Not connected");
    let title = browser.does("look", json!({"script": "document.getElementById('card-title').textContent"}));
    assert_eq!(title, "This link was used or has expired");
    // A password does, and the page comes back by itself when the screen does.
    browser.does("fill", json!({"where": "#password", "text": "wrong"}));
    browser.does("click", json!({"where": "#go"}));
    let refused = "document.getElementById('card-title').textContent === 'That is not the password'";
    browser.does("wait", json!({"script": refused}));
    let password = house.get(&format!("/computers/{id}/vnc-password")).await.body["password"].clone();
    browser.does("fill", json!({"where": "#password", "text": password}));
    browser.does("press", json!({"keys": "Enter"}));
    until_state(&mut browser, "Connected");
    // The page may be back before anybody looks: it notes its states itself.
    let note = "(() => { const state = document.getElementById('state-text'); window.states = []; \
        new MutationObserver(() => window.states.push(state.textContent)).observe(state, {childList: true}); })()";
    browser.does("look", json!({"script": note}));
    house.bash(&id, "kill -9 $(pgrep -x Xvnc || pgrep -x Xtigervnc)").await;
    browser.does("wait", json!({"script": "window.states.includes('Reconnecting')", "seconds": 60}));
    until_state(&mut browser, "Connected");
    assert_eq!(browser.does("complaints", json!({})), no_surprise());
}

/// What a browser may complain of: nothing.
fn no_surprise() -> Value {
    json!([])
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_for_watching_types_nothing() {
    let Some((house, _, id)) = RunningController::with_a_computer().await else { return };
    let Some(mut browser) = Puppet::chromium() else { return };
    listener(&house, &id).await;
    let link = ticket(&house, &id, json!({"mode": "view"})).await["url"].clone();
    // Somebody makes the page forget that it is for watching: the ticket does not.
    let link = link.as_str().expect("a link").replace("&view_only=true", "");
    browser.does("open", json!({"url": link}));
    until_state(&mut browser, "Connected");
    browser.does("click", json!({"where": "#screen canvas", "at": {"x": 200, "y": 170}}));
    browser.does("type", json!({"text": "not this"}));
    browser.does("press", json!({"keys": "Enter"}));
    // What follows it on the same connection is seen, so it was read.
    house.bash(&id, "xsetroot -display :99 -solid '#102030' 2>/dev/null; true").await;
    until_alike(&house, &id, &mut browser).await;
    let link = ticket(&house, &id, json!({"mode": "view"})).await["url"].clone();
    browser.does("open", json!({"url": link}));
    until_state(&mut browser, "Watching");
    let locked =
        "document.getElementById('view-only').disabled && document.getElementById('clipboard').disabled";
    assert_eq!(browser.does("look", json!({"script": locked})), true);
    house.act(&id, "type", json!({"text": "but this\n"})).await;
    assert_eq!(heard(&house, &id, "but this").await, "but this");
    assert_eq!(browser.does("complaints", json!({})), no_surprise());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_password_opens_the_screen_and_the_way_that_the_address_names() {
    let Some((house, _, id)) = RunningController::with_a_computer().await else { return };
    let Some(mut browser) = Puppet::chromium() else { return };
    let made = house.made(&format!("/computers/{id}/screens"), json!({"width": 640, "height": 480})).await;
    let second = made["id"].as_str().expect("an id");
    let moved = house.act(&id, &format!("move?screen={second}"), json!({"x": 20, "y": 20})).await;
    assert_eq!(moved.status, 200, "{}", moved.body);
    let pointer = async || {
        let at = house.get(&format!("/computers/{id}/cursor_position?screen={second}")).await.body;
        (at["x"].as_i64().expect("x"), at["y"].as_i64().expect("y"))
    };
    let password = house.get(&format!("/computers/{id}/vnc-password")).await.body["password"].clone();
    let page = format!("{}/desktops/{id}/view?screen={second}", house.base());
    for (address, state) in [(format!("{page}&view_only=true"), "Watching"), (page, "Connected")] {
        assert_eq!(pointer().await, (20, 20));
        browser.does("open", json!({"url": address}));
        browser.does("fill", json!({"where": "#password", "text": password}));
        browser.does("click", json!({"where": "#go"}));
        until_state(&mut browser, state);
        let sized = "(c => c.width === 640 && c.height === 480)(document.querySelector('#screen canvas'))";
        browser.does("wait", json!({"script": sized}));
        browser.does("click", json!({"where": "#screen canvas", "at": {"x": 200, "y": 170}}));
    }
    let arrived =
        wait::until(Duration::from_secs(20), || async { (pointer().await != (20, 20)).then_some(()) });
    assert!(arrived.await.is_some(), "a click did not arrive");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_holds_no_secret_and_runs_nothing_but_its_own() {
    let house = Simulation::boot().await;
    let page = reqwest::get(format!("{}/desktops/any/view?screen=x", house.base)).await.expect("an answer");
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
    for part in text.split(['"', '\'']).filter(|part| part.starts_with("../../viewer/")) {
        let url = format!("{}/{}", house.base, part.trim_start_matches("../"));
        let answer = reqwest::get(&url).await.expect("an answer");
        assert_eq!(answer.status(), 200, "{url}");
        let kind = answer.headers()["content-type"].to_str().expect("text").to_owned();
        assert!(
            part.rsplit('.').next().is_some_and(|end| match end {
                "js" => kind.starts_with("text/javascript"),
                "css" => kind.starts_with("text/css"),
                "svg" => kind == "image/svg+xml",
                _ => false,
            }),
            "{url}: {kind}"
        );
        assert!(answer.headers()["cache-control"].to_str().expect("text").contains("immutable"));
        fetched += 1;
    }
    assert!(fetched > 40, "only {fetched} files");
    for path in ["/viewer/0/viewer.js", "/viewer/x/../../openapi.json", "/viewer/"] {
        assert_eq!(reqwest::get(format!("{}{path}x", house.base)).await.expect("an answer").status(), 404);
    }
}
