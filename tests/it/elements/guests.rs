//! Elements of programs on the guest images, through the controller.

use std::time::Duration;

use hotdesk::base::wait;
use serde_json::{Value, json};

use super::stage::{TIMEOUT, has};
use crate::harness::agent::HttpAnswer;
use crate::harness::controller::{RunningController, gvisor, skip_reason};

/// Longest time until a program shows something; a browser's first start takes longest.
const START_TIMEOUT: Duration = Duration::from_secs(90);

/// A computer whose elements are under test.
struct Desktop {
    controller: RunningController,
    id: String,
}

impl Desktop {
    async fn open(controller: RunningController) -> Self {
        let workspace = controller.workspace("demo").await;
        let created = controller.computer(&workspace, "desk").await;
        let id = created["id"].as_str().expect("an id").to_owned();
        Self { controller, id }
    }

    async fn get(&self, more: &str) -> HttpAnswer {
        self.controller.get(&format!("/computers/{}/elements{more}", self.id)).await
    }

    async fn act(&self, element: &Value, action: &str, body: Value) -> HttpAnswer {
        let element = element["id"].as_str().expect("an id");
        self.controller.post(&format!("/computers/{}/elements/{element}/{action}", self.id), body).await
    }

    /// Like [`Self::act`], and asserts success.
    async fn perform(&self, element: &Value, action: &str, body: Value) -> Value {
        let answer = self.act(element, action, body).await;
        assert_eq!((answer.status, &answer.body["success"]), (200, &json!(true)), "{}", answer.body);
        answer.body
    }

    /// Waits until a window whose title contains this has the focus. The session's own windows may still open
    /// above it and take the focus.
    async fn until_focused(&self, title: &str) {
        let focused = wait::until(START_TIMEOUT, || async {
            let list = self.controller.get(&format!("/computers/{}/windows", self.id)).await.body;
            let windows = list["windows"].as_array().cloned().unwrap_or_default();
            let is_it = |window: &Value| {
                let named = window["title"].as_str().is_some_and(|text| text.to_lowercase().contains(title));
                window["focused"] == true && named
            };
            windows.iter().any(is_it).then_some(())
        });
        assert!(focused.await.is_some(), "a window of {title} must get the focus");
    }

    /// Waits until a query lists an element; returns the first.
    async fn find(&self, query: &str) -> Value {
        let found = wait::until(START_TIMEOUT, || async {
            let list = self.get(&format!("?{query}")).await;
            let first: Value = list.body["elements"][0].clone();
            (list.status == 200 && first.is_object()).then_some(first)
        });
        match found.await {
            Some(found) => found,
            None => panic!("no element matches {query}: {}", self.get("").await.body),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_computer_s_editor_is_read_and_written_through_the_controller() {
    match skip_reason() {
        Some(skip) => skip.report(),
        None => check_editor(RunningController::boot().await).await,
    }
}

/// Over gVisor neither the accessibility bus nor the X server learns the processes of its clients from the
/// sockets.
#[tokio::test(flavor = "multi_thread")]
async fn an_editor_over_gvisor_is_read_and_written_through_the_controller() {
    let Some(configuration) = gvisor() else { return };
    check_editor(RunningController::boot_with(&configuration).await).await;
}

async fn check_editor(controller: RunningController) {
    let computer = Desktop::open(controller).await;
    // Reading the tree does not affect the desktop's program, also when its files change later.
    assert_eq!(computer.get("?include=all").await.status, 200);
    let desktop = || async { computer.controller.bash(&computer.id, "pgrep -f 'pcmanfm --deskto[p]'").await };
    let before =
        wait::until(TIMEOUT, || async { Some(desktop().await).filter(|pid| !pid.trim().is_empty()) });
    let before = before.await.expect("a desktop");
    for change in ["touch Desktop/a Desktop/b", "rm Desktop/a", "mv Desktop/b Desktop/c"] {
        computer.controller.bash(&computer.id, &format!("cd && {change} && sleep 0.7")).await;
        assert_eq!(desktop().await, before, "after {change}");
    }
    computer.controller.bash(&computer.id, "mousepad >/dev/null 2>&1 &").await;
    computer.until_focused("mousepad").await;
    let text = computer.find("window=mousepad&role=text").await;
    assert!(has(&text, "editable") && text["width"].as_i64() > Some(100), "{text}");
    let set = computer.perform(&text, "set_value", json!({"value": "Hello\nworld"})).await;
    assert_eq!(set["element"]["text"], json!("Hello\nworld"), "{set}");
    // Typed text arrives unchanged.
    computer.perform(&text, "focus", json!({})).await;
    computer.controller.act(&computer.id, "key", json!({"key": "ctrl+a"})).await;
    let typed = computer.controller.act(&computer.id, "type", json!({"text": "é\tTab"})).await;
    assert_eq!(typed.status, 200, "{}", typed.body);
    let arrived = wait::until(TIMEOUT, || async {
        let now = computer.get("?window=mousepad&role=text").await.body["elements"][0]["text"].clone();
        (now == "é\tTab").then_some(())
    });
    assert!(arrived.await.is_some(), "{}", computer.get("?window=mousepad&role=text").await.body);
    let menu = computer.find("window=mousepad&role=menu&name=file").await;
    computer.perform(&menu, "click", json!({})).await;
    // The menu is a window of its own that no window manager lists.
    let entry = computer.find("role=menu%20item&name=open").await;
    assert_eq!(entry["app"].as_str().map(str::to_lowercase).as_deref(), Some("mousepad"), "{entry}");
    let marked = computer.get("/marked?format=jpeg").await;
    assert_eq!((marked.status, &marked.body["elements"][0]["mark"]), (200, &json!(1)), "{}", marked.body);
    let gone = computer.act(&json!({"id": "e-000000000000"}), "focus", json!({})).await;
    assert_eq!((gone.status, &gone.body["code"]), (404, &json!("element_gone")), "{}", gone.body);
    // Another screen has its own programs, although all use one bus.
    let created = computer.controller.post(&format!("/computers/{}/screens", computer.id), json!({})).await;
    assert_eq!((created.status, &created.body["id"]), (201, &json!("screen-100")), "{}", created.body);
    let no_windows = computer.get("?screen=screen-100&include=all").await;
    assert_eq!((no_windows.status, &no_windows.body["elements"]), (200, &json!([])), "{}", no_windows.body);
    computer.controller.bash(&computer.id, "DISPLAY=:100 mousepad --disable-server >/dev/null 2>&1 &").await;
    let other = computer.find("screen=screen-100&role=text").await;
    assert_ne!(other["pid"], text["pid"], "{other}");
    // A program that answers slowly may be missing in a list.
    let found = wait::until(TIMEOUT, || async {
        let list = computer.get("?include=all&timeout_ms=10000").await.body;
        let pids: Vec<Value> = list["elements"].as_array()?.iter().map(|it| it["pid"].clone()).collect();
        pids.contains(&text["pid"]).then_some(pids)
    });
    let pids = found.await.expect("the first editor must be listed");
    assert!(!pids.contains(&other["pid"]), "{pids:?}");
    computer.perform(&other, "focus", json!({})).await;
}

/// A page with a named element of each kind and many rows.
const PAGE: &str = r#"<!doctype html><title>Page</title><h1>Heading</h1>
<label>Your name <input value=old></label><label>About <textarea></textarea></label>
<input type=range min=0 max=100 value=10 aria-label=Volume><label><input type=checkbox>Agree</label>
<ul id=list></ul><script>for (let i = 0; i < 400; i++) document.getElementById("list").insertAdjacentHTML(
"beforeend", `<li>Item ${i} <button onclick="document.title='pressed ${i}'">Button ${i}</button></li>`)</script>"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_browser_s_page_is_read_filled_in_and_scrolled_to_what_is_clicked() {
    let Some(controller) = RunningController::boot_full().await else { return };
    let computer = Desktop::open(controller).await;
    let write =
        format!("cat >/root/page.html <<'END'\n{PAGE}\nEND\nchromium /root/page.html >/dev/null 2>&1 &");
    computer.controller.bash(&computer.id, &write).await;
    computer.until_focused("page").await;
    computer.find("role=heading&name=heading").await;
    for (query, value) in [
        ("role=entry&name=your%20name", "Grüße, 世界"),
        ("role=entry&name=about", "two\nlines"),
        ("role=entry&name=your%20name", ""),
    ] {
        let entry = computer.find(query).await;
        let set = computer.perform(&entry, "set_value", json!({"value": value})).await;
        assert_eq!(set["element"]["text"].as_str().unwrap_or_default(), value, "{set}");
    }
    let line = computer.find("role=entry&name=your%20name").await;
    assert_eq!(
        computer.act(&line, "set_value", json!({"value": "a\nb"})).await.status,
        400,
        "Enter would send it"
    );
    let volume = computer.find("role=slider&name=volume").await;
    assert_eq!(
        computer.perform(&volume, "set_value", json!({"value": 42})).await["element"]["value"],
        json!(42)
    );
    let agree = computer.find("role=check%20box&name=agree").await;
    computer.perform(&agree, "click", json!({})).await;
    // The answer contains the change within a quarter of a second, which is short for a busy browser.
    let checked = wait::until(TIMEOUT, || async {
        let now = computer.find("role=check%20box&name=agree").await;
        has(&now, "checked").then_some(())
    });
    assert!(checked.await.is_some(), "{}", computer.find("role=check%20box&name=agree").await);
    computer.find("name=button").await;
    // A list leaves out a browser that is still busy, and says so.
    let listed = wait::until(TIMEOUT, || async {
        let list = computer.get("?name=button&timeout_ms=10000").await.body;
        list["elements"].as_array().filter(|elements| !elements.is_empty()).cloned()
    });
    let visible = listed.await.expect("the buttons in sight must be listed");
    assert!(visible.iter().all(|element| element["name"] != "Button 399"), "{visible:?}");
    let far = computer.find("include=all&role=button&name=button%20399").await;
    computer.perform(&far, "click", json!({})).await;
    computer.find("role=frame&name=pressed%20399").await;
}
