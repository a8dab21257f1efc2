//! Simulated engine: conformance, and planned faults that affect exactly their call.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::{get, post};
use hotdesk::base::ids::ComputerId;
use hotdesk::engine::simulated::{AgentBoot, Failure, Fault, SimulatedEngine, SimulatedHost, Verb};
use hotdesk::engine::{Engine, EngineError, Observation, Shortage};

use super::conformance::{EngineFixture, boot, conformance_tests, machine_spec};

pub struct SimulatedFixture {
    _folder: tempfile::TempDir,
    pub host: Arc<SimulatedHost>,
    path: PathBuf,
}

impl SimulatedFixture {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().to_owned();
        // The agent's crash route needs the host, which needs the agent's factory.
        let host_cell: Arc<OnceLock<Arc<SimulatedHost>>> = Arc::default();
        let known = Arc::clone(&host_cell);
        let agent = move |agent_boot: &AgentBoot| agent(agent_boot, Arc::clone(&known));
        let host = SimulatedHost::new(&path, Arc::new(agent));
        host_cell.set(Arc::clone(&host)).expect("set once");
        Self { _folder: folder, host, path }
    }
}

fn agent(agent_boot: &AgentBoot, host: Arc<OnceLock<Arc<SimulatedHost>>>) -> Router {
    let id = agent_boot.spec.id;
    let stored = get(async |State(disk): State<PathBuf>, Path(name): Path<String>| {
        std::fs::read(disk.join(name)).map_err(|_| StatusCode::NOT_FOUND)
    });
    let stored = stored.put(async |State(disk): State<PathBuf>, Path(name): Path<String>, body: Bytes| {
        std::fs::write(disk.join(name), body).map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)
    });
    let crash = post(async move || host.get().expect("set").crash(id));
    let memory = agent_boot.memory.clone();
    let count = post(async move || memory.count("asked").to_string());
    Router::new()
        .route("/count", count)
        .route("/crash", crash)
        .route("/{name}", stored)
        .with_state(agent_boot.disk.clone())
}

impl EngineFixture for SimulatedFixture {
    fn engine(&self) -> Arc<dyn Engine> {
        self.reopen()
    }

    fn reopen(&self) -> Arc<dyn Engine> {
        Arc::new(SimulatedEngine::open(Arc::clone(&self.host)))
    }

    fn expect_removed(&self, id: ComputerId) {
        assert!(!self.path.join(id.to_string()).exists());
    }
}

conformance_tests!(Some(SimulatedFixture::new()));
conformance_tests!(Some(SimulatedFixture::new());
    a_copy_goes_its_own_way,
    what_is_not_there_is_not_copied,
    a_rollback_brings_back_what_a_snapshot_kept,
);

#[tokio::test]
async fn a_planned_fault_strikes_its_call_and_no_other() {
    let fixture = SimulatedFixture::new();
    let engine = SimulatedEngine::open(Arc::clone(&fixture.host));
    let fault = |call, failure| Fault { verb: Verb::Create, call, failure };
    engine.plan(fault(1, Failure::Before(EngineError::NoCapacity(Shortage::DiskSpace, "full".into()))));
    engine.plan(fault(2, Failure::After(EngineError::failed("answer", "lost"))));
    let spec = machine_spec();
    assert!(matches!(engine.create(&spec).await, Err(EngineError::NoCapacity(..))));
    assert_eq!(engine.observe(spec.id).await.expect("an observation"), Observation::Absent);
    assert!(matches!(engine.create(&spec).await, Err(EngineError::Failed { .. })));
    assert_eq!(engine.observe(spec.id).await.expect("an observation"), Observation::Stopped);
    engine.create(&spec).await.expect("the third call is not planned");
    assert_eq!(engine.calls(Verb::Create), 3);
}

#[tokio::test]
async fn a_host_that_reboots_keeps_its_disks() {
    let fixture = SimulatedFixture::new();
    let engine = SimulatedEngine::open(Arc::clone(&fixture.host));
    let spec = machine_spec();
    engine.create(&spec).await.expect("created");
    engine.start(&spec, &boot(1)).await.expect("started");
    fixture.host.reboot();
    engine.wait_stopped(spec.id).await.expect("at once");
    assert_eq!(engine.observe(spec.id).await.expect("an observation"), Observation::Stopped);
}

#[tokio::test]
async fn damaged_memory_is_refused_and_neither_booted_nor_removed() {
    let fixture = SimulatedFixture::new();
    let engine = SimulatedEngine::open(Arc::clone(&fixture.host));
    let spec = machine_spec();
    engine.create(&spec).await.expect("created");
    engine.start(&spec, &boot(1)).await.expect("started");
    engine.suspend(spec.id).await.expect("suspended");
    std::fs::write(fixture.path.join(spec.id.to_string()).join("memory"), "1 wh").expect("damaged");
    let refused = engine.resume(&spec, &boot(2)).await.expect_err("the memory is damaged");
    assert!(matches!(refused, EngineError::Damaged(_)), "{refused:#}");
    assert!(engine.start(&spec, &boot(2)).await.is_err(), "a boot must not replace saved memory");
    assert_eq!(
        engine.observe(spec.id).await.expect("an observation"),
        Observation::Suspended { generation: 1 }
    );
}

#[tokio::test]
async fn a_machine_that_does_not_run_moves_between_hosts_that_answer() {
    let fixture = SimulatedFixture::new();
    let engine = SimulatedEngine::open(Arc::clone(&fixture.host));
    let spec = machine_spec();
    assert_eq!(engine.hosts().await.expect("hosts"), []);
    assert_eq!(engine.host_of(spec.id).await.expect("an answer"), None);
    fixture.host.set_hosts(&["m1", "m2", "m3"]);
    fixture.host.set_online("m3", false);
    let hosts = engine.hosts().await.expect("hosts");
    let online: Vec<_> = hosts.iter().map(|host| (host.name.as_str(), host.is_online)).collect();
    assert_eq!(online, [("m1", true), ("m2", true), ("m3", false)]);
    assert!(matches!(engine.move_machine(spec.id, "m2").await, Err(EngineError::Absent)));
    engine.create_on(&spec, "m1").await.expect("created");
    engine.create_on(&spec, "m2").await.expect("it exists");
    let host = async || engine.host_of(spec.id).await.expect("an answer").expect("a host");
    assert_eq!(host().await, "m1");
    engine.start(&spec, &boot(1)).await.expect("started");
    assert!(engine.move_machine(spec.id, "m2").await.is_err(), "it runs");
    engine.suspend(spec.id).await.expect("suspended");
    assert!(engine.move_machine(spec.id, "m3").await.is_err(), "m3 does not answer");
    assert_eq!(host().await, "m1");
    for _ in 0..2 {
        engine.move_machine(spec.id, "m2").await.expect("moved");
        assert_eq!(host().await, "m2");
    }
    engine.resume(&spec, &boot(2)).await.expect("its memory moved along");
    engine.destroy(spec.id).await.expect("removed");
    assert_eq!(engine.host_of(spec.id).await.expect("an answer"), None);
}
