//! What if the controller is killed at any moment? The next one takes every machine over or away (threats.md T18).

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use hotdesk::base::ids::ComputerId;
use hotdesk::engine::container::{ContainerConfig, ContainerEngine, NetworkConfig};
use hotdesk::engine::{Engine, Observation};

use super::conformance::{Bench, a_machine, boot, runs};
use super::guest::Guest;
use super::host::Containers;

const STATE: &str = "HOTDESK_VICTIM_STATE";
const IMAGE: &str = "HOTDESK_VICTIM_IMAGE";
const COMPUTER: &str = "HOTDESK_VICTIM_COMPUTER";

/// Not a test of its own: the controller that [`a_controller_killed_at_any_moment_leaves_nothing_that_hinders`] kills.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "the victim of another test"]
async fn victim() {
    let (Some(state), Some(image)) = (std::env::var_os(STATE), std::env::var_os(IMAGE)) else { return };
    let mut config = ContainerConfig::new(PathBuf::from(state), PathBuf::from(image), "/bin/true");
    config.network = NetworkConfig::default();
    config.init_args = Some(["/bin/sleep", "1000"].map(str::to_owned).to_vec());
    let engine = ContainerEngine::open(config).expect("an engine");
    let mut spec = a_machine();
    spec.id = std::env::var(COMPUTER).expect("an id").parse().expect("an id");
    for generation in 1_000.. {
        engine.create(&spec).await.expect("created");
        engine.start(&spec, &boot(generation)).await.expect("started");
        engine.stop(spec.id, Duration::ZERO).await.expect("stopped");
        if generation % 2 == 0 {
            engine.destroy(spec.id).await.expect("destroyed");
        }
    }
}

fn kill_a_controller_after(bench: &Containers, id: ComputerId, moment: Duration) {
    let mut victim = Command::new(std::env::current_exe().expect("this program"))
        .args(["--ignored", "--exact", "engines::crash::victim"])
        .env(STATE, &bench.config.state_dir)
        .env(IMAGE, &bench.config.image)
        .env(COMPUTER, id.to_string())
        .stdout(Stdio::null())
        .spawn()
        .expect("a controller");
    std::thread::sleep(moment);
    assert!(victim.try_wait().expect("asked").is_none(), "the controller ended by itself");
    victim.kill().expect("killed");
    victim.wait().expect("reaped");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_controller_killed_at_any_moment_leaves_nothing_that_hinders() {
    let Some(bench) = Containers::networked() else { return };
    for round in 0..24_u64 {
        let mut spec = a_machine();
        spec.id = ComputerId::random();
        // Spread over a whole life of a machine (about 300 ms) with steps that no phase is a multiple of.
        kill_a_controller_after(&bench, spec.id, Duration::from_millis(20 + round * 17));
        let seen = bench.engine.observe(spec.id).await.expect("an observation");
        if round % 2 == 0 {
            bench.engine.destroy(spec.id).await.expect("destroyed");
            bench.nothing_is_left_of(spec.id);
            continue;
        }
        if let Observation::Running { generation, .. } = seen {
            assert!(generation >= 1_000, "{generation}");
        }
        // Whatever was seen: a tool of the dead controller may still have been at work, and a stop waits for it.
        if seen != Observation::Absent {
            bench.engine.stop(spec.id, Duration::ZERO).await.expect("stopped");
        }
        bench.engine.create(&spec).await.expect("made whole");
        let guest = Guest::at(&bench.engine.start(&spec, &boot(1)).await.expect("started"));
        guest.answers().await;
        runs(&bench.engine, spec.id, 1).await;
        bench.engine.destroy(spec.id).await.expect("destroyed");
        bench.nothing_is_left_of(spec.id);
    }
}
