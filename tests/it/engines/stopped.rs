//! Machines whose processes something outside stopped or froze: they are observed and can be ended.

use hotdesk::base::ids::ComputerId;
use hotdesk::engine::Observation;

use super::conformance::{EngineFixture, GRACE, boot, expect_running};
use super::guest::Guest;
use crate::harness::host::{control_groups, stop_processes};

async fn started(fixture: &dyn EngineFixture) -> (hotdesk::engine::MachineSpec, Guest) {
    let (engine, spec) = (fixture.engine(), fixture.spec());
    engine.create(&spec).await.expect("created");
    let guest = Guest::new(&engine.start(&spec, &boot(1)).await.expect("started"));
    guest.wait_until_ready().await;
    (spec, guest)
}

pub async fn a_machine_whose_processes_are_stopped_can_be_ended(fixture: &dyn EngineFixture) {
    let (spec, guest) = started(fixture).await;
    guest.store("note", "remember me").await;
    stop_processes(&spec.id.to_string());
    // A controller that starts now finds the machine, too.
    let engine = fixture.reopen();
    expect_running(&*engine, spec.id, 1).await;
    engine.stop(spec.id, GRACE).await.expect("stopped");
    assert_eq!(engine.observe(spec.id).await.expect("an observation"), Observation::Stopped);

    let guest = Guest::new(&engine.start(&spec, &boot(2)).await.expect("started again"));
    guest.wait_until_ready().await;
    assert_eq!(guest.load("note").await.as_deref(), Some("remember me"));
    stop_processes(&spec.id.to_string());
    engine.destroy(spec.id).await.expect("destroyed");
    fixture.expect_removed(spec.id);
}

/// Freezes the control groups of a machine.
fn freeze(id: ComputerId) {
    let freezers = [("freezer.state", "FROZEN"), ("cgroup.freeze", "1")];
    let written = control_groups(&id.to_string()).into_iter().flat_map(|group| {
        freezers
            .map(|(name, frozen)| (group.join(name), frozen))
            .into_iter()
            .filter(|(file, _)| file.exists())
    });
    let written = written.map(|(file, frozen)| std::fs::write(file, frozen).expect("a freezer")).count();
    assert!(written > 0, "a control group with a freezer");
}

/// For engines whose machines have a group with a freezer.
pub async fn a_machine_whose_groups_are_frozen_can_be_ended(fixture: &dyn EngineFixture) {
    let (engine, (spec, _)) = (fixture.engine(), started(fixture).await);
    freeze(spec.id);
    engine.stop(spec.id, GRACE).await.expect("stopped");
    assert_eq!(engine.observe(spec.id).await.expect("an observation"), Observation::Stopped);
    Guest::new(&engine.start(&spec, &boot(2)).await.expect("started again")).wait_until_ready().await;
    freeze(spec.id);
    engine.destroy(spec.id).await.expect("destroyed");
    fixture.expect_removed(spec.id);
}
