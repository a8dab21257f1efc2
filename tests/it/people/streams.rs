//! Does no stream outlive the access of whoever began it: not one that begins meanwhile, not one that sleeps meanwhile, and not
//! one whose agent does not answer?

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};
use std::time::Duration;

use axum::http::StatusCode;
use axum::routing::post;
use axum::{Json, Router};
use hotdesk::base::wait;
use hotdesk::domain::access::Role;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::sync::Mutex;

use super::loss::{begin_stream, members};
use super::members::somebody;
use crate::harness::caller::{Answered, Caller};
use crate::harness::simulation::Simulation;

/// How long what is told to a computer in the background may take on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(30);

/// An agent that streams, or says what a test wants.
#[derive(Default)]
struct Agent {
    /// Who holds it holds starts up.
    gate: Mutex<()>,
    starts: AtomicUsize,
    stops: AtomicUsize,
    ended: AtomicUsize,
    /// The statuses of its answers; 0 is success.
    on_start: AtomicU16,
    on_stop: AtomicU16,
}

fn answer(status: &AtomicU16, good: Value) -> (StatusCode, Json<Value>) {
    match StatusCode::from_u16(status.load(Ordering::SeqCst)) {
        Ok(StatusCode::CONFLICT) => {
            (StatusCode::CONFLICT, Json(json!({"error": "it streams", "code": "already_streaming"})))
        }
        Ok(status) => (status, Json(json!({"error": "on purpose"}))),
        Err(_) => (StatusCode::OK, Json(good)),
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

    /// Waits until one of its counts is this.
    async fn until(&self, count: impl Fn(&Self) -> &AtomicUsize, is: usize, what: &str) {
        let reached =
            wait::until(TIMEOUT, || async { (count(self).load(Ordering::SeqCst) >= is).then_some(()) });
        assert!(reached.await.is_some(), "{what}");
    }
}

/// A house with a running computer and its agent.
async fn house() -> (Simulation, String, String, Arc<Agent>) {
    let agent = Arc::<Agent>::default();
    let house = Simulation::boot_with(agent.routes()).await;
    let home = house.workspace("home").await;
    let desk = house.computer(&home, "desk").await;
    (house, home, desk, agent)
}

async fn remove(house: &Simulation, home: &str, member: &str) {
    let removed = members(house, Method::DELETE, home, json!({ "memberId": member })).await;
    assert_eq!(removed.status, 200, "{}", removed.body);
}

async fn connect(who: &Caller) {
    let connection = json!({"name": "live", "url": "rtmp://live.example.org/app", "key": "k"});
    who.made("/stream/connections", connection).await;
}

async fn start(who: &Caller, desk: &str) -> Answered {
    who.post(&format!("/computers/{desk}/stream/start"), json!({"connection_name": "live"})).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_begins_while_its_starter_hangs_up_and_is_taken_out_ends() {
    let (house, home, desk, agent) = house().await;
    let (member, id) = somebody(&house, "m@x.example", &home, Some(Role::Member)).await;
    connect(&member).await;
    // The last one was the owner's: the loss itself has nothing to end.
    begin_stream(&house, &desk).await;
    let held = agent.gate.lock().await;
    let request = member.request(Method::POST, &format!("/computers/{desk}/stream/start"));
    let starting = request.json(&json!({"connection_name": "live"})).send();
    // Its client hangs up then.
    tokio::select! {
        answer = starting => panic!("answered before it began: {answer:?}"),
        () = agent.until(|agent| &agent.starts, 2, "no start came") => {}
    }
    remove(&house, &home, &id).await;
    drop(held);
    agent.until(|agent| &agent.ended, 1, "it outlives its starter's access").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_without_an_answer_leaves_nobody_s_stream_and_a_refusal_the_one_before() {
    let (house, home, desk, agent) = house().await;
    let (member, _) = somebody(&house, "m@x.example", &home, Some(Role::Member)).await;
    let (_, first) = somebody(&house, "first@x.example", &home, Some(Role::Member)).await;
    let (_, second) = somebody(&house, "second@x.example", &home, Some(Role::Member)).await;
    connect(&member).await;
    begin_stream(&house, &desk).await;
    agent.on_start.store(409, Ordering::SeqCst);
    assert_eq!(start(&member, &desk).await.body["code"], "already_streaming");
    remove(&house, &home, &first).await;
    agent.on_start.store(500, Ordering::SeqCst);
    assert_eq!(start(&member, &desk).await.status, 500);
    remove(&house, &home, &second).await;
    agent.until(|agent| &agent.ended, 1, "it may be anybody's").await;
    assert_eq!(agent.ended.load(Ordering::SeqCst), 1, "the owner's was let go on");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_sleeps_when_its_starter_is_taken_out_ends_at_the_wake() {
    let (house, home, desk, agent) = house().await;
    let (member, id) = somebody(&house, "m@x.example", &home, Some(Role::Member)).await;
    begin_stream(&member, &desk).await;
    assert_eq!(house.command(format!("/computers/{desk}/suspend")).await.status, 200);
    remove(&house, &home, &id).await;
    assert_eq!(agent.stops.load(Ordering::SeqCst), 0, "it sleeps");
    assert_eq!(house.command(format!("/computers/{desk}/resume")).await.status, 200);
    agent.until(|agent| &agent.ended, 1, "it woke and goes on").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_could_not_be_ended_is_not_forgotten_by_the_next_controller() {
    let (mut house, home, desk, agent) = house().await;
    let (member, id) = somebody(&house, "m@x.example", &home, Some(Role::Member)).await;
    begin_stream(&member, &desk).await;
    agent.on_stop.store(500, Ordering::SeqCst);
    remove(&house, &home, &id).await;
    agent.until(|agent| &agent.stops, 1, "its agent is not told").await;
    house.end().await;
    agent.on_stop.store(0, Ordering::SeqCst);
    house.begin(&[]).await;
    agent.until(|agent| &agent.ended, 1, "it is forgotten").await;
    // Once it has ended it is told no more: another one's stream goes on at the next start.
    let computer = desk.parse().expect("an id");
    let store = house.store().await;
    let settled = wait::until(TIMEOUT, || async {
        store.stream_ends_since(computer).await.expect("a look").is_none().then_some(())
    });
    assert!(settled.await.is_some(), "it would be ended for ever");
}
