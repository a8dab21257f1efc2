//! Controller kills at any moment of a machine's life.
//!
//! T18 (docs/security.md). The next engine adopts or removes every machine.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use hotdesk::base::ids::ComputerId;
use hotdesk::engine::{NetworkConfig, Observation};

use super::conformance::{EngineFixture, boot, expect_running, machine_spec};
use super::guest::Guest;
use super::host::{ContainerFixture, container_settings, open_engine};

const STATE: &str = "HOTDESK_VICTIM_STATE";
const IMAGE: &str = "HOTDESK_VICTIM_IMAGE";
const COMPUTER: &str = "HOTDESK_VICTIM_COMPUTER";

/// Runs as a separate process: the controller that
/// [`a_controller_killed_at_any_moment_leaves_nothing_that_hinders`] kills.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "the victim of another test"]
async fn victim() {
    let (Some(state), Some(image)) = (std::env::var_os(STATE), std::env::var_os(IMAGE)) else { return };
    let mut config = container_settings(PathBuf::from(state), PathBuf::from(image), "/bin/true");
    config.host.network = NetworkConfig::default();
    config.host.init_args = Some(["/bin/sleep", "1000"].map(str::to_owned).to_vec());
    let engine = open_engine(config);
    let mut spec = machine_spec();
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

fn kill_a_controller_after(fixture: &ContainerFixture, id: ComputerId, moment: Duration) {
    let mut victim = Command::new(std::env::current_exe().expect("this program"))
        .args(["--ignored", "--exact", "engines::crash::victim"])
        .env(STATE, &fixture.config.host.state_dir)
        .env(IMAGE, &fixture.config.host.image)
        .env(COMPUTER, id.to_string())
        .stdout(Stdio::null())
        .spawn()
        .expect("a controller");
    std::thread::sleep(moment);
    assert!(victim.try_wait().expect("a status").is_none(), "the controller must not end by itself");
    victim.kill().expect("killed");
    victim.wait().expect("reaped");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_controller_killed_at_any_moment_leaves_nothing_that_hinders() {
    let Some(fixture) = ContainerFixture::with_network() else { return };
    for round in 0..24_u64 {
        let mut spec = machine_spec();
        spec.id = ComputerId::random();
        // Spread over a machine's whole life (about 300 ms), in steps that are no divisor of any phase.
        kill_a_controller_after(&fixture, spec.id, Duration::from_millis(20 + round * 17));
        let observed = fixture.engine.observe(spec.id).await.expect("an observation");
        if round % 2 == 0 {
            fixture.engine.destroy(spec.id).await.expect("destroyed");
            fixture.expect_removed(spec.id);
            continue;
        }
        if let Observation::Running { generation, .. } = observed {
            assert!(generation >= 1_000, "{generation}");
        }
        // A command of the dead controller may still be at work, whatever was observed; a stop waits for it.
        if observed != Observation::Absent {
            fixture.engine.stop(spec.id, Duration::ZERO).await.expect("stopped");
        }
        fixture.engine.create(&spec).await.expect("a repeated create succeeds");
        let guest = Guest::new(&fixture.engine.start(&spec, &boot(1)).await.expect("started"));
        guest.wait_until_ready().await;
        expect_running(&*fixture.engine, spec.id, 1).await;
        fixture.engine.destroy(spec.id).await.expect("destroyed");
        fixture.expect_removed(spec.id);
    }
}
