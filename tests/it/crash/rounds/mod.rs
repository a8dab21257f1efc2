//! Is everything that was acknowledged there, and nothing else, after a controller was killed at a random moment of random
//! work, or its host lost its power? (threats.md T18)
//!
//! `HOTDESK_ROUNDS` sets the number of kills (30; `make soak`: 200). The seed is printed; `HOTDESK_SEED` repeats the choices,
//! though not the moments at which the computers get to them.

mod client;
mod desk;
pub mod look;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use self::client::{Able, Client};
use super::remains::Remains;
use crate::harness::controller::{RunningController, no_computers_here, runsc};

/// Kills of an ordinary run, of which a fifth is over gVisor.
const ROUNDS: u32 = 30;
/// Power cuts of an ordinary run.
const POWER_CUTS: u32 = 5;
/// Clients at work at the same time.
const CLIENTS: usize = 3;
/// Within this the host holds what the rows say and nothing else, once no computer is on its way any more: what a machine at
/// rest keeps to (`make soak`), and a busy one. The longest time since a start, boots included, is printed.
const SOON: Duration = Duration::from_secs(10);
pub const SOON_WHERE_OTHERS_WORK: Duration = Duration::from_secs(90);
/// The data folder's disk for power cuts: the reserve that the engine keeps, the agent's program and a few computers.
const DISK_MIB: u64 = 4096;

pub fn rounds() -> Option<u32> {
    std::env::var("HOTDESK_ROUNDS").ok().and_then(|rounds| rounds.parse().ok())
}

/// By when the host holds what the rows say.
pub fn soon() -> Duration {
    if rounds().is_some() { SOON } else { SOON_WHERE_OTHERS_WORK }
}

/// A house, its clients, and what they were told.
struct Rounds {
    house: RunningController,
    remains: Remains,
    clients: Vec<Client>,
    rng: StdRng,
    longest_ms: u64,
    worst: Duration,
}

impl Rounds {
    async fn begin(house: RunningController, able: Able, subnet: Option<&str>) -> Self {
        let given = std::env::var("HOTDESK_SEED").ok().and_then(|seed| seed.parse().ok());
        let seed = given.unwrap_or_else(rand::random::<u64>);
        println!("HOTDESK_SEED={seed}");
        let workspaces = [house.workspace("one").await, house.workspace("two").await];
        let clients = (0..CLIENTS).map(|number| Client::new(number, seed, &workspaces, able)).collect();
        let remains = match subnet {
            Some(subnet) => Remains::within(&house, subnet),
            None => Remains::of(&house),
        };
        let (rng, longest_ms) = (StdRng::seed_from_u64(seed), able.longest_ms);
        Self { house, remains, clients, rng, longest_ms, worst: Duration::ZERO }
    }

    /// Lets the clients work for a while, ends their controller's life and looks at what the next one makes of it.
    async fn round(&mut self, end: impl AsyncFnOnce(&mut RunningController), lost_power: bool) {
        let door = (self.house.base().to_owned(), self.house.key().to_owned());
        let clients = std::mem::take(&mut self.clients).into_iter();
        let clients = join_all(clients.map(|client| client.prepare(door.clone()))).await;
        let at_work = join_all(clients.into_iter().map(|client| client.drive(door.clone())));
        let life = Duration::from_millis(self.rng.random_range(0..self.longest_ms));
        let ends = async {
            tokio::time::sleep(life).await;
            self.remains.look();
            end(&mut self.house).await;
        };
        let (clients, ()) = tokio::join!(at_work, ends);
        self.clients = clients;
        self.house.start_again().await;
        let begun = Instant::now();
        look::rested(&self.house).await;
        let mut listed = look::around(&self.house).await;
        for client in &mut self.clients {
            if lost_power {
                client.lost_power();
            }
            client.judge(&self.house, &mut listed).await;
        }
        assert!(listed.is_empty(), "nobody asked for these, or they are back: {listed:?}");
        let rows = look::rows(&self.house).await;
        self.remains.are(&rows, soon()).await;
        self.worst = self.worst.max(begun.elapsed());
    }

    /// Removes everything and tells what was done.
    async fn end(self, what: &str) {
        let mut tally: BTreeMap<&str, (u32, u32)> = BTreeMap::new();
        for client in &self.clients {
            for (verb, (answered, cut)) in &client.tally {
                let all = tally.entry(verb).or_default();
                *all = (all.0 + answered, all.1 + cut);
            }
        }
        println!("{what}: as the rows say within {:?}; acknowledged and cut off: {tally:?}", self.worst);
        for (id, _) in look::rows(&self.house).await {
            let removed = self.house.delete(&format!("/computers/{id}")).await;
            assert_eq!(removed.status, 200, "{}", removed.body);
        }
        self.remains.are(&[], SOON_WHERE_OTHERS_WORK).await;
    }
}

async fn killed(rounds: u32, runtime: &str, able: Able) {
    // Addresses that no other controller of this host gives to its guests.
    let subnet = format!("10.{}.", rand::rng().random_range(214..254_u8));
    let house = format!("[container]\nruntime = {runtime:?}\nsubnet = \"{subnet}0.0/16\"\n");
    let house = RunningController::boot_with(&house).await;
    let mut scene = Rounds::begin(house, able, Some(&subnet)).await;
    for _ in 0..rounds {
        scene.round(async |house: &mut RunningController| house.kill(), false).await;
    }
    scene.end(&format!("{rounds} kills over {runtime}")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn t18_what_was_acknowledged_survives_a_kill_and_nothing_else_does() {
    if let Some(reason) = no_computers_here() {
        return println!("{reason}");
    }
    let all = rounds().unwrap_or(ROUNDS);
    let able = Able { suspend: false, clone_running: true, longest_ms: 2000, sync: false };
    killed(all - all / 5, "runc", able).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn t18_what_was_acknowledged_survives_a_kill_over_gvisor_memory_too() {
    let runtime = runsc();
    if let Some(reason) = no_computers_here() {
        return println!("{reason}");
    }
    if !std::path::Path::new(&runtime).exists() {
        return println!("skipped: {runtime} is not there (packaging/dev/deps test)");
    }
    let able = Able { suspend: true, clone_running: false, longest_ms: 4000, sync: false };
    killed(rounds().unwrap_or(ROUNDS) / 5, &runtime, able).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn t18_what_was_acknowledged_survives_a_power_cut() {
    if let Some(reason) = no_computers_here() {
        return println!("{reason}");
    }
    let house = RunningController::boot_on_disk(DISK_MIB).await;
    let able = Able { suspend: false, clone_running: true, longest_ms: 2000, sync: true };
    let mut scene = Rounds::begin(house, able, None).await;
    for round in 0..POWER_CUTS {
        let mut refused = None;
        scene
            .round(async |house: &mut RunningController| refused = house.lose_power().await.err(), true)
            .await;
        if let Some(refused) = refused {
            println!("skipped after {round} rounds: this kernel cuts no power: {refused}");
            break;
        }
    }
    scene.end("power cuts").await;
}
