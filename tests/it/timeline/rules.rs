//! Rules of stored timelines, with scripted agents.

use std::sync::{Arc, Mutex};

use axum::extract::RawQuery;
use axum::routing::get;
use axum::{Json, Router};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hotdesk::base::{clock, wait};
use hotdesk::controller::config::{Config, TimelineSettings};
use hotdesk::engine::Capabilities;
use hotdesk::engine::simulated::AgentBoot;
use hotdesk::wire::agent::timeline::{GuestTimeline, GuestTimelineEntry, GuestTimelineQuery};
use hotdesk::wire::desktop::action::timeline::ActionRecord;
use reqwest::Method;
use serde_json::{Value, json};

use super::{TIMEOUT, entries, go_back, places};
use crate::harness::agent::fetch_json;
use crate::harness::picture::JPEG_HEADER;
use crate::harness::simulation::{Setup, Simulation, default_agent};

const JPEG: &[u8] = JPEG_HEADER;

/// The timeline of an agent, as a test wrote it.
#[derive(Clone)]
struct ScriptedTimeline(Arc<Mutex<GuestTimeline>>);

impl ScriptedTimeline {
    fn new() -> Self {
        let timeline = GuestTimeline { series: "one".to_owned(), ..GuestTimeline::default() };
        Self(Arc::new(Mutex::new(timeline)))
    }

    fn add(&self, number: u64, age_ms: u64) {
        let record = ActionRecord {
            action: "click".to_owned(),
            screen: "default".to_owned(),
            x: Some(number as f64),
            success: true,
            ..ActionRecord::default()
        };
        let after = Some(STANDARD.encode(JPEG));
        let entry = GuestTimelineEntry { number, age_ms, record, after, ..GuestTimelineEntry::default() };
        self.0.lock().expect("a timeline").entries.push(entry);
    }

    /// Forgets everything, like an agent that starts again.
    fn restart(&self, series: &str) {
        *self.0.lock().expect("a timeline") =
            GuestTimeline { series: series.to_owned(), ..GuestTimeline::default() };
    }

    fn page(&self, query: &GuestTimelineQuery) -> GuestTimeline {
        let mut page = self.0.lock().expect("a timeline").clone();
        let after = query.after.filter(|_| query.series.as_ref() == Some(&page.series)).unwrap_or(0);
        page.entries.retain(|entry| entry.number > after);
        page
    }

    fn routes(&self) -> Router {
        let timeline = self.clone();
        let read = move |RawQuery(query): RawQuery| {
            let timeline = timeline.clone();
            async move {
                let query = serde_urlencoded::from_str(&query.unwrap_or_default()).expect("a query");
                Json(timeline.page(&query))
            }
        };
        Router::new().route("/timeline", get(read))
    }

    /// A controller with a computer whose agent has this timeline.
    async fn boot(&self, setup: Setup) -> (Simulation, String) {
        let routes = self.routes();
        let agent = Arc::new(move |_: &AgentBoot| default_agent().merge(routes.clone()));
        let controller = Simulation::boot_with_agent(agent, Setup { timelines: true, ..setup }).await;
        let workspace = controller.workspace("w").await;
        let computer = controller.computer(&workspace, "one").await;
        (controller, computer)
    }
}

/// Waits until the clock shows a later time, so that what comes next is later than what was before.
async fn tick() {
    let now = clock::now();
    wait::until(TIMEOUT, || async { (clock::now() > now).then_some(()) }).await.expect("a later time");
}

async fn snapshot(controller: &Simulation, computer: &str) -> String {
    let made = controller.post(&format!("/computers/{computer}/snapshots"), json!({"memory": true})).await;
    assert_eq!((made.status, &made.body["state"]), (201, &json!("ready")), "{}", made.body);
    tick().await;
    made.body["id"].as_str().expect("an id").to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn entries_are_fetched_while_somebody_acts_and_outlive_the_agent_and_the_controller() {
    let agent = ScriptedTimeline::new();
    let (mut controller, computer) = agent.boot(Setup::default()).await;
    assert!(entries(&controller, &computer, "").await.is_empty());
    let store = controller.store().await;
    let id = computer.parse().expect("an id");
    let until_stored = async |series: &str, number: u64| {
        let stored = wait::until(TIMEOUT, || async {
            let cursor = store.timeline_cursor(id).await.expect("a store")?;
            (cursor.series == series && cursor.number == number).then_some(())
        });
        stored.await.expect("stored in the background")
    };
    agent.add(1, 0);
    assert_eq!(controller.command(format!("/computers/{computer}/click")).await.status, 200);
    until_stored("one", 1).await;
    agent.restart("two");
    agent.add(4, 0);
    assert_eq!(controller.command(format!("/computers/{computer}/click")).await.status, 200);
    until_stored("two", 4).await;
    controller.restart().await;
    // Nobody has acted through this controller: the template did, or the one before had no time to fetch it.
    agent.add(5, 0);
    let stop = controller.post(&format!("/computers/{computer}/stop"), json!({})).await;
    assert_eq!(stop.status, 200, "{}", stop.body);
    controller.until_status(&computer, "stopped").await;
    let found = entries(&controller, &computer, "").await;
    assert_eq!(places(&found), [5, 4, 1]);
    let lost: Vec<&Value> = found.iter().map(|entry| &entry["lost_before"]).collect();
    assert_eq!(lost, [&Value::Null, &json!(3), &Value::Null]);
    let page = controller.get(&format!("/computers/{computer}/timeline?limit=2")).await.body;
    let cursor = page["next_cursor"].as_str().expect("another page");
    assert_eq!(places(&entries(&controller, &computer, &format!("limit=2&cursor={cursor}")).await), [1]);
    let removed = controller.delete(&format!("/computers/{computer}")).await;
    assert_eq!(removed.status, 200, "{}", removed.body);
    assert_eq!(store.timeline_cursor(id).await.expect("a store"), None);
    let pictures = controller.data_dir().join("blobs/timeline-pictures");
    assert_eq!(
        std::fs::read_dir(pictures).expect("a folder").count(),
        0,
        "the pictures go with the computer"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_oldest_entries_make_room_and_wrong_requests_are_refused() {
    let agent = ScriptedTimeline::new();
    let timeline = TimelineSettings { entries: 2, ..TimelineSettings::default() };
    let config = Config { timeline, ..Config::default() };
    let (controller, computer) = agent.boot(Setup { config, ..Setup::default() }).await;
    for number in 1..=4 {
        agent.add(number, 0);
    }
    let found = entries(&controller, &computer, "").await;
    assert_eq!(places(&found), [4, 3]);
    let pictures = controller.data_dir().join("blobs/timeline-pictures");
    assert_eq!(std::fs::read_dir(pictures).expect("a folder").count(), 2);
    let at = |path: &str| format!("/computers/{computer}/timeline{path}");
    let newest = found[0]["id"].as_str().expect("an id");
    let picture = controller.request(Method::GET, &at(&format!("/{newest}/after"))).send().await;
    let picture = picture.expect("an answer");
    assert_eq!((picture.status().as_u16(), &picture.headers()["content-type"] == "image/jpeg"), (200, true));
    assert_eq!(&picture.bytes().await.expect("a picture")[..], JPEG);
    for (path, status) in [
        (format!("/{newest}/before"), 404),
        ("/1/after".to_owned(), 404),
        ("/x/after".to_owned(), 404),
        ("?limit=0".to_owned(), 400),
        ("?cursor=x".to_owned(), 400),
        ("?by=root".to_owned(), 400),
        ("?from=yesterday".to_owned(), 400),
    ] {
        assert_eq!(controller.get(&at(&path)).await.status, status, "{path}");
    }
    let (_, foreign) = controller.account("other@localhost").await;
    for path in ["", "/export", "/4/after"] {
        let refused = fetch_json(controller.request_with(&foreign, Method::GET, &at(path))).await;
        assert!([403, 404].contains(&refused.status), "{path}: {}", refused.body);
    }
    let lines = controller.request(Method::GET, &at("/export")).send().await.expect("an answer");
    assert_eq!(&lines.headers()["content-type"], "application/x-ndjson");
    let lines = lines.text().await.expect("text");
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(places(&lines), [3, 4]);
    assert_eq!(lines[0]["after_jpeg"], json!(STANDARD.encode(JPEG)));
}

#[tokio::test(flavor = "multi_thread")]
async fn go_back_restores_the_newest_snapshot_before_the_action() {
    let agent = ScriptedTimeline::new();
    let (controller, computer) = agent.boot(Setup::default()).await;
    let note = controller.disk(&computer).join("note");
    // An action from before any snapshot.
    agent.add(1, 3_600_000);
    let first = entries(&controller, &computer, "").await.remove(0);
    assert_eq!(first["snapshot_id"], Value::Null);
    std::fs::write(&note, "one").expect("a file");
    let one = snapshot(&controller, &computer).await;
    agent.add(2, 0);
    agent.add(3, 0);
    let found = entries(&controller, &computer, "").await;
    std::fs::write(&note, "two").expect("a file");
    tick().await;
    let two = snapshot(&controller, &computer).await;
    assert_ne!(one, two);
    let [third, second, _] = &found[..] else { panic!("{found:?}") };
    assert_eq!((&second["snapshot_id"], &third["snapshot_id"]), (&json!(one), &json!(one)));
    // The first action of all has no snapshot before it.
    let refused = go_back(&controller, &computer, &first).await;
    assert_eq!((refused.status, &refused.body["code"]), (409, &json!("nothing_to_go_back_to")));
    let unknown = go_back(&controller, &computer, &json!({"id": "99"})).await;
    assert_eq!(unknown.status, 404, "{}", unknown.body);
    let back = go_back(&controller, &computer, third).await;
    assert!([200, 202].contains(&back.status), "{}", back.body);
    assert_eq!((&back.body["snapshot_id"], &back.body["entries_between"]), (&json!(one), &json!(1)));
    controller.until_status(&computer, "running").await;
    assert_eq!(std::fs::read_to_string(&note).expect("a file"), "one");
    assert_eq!(places(&entries(&controller, &computer, "").await), [3, 2, 1], "the timeline stays");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_without_memory_has_nothing_to_go_back_to_and_timelines_can_be_off() {
    let agent = ScriptedTimeline::new();
    agent.add(1, 0);
    let capabilities = Some(Capabilities { memory_snapshot: false, ..Capabilities::ALL });
    let (controller, computer) = agent.boot(Setup { capabilities, ..Setup::default() }).await;
    let entry = entries(&controller, &computer, "").await.remove(0);
    let refused = go_back(&controller, &computer, &entry).await;
    assert_eq!((refused.status, &refused.body["code"]), (409, &json!("nothing_to_go_back_to")));
    let text = refused.body["error"].as_str().expect("a text");
    assert!(text.contains("saves no memory"), "{text}");
    let off = Simulation::boot_with(agent.routes()).await;
    let workspace = off.workspace("w").await;
    let computer = off.computer(&workspace, "one").await;
    assert!(entries(&off, &computer, "").await.is_empty());
}
