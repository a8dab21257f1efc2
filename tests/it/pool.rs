//! Pool of booted computers: a create of their size claims one, whatever dies meanwhile.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use hotdesk::base::tasks::Tasks;
use hotdesk::base::wait;
use hotdesk::controller::config::{Config, Limits, PoolSettings, PoolSizeSettings};
use hotdesk::engine::EngineError;
use hotdesk::engine::simulated::{Failure, Fault, Verb};
use hotdesk::store::Store;
use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::caller::id_of;
use crate::harness::client_builder;
use crate::harness::controller::{RunningController, gvisor, skip_reason};
use crate::harness::picture;
use crate::harness::simulation::{Setup, Simulation};

/// Longest time until the pool is filled on a busy machine.
const FILLED_TIMEOUT: Duration = Duration::from_secs(60);

fn pool(wanted: u32) -> PoolSettings {
    let size = PoolSizeSettings { wanted, ..PoolSizeSettings::default() };
    PoolSettings { sizes: vec![size], max_memory_gb: 64, ..PoolSettings::default() }
}

async fn simulation(wanted: u32, limits: Limits) -> Simulation {
    simulation_with(wanted, Setup { limits, ..Setup::default() }).await
}

async fn simulation_with(wanted: u32, setup: Setup) -> Simulation {
    let agent = Arc::new(|_: &_| crate::harness::simulation::default_agent());
    let config = Config { pool: pool(wanted), ..Config::default() };
    Simulation::boot_with_agent(agent, Setup { config, ..setup }).await
}

impl Simulation {
    /// Waits until creates can claim this number of machines of the pool, and returns their ids.
    async fn until_pool(&self, count: usize) -> BTreeSet<String> {
        let (store, line) = (self.store().await, format!("hotdesk_pool_ready {count}"));
        let filled = wait::until(FILLED_TIMEOUT, || async {
            // The controller offers a machine to creates after it has stored that it is booted.
            let text = self.bare(Method::GET, "/metrics").send().await.ok()?.text().await.ok()?;
            let is_offered = text.lines().any(|it| it == line);
            let all = store.pooled_machines().await.expect("the store");
            let ready: BTreeSet<_> =
                all.iter().filter(|it| it.ready).map(|it| it.machine.to_string()).collect();
            (is_offered && ready.len() == count && all.len() == count).then_some(ready)
        });
        filled.await.expect("a pool")
    }

    async fn try_create(&self, workspace: &str, name: &str) -> crate::harness::agent::HttpAnswer {
        self.post("/computers", json!({ "workspace_id": workspace, "name": name })).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_create_claims_a_machine_of_the_pool_and_the_pool_is_filled_again() {
    let controller = simulation(2, Limits { max_computers: 3, ..Limits::default() }).await;
    let workspace = controller.workspace("w").await;
    let ready = controller.until_pool(2).await;
    // Nobody sees them, and they count for no account.
    assert_eq!(controller.get("/computers").await.body["computers"], json!([]));
    for id in &ready {
        assert_eq!(controller.get(&format!("/computers/{id}")).await.status, 404);
        assert_eq!(controller.command(format!("/computers/{id}/click")).await.status, 404);
    }
    let boots = controller.engine.calls(Verb::Start);
    let first = controller.computer(&workspace, "first").await;
    assert!(ready.contains(&first), "{first} is not of {ready:?}");
    assert_eq!(controller.status(&first).await, "running");
    let again = controller.until_pool(2).await;
    assert!(!again.contains(&first), "a claimed machine is in no pool");
    assert_eq!(controller.engine.calls(Verb::Start), boots + 1, "only the pool booted one");

    // A refused create gives its machine back.
    assert_eq!(controller.try_create(&workspace, "first").await.body["code"], "NAME_TAKEN");
    assert_eq!(controller.until_pool(2).await, again);
    let second = controller.computer(&workspace, "second").await;
    assert!(again.contains(&second), "{second} is not of {again:?}");
    // Another size is not in the pool.
    let large = json!({ "workspace_id": workspace, "name": "large", "ram": 8 });
    let large = id_of(&controller.create("/computers", large).await);
    assert!(!controller.until_pool(2).await.contains(&large));
    // The account is full: what is in the pool was never counted.
    assert_eq!(controller.try_create(&workspace, "fourth").await.status, 403);
    assert_eq!(controller.until_pool(2).await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn creates_at_once_never_share_a_machine() {
    let controller = simulation(2, Limits::default()).await;
    let workspace = controller.workspace("w").await;
    let ready = controller.until_pool(2).await;
    let names: Vec<_> = (0..8).map(|at| format!("c{at}")).collect();
    let made = join_all(names.iter().map(|name| controller.try_create(&workspace, name))).await;
    let ids: BTreeSet<_> = made.iter().map(|answer| id_of(&answer.body)).collect();
    assert!(made.iter().all(|answer| answer.status == 201), "{made:?}");
    assert_eq!(ids.len(), 8);
    assert!(ready.is_subset(&ids), "both are claimed");
    controller.until_pool(2).await;
    assert_eq!(controller.machines().len(), 10);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_controller_that_dies_during_a_claim_gives_the_machine_to_nobody() {
    let mut controller = simulation(1, Limits::default()).await;
    let workspace = controller.workspace("w").await;
    let [machine] = controller.until_pool(1).await.into_iter().collect::<Vec<_>>().try_into().expect("one");
    // The claim is stored, and the controller dies before the machine gets its new token.
    let next = controller.engine.calls(Verb::Observe) + 1;
    for call in next..next + 3 {
        controller.engine.plan(Fault { verb: Verb::Observe, call, failure: Failure::Never { done: false } });
    }
    let key = controller.key().to_owned();
    let url = format!("{}/api/computers", controller.base);
    let body = json!({ "workspace_id": workspace, "name": "lost" });
    let clients = Tasks::new();
    let _create = clients.spawn("a create", async move {
        // The controller dies before it answers.
        let _answer = reqwest::Client::new().post(url).bearer_auth(key).json(&body).send().await;
    });
    let claimed = wait::until(FILLED_TIMEOUT, || async {
        let store = controller.store().await;
        let left = store.pooled_machines().await.expect("the store");
        (controller.engine.stuck() > 0 && left.iter().all(|it| it.machine.to_string() != machine))
            .then_some(())
    });
    claimed.await.expect("a claim");
    controller.kill().await;
    let gone = wait::until(FILLED_TIMEOUT, || async {
        let list = controller.get("/computers").await.body["computers"].clone();
        (list == json!([]) && !controller.machines().contains(&machine)).then_some(())
    });
    gone.await.expect("no computer and no machine");
    let fresh = controller.until_pool(1).await;
    assert!(fresh.contains(&controller.computer(&workspace, "found").await));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_outlives_its_controller_and_goes_with_its_setting() {
    let mut controller = simulation(2, Limits::default()).await;
    let ready = controller.until_pool(2).await;
    controller.restart().await;
    assert_eq!(controller.until_pool(2).await, ready, "the next controller has the same machines");
    // A machine that ended while no controller looked is replaced.
    controller.end().await;
    let ended = ready.iter().next().expect("one").parse().expect("an id");
    controller.host.crash(ended);
    controller.begin(&[]).await;
    let replaced = wait::until(FILLED_TIMEOUT, || async {
        let now = controller.until_pool(2).await;
        (!now.contains(&ended.to_string())).then_some(now)
    });
    let now = replaced.await.expect("another machine");
    assert_eq!(now.intersection(&ready).count(), 1);
    controller.set_pool(PoolSettings::default());
    controller.restart().await;
    assert!(controller.machines().is_empty(), "without a pool its machines are removed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_of_the_pool_that_cannot_be_used_is_made_anew() {
    let controller = simulation(1, Limits::default()).await;
    let workspace = controller.workspace("w").await;
    let [machine] = controller.until_pool(1).await.into_iter().collect::<Vec<_>>().try_into().expect("one");
    controller.host.crash(machine.parse().expect("an id"));
    let made = controller.computer(&workspace, "one").await;
    assert_eq!(controller.status(&made).await, "running");
    assert_eq!(controller.command(format!("/computers/{made}/click")).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_pool_is_filled_from_the_boot_snapshot_of_its_size() {
    let controller = simulation_with(1, Setup { boot_snapshots: 2, ..Setup::default() }).await;
    let workspace = controller.workspace("w").await;
    // The first machine boots, and its size is wanted.
    controller.until_pool(1).await;
    controller.until_boot_snapshots(1).await;
    let calls = |verb| controller.engine.calls(verb);
    let (boots, launches) = (calls(Verb::Start), calls(Verb::Launch));
    controller.computer(&workspace, "first").await;
    let refilled = controller.until_pool(1).await;
    assert_eq!((calls(Verb::Start), calls(Verb::Launch)), (boots, launches + 1), "it did not boot");
    // It is claimed as any other.
    let second = controller.computer(&workspace, "second").await;
    assert!(refilled.contains(&second), "{second} is not of {refilled:?}");
    assert_eq!(controller.command(format!("/computers/{second}/click")).await.status, 200);
    controller.until_pool(1).await;
    // A damaged snapshot is removed, and the pool is filled by a boot.
    let call = calls(Verb::Launch) + 1;
    let damaged = EngineError::Damaged("a part differs".to_owned());
    controller.engine.plan(Fault { verb: Verb::Launch, call, failure: Failure::Before(damaged) });
    controller.computer(&workspace, "third").await;
    controller.until_pool(1).await;
    assert_eq!((calls(Verb::Start), calls(Verb::Launch)), (boots + 1, call));
    assert!(controller.store().await.boot_snapshots().await.expect("the store").is_empty());
    // Three computers and one machine of the pool: nothing is left of the failed attempt.
    assert_eq!(controller.machines().len(), 4);
}

/// Longest time until a pool of real machines is filled: two kernels of gVisor boot one after the other on a
/// busy machine.
const REAL_TIMEOUT: Duration = Duration::from_secs(180);

/// Waits until creates can claim `wanted` machines of a controller's pool, and returns their ids.
pub async fn until_filled(controller: &RunningController, wanted: usize) -> BTreeSet<String> {
    let store = Store::open(&controller.store_file()).await.expect("a second connection opens");
    let stored = wait::until(REAL_TIMEOUT, || async {
        let all = store.pooled_machines().await.expect("the store");
        let ready = all.iter().filter(|it| it.ready).map(|it| it.machine.to_string());
        let ready: BTreeSet<String> = ready.collect();
        (ready.len() == wanted && all.len() == wanted).then_some(ready)
    });
    let stored = stored.await;
    store.close().await;
    // The controller offers a machine to creates after it has stored that it is booted.
    let line = format!("hotdesk_pool_ready {wanted}");
    let offered = wait::until(REAL_TIMEOUT, || async {
        let text = controller.bare(Method::GET, "/metrics").send().await.ok()?.text().await.ok()?;
        text.lines().any(|it| it == line).then_some(())
    });
    assert!(offered.await.is_some(), "no pool of {wanted}");
    stored.expect("a filled pool")
}

/// Asserts that no request of an account reaches a machine of the pool, and that its agent wants its own
/// token. `other` is the token of a computer.
async fn expect_unreachable(controller: &RunningController, machine: &str, other: Option<&str>) {
    let no_body = || json!({});
    for (method, path, body) in [
        (Method::GET, "", no_body()),
        (Method::DELETE, "", no_body()),
        (Method::PATCH, "", json!({ "name": "mine" })),
        (Method::POST, "/bash", json!({ "command": "true" })),
        (Method::POST, "/click", json!({ "x": 1, "y": 1 })),
        (Method::GET, "/screenshot", no_body()),
        (Method::GET, "/vnc-password", no_body()),
        (Method::POST, "/stop", no_body()),
        (Method::POST, "/clone", no_body()),
        (Method::GET, "/snapshots", no_body()),
    ] {
        let request = controller.request(method.clone(), &format!("/computers/{machine}{path}"));
        let answer = request.json(&body).send().await.expect("an answer");
        assert_eq!(answer.status(), 404, "{method} {path}");
    }
    let health = controller.request(Method::GET, &format!("/desktops/{machine}/proxy/health"));
    assert_eq!(health.send().await.expect("an answer").status(), 404);
    let listed = controller.get("/computers").await.body;
    assert!(!listed.to_string().contains(machine), "{listed}");
    // Over gVisor the agent has no socket on the host.
    let socket = controller.machine(machine).join("agent.sock");
    if socket.exists() {
        let agent = client_builder().unix_socket(socket).build().expect("a client");
        let ask = |token: Option<&str>| {
            let request = agent.get("http://agent/health");
            let request = if let Some(token) = token { request.bearer_auth(token) } else { request };
            request.send()
        };
        for token in [None, Some(controller.key()), other] {
            assert_eq!(ask(token).await.expect("an answer").status(), 401);
        }
    }
}

/// Claims machines one after another: the pool is filled again after each claim, and nobody reaches what is
/// in it.
async fn check_refills(controller: RunningController) {
    const WANTED: usize = 2;
    let workspace = controller.workspace("w").await;
    let mut ready = until_filled(&controller, WANTED).await;
    let mut token: Option<String> = None;
    for name in ["one", "two", "three"] {
        for machine in &ready {
            expect_unreachable(&controller, machine, token.as_deref()).await;
        }
        let id = id_of(&controller.computer(&workspace, name).await);
        assert!(ready.contains(&id), "{name}: {id} is not of {ready:?}");
        let own = controller.bash(&id, "cat /run/hotdesk/token").await.trim().to_owned();
        assert_ne!(token.replace(own.clone()), Some(own), "{name}: the token of another");
        ready = until_filled(&controller, WANTED).await;
        assert!(!ready.contains(&id), "{name}: a claimed machine is in no pool");
    }
    let listed = controller.get("/computers").await.body["computers"].as_array().expect("a list").len();
    assert_eq!((listed, controller.machines().len()), (3, 3 + WANTED));
}

/// Configuration lines for a pool with two machines.
const POOL: &str = "[pool]
[[pool.sizes]]
wanted = 2
";

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_over_runc_is_filled_again_after_each_claim_and_nobody_reaches_it() {
    if let Some(skip) = skip_reason() {
        return skip.report();
    }
    check_refills(RunningController::boot_with(POOL).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_over_gvisor_is_filled_again_after_each_claim_and_nobody_reaches_it() {
    let Some(configuration) = gvisor() else { return };
    check_refills(RunningController::boot_with(&format!("{configuration}{POOL}")).await).await;
}

/// The token of a computer's agent, and what else identifies it to its programs.
const IDENTITY: &str = "cat /run/hotdesk/token /etc/machine-id; hostname";

#[tokio::test(flavor = "multi_thread")]
async fn a_container_is_claimed_usable_and_like_no_other() {
    if let Some(skip) = skip_reason() {
        return skip.report();
    }
    let mut controller = RunningController::boot_with(POOL).await;
    let workspace = controller.workspace("w").await;
    let filled = async |controller: &RunningController| {
        let text = controller.bare(Method::GET, "/metrics").send().await.ok()?.text().await.ok()?;
        text.lines().any(|line| line == "hotdesk_pool_ready 2").then_some(())
    };
    wait::until(FILLED_TIMEOUT, || filled(&controller)).await.expect("a filled pool");
    // They outlive their controller.
    controller.kill();
    controller.start_again().await;
    wait::until(FILLED_TIMEOUT, || filled(&controller)).await.expect("the pool is there again");
    let began = Instant::now();
    let mut all = vec![id_of(&controller.computer(&workspace, "one").await)];
    println!("figure: a create from the pool took {:?}", began.elapsed());
    all.push(id_of(&controller.computer(&workspace, "two").await));
    wait::until(FILLED_TIMEOUT, || filled(&controller)).await.expect("the pool is filled again");
    let metrics = controller.bare(Method::GET, "/metrics").send().await.expect("metrics").text().await;
    let metrics = metrics.expect("a text");
    assert!(metrics.contains("hotdesk_computers_begun_total{from=\"pool\"} 2"), "{metrics}");
    let mut identities = BTreeSet::new();
    for id in &all {
        let path = format!("/computers/{id}/screenshot?response_format=binary");
        let shot = controller.request(Method::GET, &path).send().await.expect("an answer");
        assert_eq!(picture::size(&shot.bytes().await.expect("a picture")), (1280, 720));
        identities.insert(controller.bash(id, IDENTITY).await);
        let record: Value = controller.record(id).await;
        assert_eq!((&record["status"], &record["id"]), (&json!("running"), &json!(id)));
    }
    assert_eq!(identities.len(), 2, "{identities:?}");
    assert_eq!(controller.act(&all[0], "restart", json!({})).await.status, 200);
    controller.until_status(&all[0], "running").await;
    assert_eq!(controller.bash(&all[0], "echo there").await, "there\n");
}
