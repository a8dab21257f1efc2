//! Agents that ask for more than a template may: the service keeps its pace (T5, docs/security.md).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use axum::routing::{get, post};
use axum::{Json, Router};
use hotdesk::base::wait;
use reqwest::Method;
use serde_json::json;

use crate::harness::agent::fetch_json;
use crate::harness::simulation::Simulation;

/// Shortest time between two questions of the service, in the tests a little less: clocks differ.
const PACE: Duration = Duration::from_millis(450);
/// Questions that are timed.
const QUESTIONS: u64 = 8;
/// Most refusals that the service tells an agent at once.
const MAX_REFUSALS: usize = 4;
const TIMEOUT: Duration = Duration::from_secs(30);

/// What the agent saw.
#[derive(Default)]
struct Seen {
    questions: AtomicU64,
    telling: AtomicUsize,
    most_telling: AtomicUsize,
}

/// An agent that always has 64 webhooks, and takes no outcome of one.
fn agent(seen: &Arc<Seen>) -> Router {
    let (asked, told) = (Arc::clone(seen), Arc::clone(seen));
    let requests = move || {
        let number = asked.questions.fetch_add(1, Ordering::SeqCst) * 64;
        let webhook = |at: u64| json!({"number": number + at, "kind": "webhook", "trigger": "none", "action": 0, "event": {}});
        let all: Vec<_> = (1..=64).map(webhook).collect();
        async move { Json(json!({"instance": "hostile", "requests": all})) }
    };
    let finish = move || {
        let now = told.telling.fetch_add(1, Ordering::SeqCst) + 1;
        told.most_telling.fetch_max(now, Ordering::SeqCst);
        std::future::pending::<Json<serde_json::Value>>()
    };
    Router::new()
        .route("/template/requests", get(requests))
        .route("/template/requests/{number}", post(finish))
}

#[tokio::test(flavor = "multi_thread")]
async fn t5_an_agent_that_always_asks_does_not_keep_the_service_busy() {
    let seen = Arc::new(Seen::default());
    let controller = Simulation::boot_with(agent(&seen)).await;
    let began = Instant::now();
    let request = controller.request(Method::POST, "/templates/run");
    let ran = fetch_json(request.json(&json!({"ref": "system/desktop@1.0.0"}))).await;
    assert_eq!(ran.status, 200, "{}", ran.body);
    let asked =
        wait::until(TIMEOUT, || async { (seen.questions.load(Ordering::SeqCst) >= QUESTIONS).then_some(()) });
    asked.await.expect("the service asks");
    let least = PACE * u32::try_from(QUESTIONS - 1).expect("a small number");
    assert!(began.elapsed() >= least, "{QUESTIONS} questions within {:?}", began.elapsed());
    // Webhooks that the template does not have, and those beyond the rate, are told to few at once.
    let most = seen.most_telling.load(Ordering::SeqCst);
    assert!((1..=MAX_REFUSALS + 8).contains(&most), "{most} outcomes at once");
}
