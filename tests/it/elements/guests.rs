//! Do the images show the trees of their programs, through the controller?

use std::time::Duration;

use hotdesk::base::wait;
use serde_json::{Value, json};

use super::stage::{TIMEOUT, has};
use crate::harness::agent::Answered;
use crate::harness::controller::{RunningController, gvisor, no_computers_here};

/// Longest that a program of a computer may take to show something; a browser's first start takes longest.
const STARTED: Duration = Duration::from_secs(90);

/// A computer and its programs' elements.
struct Desk {
    house: RunningController,
    id: String,
}

impl Desk {
    async fn of(house: RunningController) -> Self {
        let workspace = house.workspace("demo").await;
        let made = house.computer(&workspace, "desk").await;
        let id = made["id"].as_str().expect("an id").to_owned();
        Self { house, id }
    }

    async fn get(&self, more: &str) -> Answered {
        self.house.get(&format!("/computers/{}/elements{more}", self.id)).await
    }

    async fn act(&self, element: &Value, action: &str, body: Value) -> Answered {
        let element = element["id"].as_str().expect("an id");
        self.house.post(&format!("/computers/{}/elements/{element}/{action}", self.id), body).await
    }

    /// As [`Self::act`], for what must succeed.
    async fn done(&self, element: &Value, action: &str, body: Value) -> Value {
        let answer = self.act(element, action, body).await;
        assert_eq!((answer.status, &answer.body["success"]), (200, &json!(true)), "{}", answer.body);
        answer.body
    }

    /// Waits until a window whose title holds this has the focus: until the session's own windows have opened, they may
    /// come up above it, and take the focus from it.
    async fn until_focused(&self, title: &str) {
        let focused = wait::until(STARTED, || async {
            let list = self.house.get(&format!("/computers/{}/windows", self.id)).await.body;
            let windows = list["windows"].as_array().cloned().unwrap_or_default();
            let is_it = |window: &Value| {
                let named = window["title"].as_str().is_some_and(|text| text.to_lowercase().contains(title));
                window["focused"] == true && named
            };
            windows.iter().any(is_it).then_some(())
        });
        assert!(focused.await.is_some(), "no window of {title} got the focus");
    }

    /// The first element that a query lists, as soon as it lists one.
    async fn find(&self, query: &str) -> Value {
        let found = wait::until(STARTED, || async {
            let list = self.get(&format!("?{query}")).await;
            let first: Value = list.body["elements"][0].clone();
            (list.status == 200 && first.is_object()).then_some(first)
        });
        match found.await {
            Some(found) => found,
            None => panic!("nothing has {query}: {}", self.get("").await.body),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_computer_s_editor_is_read_and_written_through_the_controller() {
    match no_computers_here() {
        Some(reason) => println!("{reason}"),
        None => an_editor_is_read_and_written(RunningController::boot().await).await,
    }
}

/// Where neither the accessibility bus nor the X server learns from its sockets which program is which.
#[tokio::test(flavor = "multi_thread")]
async fn an_editor_over_gvisor_is_read_and_written_through_the_controller() {
    let Some(configuration) = gvisor() else { return };
    an_editor_is_read_and_written(RunningController::boot_with(&configuration).await).await;
}

async fn an_editor_is_read_and_written(house: RunningController) {
    let desk = Desk::of(house).await;
    // Reading the tree leaves the desktop alone, also when its files change afterwards.
    assert_eq!(desk.get("?include=all").await.status, 200);
    let desktop = || async { desk.house.bash(&desk.id, "pgrep -f 'pcmanfm --deskto[p]'").await };
    let before =
        wait::until(TIMEOUT, || async { Some(desktop().await).filter(|pid| !pid.trim().is_empty()) });
    let before = before.await.expect("a desktop");
    for change in ["touch Desktop/a Desktop/b", "rm Desktop/a", "mv Desktop/b Desktop/c"] {
        desk.house.bash(&desk.id, &format!("cd && {change} && sleep 0.7")).await;
        assert_eq!(desktop().await, before, "after {change}");
    }
    desk.house.bash(&desk.id, "mousepad >/dev/null 2>&1 &").await;
    desk.until_focused("mousepad").await;
    let text = desk.find("window=mousepad&role=text").await;
    assert!(has(&text, "editable") && text["width"].as_i64() > Some(100), "{text}");
    let set = desk.done(&text, "set_value", json!({"value": "Hello\nworld"})).await;
    assert_eq!(set["element"]["text"], json!("Hello\nworld"), "{set}");
    // What is typed comes as it is.
    desk.done(&text, "focus", json!({})).await;
    desk.house.act(&desk.id, "key", json!({"key": "ctrl+a"})).await;
    let typed = desk.house.act(&desk.id, "type", json!({"text": "é\tTab"})).await;
    assert_eq!(typed.status, 200, "{}", typed.body);
    let arrived = wait::until(TIMEOUT, || async {
        let now = desk.get("?window=mousepad&role=text").await.body["elements"][0]["text"].clone();
        (now == "é\tTab").then_some(())
    });
    assert!(arrived.await.is_some(), "{}", desk.get("?window=mousepad&role=text").await.body);
    let menu = desk.find("window=mousepad&role=menu&name=file").await;
    desk.done(&menu, "click", json!({})).await;
    // The menu is a window of its own, that no window manager lists.
    let entry = desk.find("role=menu%20item&name=open").await;
    assert_eq!(entry["app"].as_str().map(str::to_lowercase).as_deref(), Some("mousepad"), "{entry}");
    let marked = desk.get("/marked?format=jpeg").await;
    assert_eq!((marked.status, &marked.body["elements"][0]["mark"]), (200, &json!(1)), "{}", marked.body);
    let gone = desk.act(&json!({"id": "e-000000000000"}), "focus", json!({})).await;
    assert_eq!((gone.status, &gone.body["code"]), (404, &json!("element_gone")), "{}", gone.body);
    // Another screen has its own programs, although all are on one bus.
    let made = desk.house.post(&format!("/computers/{}/screens", desk.id), json!({})).await;
    assert_eq!((made.status, &made.body["id"]), (201, &json!("screen-100")), "{}", made.body);
    let empty = desk.get("?screen=screen-100&include=all").await;
    assert_eq!((empty.status, &empty.body["elements"]), (200, &json!([])), "{}", empty.body);
    desk.house.bash(&desk.id, "DISPLAY=:100 mousepad --disable-server >/dev/null 2>&1 &").await;
    let other = desk.find("screen=screen-100&role=text").await;
    assert_ne!(other["pid"], text["pid"], "{other}");
    // A program that is slow to answer is left out of one list.
    let here = wait::until(TIMEOUT, || async {
        let list = desk.get("?include=all&timeout_ms=10000").await.body;
        let pids: Vec<Value> = list["elements"].as_array()?.iter().map(|it| it["pid"].clone()).collect();
        pids.contains(&text["pid"]).then_some(pids)
    });
    let pids = here.await.expect("the first editor is listed");
    assert!(!pids.contains(&other["pid"]), "{pids:?}");
    desk.done(&other, "focus", json!({})).await;
}

/// A page with a named thing of each kind, and many rows.
const PAGE: &str = r#"<!doctype html><title>Page</title><h1>Heading</h1>
<label>Your name <input value=old></label><label>About <textarea></textarea></label>
<input type=range min=0 max=100 value=10 aria-label=Volume><label><input type=checkbox>Agree</label>
<ul id=list></ul><script>for (let i = 0; i < 400; i++) document.getElementById("list").insertAdjacentHTML(
"beforeend", `<li>Item ${i} <button onclick="document.title='pressed ${i}'">Button ${i}</button></li>`)</script>"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_browser_s_page_is_read_filled_in_and_scrolled_to_what_is_clicked() {
    let Some(house) = RunningController::boot_full().await else { return };
    let desk = Desk::of(house).await;
    let write =
        format!("cat >/root/page.html <<'END'\n{PAGE}\nEND\nchromium /root/page.html >/dev/null 2>&1 &");
    desk.house.bash(&desk.id, &write).await;
    desk.until_focused("page").await;
    desk.find("role=heading&name=heading").await;
    for (query, value) in [
        ("role=entry&name=your%20name", "Grüße, 世界"),
        ("role=entry&name=about", "two\nlines"),
        ("role=entry&name=your%20name", ""),
    ] {
        let entry = desk.find(query).await;
        let set = desk.done(&entry, "set_value", json!({"value": value})).await;
        assert_eq!(set["element"]["text"].as_str().unwrap_or_default(), value, "{set}");
    }
    let line = desk.find("role=entry&name=your%20name").await;
    assert_eq!(
        desk.act(&line, "set_value", json!({"value": "a\nb"})).await.status,
        400,
        "Enter would send it"
    );
    let volume = desk.find("role=slider&name=volume").await;
    assert_eq!(desk.done(&volume, "set_value", json!({"value": 42})).await["element"]["value"], json!(42.0));
    let agree = desk.find("role=check%20box&name=agree").await;
    desk.done(&agree, "click", json!({})).await;
    // A click's answer has what the element says in the first quarter of a second, which is short for a busy browser.
    let checked = wait::until(TIMEOUT, || async {
        let now = desk.find("role=check%20box&name=agree").await;
        has(&now, "checked").then_some(())
    });
    assert!(checked.await.is_some(), "{}", desk.find("role=check%20box&name=agree").await);
    desk.find("name=button").await;
    let visible = desk.get("?name=button").await.body;
    let names = visible["elements"].as_array().expect("elements");
    assert!(!names.is_empty() && names.iter().all(|element| element["name"] != "Button 399"), "{visible}");
    let far = desk.find("include=all&role=button&name=button%20399").await;
    desk.done(&far, "click", json!({})).await;
    desk.find("role=frame&name=pressed%20399").await;
}
