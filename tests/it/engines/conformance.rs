//! Conformance tests that apply to every implementation of `hotdesk::engine::Engine`.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hotdesk::base::ids::ComputerId;
use hotdesk::base::secret::Secret;
use hotdesk::domain::computer::isolation::Isolation;
use hotdesk::domain::desktop::resolution::Resolution;
use hotdesk::engine::{Boot, Engine, EngineError, MachineSpec, Observation};

pub use super::copies::{a_copy_goes_its_own_way, what_is_not_there_is_not_copied};
use super::guest::Guest;
pub use super::layers::{
    a_layer_lives_as_long_as_somebody_needs_it, a_machine_has_all_its_layers_up_to_the_most,
    a_machine_keeps_its_layers_wherever_its_state_goes,
    layers_have_what_a_machine_wrote_and_nobody_changes_them,
};
pub use super::moments::{
    a_fork_goes_on_beside_its_source, a_snapshot_of_memory_is_gone_back_to,
    machines_are_launched_from_one_snapshot,
};
pub use super::resize::hardware_changes_when_the_engine_says;
pub use super::saved::a_saved_state_leaves_its_host_and_comes_back;
pub use super::snapshots::a_rollback_brings_back_what_a_snapshot_kept;
pub use super::stopped::{
    a_machine_whose_groups_are_frozen_can_be_ended, a_machine_whose_processes_are_stopped_can_be_ended,
};

/// Grace period for guests to end on request.
pub const GRACE: Duration = Duration::from_secs(10);
/// Longest time until a waiter learns of an end, or until a guest has ended on request, on a busy machine.
pub const END_TIMEOUT: Duration = Duration::from_secs(60);

/// An engine with its own host state.
pub trait EngineFixture: Send + Sync {
    /// The engine under test.
    fn engine(&self) -> Arc<dyn Engine>;
    /// Another engine over the same state, like that of a restarted controller.
    fn reopen(&self) -> Arc<dyn Engine>;
    /// Asserts that the host has no resource of a machine.
    fn expect_removed(&self, id: ComputerId);
    /// The file with a machine's disk, where there is one.
    fn disk(&self, _id: ComputerId) -> Option<PathBuf> {
        None
    }
    /// The isolation under test, which is the engine's default.
    fn isolation(&self) -> Isolation {
        Isolation::Shared
    }
    /// Spec of a small machine with a random id.
    fn spec(&self) -> MachineSpec {
        MachineSpec { isolation: self.isolation(), ..machine_spec() }
    }
}

/// Spec of a small machine with a random id.
pub fn machine_spec() -> MachineSpec {
    MachineSpec {
        id: ComputerId::random(),
        isolation: Isolation::Shared,
        cpu: 1.0,
        memory_bytes: 512 << 20,
        disk_bytes: 256 << 20,
        bandwidth_mbps: 0,
        layers: Vec::new(),
        egress: None,
    }
}

pub fn boot(generation: u64) -> Boot {
    Boot { generation, token: Secret::random(40), resolution: Resolution::default() }
}

/// Asserts that a machine runs the given boot; returns its agent.
pub async fn expect_running(engine: &dyn Engine, id: ComputerId, since: u64) -> Guest {
    match engine.observe(id).await.expect("an observation") {
        Observation::Running { generation, endpoint, .. } => {
            assert_eq!(generation, since);
            Guest::new(&endpoint)
        }
        other @ (Observation::Absent | Observation::Stopped | Observation::Suspended { .. }) => {
            panic!("expected a running machine, observed {other:?}")
        }
    }
}

async fn expect_observation(engine: &dyn Engine, id: ComputerId, expected: Observation) {
    assert_eq!(engine.observe(id).await.expect("an observation"), expected);
}

pub async fn a_machine_lives_stops_keeps_its_disk_and_goes(fixture: &dyn EngineFixture) {
    let (engine, spec) = (fixture.engine(), fixture.spec());
    expect_observation(&*engine, spec.id, Observation::Absent).await;
    engine.create(&spec).await.expect("created");
    expect_observation(&*engine, spec.id, Observation::Stopped).await;
    assert_eq!(engine.list().await.expect("a list"), [spec.id]);

    let guest = Guest::new(&engine.start(&spec, &boot(1)).await.expect("started"));
    guest.wait_until_ready().await;
    expect_running(&*engine, spec.id, 1).await;
    guest.store("note", "remember me").await;

    engine.stop(spec.id, GRACE).await.expect("stopped");
    expect_observation(&*engine, spec.id, Observation::Stopped).await;

    let guest = Guest::new(&engine.start(&spec, &boot(2)).await.expect("started again"));
    guest.wait_until_ready().await;
    assert_eq!(guest.load("note").await.as_deref(), Some("remember me"));
    expect_running(&*engine, spec.id, 2).await;

    engine.stop(spec.id, GRACE).await.expect("stopped again");
    engine.destroy(spec.id).await.expect("destroyed");
    expect_observation(&*engine, spec.id, Observation::Absent).await;
    assert!(engine.list().await.expect("a list").is_empty());
    fixture.expect_removed(spec.id);
}

pub async fn every_verb_succeeds_when_it_is_so_already(fixture: &dyn EngineFixture) {
    let (engine, spec) = (fixture.engine(), fixture.spec());
    engine.stop(spec.id, GRACE).await.expect("stop of a missing machine succeeds");
    engine.destroy(spec.id).await.expect("destroy of a missing machine succeeds");
    for _ in 0..2 {
        engine.create(&spec).await.expect("created");
    }
    for _ in 0..2 {
        Guest::new(&engine.start(&spec, &boot(7)).await.expect("started")).wait_until_ready().await;
    }
    let guest = expect_running(&*engine, spec.id, 7).await;
    guest.store("note", "still here").await;
    engine.create(&spec).await.expect("create of a running machine changes nothing");
    assert_eq!(guest.load("note").await.as_deref(), Some("still here"));
    for _ in 0..2 {
        engine.stop(spec.id, GRACE).await.expect("stopped");
    }
    engine.create(&spec).await.expect("create does not replace a disk");
    let guest = Guest::new(&engine.start(&spec, &boot(8)).await.expect("started"));
    guest.wait_until_ready().await;
    assert_eq!(guest.load("note").await.as_deref(), Some("still here"));
    for _ in 0..2 {
        engine.destroy(spec.id).await.expect("destroyed");
    }
    fixture.expect_removed(spec.id);
}

pub async fn a_machine_that_runs_is_not_started_for_another_boot_and_can_be_destroyed(
    fixture: &dyn EngineFixture,
) {
    let (engine, spec) = (fixture.engine(), fixture.spec());
    engine.create(&spec).await.expect("created");
    Guest::new(&engine.start(&spec, &boot(1)).await.expect("started")).wait_until_ready().await;
    let refused = engine.start(&spec, &boot(2)).await.expect_err("another generation");
    assert!(matches!(refused, EngineError::Failed { .. }), "{refused:#}");
    expect_running(&*engine, spec.id, 1).await.wait_until_ready().await;
    engine.destroy(spec.id).await.expect("destroyed");
    expect_observation(&*engine, spec.id, Observation::Absent).await;
    fixture.expect_removed(spec.id);
}

pub async fn what_is_not_there_cannot_start(fixture: &dyn EngineFixture) {
    let (engine, spec) = (fixture.engine(), fixture.spec());
    let refused = engine.start(&spec, &boot(1)).await.expect_err("a missing machine cannot start");
    assert!(matches!(refused, EngineError::Absent), "{refused:#}");
    fixture.expect_removed(spec.id);
}

pub async fn a_waiter_hears_of_every_end(fixture: &dyn EngineFixture) {
    let (engine, spec) = (fixture.engine(), fixture.spec());
    engine.create(&spec).await.expect("created");
    engine.wait_stopped(spec.id).await.expect("returns at once for a stopped machine");

    let guest = Guest::new(&engine.start(&spec, &boot(1)).await.expect("started"));
    guest.wait_until_ready().await;
    let early = tokio::time::timeout(Duration::from_millis(200), engine.wait_stopped(spec.id)).await;
    assert!(early.is_err(), "the machine still runs");
    let (ended, ()) =
        tokio::join!(tokio::time::timeout(END_TIMEOUT, engine.wait_stopped(spec.id)), guest.crash());
    ended.expect("the waiter learns of the crash").expect("no error");
    expect_observation(&*engine, spec.id, Observation::Stopped).await;

    Guest::new(&engine.start(&spec, &boot(2)).await.expect("started after a crash")).wait_until_ready().await;
    let (ended, stopped) = tokio::join!(
        tokio::time::timeout(END_TIMEOUT, engine.wait_stopped(spec.id)),
        engine.stop(spec.id, GRACE)
    );
    ended.expect("the waiter learns of the stop").expect("no error");
    stopped.expect("stopped");
    engine.destroy(spec.id).await.expect("destroyed");
}

pub async fn a_restarted_controller_finds_what_runs(fixture: &dyn EngineFixture) {
    let (engine, running, stopped_machine) = (fixture.engine(), fixture.spec(), fixture.spec());
    engine.create(&running).await.expect("created");
    engine.create(&stopped_machine).await.expect("created");
    Guest::new(&engine.start(&running, &boot(5)).await.expect("started")).wait_until_ready().await;
    drop(engine);

    let engine = fixture.reopen();
    let mut both = vec![running.id, stopped_machine.id];
    both.sort();
    assert_eq!(engine.list().await.expect("a list"), both);
    expect_observation(&*engine, stopped_machine.id, Observation::Stopped).await;
    let guest = expect_running(&*engine, running.id, 5).await;
    guest.wait_until_ready().await;
    engine.start(&running, &boot(5)).await.expect("the same boot does not start again");
    let (ended, ()) =
        tokio::join!(tokio::time::timeout(END_TIMEOUT, engine.wait_stopped(running.id)), guest.crash());
    ended.expect("the waiter learns of the crash").expect("no error");
    for id in both {
        engine.destroy(id).await.expect("destroyed");
        fixture.expect_removed(id);
    }
}

pub async fn a_machine_goes_on_where_it_was_suspended(fixture: &dyn EngineFixture) {
    let (engine, spec) = (fixture.engine(), fixture.spec());
    engine.create(&spec).await.expect("created");
    let guest = Guest::new(&engine.start(&spec, &boot(1)).await.expect("started"));
    guest.wait_until_ready().await;
    assert_eq!(guest.count().await, 1);
    if !engine.offers().default().capabilities.suspend {
        let refused = engine.suspend(spec.id).await.expect_err("the engine does not support it");
        assert!(matches!(refused, EngineError::Unsupported(_)), "{refused:#}");
        expect_running(&*engine, spec.id, 1).await.wait_until_ready().await;
        assert_eq!(guest.count().await, 2);
        return engine.destroy(spec.id).await.expect("destroyed");
    }
    guest.store("note", "remember me").await;
    for _ in 0..2 {
        engine.suspend(spec.id).await.expect("suspended");
        expect_observation(&*engine, spec.id, Observation::Suspended { generation: 1 }).await;
    }
    engine.wait_stopped(spec.id).await.expect("returns at once for a suspended machine");
    assert_eq!(engine.list().await.expect("a list"), [spec.id]);
    drop(engine);

    // A second engine finds the machine and wakes it exactly once.
    let (engine, second) = (fixture.reopen(), boot(2));
    for _ in 0..2 {
        Guest::new(&engine.resume(&spec, &second).await.expect("resumed")).wait_until_ready().await;
    }
    let guest = expect_running(&*engine, spec.id, 2).await;
    assert_eq!(guest.count().await, 2, "memory must be preserved");
    assert_eq!(guest.load("note").await.as_deref(), Some("remember me"));

    // Without its memory the machine boots from its disk.
    engine.suspend(spec.id).await.expect("suspended again");
    for _ in 0..2 {
        engine.discard_memory(spec.id).await.expect("discarded");
        expect_observation(&*engine, spec.id, Observation::Stopped).await;
    }
    let guest = Guest::new(&engine.start(&spec, &boot(3)).await.expect("started"));
    guest.wait_until_ready().await;
    assert_eq!(guest.count().await, 1);
    assert_eq!(guest.load("note").await.as_deref(), Some("remember me"));
    engine.suspend(spec.id).await.expect("suspended a last time");
    engine.destroy(spec.id).await.expect("destroyed with its memory");
    expect_observation(&*engine, spec.id, Observation::Absent).await;
    fixture.expect_removed(spec.id);
}

/// Passes a group of promises to a macro of the caller: those of every engine (`machines`), or of engines that copy disks
/// (`copies`). Promises of layers are in neither.
macro_rules! promises {
    (machines, $target:ident, $fixture:expr) => {
        $target!($fixture;
            a_machine_lives_stops_keeps_its_disk_and_goes,
            every_verb_succeeds_when_it_is_so_already,
            a_machine_that_runs_is_not_started_for_another_boot_and_can_be_destroyed,
            what_is_not_there_cannot_start,
            a_waiter_hears_of_every_end,
            a_restarted_controller_finds_what_runs,
            a_machine_goes_on_where_it_was_suspended,
            a_fork_goes_on_beside_its_source,
            a_snapshot_of_memory_is_gone_back_to,
            machines_are_launched_from_one_snapshot,
            a_saved_state_leaves_its_host_and_comes_back,
        );
    };
    (copies, $target:ident, $fixture:expr) => {
        $target!($fixture;
            a_copy_goes_its_own_way,
            what_is_not_there_is_not_copied,
            a_rollback_brings_back_what_a_snapshot_kept,
            hardware_changes_when_the_engine_says,
        );
    };
}
pub(crate) use promises;

/// Defines one test per conformance function for an engine. The fixture is `None` if this host cannot run the
/// engine.
macro_rules! conformance_tests {
    ($fixture:expr) => {
        $crate::engines::conformance::promises!(machines, conformance_tests, $fixture);
        $crate::engines::conformance::conformance_tests!($fixture; a_layer_lives_as_long_as_somebody_needs_it);
    };
    // For engines that copy disks.
    ($fixture:expr, copies) => {
        $crate::engines::conformance::promises!(copies, conformance_tests, $fixture);
        $crate::engines::conformance::conformance_tests!($fixture;
            layers_have_what_a_machine_wrote_and_nobody_changes_them,
            a_machine_keeps_its_layers_wherever_its_state_goes,
            a_machine_has_all_its_layers_up_to_the_most,
        );
    };
    ($fixture:expr; $($promise:ident),* $(,)?) => {$(
        #[tokio::test(flavor = "multi_thread")]
        async fn $promise() {
            if let Some(fixture) = $fixture {
                $crate::engines::conformance::$promise(&fixture).await;
            }
        }
    )*};
}
pub(crate) use conformance_tests;
