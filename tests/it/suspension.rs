//! Does a computer sleep and wake with what it had in memory, as interface.md "Suspend" and wire.md 5.2 say?

pub mod agent;
mod failures;
mod races;
mod recovery;
mod rounds;
mod under_way;

use std::time::Duration;

use futures_util::SinkExt;
use futures_util::future::join_all;
use hotdesk::engine::Capabilities;
use hotdesk::engine::simulated::{Failure, Fault, Verb};
use reqwest::Method;
use serde_json::{Value, json};

use self::agent::Agents;
use crate::harness::agent::{Answered, answered};
use crate::harness::simulation::{Setup, Simulation};
use crate::harness::socket::{Came, Client};

/// A house with a computer whose agent counts.
pub struct Scene {
    pub house: Simulation,
    pub agents: Agents,
    pub workspace: String,
    pub id: String,
}

impl Scene {
    pub async fn set() -> Self {
        Self::set_up(Setup::default()).await
    }

    pub async fn set_up(setup: Setup) -> Self {
        let agents = Agents::new();
        let house = Simulation::boot_of(agents.factory(), setup).await;
        let workspace = house.workspace("w").await;
        let id = house.computer(&workspace, "desk").await;
        Self { house, agents, workspace, id }
    }

    pub async fn ask(&self, verb: &str) -> Answered {
        self.house.post(&format!("/computers/{}/{verb}", self.id), json!({})).await
    }

    pub async fn read(&self, what: &str) -> Answered {
        self.house.get(&format!("/computers/{}{what}", self.id)).await
    }

    pub async fn is(&self, status: &str) {
        assert_eq!(self.house.status(&self.id).await, status);
    }

    /// How often the agent was asked since it booted, this time included.
    pub async fn count(&self) -> u32 {
        let answer = self.house.post(&format!("/computers/{}/bash", self.id), json!({"command": "x"})).await;
        assert_eq!(answer.status, 200, "{}", answer.body);
        answer.body["output"].as_str().and_then(|text| text.parse().ok()).expect("a number")
    }

    /// Suspends it once it runs.
    pub async fn suspended(&self) {
        self.house.until_status(&self.id, "running").await;
        let answer = self.ask("suspend").await;
        assert_eq!((answer.status, &answer.body["status"]), (200, &json!("suspended")), "{}", answer.body);
    }
}

/// Asserts that an answer is a refusal.
pub fn refused(answer: &Answered, status: u16, code: Option<&str>, text: &str) {
    assert_eq!((answer.status, answer.body["code"].as_str()), (status, code), "{}", answer.body);
    assert_eq!(answer.body["error"], text);
    assert!(answer.body["request_id"].is_string(), "{}", answer.body);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_computer_sleeps_and_wakes_with_what_it_had_in_memory() {
    let scene = Scene::set().await;
    assert_eq!(scene.count().await, 1);
    let awake = scene.read("").await.body;
    refused(&scene.read("/suspension").await, 409, None, "Computer is not suspended (status: running)");

    // By either handle, and again: nothing changes.
    let by_instance = format!("/computers/{}/suspend", awake["instance_id"].as_str().expect("one"));
    for path in [by_instance, format!("/computers/{}/suspend", scene.id)] {
        let answer = scene.house.post(&path, json!({})).await;
        assert_eq!((answer.status, answer.body), (200, json!({"success": true, "status": "suspended"})));
    }
    let suspension = scene.read("/suspension").await;
    assert_eq!((suspension.status, suspension.body), (200, json!({"status": "suspended"})));
    let asleep = scene.read("").await.body;
    assert_eq!((&asleep["status"], &asleep["instance_id"]), (&json!("suspended"), &awake["instance_id"]));
    assert_eq!((&asleep["instance_details"], asleep.get("connection_url")), (&Value::Null, None));
    let listed = scene.house.get("/computers?status=suspended").await.body;
    assert_eq!((&listed["total"], &listed["computers"][0]["id"]), (&json!(1), &json!(scene.id)));

    let woken = scene.ask("resume").await;
    let there = json!({"success": true, "status": "running", "waking": false, "pending": false,
        "expected_seconds": 0});
    assert_eq!((woken.status, &woken.body), (200, &there));
    assert_eq!(scene.count().await, 2, "memory is kept");
    let now = scene.read("").await.body;
    assert_eq!(now["status"], "running");
    assert_ne!(now["vnc_password"], awake["vnc_password"]);
    let again = scene.ask("resume").await;
    assert_eq!((again.status, again.body), (200, there));
    {
        let renewals = scene.agents.renewals.lock().expect("no panic");
        let [renewal] = &renewals[..] else { panic!("{} renewals", renewals.len()) };
        assert!(!renewal.another && renewal.seed.len() == 64 && renewal.unix_ms > 1_700_000_000_000);
        assert_eq!(renewal.hostname, format!("hotdesk-{}", &scene.id[..8]));
    }

    // Start and ensure-running wake it too.
    scene.suspended().await;
    let started = scene.ask("start").await;
    assert_eq!((started.status, started.body), (200, json!({"success": true, "status": "starting"})));
    scene.house.until_status(&scene.id, "running").await;
    assert_eq!(scene.count().await, 3);
    scene.suspended().await;
    let ensured = scene.ask("ensure-running").await;
    assert_eq!((ensured.status, &ensured.body["status"]), (200, &json!("running")), "{}", ensured.body);
    assert_eq!(scene.count().await, 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn stop_and_restart_throw_memory_away_and_delete_takes_it_along() {
    let scene = Scene::set().await;
    assert_eq!((scene.count().await, scene.count().await), (1, 2));
    scene.suspended().await;
    let stopping = scene.ask("stop").await;
    assert_eq!((stopping.status, &stopping.body["status"]), (200, &json!("stopping")));
    scene.house.until_status(&scene.id, "stopped").await;
    assert!(!scene.house.memory(&scene.id).exists());
    for verb in ["suspend", "resume"] {
        let which = if verb == "suspend" { "running" } else { "suspended" };
        let text = format!("Computer is not {which} (status: stopped)");
        refused(&scene.ask(verb).await, 409, None, &text);
    }
    assert_eq!(scene.ask("start").await.status, 200);
    assert_eq!(scene.count().await, 1, "booted from its disk");

    scene.suspended().await;
    let restarting = scene.ask("restart").await;
    assert_eq!((restarting.status, &restarting.body["status"]), (200, &json!("restarting")));
    assert_eq!(scene.count().await, 1);

    // What is asked of a whole workspace lets those that sleep sleep.
    scene.suspended().await;
    for verb in ["stop", "restart"] {
        let path = format!("/workspaces/{}/{verb}", scene.workspace);
        let answer = scene.house.post(&path, json!({})).await;
        assert_eq!(answer.body["computers"][0]["status"], "suspended", "{verb}: {}", answer.body);
    }
    scene.house.post(&format!("/workspaces/{}/start", scene.workspace), json!({})).await;
    assert_eq!(scene.count().await, 2);

    scene.suspended().await;
    assert_eq!(scene.house.delete(&format!("/computers/{}", scene.id)).await.status, 200);
    assert_eq!(scene.house.machines(), [""; 0]);
    for verb in ["suspend", "resume"] {
        refused(&scene.ask(verb).await, 404, None, "Desktop not found");
    }
    refused(&scene.read("/suspension").await, 404, None, "Desktop not found");
}

#[tokio::test(flavor = "multi_thread")]
async fn acting_wakes_a_computer_and_reading_does_where_that_is_configured() {
    let scene = Scene::set().await;
    assert_eq!(scene.count().await, 1);
    scene.suspended().await;
    assert_eq!(scene.read("/screens").await.status, 200);
    scene.is("running").await;
    scene.suspended().await;
    let mut counted = join_all((0..8).map(|_| scene.count())).await;
    counted.sort_unstable();
    assert_eq!(counted, (2..10).collect::<Vec<_>>(), "one wake for all");

    let scene = Scene::set_up(Setup { reads_wake: false, ..Setup::default() }).await;
    let instance = scene.read("").await.body["instance_id"].as_str().expect("one").to_owned();
    scene.suspended().await;
    let text = "Computer is not running (status: suspended)";
    for what in ["/screens", "/screenshot", "/cursor_position", "/windows", "/processes", "/sessions"] {
        refused(&scene.read(what).await, 409, Some("computer_asleep"), text);
    }
    let proxied = scene.house.get(&format!("/desktops/{instance}/proxy/health")).await;
    refused(&proxied, 409, Some("computer_asleep"), text);
    scene.is("suspended").await;
    assert_eq!(scene.count().await, 1, "an action wakes it all the same");
    assert_eq!(scene.read("/screens").await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_action_that_is_not_to_wait_hears_that_the_computer_wakes() {
    let scene = Scene::set_up(Setup { wake_wait_seconds: 0, ..Setup::default() }).await;
    assert_eq!(scene.count().await, 1, "who runs is not waited for");
    scene.suspended().await;
    let (call, long) = (scene.house.engine.calls(Verb::Resume) + 1, Duration::from_secs(5));
    scene.house.engine.plan(Fault { verb: Verb::Resume, call, failure: Failure::Delay(long) });
    let path = format!("/computers/{}/bash", scene.id);
    // The first begins the wake, the second finds it under way.
    for _ in 0..2 {
        let act = scene.house.request(Method::POST, &path).json(&json!({"command": "x"}));
        let told = act.send().await.expect("an answer");
        assert_eq!((told.status().as_u16(), &told.headers()["retry-after"]), (503, &"5".parse().unwrap()));
        let body: Value = told.json().await.expect("a body");
        assert_eq!((&body["code"], &body["retry_after"]), (&json!("resuming"), &json!(5)), "{body}");
        scene.is("starting").await;
    }
    scene.house.until_status(&scene.id, "running").await;
    assert_eq!(scene.count().await, 2, "what was told so was not done");
    assert_eq!(scene.house.engine.calls(Verb::Resume), call, "one wake for both");

    // What does not wake is told as that.
    scene.suspended().await;
    scene.house.sql("UPDATE computers SET billing = 'trial', trial_ends_at = 1").await;
    let answer = scene.house.post(&path, json!({"command": "x"})).await;
    refused(&answer, 402, None, "The trial has ended. Choose a plan to continue.");
    scene.is("suspended").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sockets_end_with_a_suspend_and_wake_nobody() {
    let scene = Scene::set().await;
    let password = scene.read("/vnc-password").await.body["password"].as_str().expect("one").to_owned();
    let path = format!("/desktops/{}/ws/events?token={password}", scene.id);
    let open = || Client::open(scene.house.address(), &path, &[]);
    let mut socket = open().await.expect("opened");
    socket.0.send(r#"{"type":"ping"}"#.into()).await.expect("sent");
    assert_eq!(socket.next().await, Came::Text(r#"{"type":"pong"}"#.to_owned()));
    scene.suspended().await;
    assert_eq!(socket.closed().await, 1001);
    assert_eq!(open().await.expect("opened").closed().await, 4404);
    scene.is("suspended").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_keeps_no_memory_says_so() {
    let scene =
        Scene::set_up(Setup { capabilities: Some(Capabilities::default()), ..Setup::default() }).await;
    let text = "This computer cannot be suspended";
    refused(&scene.ask("suspend").await, 400, Some("suspend_unsupported"), text);
    scene.is("running").await;
    assert_eq!(scene.count().await, 1);
    let resumed = scene.ask("resume").await;
    assert_eq!((resumed.status, &resumed.body["status"]), (200, &json!("running")));
}

#[tokio::test(flavor = "multi_thread")]
async fn who_may_not_suspend_is_told_in_the_operation_s_own_words() {
    let scene = Scene::set().await;
    let path = format!("/api/computers/{}/suspend", scene.id);
    let bare = || scene.house.bare(Method::POST, &path);
    refused(&answered(bare()).await, 401, None, "Authentication required");
    refused(&answered(bare().bearer_auth("other")).await, 401, None, "Authentication required");
    refused(&answered(bare().bearer_auth("sk_live_x")).await, 401, None, "Invalid API key");
    assert_eq!(scene.read("/suspend").await.status, 405);
    assert_eq!(scene.ask("suspension").await.status, 405);
    scene.is("running").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn auto_stop_is_read_and_set() {
    let scene = Scene::set().await;
    let unset = scene.read("/auto-stop").await;
    assert_eq!((unset.status, unset.body), (200, json!({"auto_stop_minutes": 0, "configurable": true})));
    let path = format!("/computers/{}/auto-stop", scene.id);
    for (body, minutes, words) in [
        (json!({"auto_stop_minutes": 15}), 15, "15m"),
        (json!({"minutes": 43_200}), 43_200, "43200m"),
        (json!({"auto_stop_minutes": 1, "minutes": 7}), 1, "1m"),
        (json!({"auto_stop_minutes": 0}), 0, "0s"),
    ] {
        let set = scene.house.patch(&path, body).await;
        let expected = json!({"auto_stop_minutes": minutes, "auto_suspend_after": words});
        assert_eq!((set.status, set.body), (200, expected));
        assert_eq!(scene.read("/auto-stop").await.body["auto_stop_minutes"], minutes);
        assert_eq!(scene.read("").await.body["auto_stop_minutes"], minutes);
    }
    scene.house.patch(&path, json!({"minutes": 9})).await;
    for bad in [
        json!({}),
        json!({"auto_stop_minutes": -1}),
        json!({"auto_stop_minutes": 43_201}),
        json!({"auto_stop_minutes": 1.5}),
        json!({"auto_stop_minutes": "15"}),
        json!({"auto_stop_minutes": null}),
        json!({"minutes": -1}),
        json!([]),
    ] {
        let answer = scene.house.patch(&path, bad.clone()).await;
        assert_eq!(answer.status, 400, "{bad}: {}", answer.body);
    }
    assert_eq!(scene.read("/auto-stop").await.body["auto_stop_minutes"], 9);
    scene.suspended().await;
    assert_eq!(scene.house.patch(&path, json!({"minutes": 5})).await.status, 200);
    scene.is("suspended").await;
}
