//! Many computers of one controller over the simulated engine: pages, idle work, and the figures of docs/scaling.md.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use hotdesk::base::ids::{ComputerId, WorkspaceId};
use hotdesk::base::secret::Secret;
use hotdesk::base::wait;
use hotdesk::controller::config::{AutoStopTiming, Config, Limits};
use hotdesk::domain::computer::Hardware;
use hotdesk::domain::computer::isolation::Isolation;
use hotdesk::domain::computer::lifecycle::Status;
use hotdesk::domain::desktop::resolution::Resolution;
use hotdesk::domain::name::Name;
use hotdesk::domain::secret::LaunchSecrets;
use hotdesk::engine::simulated::{AgentBoot, Verb};
use hotdesk::engine::{Boot, Engine, MachineSpec};
use hotdesk::store::fleet::computers::NewComputer;
use nix::sys::resource::{Resource, UsageWho, getrlimit, getrusage, setrlimit};
use serde_json::json;

use crate::harness::capability::Capability;
use crate::harness::simulation::{Setup, Simulation, default_agent};

/// Computers of the ordinary test.
const SOME: usize = 200;
/// Computers of the figures.
const MANY: usize = 10_000;
/// Limits that no part of these tests reaches.
const UNLIMITED: u32 = 1_000_000;
/// Longest time until a controller has found all of its computers, on a busy machine.
const ADOPTION_TIMEOUT: Duration = Duration::from_secs(600);
/// Time without a request to an agent after which all computers are found.
const QUIET_TIME: Duration = Duration::from_secs(3);
const LOOK_PAUSE: Duration = Duration::from_millis(20);
/// Longest time until the end of one machine shows.
const END_TIMEOUT: Duration = Duration::from_secs(60);
/// Time in which the processor time of an idle controller is measured.
const IDLE_TIME: Duration = Duration::from_secs(30);
/// Pages and ends of machines that are measured.
const ROUNDS: u32 = 50;

/// A controller with running computers, found by it after a start.
struct LargeFleet {
    controller: Simulation,
    /// Requests that reached agents.
    requests: Arc<AtomicU64>,
    ids: Vec<ComputerId>,
    /// Time until the controller answered.
    start: Duration,
    /// Time until it had found each computer.
    adoption: Duration,
    /// Resident bytes of this process before the start and after the adoption.
    memory: [u64; 2],
}

async fn count_request(State(requests): State<Arc<AtomicU64>>, request: Request, next: Next) -> Response {
    requests.fetch_add(1, Ordering::Relaxed);
    next.run(request).await
}

impl LargeFleet {
    /// Makes the machines and the rows of `count` computers while no controller runs, and starts one. Its periodic look at idle
    /// computers and trials has this interval.
    async fn boot(count: usize, every: Duration) -> Self {
        let limits = Limits {
            max_computers: UNLIMITED,
            max_account_ram_gb: UNLIMITED,
            max_account_disk_gb: UNLIMITED,
            requests_per_second: UNLIMITED,
            request_burst: UNLIMITED,
            ..Limits::default()
        };
        let pace = AutoStopTiming { every, ..AutoStopTiming::default() };
        let config = Config { limits: limits.clone(), auto_stop: pace, ..Config::default() };
        let plans = config.plans();
        let requests = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&requests);
        let agent = Arc::new(move |_: &AgentBoot| {
            default_agent().layer(from_fn_with_state(Arc::clone(&counter), count_request))
        });
        let setup = Setup { limits, pace, config, ..Setup::default() };
        let mut controller = Simulation::boot_with_agent(agent, setup).await;
        let workspace: WorkspaceId = controller.workspace("demo").await.parse().expect("an id");
        controller.end().await;

        let store = controller.store().await;
        let resolution = Resolution::default();
        let hardware = Hardware { cpu: 1.0, ram_gb: 1, disk_gb: 1, resolution, bandwidth_mbps: 0 };
        let mut ids = Vec::new();
        for number in 0..count {
            let id = ComputerId::random();
            let new = NewComputer {
                id,
                workspace,
                name: Name::parse(&format!("computer {number}")).expect("a name"),
                hardware,
                isolation: Isolation::Sandbox,
                template: None,
                secrets: LaunchSecrets::default(),
                layers: Vec::new(),
                egress: None,
                ports: Vec::new(),
                terminals: Vec::new(),
                auto_stop_minutes: 0,
                replicate_minutes: 0,
                expires_at: None,
                deliver_files: false,
                encrypt: false,
                plans: plans.clone(),
            };
            let row = store.add_computer(&new).await.expect("a row");
            let spec = MachineSpec {
                id,
                isolation: Isolation::Sandbox,
                cpu: hardware.cpu,
                memory_bytes: 1 << 30,
                disk_bytes: 1 << 30,
                bandwidth_mbps: 0,
                layers: Vec::new(),
                egress: None,
            };
            let boot = Boot { generation: row.generation, token: Secret::new("token"), resolution };
            controller.engine.create(&spec).await.expect("a machine");
            controller.engine.start(&spec, &boot).await.expect("a machine that runs");
            ids.push(id);
        }
        drop(store);
        controller.sql("UPDATE computers SET status = 'running'").await;

        let before = resident_bytes();
        let began = Instant::now();
        controller.begin(&[]).await;
        let start = began.elapsed();
        // The controller reads the screens of each agent that it finds.
        let expected = u64::try_from(count).expect("a number");
        let (mut seen, mut adoption) = (0, start);
        while seen < expected || began.elapsed() < adoption + QUIET_TIME {
            assert!(
                began.elapsed() < ADOPTION_TIMEOUT,
                "the controller has found {seen} of {count} computers"
            );
            tokio::time::sleep(LOOK_PAUSE).await;
            let now = requests.load(Ordering::Relaxed);
            if now != seen {
                (seen, adoption) = (now, began.elapsed());
            }
        }
        Self { controller, requests, ids, start, adoption, memory: [before, resident_bytes()] }
    }
}

/// Resident bytes of this process (proc_pid_statm(5)).
fn resident_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").expect("statm");
    let pages: u64 = text.split(' ').nth(1).and_then(|pages| pages.parse().ok()).expect("a number of pages");
    pages * 4096
}

/// Processor time of this process.
fn processor_time() -> Duration {
    let usage = getrusage(UsageWho::RUSAGE_SELF).expect("the usage of this process");
    let seconds = |time: nix::sys::time::TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
    Duration::from_secs_f64(seconds(usage.user_time()) + seconds(usage.system_time()))
}

/// Raises the limit of open files: each simulated machine has a socket in this process. Returns whether it suffices.
fn allow_open_files(needed: u64) -> bool {
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).expect("the limit of open files");
    most >= needed && setrlimit(Resource::RLIMIT_NOFILE, most, most).is_ok()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_controller_asks_neither_engine_nor_agents_and_a_page_has_only_its_rows() {
    // Its periodic work runs dozens of times during this test.
    let fleet = LargeFleet::boot(SOME, Duration::from_millis(50)).await;
    let (controller, total) = (&fleet.controller, SOME as u64);

    let first = controller.get("/computers?limit=10").await.body;
    assert_eq!(first["computers"].as_array().map(Vec::len), Some(10));
    assert_eq!((&first["total"], &first["next_offset"]), (&json!(total), &json!(10)));
    assert!(first["computers"].as_array().expect("a page").iter().all(|it| it["status"] == "running"));
    let last = controller.get(&format!("/computers?limit=10&offset={}", total - 10)).await.body;
    assert_eq!(last["computers"].as_array().map(Vec::len), Some(10));
    assert!(last["next_offset"].is_null(), "{}", last["next_offset"]);
    // Rows are read in the order of the page, so that the next pages are neither read nor sorted.
    let pool = controller.store_pool().await;
    let plan: Vec<(i64, i64, i64, String)> = sqlx::query_as(
        "EXPLAIN QUERY PLAN SELECT c.*, w.name FROM computers c JOIN workspaces w ON w.id = c.workspace_id \
         WHERE w.account_id = 'x' OR EXISTS (SELECT 1 FROM members m WHERE m.workspace_id = w.id) \
         ORDER BY c.created_at, c.id LIMIT 10",
    )
    .fetch_all(&pool)
    .await
    .expect("a plan");
    assert!(plan.iter().any(|step| step.3.contains("computers_by_creation")), "{plan:?}");
    assert!(!plan.iter().any(|step| step.3.contains("ORDER BY")), "{plan:?}");

    let observations = || controller.engine.calls(Verb::Observe) + controller.engine.calls(Verb::List);
    let before = (fleet.requests.load(Ordering::Relaxed), observations());
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!((fleet.requests.load(Ordering::Relaxed), observations()), before);

    let counts = controller.store().await.count_computers().await.expect("counts");
    let counted: Vec<_> = counts.iter().map(|it| (it.status, it.isolation, it.count)).collect();
    assert_eq!(counted, [(Status::Running, Isolation::Sandbox, total)]);

    // The end of one machine is noticed, and costs the others nothing.
    let ended = fleet.ids[SOME / 2].to_string();
    controller.host.crash(fleet.ids[SOME / 2]);
    controller.until_status(&ended, "stopped").await;
    assert_eq!(fleet.requests.load(Ordering::Relaxed), before.0);
    let running = controller.get("/computers?status=running&limit=1").await.body;
    assert_eq!(running["total"], json!(total - 1));
}

/// Prints a figure, with a verdict where it has a goal.
fn print_figure(what: &str, value: f64, unit: &str, most: Option<f64>) {
    let goal = most.map(|most| {
        let verdict = if value < most { "met" } else { "MISSED" };
        format!(" (goal: below {most} {unit}, {verdict})")
    });
    println!("{what}: {value:.2} {unit}{}", goal.unwrap_or_default());
}

/// The value below which this share of the durations is, in milliseconds.
fn percentile(durations: &mut [Duration], share: f64) -> f64 {
    durations.sort();
    let index = (durations.len() as f64 * share) as usize;
    durations[index.min(durations.len() - 1)].as_secs_f64() * 1000.0
}

#[tokio::test(flavor = "multi_thread")]
async fn figures_of_ten_thousand_computers() {
    if std::env::var_os("HOTDESK_FIGURES").is_none() {
        return Capability::Host.skip("HOTDESK_FIGURES is not set");
    }
    // A socket for each machine, and at the start a connection to each with two ends.
    if !allow_open_files(4 * MANY as u64) {
        return Capability::Host.skip("the limit of open files is too low");
    }
    let fleet = LargeFleet::boot(MANY, AutoStopTiming::default().every).await;
    let controller = &fleet.controller;
    println!("--- {MANY} running computers");
    print_figure("start of the controller until it answers", fleet.start.as_secs_f64(), "s", None);
    print_figure("start until each computer is found", fleet.adoption.as_secs_f64(), "s", None);
    let [before, after] = fleet.memory;
    let growth = after.saturating_sub(before) as f64 / 1024.0 / MANY as f64;
    print_figure("memory of the controller for each computer", growth, "KiB", None);

    for (what, offset) in [("first page of 100", 0), ("last page of 100", MANY - 100)] {
        let mut pages = Vec::new();
        for _ in 0..ROUNDS {
            let page = controller.get(&format!("/computers?limit=100&offset={offset}")).await;
            assert_eq!(page.status, 200, "{}", page.body);
            pages.push(page.took);
        }
        print_figure(&format!("{what}, p50"), percentile(&mut pages, 0.5), "ms", Some(50.0));
        print_figure(&format!("{what}, p99"), percentile(&mut pages, 0.99), "ms", None);
    }

    let (used, asked) = (processor_time(), fleet.requests.load(Ordering::Relaxed));
    tokio::time::sleep(IDLE_TIME).await;
    let share = (processor_time() - used).as_secs_f64() / IDLE_TIME.as_secs_f64() * 100.0;
    print_figure("processor while nothing changes", share, "% of a core", Some(5.0));
    let asked = fleet.requests.load(Ordering::Relaxed) - asked;
    println!("requests to agents meanwhile: {asked}");

    let mut ends = Vec::new();
    for id in fleet.ids.iter().take(ROUNDS as usize) {
        let path = format!("/computers/{id}");
        let began = Instant::now();
        controller.host.crash(*id);
        let shown = wait::until(END_TIMEOUT, || async {
            (controller.get(&path).await.body["status"] == "stopped").then_some(())
        });
        shown.await.expect("the end of the machine shows");
        ends.push(began.elapsed());
    }
    print_figure("end of a machine until its record shows it, p50", percentile(&mut ends, 0.5), "ms", None);
    print_figure("end of a machine until its record shows it, p99", percentile(&mut ends, 0.99), "ms", None);
}
