//! Several engines over one state folder: machines of every isolation side by side, and the change of one.

use std::sync::Arc;

use hotdesk::base::ids::ComputerId;
use hotdesk::domain::computer::isolation::Isolation;
use hotdesk::engine::{
    ContainerSettings, Engine, EngineError, EngineKind, EngineSettings, MachineSpec, Observation, OpenMode,
};

use super::conformance::{GRACE, boot, expect_running, machine_spec};
use super::guest::Guest;
use super::host::open_engine;
use super::qemu;
use crate::harness::capability::{Capability, Skip};
use crate::harness::controller::{runsc, skip_reason};
use crate::harness::host::find_leftover;

/// The engine of an isolation; the skip where this host cannot run it.
fn engine_of(isolation: Isolation) -> Result<EngineKind, Skip> {
    let container = |runtime: &str| {
        EngineKind::Container(ContainerSettings { runtime: runtime.to_owned(), isolation: Some(isolation) })
    };
    match isolation {
        Isolation::Shared => Ok(container("runc")),
        Isolation::Sandbox if !std::path::Path::new(&runsc()).exists() => {
            Err(Skip::new(Capability::Gvisor, "runsc is not installed (packaging/dev/deps test)"))
        }
        Isolation::Sandbox => Ok(container(&runsc())),
        Isolation::Vm => qemu::qemu_skip_reason().map_or_else(|| Ok(qemu::engine()), Err),
    }
}

/// Adds the engines of all isolations besides `own`, the default, that this host can run.
pub fn add_others(settings: &mut EngineSettings, own: Isolation) {
    for isolation in Isolation::ALL.into_iter().filter(|isolation| *isolation != own) {
        match engine_of(isolation) {
            Ok(kind) => settings.kinds.push(kind),
            Err(skip) => skip.report(),
        }
    }
}

/// The engines of all isolations that this host can run, the shared one first; `None` without gVisor.
fn settings(folder: &tempfile::TempDir) -> Option<EngineSettings> {
    let sandbox = engine_of(Isolation::Sandbox).err();
    if let Some(skip) = skip_reason().or(sandbox) {
        skip.report();
        return None;
    }
    let kinds = [Isolation::Shared, Isolation::Sandbox, Isolation::Vm]
        .into_iter()
        .filter_map(|isolation| engine_of(isolation).map_err(Skip::report).ok());
    Some(EngineSettings { kinds: kinds.collect(), ..qemu::settings(folder.path().join("state")) })
}

/// Destroys all machines at the end of a test.
struct Cleanup(Arc<dyn Engine>);

impl Drop for Cleanup {
    fn drop(&mut self) {
        let engine = Arc::clone(&self.0);
        let cleaned = std::thread::spawn(move || {
            let runtime = tokio::runtime::Runtime::new().expect("a runtime");
            runtime.block_on(async {
                for id in engine.list().await.expect("a list") {
                    engine.destroy(id).await.expect("destroyed");
                }
            });
        });
        assert!(cleaned.join().is_ok() || std::thread::panicking(), "the clean-up failed");
    }
}

async fn start(engine: &dyn Engine, spec: &MachineSpec, generation: u64) -> Guest {
    let guest = Guest::new(&engine.start(spec, &boot(generation)).await.expect("started"));
    guest.wait_until_ready().await;
    guest
}

#[tokio::test(flavor = "multi_thread")]
async fn machines_of_every_isolation_live_side_by_side_and_a_container_changes_its_own() {
    let folder = tempfile::Builder::new().prefix("hotdesk-").tempdir().expect("a temporary folder");
    let Some(settings) = settings(&folder) else { return };
    let engine = open_engine(settings.clone());
    let cleanup = Cleanup(Arc::clone(&engine));
    let isolations = engine.offers().isolations();
    assert_eq!(isolations[..2], [Isolation::Shared, Isolation::Sandbox]);
    let mut machines: Vec<(MachineSpec, String)> = Vec::new();
    for isolation in isolations {
        let spec = MachineSpec { isolation, ..machine_spec() };
        engine.create(&spec).await.expect("created");
        let guest = start(&*engine, &spec, 1).await;
        guest.store("note", isolation.name()).await;
        machines.push((spec, guest.run("uname -v").await));
    }
    // Each has the kernel of its isolation.
    let host = nix::sys::utsname::uname().expect("the host's kernel");
    let host = host.version().to_string_lossy().into_owned();
    for (spec, kernel) in &machines {
        assert_eq!(*kernel == host, spec.isolation == Isolation::Shared, "{kernel}");
    }

    // A restarted controller finds the machines of all, and each keeps memory if its isolation does.
    let engine = open_engine(settings.clone());
    let mut ids: Vec<ComputerId> = machines.iter().map(|(spec, _)| spec.id).collect();
    ids.sort();
    assert_eq!(engine.list().await.expect("a list"), ids);
    for (spec, _) in &machines {
        let guest = expect_running(&*engine, spec.id, 1).await;
        assert_eq!(guest.count().await, 1);
        if !engine.offers().capabilities(spec.isolation).suspend {
            let refused = engine.suspend(spec.id).await.expect_err("it saves no memory");
            assert!(matches!(refused, EngineError::Unsupported(_)), "{refused:#}");
            continue;
        }
        engine.suspend(spec.id).await.expect("suspended");
        let other = MachineSpec { isolation: Isolation::Shared, ..spec.clone() };
        let refused = format!("{:#}", engine.resume(&other, &boot(2)).await.expect_err("another's memory"));
        assert!(refused.contains("cannot read it"), "{refused}");
        Guest::new(&engine.resume(spec, &boot(2)).await.expect("resumed")).wait_until_ready().await;
        assert_eq!(expect_running(&*engine, spec.id, 2).await.count().await, 2, "memory must be preserved");
    }
    engine.maintain().await.expect("maintained");
    engine.watch_disk().await.expect("the disk is watched");

    // A stop and a start give a container another isolation, with its disk; a crash in between loses nothing.
    for (spec, _) in &machines {
        engine.stop(spec.id, GRACE).await.expect("stopped");
        assert_eq!(engine.observe(spec.id).await.expect("an observation"), Observation::Stopped);
    }
    let [shared, sandbox] = [&machines[0].0, &machines[1].0];
    for (before, isolation) in [(shared, Isolation::Sandbox), (sandbox, Isolation::Shared)] {
        let spec = MachineSpec { isolation, ..before.clone() };
        let guest = start(&*engine, &spec, 3).await;
        assert_eq!(guest.load("note").await.as_deref(), Some(before.isolation.name()));
        assert_eq!(guest.run("uname -v").await == host, isolation == Isolation::Shared);
        let engine = open_engine(settings.clone());
        expect_running(&*engine, spec.id, 3).await.wait_until_ready().await;
    }

    // The root of a virtual machine may have written any block.
    if let Some((vm, _)) = machines.get(2) {
        let other = MachineSpec { isolation: Isolation::Sandbox, ..vm.clone() };
        let refused = format!("{:#}", engine.start(&other, &boot(3)).await.expect_err("a raw disk"));
        assert!(refused.contains("a virtual machine has written it"), "{refused}");
        let guest = start(&*engine, vm, 4).await;
        assert_eq!(guest.load("note").await.as_deref(), Some("vm"));
    }
    // A host that does not offer an isolation says so, and destroys nothing of its machines.
    let mut fewer = settings.clone();
    fewer.kinds.remove(0);
    fewer.kinds.push(EngineKind::Container(ContainerSettings {
        runtime: "runc".to_owned(),
        isolation: Some(Isolation::Shared),
    }));
    fewer.kinds.remove(0);
    if fewer.kinds.len() > 1 {
        let fewer = hotdesk::engine::open(fewer, OpenMode::ReadOnly).expect("engines");
        let refused = format!("{:#}", fewer.observe(shared.id).await.expect_err("it is a sandbox now"));
        assert!(refused.contains("its isolation is sandbox"), "{refused}");
    }
    for id in &ids {
        engine.destroy(*id).await.expect("destroyed");
        assert_eq!(find_leftover(&id.to_string()), None);
    }
    assert!(engine.list().await.expect("a list").is_empty());
    drop(cleanup);
}

#[test]
fn a_runtime_that_does_not_provide_its_isolation_is_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let Some(mut settings) = settings(&folder) else { return };
    let kind = |runtime: &str, isolation| {
        EngineKind::Container(ContainerSettings { runtime: runtime.to_owned(), isolation: Some(isolation) })
    };
    for (kinds, expected) in [
        (vec![kind("runc", Isolation::Sandbox)], "does not provide isolation sandbox"),
        (vec![kind("/nowhere/runsc", Isolation::Sandbox)], "/nowhere/runsc"),
        (vec![kind("runc", Isolation::Shared), kind("runc", Isolation::Shared)], "shared is listed twice"),
        (vec![], "there is none"),
    ] {
        settings.kinds = kinds;
        let refused = hotdesk::engine::open(settings.clone(), OpenMode::Run).expect_err("refused");
        let refused = format!("{refused:#}");
        assert!(refused.contains(expected), "{refused}");
    }
}
