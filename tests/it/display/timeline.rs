//! Timelines of real screens: who acted, pictures, no text.

use std::sync::Arc;

use hotdesk::base::tasks::Tasks;
use hotdesk::engine::simulated::AgentBoot;
use hotdesk::http::serve::{BoundListener, serve};
use reqwest::Method;
use serde_json::{Value, json};

use super::fixture::{DisplayFixture, TIMEOUT};
use super::window::{InputEvent, Window};
use crate::harness::agent::fetch_json;
use crate::harness::simulation::{Setup, Simulation, default_agent};
use crate::timeline::entries;

/// The bytes of a picture of an entry.
async fn picture(controller: &Simulation, computer: &str, entry: &Value, side: &str) -> Vec<u8> {
    let id = entry["id"].as_str().expect("an id");
    let path = format!("/computers/{computer}/timeline/{id}/{side}");
    let answer = controller.request(Method::GET, &path).send().await.expect("an answer");
    assert_eq!(answer.status(), 200);
    answer.bytes().await.expect("a picture").to_vec()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_timeline_says_who_did_what_with_pictures_and_without_text() {
    let fixture = DisplayFixture::bare(400, 300).await;
    let window = Window::open(&fixture.display(), 0, 0, 400, 300, 0xff_00_00);
    window.name("painted");
    window.focus();
    let tasks = Tasks::new();
    let agent = Arc::new(|_: &AgentBoot| default_agent());
    let controller = Simulation::boot_with_agent(agent, Setup { timelines: true, ..Setup::default() }).await;
    let secret = controller.request(Method::PUT, "/secrets/LEFT").json(&json!({"value": "hunter2"}));
    assert_eq!(fetch_json(secret).await.status, 200);
    let second = controller.create("/keys", json!({"name": "second"})).await;
    let workspace = controller.workspace("w").await;
    let computer = controller.computer(&workspace, "one").await;
    let listener = controller.replace_agent(&computer);
    let (group, router) = (tasks.clone(), fixture.router());
    let _serving =
        tasks.spawn("agent", async move { serve(BoundListener::Unix(listener), router, &group).await });
    window.events();
    // Painted before the answer to the click, and therefore before the picture after it.
    let painter = std::thread::spawn(move || {
        window
            .wait_for(TIMEOUT, |events| events.iter().any(|event| matches!(event, InputEvent::Release(..))));
        window.fill(0, 0, 400, 300, 0x00_00_ff);
        window
    });
    let settle = json!({"quiet_ms": 500, "timeout_ms": 20_000});
    let click = json!({"x": 50, "y": 60, "settle": settle});
    let clicked = controller.post(&format!("/computers/{computer}/click"), click).await;
    assert_eq!(clicked.status, 200, "{}", clicked.body);
    let window = painter.join().expect("painted");
    let key = second["key"].as_str().expect("a key");
    let typed = controller.request_with(key, Method::POST, &format!("/computers/{computer}/type"));
    let typed = fetch_json(typed.json(&json!({"text": "{{secret:LEFT}}"}))).await;
    assert_eq!(typed.status, 200, "{}", typed.body);
    let found = entries(&controller, &computer, "").await;
    let [typed, clicked] = &found[..] else { panic!("{found:?}") };
    assert_eq!((&typed["action"], &clicked["action"]), (&json!("type"), &json!("click")));
    assert_eq!((&clicked["x"], &clicked["y"], &clicked["success"]), (&json!(50), &json!(60), &json!(true)));
    assert_eq!(clicked["window_after"]["title"], "painted");
    let second_by = json!({"kind": "key", "id": second["id"], "name": "second"});
    assert_eq!(typed["by"], second_by);
    assert_eq!(clicked["by"]["kind"], "key");
    assert_ne!(clicked["by"]["id"], second["id"]);
    assert!(typed["characters"].is_null(), "{typed}");
    for store in ["hotdesk.db", "hotdesk.db-wal"] {
        let bytes = std::fs::read(controller.data_dir().join(store)).unwrap_or_default();
        assert!(!bytes.windows(7).any(|part| part == b"hunter2"), "{store}");
    }
    let before = picture(&controller, &computer, clicked, "before").await;
    let after = picture(&controller, &computer, clicked, "after").await;
    assert_ne!(before, after, "the pictures must differ");
    for picture in [&before, &after] {
        let image = turbojpeg::decompress(picture, turbojpeg::PixelFormat::RGB).expect("a JPEG");
        assert!(image.width <= 160 && image.height <= 90 && image.width > 100, "{}", image.width);
    }
    let of_second = format!("by=key:{}", second["id"].as_str().expect("an id"));
    assert_eq!(entries(&controller, &computer, &of_second).await.len(), 1);
    assert_eq!(entries(&controller, &computer, "screen=screen-100").await.len(), 0);
    tasks.drain(TIMEOUT).await;
    drop(window);
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn actions_of_a_refused_or_interrupted_request_have_entries_in_their_order() {
    let fixture = DisplayFixture::bare(320, 200).await;
    fixture.fails("POST", "/click", json!({"x": 5000, "y": 5}), 400).await;
    let list = json!([
        {"action": "click", "x": 1, "y": 1},
        {"action": "wait", "seconds": 0.01},
        {"action": "move", "x": 2, "y": 2},
    ]);
    fixture.ok("POST", "/actions", json!({"actions": list})).await;
    let page = fixture.ok("GET", "/timeline?wait_seconds=5", Value::Null).await;
    let found = page["entries"].as_array().expect("a list");
    let actions: Vec<&str> = found.iter().filter_map(|entry| entry["record"]["action"].as_str()).collect();
    assert_eq!(actions, ["click", "click", "wait", "move"], "{page}");
    let numbers: Vec<u64> = found.iter().filter_map(|entry| entry["number"].as_u64()).collect();
    assert_eq!(numbers, [1, 2, 3, 4]);
    assert_eq!((&page["in_progress"], &page["more"]), (&json!(0), &json!(false)));
    assert_eq!((&found[0]["record"]["status"], &found[0]["record"]["success"]), (&json!(400), &json!(false)));
    assert!(found[2]["before"].is_null() && found[2]["after"].is_null(), "waits have no pictures");
    assert!(found[1]["after"].is_string() && found[3]["after"].is_string(), "{page}");
    let series = page["series"].as_str().expect("a series");
    let later = format!("/timeline?series={series}&after=3");
    let later = fixture.ok("GET", &later, Value::Null).await;
    assert_eq!(later["entries"].as_array().map(Vec::len), Some(1));
    // A request that ends before its action still has an entry.
    let fixture = Arc::new(fixture);
    let slow = json!({"start_x": 1, "start_y": 1, "end_x": 100, "end_y": 100, "duration": 1.0});
    let dragging = {
        let fixture = Arc::clone(&fixture);
        tokio::time::timeout(std::time::Duration::from_millis(200), async move {
            fixture.ok("POST", "/drag", slow).await
        })
    };
    assert!(dragging.await.is_err(), "the request must end first");
    let page =
        fixture.ok("GET", &format!("/timeline?series={series}&after=4&wait_seconds=5"), Value::Null).await;
    assert_eq!(page["entries"][0]["record"]["code"], "unanswered", "{page}");
    let fixture = Arc::into_inner(fixture).expect("the only one");
    fixture.close().await;
}
