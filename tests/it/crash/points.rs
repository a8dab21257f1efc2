//! Does everything come to order again whichever step of a verb was its controller's last? Over real computers it is killed
//! exactly before one sync, rename, mount or spawn of its own; the next one starts at once. (threats.md T18)
//!
//! An ordinary run takes some of the steps, always the same ones; `make soak` (`HOTDESK_ROUNDS`) takes every step of every verb.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use hotdesk::base::wait;
use serde_json::{Value, json};

use super::remains::Remains;
use super::rounds::{look, rounds, soon};
use super::sweep::{Ask, asks};
use crate::harness::caller::id_of;
use crate::harness::controller::{RunningController, gvisor, no_computers_here};
use crate::harness::host::names_in;
use crate::harness::steps::Followed;

/// In an ordinary run from one step that is taken to the next: a prime, so that it is no period of the work.
const STRIDE: usize = 53;
/// What is on a computer's disk.
const NOTE: u64 = 7;
/// How long a verb may take that nobody ends.
const TIMEOUT: Duration = Duration::from_secs(60);

/// What a client hears of a verb that its controller may not outlive.
enum Heard {
    /// It is done.
    Done,
    /// Nothing, or not all.
    Nothing,
}

struct Scene {
    house: RunningController,
    remains: Remains,
    workspace: String,
    worst: Duration,
}

impl Scene {
    async fn set(configuration: &str) -> Self {
        let house = RunningController::boot_with(configuration).await;
        let (remains, workspace) = (Remains::of(&house), house.workspace("w").await);
        Self { house, remains, workspace, worst: Duration::ZERO }
    }

    /// A computer with a note on its disk, as the verb finds it.
    async fn prepared(&self, ask: &Ask) -> Option<String> {
        let from = ask.from?;
        let id = id_of(&self.house.computer(&self.workspace, "desk").await);
        self.house.bash(&id, &format!("echo {NOTE} >/root/note; sync")).await;
        let verb = match from {
            "stopped" => "stop",
            "suspended" => "suspend",
            _ => return Some(id),
        };
        let told = self.house.act(&id, verb, json!({})).await;
        assert_eq!(told.status, 200, "{}", told.body);
        self.house.until_status(&id, from).await;
        Some(id)
    }

    /// Asks, and waits for the end of what goes on after the answer.
    async fn ask(&self, ask: &Ask, id: Option<&str>) -> Heard {
        let Ok(answer) = ask.request(&self.house, &self.workspace, id, "").send().await else {
            return Heard::Nothing;
        };
        assert!(answer.status().is_success(), "{}: {answer:?}", ask.name);
        if !["stop", "start", "restart"].contains(&ask.name) {
            return Heard::Done;
        }
        let id = id.expect("there is one");
        let reached = wait::until(TIMEOUT, || async {
            let Ok(answer) =
                self.house.request(reqwest::Method::GET, &format!("/computers/{id}")).send().await
            else {
                return Some(Heard::Nothing);
            };
            let record: Value = answer.json().await.unwrap_or_default();
            (record["status"] == ask.goal).then_some(Heard::Done)
        });
        reached.await.expect("it comes to its end")
    }

    /// Has the controller die before a step of the verb, and looks at what the next one makes of it. Whether the verb has
    /// such a step, and what all of its steps are up to it.
    async fn point(&mut self, ask: &Ask, at: usize) -> (bool, Vec<&'static str>) {
        let id = self.prepared(ask).await;
        let followed = Followed::until(self.house.pid(), at);
        let heard = self.ask(ask, id.as_deref()).await;
        self.remains.look();
        let path = followed.end().await;
        self.house.died();
        let name =
            format!("{} from {:?}, killed before step {at}: {:?}", ask.name, ask.from, path.steps.last());
        self.house.start_again().await;
        let begun = Instant::now();
        look::rested(&self.house).await;
        let listed = look::around(&self.house).await;
        self.is_in_order(ask, id.as_deref(), &listed, matches!(heard, Heard::Done), &name).await;
        self.remains.are(&look::rows(&self.house).await, soon()).await;
        self.worst = self.worst.max(begun.elapsed());
        for one in &listed {
            let removed = self.house.delete(&format!("/computers/{}", id_of(one))).await;
            assert_eq!(removed.status, 200, "{name}: {}", removed.body);
        }
        (path.struck, path.steps)
    }

    /// Asserts that everything is as it was or as was asked for, and as was acknowledged.
    async fn is_in_order(&self, ask: &Ask, id: Option<&str>, listed: &[Value], done: bool, name: &str) {
        let makes = ["create", "clone", "fork"].contains(&ask.name);
        let (made, unchanged) = (usize::from(makes), makes || !done);
        let is_old = |one: &Value| Some(one["id"].as_str().expect("an id")) == id;
        let (old, new): (Vec<&Value>, Vec<&Value>) = listed.iter().partition(|one| is_old(one));
        assert!(new.len() == made || new.is_empty() && !done, "{name}: {listed:?}");
        let gone = ask.goal == "none";
        assert!(old.len() == usize::from(id.is_some()) || gone, "{name}: it is lost");
        assert!(old.is_empty() || !gone || !done, "{name}: it is back");
        for one in listed {
            let status = one["status"].as_str().expect("a status");
            let fine = status == ask.goal || is_old(one) && Some(status) == ask.from && unchanged;
            assert!(fine, "{name}: {one}");
            let was_written = is_old(one) || ["clone", "fork"].contains(&ask.name);
            if status == "running" && was_written {
                let seen = look::at(&self.house, &id_of(one)).await;
                assert_eq!(seen.note, Some(NOTE), "{name}");
            }
            let kept = is_old(one) && ask.name.starts_with("snapshot") && done;
            self.snapshots_are_whole(&id_of(one), kept, name).await;
        }
        if let Some(one) = old.first().filter(|_| ask.name == "resize") {
            let size = ["cpu", "ram", "disk_size_gb"].map(|field| one[field].as_f64().expect("a number"));
            let fine = size == [2.0, 8.0, 20.0] || !done && size == [1.0, 4.0, 8.0];
            assert!(fine, "{name}: {size:?}");
        }
    }

    /// As many snapshots as rows, and no half of one.
    async fn snapshots_are_whole(&self, id: &str, told: bool, name: &str) {
        let whole = wait::until(soon(), || async {
            let listed = self.house.get(&format!("/computers/{id}/snapshots")).await.body;
            let listed = listed["snapshots"].as_array().expect("a list").clone();
            let rows: BTreeSet<String> = listed.iter().map(id_of).collect();
            let there = names_in(&self.house.machine(id).join("snapshots"));
            let is_of_one = |name: &String| {
                let (of, what) = name.split_once('.').expect("a name of a snapshot's part");
                rows.contains(of) && ["img", "memory", "agent"].contains(&what)
            };
            let disks = there.iter().filter(|name| name.ends_with(".img")).count();
            (there.iter().all(is_of_one) && disks == rows.len()).then_some(disks)
        });
        let kept = whole.await.unwrap_or_else(|| panic!("{name}: half a snapshot"));
        assert!(!told || kept == 1, "{name}: the snapshot is lost");
    }
}

/// Kills controllers at the steps of these verbs.
async fn sweep(configuration: &str, which: impl Fn(&Ask) -> bool) {
    let (mut scene, mut points, stride) =
        (Scene::set(configuration).await, 0, if rounds().is_some() { 1 } else { STRIDE });
    for (turn, ask) in asks().iter().filter(|ask| which(ask)).enumerate() {
        // Not the same steps of each verb: many begin alike.
        let mut at = 1 + turn * 7 % stride;
        loop {
            let (struck, steps) = scene.point(ask, at).await;
            points += 1;
            if !struck {
                println!("{} from {:?}: {} steps: {steps:?}", ask.name, ask.from, steps.len());
                break;
            }
            at += stride;
        }
    }
    println!("{points} controllers killed; in order within {:?}", scene.worst);
    scene.remains.are(&[], soon()).await;
}

/// What needs memory that is kept.
fn keeps_memory(ask: &Ask) -> bool {
    ask.name == "suspend" || ask.from == Some("suspended") || ask.copies_memory()
}

#[tokio::test(flavor = "multi_thread")]
async fn t18_a_controller_may_die_before_any_of_its_steps() {
    if let Some(reason) = no_computers_here() {
        return println!("{reason}");
    }
    sweep("", |ask| !keeps_memory(ask)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn t18_a_controller_may_die_before_any_of_its_steps_while_memory_is_kept() {
    let Some(configuration) = gvisor() else { return };
    // What begins with a snapshot is swept over simulated machines alone.
    sweep(&configuration, |ask| keeps_memory(ask) && !ask.goes_by_a_snapshot()).await;
}
