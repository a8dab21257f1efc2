//! End of a stream with the access of its starter: also when the stream starts meanwhile, when the computer
//! is suspended, and when the agent does not answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};
use std::time::Duration;

use axum::http::StatusCode;
use axum::routing::post;
use axum::{Json, Router};
use hotdesk::base::wait;
use hotdesk::domain::identity::access::Role;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::sync::Mutex;

use super::loss::{begin_stream, members};
use super::members::add_member;
use crate::harness::caller::{Caller, HttpAnswer};
use crate::harness::simulation::Simulation;

/// Longest time of a background request to a computer, on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(30);

/// An agent for streams whose responses a test chooses.
#[derive(Default)]
struct Agent {
    /// A lock holder delays starts.
    gate: Mutex<()>,
    starts: AtomicUsize,
    stops: AtomicUsize,
    ended: AtomicUsize,
    /// Statuses of the responses; 0 means success.
    on_start: AtomicU16,
    on_stop: AtomicU16,
}

fn answer(status: &AtomicU16, success: Value) -> (StatusCode, Json<Value>) {
    match StatusCode::from_u16(status.load(Ordering::SeqCst)) {
        Ok(StatusCode::CONFLICT) => {
            (StatusCode::CONFLICT, Json(json!({"error": "it streams", "code": "already_streaming"})))
        }
        Ok(status) => (status, Json(json!({"error": "on purpose"}))),
        Err(_) => (StatusCode::OK, Json(success)),
    }
}

impl Agent {
    fn routes(self: &Arc<Self>) -> Router {
        let (starting, stopping) = (Arc::clone(self), Arc::clone(self));
        let start = async move || {
            starting.starts.fetch_add(1, Ordering::SeqCst);
            drop(starting.gate.lock().await);
            answer(&starting.on_start, json!({"success": true, "status": "streaming", "pid": 7}))
        };
        let stop = async move || {
            let (status, body) = answer(&stopping.on_stop, json!({"success": true}));
            if status == StatusCode::OK {
                stopping.ended.fetch_add(1, Ordering::SeqCst);
            }
            stopping.stops.fetch_add(1, Ordering::SeqCst);
            (status, body)
        };
        Router::new().route("/stream/start", post(start)).route("/stream/stop", post(stop))
    }

    /// Waits until a count reaches `is`.
    async fn until(&self, count: impl Fn(&Self) -> &AtomicUsize, expected: usize, what: &str) {
        let reached =
            wait::until(TIMEOUT, || async { (count(self).load(Ordering::SeqCst) >= expected).then_some(()) });
        assert!(reached.await.is_some(), "{what}");
    }
}

/// A controller, its workspace, its running computer, and the computer's agent.
async fn boot_controller() -> (Simulation, String, String, Arc<Agent>) {
    let agent = Arc::<Agent>::default();
    let controller = Simulation::boot_with(agent.routes()).await;
    let home = controller.workspace("home").await;
    let desk = controller.computer(&home, "desk").await;
    (controller, home, desk, agent)
}

async fn remove(controller: &Simulation, home: &str, member: &str) {
    let removed = members(controller, Method::DELETE, home, json!({ "memberId": member })).await;
    assert_eq!(removed.status, 200, "{}", removed.body);
}

async fn connect(who: &Caller) {
    let connection = json!({"name": "live", "url": "rtmp://live.example.org/app", "key": "k"});
    who.create("/stream/connections", connection).await;
}

async fn start(who: &Caller, desk: &str) -> HttpAnswer {
    who.post(&format!("/computers/{desk}/stream/start"), json!({"connection_name": "live"})).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_begins_while_its_starter_hangs_up_and_is_taken_out_ends() {
    let (controller, home, desk, agent) = boot_controller().await;
    let (member, id) = add_member(&controller, "m@x.example", &home, Some(Role::Member)).await;
    connect(&member).await;
    // The last stream was the owner's, so the removal itself ends none.
    begin_stream(&controller, &desk).await;
    let gate = agent.gate.lock().await;
    let request = member.request(Method::POST, &format!("/computers/{desk}/stream/start"));
    let starting = request.json(&json!({"connection_name": "live"})).send();
    // The client hangs up here.
    tokio::select! {
        answer = starting => panic!("a response before the start: {answer:?}"),
        () = agent.until(|agent| &agent.starts, 2, "no start reached the agent") => {}
    }
    remove(&controller, &home, &id).await;
    drop(gate);
    agent.until(|agent| &agent.ended, 1, "the stream outlives its starter's access").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_without_an_answer_leaves_nobody_s_stream_and_a_refusal_the_one_before() {
    let (controller, home, desk, agent) = boot_controller().await;
    let (member, _) = add_member(&controller, "m@x.example", &home, Some(Role::Member)).await;
    let (_, first) = add_member(&controller, "first@x.example", &home, Some(Role::Member)).await;
    let (_, second) = add_member(&controller, "second@x.example", &home, Some(Role::Member)).await;
    connect(&member).await;
    begin_stream(&controller, &desk).await;
    agent.on_start.store(409, Ordering::SeqCst);
    assert_eq!(start(&member, &desk).await.body["code"], "already_streaming");
    remove(&controller, &home, &first).await;
    agent.on_start.store(500, Ordering::SeqCst);
    assert_eq!(start(&member, &desk).await.status, 500);
    remove(&controller, &home, &second).await;
    agent.until(|agent| &agent.ended, 1, "a stream of unknown ownership must end").await;
    assert_eq!(agent.ended.load(Ordering::SeqCst), 1, "the owner's stream must continue");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_sleeps_when_its_starter_is_taken_out_ends_at_the_wake() {
    let (controller, home, desk, agent) = boot_controller().await;
    let (member, id) = add_member(&controller, "m@x.example", &home, Some(Role::Member)).await;
    begin_stream(&member, &desk).await;
    assert_eq!(controller.command(format!("/computers/{desk}/suspend")).await.status, 200);
    remove(&controller, &home, &id).await;
    assert_eq!(agent.stops.load(Ordering::SeqCst), 0, "no request reaches a suspended computer");
    assert_eq!(controller.command(format!("/computers/{desk}/resume")).await.status, 200);
    agent.until(|agent| &agent.ended, 1, "the stream continues after the resume").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_could_not_be_ended_is_not_forgotten_by_the_next_controller() {
    let (mut controller, home, desk, agent) = boot_controller().await;
    let (member, id) = add_member(&controller, "m@x.example", &home, Some(Role::Member)).await;
    begin_stream(&member, &desk).await;
    agent.on_stop.store(500, Ordering::SeqCst);
    remove(&controller, &home, &id).await;
    agent.until(|agent| &agent.stops, 1, "no stop reached the agent").await;
    controller.end().await;
    agent.on_stop.store(0, Ordering::SeqCst);
    controller.begin(&[]).await;
    agent.until(|agent| &agent.ended, 1, "the next controller sends no stop").await;
    // After the stream has ended, the record is removed: otherwise the next start of another stream would end
    // it.
    let computer = desk.parse().expect("an id");
    let store = controller.store().await;
    let settled = wait::until(TIMEOUT, || async {
        store.stream_end_requested_at(computer).await.expect("a look").is_none().then_some(())
    });
    assert!(settled.await.is_some(), "the record of the stop remains");
}
