//! Requests of templates from agents that ask for more than they may (T5, docs/security.md), on simulated machines.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::extract::{Query, Request, State};
use axum::routing::{get, post};
use axum::{Json, Router};
use hotdesk::base::tasks::Tasks;
use hotdesk::base::wait;
use hotdesk::controller::config::{Config, WebhookSettings};
use hotdesk::engine::simulated::AgentBoot;
use hotdesk::wire::agent::GuestRequestQuery;
use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::agent::fetch_json;
use crate::harness::caller::id_of;
use crate::harness::simulation::{Setup, Simulation, default_agent};

/// Longest wait for what agents and receivers get.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Shortest time between two answers with requests (docs/templates.md).
const PACE: Duration = Duration::from_millis(500);
/// Most webhooks of one computer, and of one account, without an outcome (docs/templates.md).
const MAX_OF_COMPUTER: u64 = 8;
const MAX_OF_ACCOUNT: usize = 16;

/// What agents are asked and told, by computer.
#[derive(Clone, Default)]
struct AgentLog {
    /// When their requests were read.
    reads: Arc<Mutex<BTreeMap<String, Vec<Instant>>>>,
    /// Errors of their webhooks.
    errors: Arc<Mutex<Vec<(String, String)>>>,
}

impl AgentLog {
    fn reads_of(&self, computer: &str) -> Vec<Instant> {
        self.reads.lock().expect("not poisoned").get(computer).cloned().unwrap_or_default()
    }

    /// The computers that were told of too many webhooks.
    fn refused(&self) -> BTreeSet<String> {
        let errors = self.errors.lock().expect("not poisoned");
        let refused = errors.iter().filter(|(_, error)| error.contains("too many webhooks at once"));
        refused.map(|(computer, _)| computer.clone()).collect()
    }
}

/// The requests that an agent answers with, by the number of the last one that was taken.
type Answers = fn(after: u64) -> Vec<Value>;

fn webhook(number: u64) -> Value {
    json!({"number": number, "kind": "webhook", "trigger": "file", "action": 0, "event": {}})
}

/// A controller whose agents have these answers.
async fn boot(answers: Answers, log: &AgentLog) -> Simulation {
    let log = log.clone();
    let agent = move |agent_boot: &AgentBoot| {
        let computer = agent_boot.spec.id.to_string();
        let (reads, errors, id) = (Arc::clone(&log.reads), Arc::clone(&log.errors), computer.clone());
        let read = async move |Query(query): Query<GuestRequestQuery>| {
            reads.lock().expect("not poisoned").entry(id).or_default().push(Instant::now());
            Json(json!({"instance": "agent", "requests": answers(query.after.unwrap_or_default())}))
        };
        let finish = async move |Json(outcome): Json<Value>| {
            let error = outcome["error"].as_str().unwrap_or_default().to_owned();
            errors.lock().expect("not poisoned").push((computer, error));
            Json(json!({"success": true}))
        };
        let routes = Router::new()
            .route("/template/requests", get(read))
            .route("/template/requests/{number}", post(finish));
        default_agent().merge(routes)
    };
    let config = Config { webhooks: WebhookSettings { allow_private: true }, ..Config::default() };
    Simulation::boot_with_agent(Arc::new(agent), Setup { config, ..Setup::default() }).await
}

/// Publishes a template with a webhook to this address, for the account of a key.
async fn publish(controller: &Simulation, key: &str, receiver: &str) {
    let document = format!(
        "api_version: hotdesk/v1\nname: lab@1.0.0\ntriggers:\n  - name: file\n    source: {{type: file, path: /srv/in}}\n    \
         actions: [{{type: webhook, url: 'http://{receiver}/'}}]\n"
    );
    let published = fetch_json(controller.request_with(key, Method::POST, "/templates").body(document)).await;
    assert_eq!(published.status, 201, "{}", published.body);
}

/// Creates a computer with a key.
async fn computer(controller: &Simulation, key: &str, workspace: &str, name: &str) -> String {
    let body = json!({"workspace_id": workspace, "name": name});
    let created = fetch_json(controller.request_with(key, Method::POST, "/computers").json(&body)).await;
    assert_eq!(created.status, 201, "{}", created.body);
    id_of(&created.body)
}

async fn workspace(controller: &Simulation, key: &str) -> String {
    let body = json!({"name": "w"});
    let created = fetch_json(controller.request_with(key, Method::POST, "/workspaces").json(&body)).await;
    assert!(created.status < 300, "{}", created.body);
    id_of(&created.body)
}

/// Makes all computers those of the template. Building one would need real machines.
async fn give_template(controller: &mut Simulation) {
    controller.sql("UPDATE computers SET template_ref = 'default/lab@1.0.0'").await;
    controller.restart().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_always_has_requests_is_asked_at_a_pace() {
    let log = AgentLog::default();
    let mut controller = boot(|after| vec![webhook(after + 1)], &log).await;
    let key = controller.key().to_owned();
    let workspace = workspace(&controller, &key).await;
    let id = computer(&controller, &key, &workspace, "one").await;
    give_template(&mut controller).await;
    let reads = wait::until(TIMEOUT, || async { Some(log.reads_of(&id)).filter(|reads| reads.len() >= 10) });
    let reads = reads.await.expect("the agent is asked");
    let took = reads[9] - reads[0];
    // Other work of the computer may interrupt and repeat a question or two.
    assert!(took >= PACE * 7, "ten answers within {took:?}");
}

/// The computers whose webhooks a receiver got. It never answers.
#[derive(Clone, Default)]
struct Receiver {
    ids: Arc<Mutex<BTreeSet<String>>>,
}

impl Receiver {
    async fn start(&self) -> String {
        let hold = async |State(receiver): State<Self>, request: Request| -> &'static str {
            let id = request.headers()["webhook-id"].to_str().expect("an id").to_owned();
            receiver.ids.lock().expect("not poisoned").insert(id);
            std::future::pending().await
        };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let router = Router::new().fallback(hold).with_state(self.clone());
        let _task = Tasks::new().spawn("receiver", async move { axum::serve(listener, router).await });
        address.to_string()
    }

    /// The number of different webhooks of these computers.
    fn count(&self, computers: &[&String]) -> usize {
        let ids = self.ids.lock().expect("not poisoned");
        ids.iter().filter(|id| computers.iter().any(|computer| id.contains(*computer))).count()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn webhooks_of_an_account_are_bounded_and_do_not_delay_those_of_others() {
    let (log, receiver) = (AgentLog::default(), Receiver::default());
    let mut controller = boot(|after| (after + 1..=MAX_OF_COMPUTER).map(webhook).collect(), &log).await;
    let address = receiver.start().await;
    let own = controller.key().to_owned();
    let (_, other) = controller.account("other@localhost").await;
    let mut computers = Vec::new();
    for (key, names) in [(&own, &["one", "two", "three"][..]), (&other, &["four"])] {
        publish(&controller, key, &address).await;
        let workspace = workspace(&controller, key).await;
        for name in names {
            computers.push(computer(&controller, key, &workspace, name).await);
        }
    }
    give_template(&mut controller).await;
    let (own, other): (Vec<&String>, Vec<&String>) = (computers[..3].iter().collect(), vec![&computers[3]]);
    let delivered = wait::until(TIMEOUT, || async {
        let counts = (receiver.count(&own), receiver.count(&other));
        (counts == (MAX_OF_ACCOUNT, MAX_OF_COMPUTER as usize) && !log.refused().is_empty()).then_some(())
    });
    let counts = || (receiver.count(&own), receiver.count(&other), log.refused());
    assert!(delivered.await.is_some(), "{:?}", counts());
    // All computers have been asked, and nothing has ended.
    assert!(computers.iter().all(|id| !log.reads_of(id).is_empty()), "{:?}", counts());
    assert!(log.refused().iter().all(|id| own.contains(&id)), "{:?}", counts());
}
