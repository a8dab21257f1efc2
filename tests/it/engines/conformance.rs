//! What does every engine promise? Each promise of `hotdesk::engine::Engine` as a test over any engine.

use std::sync::Arc;
use std::time::Duration;

use hotdesk::base::ids::ComputerId;
use hotdesk::base::secret::Secret;
use hotdesk::domain::resolution::Resolution;
use hotdesk::engine::{Boot, Engine, EngineError, MachineSpec, Observation};

pub use super::copies::{a_copy_goes_its_own_way, what_is_not_there_is_not_copied};
use super::guest::Guest;
pub use super::moments::{
    a_fork_goes_on_beside_its_source, a_snapshot_of_memory_is_gone_back_to,
    machines_are_launched_from_one_snapshot,
};
pub use super::resize::hardware_changes_when_the_engine_says;
pub use super::saved::a_saved_state_leaves_its_host_and_comes_back;
pub use super::snapshots::a_rollback_brings_back_what_a_snapshot_kept;

/// How long the tests' guests may take to end when asked.
pub const GRACE: Duration = Duration::from_secs(10);
/// By when a waiter must have heard of an end, and what ends when asked has ended, on a busy machine.
pub const SOON: Duration = Duration::from_secs(60);

/// An engine on a host of its own.
pub trait Bench: Send + Sync {
    /// The engine.
    fn engine(&self) -> Arc<dyn Engine>;
    /// Another engine over the same host, as a controller that was restarted has it.
    fn reopened(&self) -> Arc<dyn Engine>;
    /// Asserts that nothing of a machine is left on the host.
    fn nothing_is_left_of(&self, id: ComputerId);
}

/// A small machine.
pub fn a_machine() -> MachineSpec {
    MachineSpec {
        id: ComputerId::random(),
        cpu: 1.0,
        memory_bytes: 512 << 20,
        disk_bytes: 256 << 20,
        bandwidth_mbps: 0,
    }
}

pub fn boot(generation: u64) -> Boot {
    Boot { generation, token: Secret::random(40), resolution: Resolution::default() }
}

/// Asserts that a machine runs since a boot; its agent.
pub async fn runs(engine: &dyn Engine, id: ComputerId, since: u64) -> Guest {
    match engine.observe(id).await.expect("an observation") {
        Observation::Running { generation, endpoint, .. } => {
            assert_eq!(generation, since);
            Guest::at(&endpoint)
        }
        other @ (Observation::Absent | Observation::Stopped | Observation::Suspended { .. }) => {
            panic!("running expected, {other:?} seen")
        }
    }
}

async fn sees(engine: &dyn Engine, id: ComputerId, expected: Observation) {
    assert_eq!(engine.observe(id).await.expect("an observation"), expected);
}

pub async fn a_machine_lives_stops_keeps_its_disk_and_goes(bench: &dyn Bench) {
    let (engine, spec) = (bench.engine(), a_machine());
    sees(&*engine, spec.id, Observation::Absent).await;
    engine.create(&spec).await.expect("created");
    sees(&*engine, spec.id, Observation::Stopped).await;
    assert_eq!(engine.list().await.expect("a list"), [spec.id]);

    let guest = Guest::at(&engine.start(&spec, &boot(1)).await.expect("started"));
    guest.answers().await;
    runs(&*engine, spec.id, 1).await;
    guest.keep("note", "remember me").await;

    engine.stop(spec.id, GRACE).await.expect("stopped");
    sees(&*engine, spec.id, Observation::Stopped).await;

    let guest = Guest::at(&engine.start(&spec, &boot(2)).await.expect("started again"));
    guest.answers().await;
    assert_eq!(guest.kept("note").await.as_deref(), Some("remember me"));
    runs(&*engine, spec.id, 2).await;

    engine.stop(spec.id, GRACE).await.expect("stopped again");
    engine.destroy(spec.id).await.expect("destroyed");
    sees(&*engine, spec.id, Observation::Absent).await;
    assert!(engine.list().await.expect("a list").is_empty());
    bench.nothing_is_left_of(spec.id);
}

pub async fn every_verb_succeeds_when_it_is_so_already(bench: &dyn Bench) {
    let (engine, spec) = (bench.engine(), a_machine());
    engine.stop(spec.id, GRACE).await.expect("stop of what is not there");
    engine.destroy(spec.id).await.expect("destroy of what is not there");
    for _ in 0..2 {
        engine.create(&spec).await.expect("created");
    }
    for _ in 0..2 {
        Guest::at(&engine.start(&spec, &boot(7)).await.expect("started")).answers().await;
    }
    let guest = runs(&*engine, spec.id, 7).await;
    guest.keep("note", "still here").await;
    engine.create(&spec).await.expect("create while it runs changes nothing");
    assert_eq!(guest.kept("note").await.as_deref(), Some("still here"));
    for _ in 0..2 {
        engine.stop(spec.id, GRACE).await.expect("stopped");
    }
    engine.create(&spec).await.expect("create keeps a disk that is there");
    let guest = Guest::at(&engine.start(&spec, &boot(8)).await.expect("started"));
    guest.answers().await;
    assert_eq!(guest.kept("note").await.as_deref(), Some("still here"));
    for _ in 0..2 {
        engine.destroy(spec.id).await.expect("destroyed");
    }
    bench.nothing_is_left_of(spec.id);
}

pub async fn a_machine_that_runs_is_not_started_for_another_boot(bench: &dyn Bench) {
    let (engine, spec) = (bench.engine(), a_machine());
    engine.create(&spec).await.expect("created");
    Guest::at(&engine.start(&spec, &boot(1)).await.expect("started")).answers().await;
    let refused = engine.start(&spec, &boot(2)).await.expect_err("another generation");
    assert!(matches!(refused, EngineError::Failed { .. }), "{refused}");
    runs(&*engine, spec.id, 1).await.answers().await;
    engine.destroy(spec.id).await.expect("destroyed");
}

pub async fn what_is_not_there_cannot_start(bench: &dyn Bench) {
    let (engine, spec) = (bench.engine(), a_machine());
    let refused = engine.start(&spec, &boot(1)).await.expect_err("nothing to start");
    assert!(matches!(refused, EngineError::Absent), "{refused}");
    bench.nothing_is_left_of(spec.id);
}

pub async fn a_machine_that_runs_can_be_destroyed(bench: &dyn Bench) {
    let (engine, spec) = (bench.engine(), a_machine());
    engine.create(&spec).await.expect("created");
    Guest::at(&engine.start(&spec, &boot(1)).await.expect("started")).answers().await;
    engine.destroy(spec.id).await.expect("destroyed");
    sees(&*engine, spec.id, Observation::Absent).await;
    bench.nothing_is_left_of(spec.id);
}

pub async fn a_waiter_hears_of_every_end(bench: &dyn Bench) {
    let (engine, spec) = (bench.engine(), a_machine());
    engine.create(&spec).await.expect("created");
    engine.stopped(spec.id).await.expect("at once: it does not run");

    let guest = Guest::at(&engine.start(&spec, &boot(1)).await.expect("started"));
    guest.answers().await;
    let early = tokio::time::timeout(Duration::from_millis(200), engine.stopped(spec.id)).await;
    assert!(early.is_err(), "it runs still");
    let (ended, ()) = tokio::join!(tokio::time::timeout(SOON, engine.stopped(spec.id)), guest.crash());
    ended.expect("heard of the crash").expect("no error");
    sees(&*engine, spec.id, Observation::Stopped).await;

    Guest::at(&engine.start(&spec, &boot(2)).await.expect("started after a crash")).answers().await;
    let (ended, stopped) =
        tokio::join!(tokio::time::timeout(SOON, engine.stopped(spec.id)), engine.stop(spec.id, GRACE));
    ended.expect("heard of the stop").expect("no error");
    stopped.expect("stopped");
    engine.destroy(spec.id).await.expect("destroyed");
}

pub async fn a_restarted_controller_finds_what_runs(bench: &dyn Bench) {
    let (engine, running, resting) = (bench.engine(), a_machine(), a_machine());
    engine.create(&running).await.expect("created");
    engine.create(&resting).await.expect("created");
    Guest::at(&engine.start(&running, &boot(5)).await.expect("started")).answers().await;
    drop(engine);

    let engine = bench.reopened();
    let mut both = vec![running.id, resting.id];
    both.sort();
    assert_eq!(engine.list().await.expect("a list"), both);
    sees(&*engine, resting.id, Observation::Stopped).await;
    let guest = runs(&*engine, running.id, 5).await;
    guest.answers().await;
    engine.start(&running, &boot(5)).await.expect("the same boot is no start");
    let (ended, ()) = tokio::join!(tokio::time::timeout(SOON, engine.stopped(running.id)), guest.crash());
    ended.expect("heard of the crash").expect("no error");
    for id in both {
        engine.destroy(id).await.expect("destroyed");
        bench.nothing_is_left_of(id);
    }
}

pub async fn a_machine_goes_on_where_it_was_suspended(bench: &dyn Bench) {
    let (engine, spec) = (bench.engine(), a_machine());
    engine.create(&spec).await.expect("created");
    let guest = Guest::at(&engine.start(&spec, &boot(1)).await.expect("started"));
    guest.answers().await;
    assert_eq!(guest.count().await, 1);
    if !engine.capabilities().suspend {
        let refused = engine.suspend(spec.id).await.expect_err("not what it can");
        assert!(matches!(refused, EngineError::Unsupported(_)), "{refused}");
        runs(&*engine, spec.id, 1).await.answers().await;
        assert_eq!(guest.count().await, 2);
        return engine.destroy(spec.id).await.expect("destroyed");
    }
    guest.keep("note", "remember me").await;
    for _ in 0..2 {
        engine.suspend(spec.id).await.expect("suspended");
        sees(&*engine, spec.id, Observation::Suspended { generation: 1 }).await;
    }
    engine.stopped(spec.id).await.expect("at once: it does not run");
    assert_eq!(engine.list().await.expect("a list"), [spec.id]);
    drop(engine);

    // Another controller finds it, wakes it, and wakes it once.
    let (engine, second) = (bench.reopened(), boot(2));
    for _ in 0..2 {
        Guest::at(&engine.resume(&spec, &second).await.expect("resumed")).answers().await;
    }
    let guest = runs(&*engine, spec.id, 2).await;
    assert_eq!(guest.count().await, 2, "memory is kept");
    assert_eq!(guest.kept("note").await.as_deref(), Some("remember me"));

    // Without its memory it boots from its disk.
    engine.suspend(spec.id).await.expect("suspended again");
    for _ in 0..2 {
        engine.discard_memory(spec.id).await.expect("discarded");
        sees(&*engine, spec.id, Observation::Stopped).await;
    }
    let guest = Guest::at(&engine.start(&spec, &boot(3)).await.expect("started"));
    guest.answers().await;
    assert_eq!(guest.count().await, 1);
    assert_eq!(guest.kept("note").await.as_deref(), Some("remember me"));
    engine.suspend(spec.id).await.expect("suspended a last time");
    engine.destroy(spec.id).await.expect("destroyed with its memory");
    sees(&*engine, spec.id, Observation::Absent).await;
    bench.nothing_is_left_of(spec.id);
}

/// Makes a test of every promise for one engine. The bench is `None` when this machine cannot run that engine.
macro_rules! keeps_its_promises {
    ($bench:expr) => {
        $crate::engines::conformance::keeps_its_promises!($bench;
            a_machine_lives_stops_keeps_its_disk_and_goes,
            every_verb_succeeds_when_it_is_so_already,
            a_machine_that_runs_is_not_started_for_another_boot,
            what_is_not_there_cannot_start,
            a_machine_that_runs_can_be_destroyed,
            a_waiter_hears_of_every_end,
            a_restarted_controller_finds_what_runs,
            a_machine_goes_on_where_it_was_suspended,
            a_fork_goes_on_beside_its_source,
            a_snapshot_of_memory_is_gone_back_to,
            machines_are_launched_from_one_snapshot,
            a_saved_state_leaves_its_host_and_comes_back,
        );
    };
    // For engines that copy disks.
    ($bench:expr, copies) => {
        $crate::engines::conformance::keeps_its_promises!($bench;
            a_copy_goes_its_own_way,
            what_is_not_there_is_not_copied,
            a_rollback_brings_back_what_a_snapshot_kept,
            hardware_changes_when_the_engine_says,
        );
    };
    ($bench:expr; $($promise:ident),* $(,)?) => {$(
        #[tokio::test(flavor = "multi_thread")]
        async fn $promise() {
            if let Some(bench) = $bench {
                $crate::engines::conformance::$promise(&bench).await;
            }
        }
    )*};
}
pub(crate) use keeps_its_promises;
