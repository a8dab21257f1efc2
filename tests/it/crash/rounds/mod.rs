//! Survival of acknowledged changes over kills and power cuts at random moments.
//!
//! T18 (docs/security.md). No other changes may appear.
//!
//! `HOTDESK_ROUNDS` sets the number of kills (15; `make soak`: 200). The seed is printed. `HOTDESK_SEED`
//! repeats the choices, but not their timing.

mod client;
pub mod look;
mod model;
mod split;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use self::client::{Client, Profile};
use super::remains::Leftovers;
use crate::harness::capability::Capability;
use crate::harness::controller::{RunningController, gvisor, skip_reason};

/// Kills of an ordinary run. A fifth of them is over gVisor.
const ROUNDS: u32 = 15;
/// Power cuts of an ordinary run.
const POWER_CUTS: u32 = 3;
/// Concurrent clients.
const CLIENTS: usize = 3;
/// Longest time until the host's resources match the rows once every computer has settled: on an idle machine
/// (`make soak`), and on a busy one. The longest time since a start, boots included, is printed.
const CONSISTENCY_TIMEOUT: Duration = Duration::from_secs(10);
pub const BUSY_TIMEOUT: Duration = Duration::from_secs(90);
/// Size of the data folder's disk for power cuts. It is sparse; ten times this admits all disks that the clients grow.
const DISK_MIB: u64 = 16384;

pub fn requested_rounds() -> Option<u32> {
    std::env::var("HOTDESK_ROUNDS").ok().and_then(|rounds| rounds.parse().ok())
}

/// Longest time until the host's resources match the rows.
pub fn consistency_timeout() -> Duration {
    if requested_rounds().is_some() { CONSISTENCY_TIMEOUT } else { BUSY_TIMEOUT }
}

/// A controller, its clients, and the state that they expect.
struct RoundRunner {
    controller: RunningController,
    remains: Leftovers,
    clients: Vec<Client>,
    rng: StdRng,
    longest_ms: u64,
    longest: Duration,
}

impl RoundRunner {
    async fn new(controller: RunningController, profile: Profile, subnet: Option<&str>) -> Self {
        let requested_seed = std::env::var("HOTDESK_SEED").ok().and_then(|seed| seed.parse().ok());
        let seed = requested_seed.unwrap_or_else(rand::random::<u64>);
        println!("HOTDESK_SEED={seed}");
        let workspaces = [controller.workspace("one").await, controller.workspace("two").await];
        let clients = (0..CLIENTS).map(|number| Client::new(number, seed, &workspaces, profile)).collect();
        let remains = match subnet {
            Some(subnet) => Leftovers::with_subnet(&controller, subnet),
            None => Leftovers::new(&controller),
        };
        let (rng, longest_ms) = (StdRng::seed_from_u64(seed), profile.longest_ms);
        Self { controller, remains, clients, rng, longest_ms, longest: Duration::ZERO }
    }

    /// Runs the clients for a while, ends their controller, and checks the state after the next start.
    async fn run_round(&mut self, end: impl AsyncFnOnce(&mut RunningController), lost_power: bool) {
        let endpoint = (self.controller.base().to_owned(), self.controller.key().to_owned());
        let clients = std::mem::take(&mut self.clients).into_iter();
        let clients = join_all(clients.map(|client| client.prepare(endpoint.clone()))).await;
        let work = join_all(clients.into_iter().map(|client| client.drive(endpoint.clone())));
        let lifetime = Duration::from_millis(self.rng.random_range(0..self.longest_ms));
        let ends = async {
            tokio::time::sleep(lifetime).await;
            self.remains.observe();
            end(&mut self.controller).await;
        };
        let (clients, ()) = tokio::join!(work, ends);
        self.clients = clients;
        self.controller.start_again().await;
        let started = Instant::now();
        look::wait_until_settled(&self.controller).await;
        let mut listed = look::records(&self.controller).await;
        for client in &mut self.clients {
            if lost_power {
                client.apply_power_cut();
            }
            client.verify(&self.controller, &mut listed).await;
        }
        assert!(listed.is_empty(), "computers that were never created or are removed: {listed:?}");
        let rows = look::rows(&self.controller).await;
        self.remains.check(&rows, consistency_timeout()).await;
        self.longest = self.longest.max(started.elapsed());
    }

    /// Removes all computers and prints what the clients did.
    async fn finish(self, what: &str) {
        let mut counts: BTreeMap<&str, (u32, u32)> = BTreeMap::new();
        for client in &self.clients {
            for (verb, (answered, unanswered)) in &client.counts {
                let all = counts.entry(verb).or_default();
                *all = (all.0 + answered, all.1 + unanswered);
            }
        }
        println!("{what}: consistent within {:?}; acknowledged and unanswered: {counts:?}", self.longest);
        for (id, _) in look::rows(&self.controller).await {
            let removed = self.controller.delete(&format!("/computers/{id}")).await;
            assert_eq!(removed.status, 200, "{}", removed.body);
        }
        self.remains.check(&[], BUSY_TIMEOUT).await;
    }
}

async fn run_kill_rounds(rounds: u32, engines: &str, profile: Profile) {
    // Guest addresses that no other controller of this host uses.
    let subnet = format!("10.{}.", rand::rng().random_range(214..254_u8));
    let controller = format!("{engines}[container]\nsubnet = \"{subnet}0.0/16\"\n");
    let controller = RunningController::boot_with(&controller).await;
    let mut scene = RoundRunner::new(controller, profile, Some(&subnet)).await;
    for _ in 0..rounds {
        scene.run_round(async |controller: &mut RunningController| controller.kill(), false).await;
    }
    scene.finish(&format!("{rounds} kills, {engines:?}")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn t18_what_was_acknowledged_survives_a_kill_and_nothing_else_does() {
    if let Some(skip) = skip_reason() {
        return skip.report();
    }
    let all = requested_rounds().unwrap_or(ROUNDS);
    let profile = Profile { suspend: false, clone_running: true, longest_ms: 2000, sync: false };
    run_kill_rounds(all - all / 5, "", profile).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn t18_what_was_acknowledged_survives_a_kill_over_gvisor_memory_too() {
    let Some(engines) = gvisor() else { return };
    let profile = Profile { suspend: true, clone_running: false, longest_ms: 4000, sync: false };
    run_kill_rounds(requested_rounds().unwrap_or(ROUNDS) / 5, &engines, profile).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn t18_what_was_acknowledged_survives_a_power_cut() {
    if let Some(skip) = skip_reason() {
        return skip.report();
    }
    let controller = RunningController::boot_on_disk(DISK_MIB).await;
    let profile = Profile { suspend: false, clone_running: true, longest_ms: 2000, sync: true };
    let mut scene = RoundRunner::new(controller, profile, None).await;
    for round in 0..POWER_CUTS {
        let mut refused = None;
        scene
            .run_round(
                async |controller: &mut RunningController| refused = controller.lose_power().await.err(),
                true,
            )
            .await;
        if let Some(refused) = refused {
            Capability::Host
                .skip(format_args!("this kernel cannot cut the power, seen in round {round}: {refused}"));
            break;
        }
    }
    scene.finish("power cuts").await;
}
