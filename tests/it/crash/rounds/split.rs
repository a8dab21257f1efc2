//! Kills of a controller without privileges and of its host helper at random moments.

use std::time::Duration;

use super::client::Profile;
use super::{RoundRunner, requested_rounds};
use crate::harness::controller::{RunningController, skip_reason};
use rand::RngExt;

/// Rounds of an ordinary run; each way to die comes once.
const ROUNDS: u32 = 3;
/// Longest time between the deaths of the two processes: an operation of the engine takes less or more.
const BETWEEN_MS: u64 = 400;

/// Which process dies, in which order. After each round the controller is dead, and the helper lives.
#[derive(Clone, Copy, Debug)]
enum Death {
    /// The helper, and after a while the controller, which meanwhile has no helper.
    Both,
    /// The controller; what it asked for goes on in the helper, beside the next controller.
    Controller,
    /// The helper, whose successor gets the repeated calls, and later the controller.
    HelperThenController,
}

impl Death {
    const ALL: [Self; 3] = [Self::Both, Self::Controller, Self::HelperThenController];

    async fn strike(self, controller: &mut RunningController) {
        let pause = Duration::from_millis(rand::rng().random_range(0..BETWEEN_MS));
        match self {
            Self::Both => {
                controller.kill_helper();
                tokio::time::sleep(pause).await;
                controller.kill();
                controller.start_helper().await;
            }
            Self::Controller => controller.kill(),
            Self::HelperThenController => {
                controller.kill_helper();
                controller.start_helper().await;
                tokio::time::sleep(pause).await;
                controller.kill();
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn t18_what_was_acknowledged_survives_the_deaths_of_controller_and_helper() {
    if let Some(skip) = skip_reason() {
        return skip.report();
    }
    // Guest addresses that no other controller of this host uses.
    let subnet = format!("10.{}.", rand::rng().random_range(214..254_u8));
    let controller =
        RunningController::boot_beside_helper(&format!("[container]\nsubnet = \"{subnet}0.0/16\"\n")).await;
    // An error is no answer: a call that met two deaths may have had its effect.
    let profile = Profile { suspend: false, clone_running: true, longest_ms: 2000, sync: true };
    let mut scene = RoundRunner::new(controller, profile, Some(&subnet)).await;
    let rounds = requested_rounds().unwrap_or(ROUNDS);
    for death in Death::ALL.into_iter().cycle().take(rounds as usize) {
        scene
            .run_round(async |controller: &mut RunningController| death.strike(controller).await, false)
            .await;
    }
    scene.finish(&format!("{rounds} deaths of controller and helper")).await;
}
