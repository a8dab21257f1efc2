//! Suspend and resume with memory (docs/lifecycle.md#suspend).

pub mod agent;
mod failures;
mod races;
mod recovery;
mod rounds;
mod under_way;

use futures_util::SinkExt;
use futures_util::future::join_all;
use hotdesk::engine::Capabilities;
use hotdesk::engine::simulated::{Failure, Fault, Verb};
use reqwest::Method;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use self::agent::Agents;
use crate::harness::agent::{HttpAnswer, fetch_json};
use crate::harness::simulation::{Setup, Simulation};
use crate::harness::socket::{Client, SocketEvent};

/// A controller with a computer whose agent counts its calls.
pub struct Scene {
    pub controller: Simulation,
    pub agents: Agents,
    pub workspace: String,
    pub id: String,
}

impl Scene {
    pub async fn boot() -> Self {
        Self::boot_with(Setup::default()).await
    }

    pub async fn boot_with(setup: Setup) -> Self {
        let agents = Agents::new();
        let controller = Simulation::boot_with_agent(agents.factory(), setup).await;
        let workspace = controller.workspace("w").await;
        let id = controller.computer(&workspace, "desk").await;
        Self { controller, agents, workspace, id }
    }

    pub async fn ask(&self, verb: &str) -> HttpAnswer {
        self.controller.post(&format!("/computers/{}/{verb}", self.id), json!({})).await
    }

    pub async fn read(&self, what: &str) -> HttpAnswer {
        self.controller.get(&format!("/computers/{}{what}", self.id)).await
    }

    pub async fn assert_status(&self, status: &str) {
        assert_eq!(self.controller.status(&self.id).await, status);
    }

    /// Number of calls that the agent has counted since its boot, including this one.
    pub async fn count(&self) -> u32 {
        let answer =
            self.controller.post(&format!("/computers/{}/bash", self.id), json!({"command": "x"})).await;
        assert_eq!(answer.status, 200, "{}", answer.body);
        answer.body["output"].as_str().and_then(|text| text.parse().ok()).expect("a number")
    }

    /// Waits until the computer runs, and suspends it.
    pub async fn suspend(&self) {
        self.controller.until_status(&self.id, "running").await;
        let answer = self.ask("suspend").await;
        assert_eq!((answer.status, &answer.body["status"]), (200, &json!("suspended")), "{}", answer.body);
    }
}

/// Holds the next call of an operation until the token is cancelled.
pub fn hold_next(scene: &Scene, verb: Verb) -> CancellationToken {
    let (call, held) = (scene.controller.engine.calls(verb) + 1, CancellationToken::new());
    scene.controller.engine.plan(Fault { verb, call, failure: Failure::Until(held.clone()) });
    held
}

/// End of the refusals by an engine that saves no memory: it names the settings that change that.
pub const SETTINGS: &str = "To change that, the operator offers the isolation sandbox or vm \
    (engines.offered), and the stopped computer changes to it; see docs/lifecycle.md#suspend";

/// Asserts a refusal with this status, code and text.
pub fn assert_refused(answer: &HttpAnswer, status: u16, code: Option<&str>, text: &str) {
    assert_eq!((answer.status, answer.body["code"].as_str()), (status, code), "{}", answer.body);
    assert_eq!(answer.body["error"], text);
    assert!(answer.body["request_id"].is_string(), "{}", answer.body);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_computer_sleeps_and_wakes_with_what_it_had_in_memory() {
    let scene = Scene::boot().await;
    assert_eq!(scene.count().await, 1);
    let awake = scene.read("").await.body;
    assert_refused(
        &scene.read("/suspension").await,
        409,
        None,
        "Computer is not suspended (status: running)",
    );

    // With either handle, and again: the second suspend changes nothing.
    let by_instance = format!("/computers/{}/suspend", awake["instance_id"].as_str().expect("one"));
    for path in [by_instance, format!("/computers/{}/suspend", scene.id)] {
        let answer = scene.controller.post(&path, json!({})).await;
        assert_eq!((answer.status, answer.body), (200, json!({"success": true, "status": "suspended"})));
    }
    let suspension = scene.read("/suspension").await;
    assert_eq!((suspension.status, suspension.body), (200, json!({"status": "suspended"})));
    let asleep = scene.read("").await.body;
    assert_eq!((&asleep["status"], &asleep["instance_id"]), (&json!("suspended"), &awake["instance_id"]));
    assert_eq!((&asleep["instance_details"], asleep.get("connection_url")), (&Value::Null, None));
    let listed = scene.controller.get("/computers?status=suspended").await.body;
    assert_eq!((&listed["total"], &listed["computers"][0]["id"]), (&json!(1), &json!(scene.id)));

    scene.agents.paths.lock().expect("no panic").clear();
    let woken = scene.ask("resume").await;
    let first = scene.agents.paths.lock().expect("no panic").iter().take(2).cloned().collect::<Vec<_>>();
    assert_eq!(first, ["/identity", "/health"], "the new identity, and a proof that it holds");
    let expected = json!({"success": true, "status": "running", "waking": false, "pending": false,
        "expected_seconds": 0});
    assert_eq!((woken.status, &woken.body), (200, &expected));
    assert_eq!(scene.count().await, 2, "the memory is restored");
    let now = scene.read("").await.body;
    assert_eq!(now["status"], "running");
    assert_ne!(now["vnc_password"], awake["vnc_password"]);
    let again = scene.ask("resume").await;
    assert_eq!((again.status, again.body), (200, expected));
    {
        let renewals = scene.agents.renewals.lock().expect("no panic");
        let [renewal] = &renewals[..] else { panic!("{} renewals", renewals.len()) };
        assert!(!renewal.another && renewal.seed.len() == 64 && renewal.unix_ms > 1_700_000_000_000);
        assert_eq!(renewal.hostname, format!("hotdesk-{}", &scene.id[..8]));
    }

    // Start and ensure-running resume it, too.
    scene.suspend().await;
    let started = scene.ask("start").await;
    assert_eq!((started.status, started.body), (200, json!({"success": true, "status": "starting"})));
    scene.controller.until_status(&scene.id, "running").await;
    assert_eq!(scene.count().await, 3);
    scene.suspend().await;
    let ensured = scene.ask("ensure-running").await;
    assert_eq!((ensured.status, &ensured.body["status"]), (200, &json!("running")), "{}", ensured.body);
    assert_eq!(scene.count().await, 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn stop_and_restart_throw_memory_away_and_delete_takes_it_along() {
    let scene = Scene::boot().await;
    assert_eq!((scene.count().await, scene.count().await), (1, 2));
    scene.suspend().await;
    let stopping = scene.ask("stop").await;
    assert_eq!((stopping.status, &stopping.body["status"]), (200, &json!("stopping")));
    scene.controller.until_status(&scene.id, "stopped").await;
    assert!(!scene.controller.memory(&scene.id).exists());
    for verb in ["suspend", "resume"] {
        let required = if verb == "suspend" { "running" } else { "suspended" };
        let text = format!("Computer is not {required} (status: stopped)");
        assert_refused(&scene.ask(verb).await, 409, None, &text);
    }
    assert_eq!(scene.ask("start").await.status, 200);
    assert_eq!(scene.count().await, 1, "a boot from its disk");

    scene.suspend().await;
    let restarting = scene.ask("restart").await;
    assert_eq!((restarting.status, &restarting.body["status"]), (200, &json!("restarting")));
    assert_eq!(scene.count().await, 1);

    // A stop and a restart of the workspace skip suspended computers.
    scene.suspend().await;
    for verb in ["stop", "restart"] {
        let path = format!("/workspaces/{}/{verb}", scene.workspace);
        let answer = scene.controller.post(&path, json!({})).await;
        assert_eq!(answer.body["computers"][0]["status"], "suspended", "{verb}: {}", answer.body);
    }
    scene.controller.post(&format!("/workspaces/{}/start", scene.workspace), json!({})).await;
    assert_eq!(scene.count().await, 2);

    scene.suspend().await;
    assert_eq!(scene.controller.delete(&format!("/computers/{}", scene.id)).await.status, 200);
    assert_eq!(scene.controller.machines(), [""; 0]);
    for verb in ["suspend", "resume"] {
        assert_refused(&scene.ask(verb).await, 404, None, "Desktop not found");
    }
    assert_refused(&scene.read("/suspension").await, 404, None, "Desktop not found");
}

#[tokio::test(flavor = "multi_thread")]
async fn acting_wakes_a_computer_and_reading_does_where_that_is_configured() {
    let scene = Scene::boot().await;
    assert_eq!(scene.count().await, 1);
    scene.suspend().await;
    assert_eq!(scene.read("/screens").await.status, 200);
    scene.assert_status("running").await;
    scene.suspend().await;
    let mut counted = join_all((0..8).map(|_| scene.count())).await;
    counted.sort_unstable();
    assert_eq!(counted, (2..10).collect::<Vec<_>>(), "one resume for all");

    let scene = Scene::boot_with(Setup { reads_wake: false, ..Setup::default() }).await;
    let instance = scene.read("").await.body["instance_id"].as_str().expect("one").to_owned();
    scene.suspend().await;
    let text = "Computer is not running (status: suspended)";
    for what in ["/screens", "/screenshot", "/cursor_position", "/windows", "/processes", "/sessions"] {
        assert_refused(&scene.read(what).await, 409, Some("computer_asleep"), text);
    }
    let proxied = scene.controller.get(&format!("/desktops/{instance}/proxy/health")).await;
    assert_refused(&proxied, 409, Some("computer_asleep"), text);
    scene.assert_status("suspended").await;
    assert_eq!(scene.count().await, 1, "an action still resumes it");
    assert_eq!(scene.read("/screens").await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_action_that_is_not_to_wait_hears_that_the_computer_wakes() {
    let scene = Scene::boot_with(Setup { wake_wait_seconds: 0, ..Setup::default() }).await;
    assert_eq!(scene.count().await, 1, "a running computer needs no wait");
    scene.suspend().await;
    let call = scene.controller.engine.calls(Verb::Resume) + 1;
    let held = hold_next(&scene, Verb::Resume);
    let path = format!("/computers/{}/bash", scene.id);
    // The first request starts the resume; the second finds it in progress.
    for _ in 0..2 {
        let act = scene.controller.request(Method::POST, &path).json(&json!({"command": "x"}));
        let answer = act.send().await.expect("an answer");
        assert_eq!(
            (answer.status().as_u16(), &answer.headers()["retry-after"]),
            (503, &"5".parse().unwrap())
        );
        let body: Value = answer.json().await.expect("a body");
        assert_eq!((&body["code"], &body["retry_after"]), (&json!("resuming"), &json!(5)), "{body}");
        scene.assert_status("starting").await;
    }
    held.cancel();
    scene.controller.until_status(&scene.id, "running").await;
    assert_eq!(scene.count().await, 2, "the refused actions must not run");
    assert_eq!(scene.controller.engine.calls(Verb::Resume), call, "one resume for both");

    // A computer that cannot resume is refused with its reason.
    scene.suspend().await;
    scene.controller.sql("UPDATE computers SET billing = 'trial', trial_ends_at = 1").await;
    let answer = scene.controller.post(&path, json!({"command": "x"})).await;
    assert_refused(&answer, 402, None, "The trial has ended. Choose a plan to continue.");
    scene.assert_status("suspended").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sockets_end_with_a_suspend_and_wake_nobody() {
    let scene = Scene::boot().await;
    let password = scene.read("/vnc-password").await.body["password"].as_str().expect("one").to_owned();
    let path = format!("/desktops/{}/ws/events?token={password}", scene.id);
    let open = || Client::open(scene.controller.address(), &path, &[]);
    let mut socket = open().await.expect("opened");
    socket.0.send(r#"{"type":"ping"}"#.into()).await.expect("sent");
    assert_eq!(socket.next().await, SocketEvent::Text(r#"{"type":"pong"}"#.to_owned()));
    scene.suspend().await;
    assert_eq!(socket.closed().await, 1001);
    assert_eq!(open().await.expect("opened").closed().await, 4404);
    scene.assert_status("suspended").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_keeps_no_memory_says_so() {
    let scene =
        Scene::boot_with(Setup { capabilities: Some(Capabilities::default()), ..Setup::default() }).await;
    let refused = scene.ask("suspend").await;
    let text = format!("This computer cannot be suspended: its engine saves no memory. {SETTINGS}");
    assert_refused(&refused, 400, Some("suspend_unsupported"), &text);
    scene.assert_status("running").await;
    assert_eq!(scene.count().await, 1);
    let resumed = scene.ask("resume").await;
    assert_eq!((resumed.status, &resumed.body["status"]), (200, &json!("running")));
}

#[tokio::test(flavor = "multi_thread")]
async fn who_may_not_suspend_is_told_in_the_operation_s_own_words() {
    let scene = Scene::boot().await;
    let path = format!("/api/computers/{}/suspend", scene.id);
    let bare = || scene.controller.bare(Method::POST, &path);
    assert_refused(&fetch_json(bare()).await, 401, None, "Authentication required");
    assert_refused(&fetch_json(bare().bearer_auth("other")).await, 401, None, "Authentication required");
    assert_refused(&fetch_json(bare().bearer_auth("sk_live_x")).await, 401, None, "Invalid API key");
    assert_eq!(scene.read("/suspend").await.status, 405);
    assert_eq!(scene.ask("suspension").await.status, 405);
    scene.assert_status("running").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn auto_stop_is_read_and_set() {
    let scene = Scene::boot().await;
    let unset = scene.read("/auto-stop").await;
    let expected = json!({"auto_stop_minutes": 0, "configurable": true, "keeps_memory": true});
    assert_eq!((unset.status, unset.body), (200, expected));
    let path = format!("/computers/{}/auto-stop", scene.id);
    for (body, minutes, text) in [
        (json!({"auto_stop_minutes": 15}), 15, "15m"),
        (json!({"minutes": 43_200}), 43_200, "43200m"),
        (json!({"auto_stop_minutes": 1, "minutes": 7}), 1, "1m"),
        (json!({"auto_stop_minutes": 0}), 0, "0s"),
    ] {
        let set = scene.controller.patch(&path, body).await;
        let expected =
            json!({"auto_stop_minutes": minutes, "auto_suspend_after": text, "keeps_memory": true});
        assert_eq!((set.status, set.body), (200, expected));
        assert_eq!(scene.read("/auto-stop").await.body["auto_stop_minutes"], minutes);
        assert_eq!(scene.read("").await.body["auto_stop_minutes"], minutes);
    }
    scene.controller.patch(&path, json!({"minutes": 9})).await;
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
        let answer = scene.controller.patch(&path, bad.clone()).await;
        assert_eq!(answer.status, 400, "{bad}: {}", answer.body);
    }
    assert_eq!(scene.read("/auto-stop").await.body["auto_stop_minutes"], 9);
    scene.suspend().await;
    assert_eq!(scene.controller.patch(&path, json!({"minutes": 5})).await.status, 200);
    scene.assert_status("suspended").await;
}
