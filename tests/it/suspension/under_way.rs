//! Requests in progress during a suspend: the client of a command gets an error, sockets are closed with
//! their code, and the command itself continues after the resume and runs only once.

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

use crate::harness::agent::{HttpAnswer, fetch_json};
use crate::harness::caller::{Caller, id_of};
use crate::harness::controller::{RunningController, gvisor};
use crate::harness::simulation::Simulation;
use crate::harness::socket::{Client, SocketEvent};

/// Longest time until the connections of a simulated machine end and memory is saved, on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Number of parallel requests, and of batches. Their connections are pooled and end together at the suspend.
const PARALLEL: usize = 24;
const BATCHES: usize = 3;
const KEY: &str = "sent-before-the-suspend";

/// A computer with a running command.
struct Desk<'a> {
    controller: &'a Caller,
    id: &'a str,
    /// A command that runs until the test lets it finish.
    command: &'a str,
}

impl Desk<'_> {
    async fn verb(&self, verb: &str, status: &str) {
        let answer = self.controller.post(&format!("/computers/{}/{verb}", self.id), json!({})).await;
        assert_eq!((answer.status, &answer.body["status"]), (200, &json!(status)), "{}", answer.body);
    }

    async fn ask(&self) -> HttpAnswer {
        let request = self.controller.request(Method::POST, &format!("/computers/{}/bash", self.id));
        fetch_json(request.header("Idempotency-Key", KEY).json(&json!({ "command": self.command }))).await
    }

    async fn open(&self, channel: &str) -> Client {
        let got = self.controller.get(&format!("/computers/{}/vnc-password", self.id)).await.body;
        let token = got["password"].as_str().expect("a password");
        let path = format!("/desktops/{}/ws/{channel}?token={token}", self.id);
        let mut client = Client::open(self.controller.address(), &path, &[]).await.expect("accepted");
        if channel == "events" {
            client.0.send(r#"{"type":"ping"}"#.into()).await.expect("sent");
        }
        let first = client.next().await;
        assert!(matches!(first, SocketEvent::Text(_)), "{channel}: {first:?}");
        client
    }

    /// Suspends the computer during the command, resumes it, and checks the outcome.
    async fn check_suspend(&self, started: impl AsyncFn() -> bool, finish_command: impl AsyncFnOnce()) {
        let (terminal, events) = (self.open("terminal").await, self.open("events").await);
        let suspended = async {
            let started = wait::until(TIMEOUT, || async { started().await.then_some(()) }).await;
            assert!(started.is_some(), "the command did not start");
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
        assert_eq!(
            (again.status, &again.body["code"]),
            expected,
            "the command must continue: {}",
            again.body
        );
        finish_command().await;
        let response = wait::until(TIMEOUT, || async {
            let again = self.ask().await;
            let in_progress = again.body["code"] == "idempotency_in_progress";
            assert!(in_progress || again.status == 200, "{}", again.body);
            (!in_progress).then_some(again)
        });
        assert_eq!(response.await.expect("the response").body["output"], "done\n");
        drop((self.open("terminal").await, self.open("events").await));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_suspend_over_gvisor_breaks_off_what_is_under_way_and_loses_none_of_it() {
    let Some(configuration) = gvisor() else { return };
    let controller = RunningController::boot_with(&configuration).await;
    let workspace = controller.workspace("demo").await;
    let id = &id_of(&controller.computer(&workspace, "one").await);
    let command = "echo begun >>/root/count; until test -e /root/go; do sleep 0.1; done; echo done";
    let desk = Desk { controller: &controller, id, command };
    let count = || controller.bash(id, "cat /root/count 2>/dev/null; true");
    // Many connections that begin and end together: gVisor saves some of them although they are closed.
    for _ in 0..BATCHES {
        let screens = format!("/computers/{id}/screens");
        let answers = join_all((0..PARALLEL).map(|_| controller.get(&screens))).await;
        assert!(answers.iter().all(|seen| seen.status == 200), "{answers:?}");
    }
    let started = async || count().await == "begun\n";
    desk.check_suspend(started, async || drop(controller.bash(id, "touch /root/go").await)).await;
    assert_eq!(count().await, "begun\n", "the command must run once");
    // The next suspend works, too.
    desk.verb("suspend", "suspended").await;
    desk.verb("resume", "running").await;
    assert_eq!(count().await, "begun\n");
}

/// An agent that runs a command once per key, like hotdesk's own, and has a terminal.
#[derive(Clone)]
struct CommandAgent {
    /// The keys, and whether their command has finished.
    keys: Arc<Mutex<BTreeMap<String, bool>>>,
    started: Arc<Mutex<u32>>,
    free: watch::Sender<bool>,
    tasks: Tasks,
}

impl CommandAgent {
    fn routes(&self) -> Router {
        let agent = self.clone();
        let bash = async move |headers: HeaderMap| agent.bash(&headers).await;
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
            Some(true) => return response(StatusCode::OK, bash_output()),
            Some(false) => {
                let body = json!({"error": "still at it", "code": "idempotency_in_progress"});
                return response(StatusCode::CONFLICT, body);
            }
            None => {}
        }
        self.keys.lock().expect("no panic").insert(key.clone(), false);
        *self.started.lock().expect("no panic") += 1;
        // The command continues without a waiting client.
        let (agent, mut free) = (self.clone(), self.free.subscribe());
        let done = self.tasks.spawn("command", async move {
            free.wait_for(|free| *free).await.expect("the test runs");
            agent.keys.lock().expect("no panic").insert(key, true);
        });
        done.await.expect("no panic");
        response(StatusCode::OK, bash_output())
    }
}

fn bash_output() -> Value {
    json!({"success": true, "action": "bash", "command": "", "output": "done\n", "exit_code": 0})
}

fn response(status: StatusCode, body: Value) -> Response {
    (status, [(axum::http::header::CONNECTION, "close")], Json(body)).into_response()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_suspend_of_a_simulated_computer_breaks_off_what_is_under_way_and_repeats_none_of_it() {
    let (keys, started, free) = (Arc::default(), Arc::default(), watch::Sender::new(false));
    let agent = CommandAgent { keys, started, free, tasks: Tasks::new() };
    let controller = Simulation::boot_with(agent.routes()).await;
    let workspace = controller.workspace("demo").await;
    let id = &controller.computer(&workspace, "one").await;
    let desk = Desk { controller: &controller, id, command: "x" };
    let started = async || *agent.started.lock().expect("no panic") == 1;
    let finish_command = async || {
        agent.free.send_replace(true);
    };
    desk.check_suspend(started, finish_command).await;
    assert_eq!(*agent.started.lock().expect("no panic"), 1, "the controller must not repeat the request");
}
