//! What becomes of those who are in the middle of something when a computer falls asleep? A command's client hears that no
//! answer comes, sockets are closed with their code, and the command itself goes on after the wake: it is done once.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::extract::ws::{Message, WebSocketUpgrade};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use futures_util::SinkExt;
use futures_util::future::join_all;
use hotdesk::base::tasks::Tasks;
use hotdesk::base::wait;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::harness::agent::{Answered, answered};
use crate::harness::caller::{Caller, id_of};
use crate::harness::controller::{RunningController, gvisor};
use crate::harness::simulation::Simulation;
use crate::harness::socket::{Came, Client};

/// For connections of a simulated machine to end, and for memory to be saved, on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Requests at once, so that their connections are reported together, and how often: they are pooled, and end when it sleeps.
const CROWD: usize = 24;
const CROWDS: usize = 3;
const KEY: &str = "asked-before-it-slept";

/// A computer with somebody at work on it.
struct Desk<'a> {
    house: &'a Caller,
    id: &'a str,
    /// What is done once, and goes on until it is let.
    command: &'a str,
}

impl Desk<'_> {
    async fn verb(&self, verb: &str, status: &str) {
        let told = self.house.post(&format!("/computers/{}/{verb}", self.id), json!({})).await;
        assert_eq!((told.status, &told.body["status"]), (200, &json!(status)), "{}", told.body);
    }

    async fn ask(&self) -> Answered {
        let request = self.house.request(Method::POST, &format!("/computers/{}/bash", self.id));
        answered(request.header("Idempotency-Key", KEY).json(&json!({ "command": self.command }))).await
    }

    async fn open(&self, channel: &str) -> Client {
        let got = self.house.get(&format!("/computers/{}/vnc-password", self.id)).await.body;
        let token = got["password"].as_str().expect("a password");
        let path = format!("/desktops/{}/ws/{channel}?token={token}", self.id);
        let mut client = Client::open(self.house.address(), &path, &[]).await.expect("accepted");
        if channel == "events" {
            client.0.send(r#"{"type":"ping"}"#.into()).await.expect("sent");
        }
        let came = client.next().await;
        assert!(matches!(came, Came::Text(_)), "{channel}: {came:?}");
        client
    }

    /// Suspends it in the middle of all that, wakes it, and looks.
    async fn sleeps(&self, begun: impl AsyncFn() -> bool, let_go: impl AsyncFnOnce()) {
        let (terminal, events) = (self.open("terminal").await, self.open("events").await);
        let suspended = async {
            let begun = wait::until(TIMEOUT, || async { begun().await.then_some(()) }).await;
            assert!(begun.is_some(), "the command did not begin");
            self.verb("suspend", "suspended").await;
        };
        let (first, ()) = tokio::join!(self.ask(), suspended);
        assert_eq!(first.status, 503, "{}", first.body);
        assert_eq!(first.body["error"], "The computer broke off its answer");
        assert!(first.body["request_id"].is_string() && first.body["retry_after"].is_u64(), "{}", first.body);
        assert_eq!((terminal.closed().await, events.closed().await), (1001, 1001));

        self.verb("resume", "running").await;
        let again = self.ask().await;
        let expected = (409, &json!("idempotency_in_progress"));
        assert_eq!((again.status, &again.body["code"]), expected, "it goes on: {}", again.body);
        let_go().await;
        let told = wait::until(TIMEOUT, || async {
            let again = self.ask().await;
            let waits = again.body["code"] == "idempotency_in_progress";
            assert!(waits || again.status == 200, "{}", again.body);
            (!waits).then_some(again)
        });
        assert_eq!(told.await.expect("its answer").body["output"], "done\n");
        drop((self.open("terminal").await, self.open("events").await));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_suspend_over_gvisor_breaks_off_what_is_under_way_and_loses_none_of_it() {
    let Some(configuration) = gvisor() else { return };
    let house = RunningController::boot_with(&configuration).await;
    let workspace = house.workspace("demo").await;
    let id = &id_of(&house.computer(&workspace, "one").await);
    let command = "echo begun >>/root/count; until test -e /root/go; do sleep 0.1; done; echo done";
    let desk = Desk { house: &house, id, command };
    let count = || house.bash(id, "cat /root/count 2>/dev/null; true");
    // Many connections that begin and end together: gVisor saves some of them although they are closed.
    for _ in 0..CROWDS {
        let screens = format!("/computers/{id}/screens");
        let crowd = join_all((0..CROWD).map(|_| house.get(&screens))).await;
        assert!(crowd.iter().all(|seen| seen.status == 200), "{crowd:?}");
    }
    let begun = async || count().await == "begun\n";
    desk.sleeps(begun, async || drop(house.bash(id, "touch /root/go").await)).await;
    assert_eq!(count().await, "begun\n", "it was done once");
    // Nothing of it is in the way of the next sleep.
    desk.verb("suspend", "suspended").await;
    desk.verb("resume", "running").await;
    assert_eq!(count().await, "begun\n");
}

/// An agent that carries a command out once for each key, as hotdesk's own does, and has a terminal.
#[derive(Clone)]
struct Stand {
    /// The keys, and whether their command is done.
    keys: Arc<Mutex<BTreeMap<String, bool>>>,
    begun: Arc<Mutex<u32>>,
    free: watch::Sender<bool>,
    tasks: Tasks,
}

impl Stand {
    fn routes(&self) -> Router {
        let stand = self.clone();
        let bash = async move |headers: HeaderMap| stand.bash(&headers).await;
        let terminal = async |upgrade: WebSocketUpgrade| {
            upgrade.on_upgrade(async |mut socket| {
                let prompt = json!({"type": "output", "data": "# "}).to_string();
                drop(socket.send(Message::text(prompt)).await);
                while let Some(Ok(_)) = socket.recv().await {}
            })
        };
        Router::new().route("/bash", post(bash)).route("/ws/terminal", get(terminal))
    }

    async fn bash(&self, headers: &HeaderMap) -> Response {
        let key = headers["idempotency-key"].to_str().expect("text").to_owned();
        let known = self.keys.lock().expect("no panic").get(&key).copied();
        match known {
            Some(true) => return told(StatusCode::OK, bash_output()),
            Some(false) => {
                let body = json!({"error": "still at it", "code": "idempotency_in_progress"});
                return told(StatusCode::CONFLICT, body);
            }
            None => {}
        }
        self.keys.lock().expect("no panic").insert(key.clone(), false);
        *self.begun.lock().expect("no panic") += 1;
        // It goes on whether or not anybody waits for its answer.
        let (stand, mut free) = (self.clone(), self.free.subscribe());
        let done = self.tasks.spawn("command", async move {
            free.wait_for(|free| *free).await.expect("the test lives");
            stand.keys.lock().expect("no panic").insert(key, true);
        });
        done.await.expect("no panic");
        told(StatusCode::OK, bash_output())
    }
}

fn bash_output() -> Value {
    json!({"success": true, "action": "bash", "command": "", "output": "done\n", "exit_code": 0})
}

fn told(status: StatusCode, body: Value) -> Response {
    (status, [(axum::http::header::CONNECTION, "close")], Json(body)).into_response()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_suspend_of_a_simulated_computer_breaks_off_what_is_under_way_and_repeats_none_of_it() {
    let (keys, begun, free) = (Arc::default(), Arc::default(), watch::Sender::new(false));
    let stand = Stand { keys, begun, free, tasks: Tasks::new() };
    let house = Simulation::boot_with(stand.routes()).await;
    let workspace = house.workspace("demo").await;
    let id = &house.computer(&workspace, "one").await;
    let desk = Desk { house: &house, id, command: "x" };
    let begun = async || *stand.begun.lock().expect("no panic") == 1;
    let let_go = async || {
        stand.free.send_replace(true);
    };
    desk.sleeps(begun, let_go).await;
    assert_eq!(*stand.begun.lock().expect("no panic"), 1, "the controller asks nothing twice by itself");
}
