//! Growth of machines on the host's disk, and which of them are frozen for it.
//!
//! The rules are in `hotdesk_domain::computer::disk_guard`; `driver/capacity/disk_guard.rs` measures and acts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::watch;

use crate::{EngineError, EngineResult, Observation, Shortage};
use hotdesk_base::ids::ComputerId;
use hotdesk_domain::computer::disk_guard::{GuardPhase, GuardStep, HOST_RESERVE, MeasuredMachine, decide};

/// Window of growth before the space is short. Growth is that of one to two windows: longer than a pause of a program
/// that writes, and short enough that an earlier installation does not count.
const WINDOW: Duration = Duration::from_secs(10);
/// Window of recent growth: longer than the pauses of a program that writes.
const RECENT_WINDOW: Duration = Duration::from_secs(1);

/// What the guard knows of this host's machines.
#[derive(Debug, Default)]
pub(crate) struct DiskGuard {
    watched: Mutex<WatchedMachines>,
    frozen: watch::Sender<BTreeSet<ComputerId>>,
}

#[derive(Debug, Default)]
struct WatchedMachines {
    machines: BTreeMap<ComputerId, Baselines>,
    /// Machines that operations end, with the number of these.
    ending: BTreeMap<ComputerId, u32>,
    /// How running machines were last observed: a runtime may not answer for a frozen one.
    observed: BTreeMap<ComputerId, Observation>,
    /// Machines that were killed, until somebody asks.
    killed: BTreeSet<ComputerId>,
    /// When windows of growth began.
    window: Option<Instant>,
    recent_window: Option<Instant>,
}

/// Bytes that a machine had stored at earlier looks. Space that it gives back lowers them.
#[derive(Clone, Copy, Debug)]
struct Baselines {
    window: Window,
    recent: Window,
    /// When the space became short.
    short: u64,
    /// When it was frozen; `None` while it runs.
    frozen: Option<u64>,
    /// Whether it could not be frozen, so that the log says it once.
    refused: bool,
}

/// Bytes at the beginning of the present window and of the one before.
#[derive(Clone, Copy, Debug)]
struct Window {
    older: u64,
    newer: u64,
}

/// Mark of a machine that an operation ends: the guard does not freeze it. The drop ends the mark.
#[derive(Debug)]
pub(crate) struct EndingMachine<'a> {
    guard: &'a DiskGuard,
    id: ComputerId,
    /// Whether the guard had frozen it. It must not write again, so it gets no time to shut down.
    pub(crate) was_frozen: bool,
}

impl DiskGuard {
    fn watched(&self) -> MutexGuard<'_, WatchedMachines> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Compares what each machine has stored with its baseline, and acts. `stored` has the machines with processes.
    pub(crate) fn step(
        &self,
        free: u64,
        stored: &BTreeMap<ComputerId, u64>,
        now: Instant,
        act: impl Fn(ComputerId, GuardStep) -> EngineResult<()>,
    ) {
        let mut watched = self.watched();
        let WatchedMachines { machines, ending, observed, killed, window, recent_window } = &mut *watched;
        machines.retain(|id, _| stored.contains_key(id));
        observed.retain(|id, _| stored.contains_key(id));
        let is_short = free < HOST_RESERVE;
        // While the space is short, the window stays: growth counts from before the shortage.
        let moves = !is_short && begins(window, WINDOW, now);
        let recent_moves = begins(recent_window, RECENT_WINDOW, now);
        let mut measured = Vec::with_capacity(stored.len());
        for (id, bytes) in stored {
            let known = machines.entry(*id).or_insert_with(|| Baselines::new(*bytes));
            known.lower(*bytes);
            if moves {
                known.window.move_to(*bytes);
            }
            if recent_moves {
                known.recent.move_to(*bytes);
            }
            if !is_short {
                known.short = *bytes;
            }
            let phase = match known.frozen {
                Some(then) => GuardPhase::Frozen { growth: bytes - then },
                None if ending.contains_key(id) => GuardPhase::Ending,
                None => GuardPhase::Running,
            };
            measured.push(MeasuredMachine {
                growth: bytes - known.window.older,
                growth_while_short: bytes - known.short,
                recent_growth: bytes - known.recent.older,
                phase,
            });
        }
        for ((id, bytes), step) in stored.iter().zip(decide(free, &measured)) {
            let Some(known) = machines.get_mut(id).filter(|_| step != GuardStep::Leave) else { continue };
            match (act(*id, step), step) {
                (Ok(()), GuardStep::Freeze) => known.frozen = Some(*bytes),
                (Ok(()), step) => {
                    if step == GuardStep::Kill && known.frozen.is_some() {
                        killed.insert(*id);
                    }
                    *known = Baselines::new(*bytes);
                }
                (Err(error), _) => {
                    if !std::mem::replace(&mut known.refused, true) {
                        tracing::error!(computer = %id, ?step, error = format_args!("{error:#}"), "could not keep a computer from filling the host's disk");
                    }
                }
            }
        }
        let frozen: BTreeSet<ComputerId> =
            machines.iter().filter(|(_, known)| known.frozen.is_some()).map(|(id, _)| *id).collect();
        self.publish(frozen);
    }

    fn publish(&self, frozen: BTreeSet<ComputerId>) {
        self.frozen.send_if_modified(|now| {
            let differs = *now != frozen;
            *now = frozen;
            differs
        });
    }

    /// The number of frozen machines.
    pub(crate) fn frozen(&self) -> usize {
        self.frozen.borrow().len()
    }

    /// Whether a machine is frozen.
    pub(crate) fn is_frozen(&self, id: ComputerId) -> bool {
        self.frozen.borrow().contains(&id)
    }

    /// How a frozen machine was observed before; `None` for others.
    pub(crate) fn seen_before_freeze(&self, id: ComputerId) -> Option<Observation> {
        if self.is_frozen(id) { self.watched().observed.get(&id).cloned() } else { None }
    }

    /// Remembers how a machine was observed.
    pub(crate) fn note_observation(&self, id: ComputerId, seen: &Observation) {
        let mut watched = self.watched();
        match seen {
            Observation::Running { .. } => watched.observed.insert(id, seen.clone()),
            Observation::Absent | Observation::Stopped | Observation::Suspended { .. } => {
                watched.observed.remove(&id)
            }
        };
    }

    /// Whether a frozen machine was killed since the last call.
    pub(crate) fn take_killed(&self, id: ComputerId) -> bool {
        self.watched().killed.remove(&id)
    }

    /// Refuses an operation that needs a machine's processes.
    ///
    /// # Errors
    /// `NoCapacity` when it is frozen.
    pub(crate) fn check(&self, id: ComputerId) -> EngineResult<()> {
        if self.is_frozen(id) {
            let detail = format!("{id} is frozen because the host's disk is nearly full");
            return Err(EngineError::NoCapacity(Shortage::DiskSpace, detail));
        }
        Ok(())
    }

    /// Waits until a machine is not frozen.
    pub(crate) async fn until_thawed(&self, id: ComputerId) {
        // The sender lives as long as this does.
        let mut frozen = self.frozen.subscribe();
        let _thawed = frozen.wait_for(|frozen| !frozen.contains(&id)).await;
    }

    /// Marks a machine that an operation ends. The caller thaws it, which every end does.
    pub(crate) fn begin_end(&self, id: ComputerId) -> EndingMachine<'_> {
        let mut watched = self.watched();
        *watched.ending.entry(id).or_default() += 1;
        let was_frozen = watched.machines.get_mut(&id).and_then(|known| known.frozen.take()).is_some();
        let mut frozen = self.frozen.borrow().clone();
        frozen.remove(&id);
        self.publish(frozen);
        EndingMachine { guard: self, id, was_frozen }
    }
}

impl Drop for EndingMachine<'_> {
    fn drop(&mut self) {
        let mut watched = self.guard.watched();
        let left = watched.ending.get(&self.id).map_or(0, |count| count - 1);
        if left == 0 {
            watched.ending.remove(&self.id);
        } else {
            watched.ending.insert(self.id, left);
        }
    }
}

impl Baselines {
    fn new(bytes: u64) -> Self {
        let window = Window { older: bytes, newer: bytes };
        Self { window, recent: window, short: bytes, frozen: None, refused: false }
    }

    fn lower(&mut self, bytes: u64) {
        for window in [&mut self.window, &mut self.recent] {
            window.older = window.older.min(bytes);
            window.newer = window.newer.min(bytes);
        }
        self.short = self.short.min(bytes);
        self.frozen = self.frozen.map(|then| then.min(bytes));
    }
}

impl Window {
    fn move_to(&mut self, bytes: u64) {
        (self.older, self.newer) = (self.newer, bytes);
    }
}

/// Whether another window of this length begins now, which it notes.
fn begins(window: &mut Option<Instant>, length: Duration, now: Instant) -> bool {
    let begins = window.is_none_or(|then| now.duration_since(then) >= length);
    if begins {
        *window = Some(now);
    }
    begins
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    const MIB: u64 = 1 << 20;

    /// A guard with a writer and a neighbour, and the steps that it took.
    struct Trial {
        guard: DiskGuard,
        writer: ComputerId,
        neighbour: ComputerId,
        begun: Instant,
        fails: bool,
    }

    impl Trial {
        fn new() -> Self {
            Self {
                guard: DiskGuard::default(),
                writer: ComputerId::random(),
                neighbour: ComputerId::random(),
                begun: Instant::now(),
                fails: false,
            }
        }

        fn seen(&self) -> Observation {
            let endpoint = crate::Endpoint::Unix("/agent.sock".into());
            Observation::Running { generation: 1, endpoint, address: None }
        }

        /// Looks after some seconds, with MiB that are free and that each machine has stored.
        fn look(&self, seconds: u64, free: u64, (writer, neighbour): (u64, u64)) -> Vec<(bool, GuardStep)> {
            let stored = BTreeMap::from([(self.writer, writer * MIB), (self.neighbour, neighbour * MIB)]);
            let taken = RefCell::new(Vec::new());
            let now = self.begun + Duration::from_secs(seconds);
            self.guard.step(free * MIB, &stored, now, |id, step| {
                taken.borrow_mut().push((id == self.writer, step));
                if self.fails { Err(EngineError::failed("freeze", "no")) } else { Ok(()) }
            });
            taken.into_inner()
        }
    }

    #[test]
    fn growth_counts_from_the_last_seconds_and_ends_with_the_freeze() {
        let trial = Trial::new();
        assert_eq!(trial.look(0, 9000, (0, 0)), []);
        for id in [trial.writer, trial.neighbour] {
            trial.guard.note_observation(id, &trial.seen());
        }
        assert_eq!(trial.look(11, 3000, (0, 5000)), []);
        assert_eq!(trial.look(22, 3000, (0, 5000)), []);
        assert_eq!(trial.look(33, 2000, (1000, 5000)), [], "above the reserve");
        // The neighbour installed something long before.
        assert_eq!(trial.look(34, 400, (2600, 5001)), [(true, GuardStep::Freeze)]);
        assert!(trial.guard.is_frozen(trial.writer) && !trial.guard.is_frozen(trial.neighbour));
        assert_eq!(trial.guard.seen_before_freeze(trial.writer), Some(trial.seen()));
        assert_eq!(trial.guard.seen_before_freeze(trial.neighbour), None);
        assert!(matches!(trial.guard.check(trial.writer), Err(EngineError::NoCapacity(..))));
        assert_eq!(trial.look(300, 350, (2620, 5011)), [], "the rest of a write, and small writes");
        assert_eq!(trial.look(301, 100, (2900, 5011)), [(true, GuardStep::Kill)]);
        assert!(!trial.guard.is_frozen(trial.writer));
        assert!(trial.guard.take_killed(trial.writer) && !trial.guard.take_killed(trial.writer));
    }

    #[test]
    fn a_machine_continues_and_ends_from_a_freeze() {
        let trial = Trial::new();
        trial.look(0, 9000, (0, 0));
        assert_eq!(trial.look(1, 400, (8600, 0)), [(true, GuardStep::Freeze)]);
        assert_eq!(trial.look(2, 700, (8600, 0)), [(true, GuardStep::Thaw)]);
        assert_eq!(trial.look(3, 400, (8900, 0)), [(true, GuardStep::Freeze)]);
        let ending = trial.guard.begin_end(trial.writer);
        assert!(ending.was_frozen && !trial.guard.is_frozen(trial.writer));
        assert_eq!(trial.look(4, 350, (9100, 0)), [(true, GuardStep::Kill)]);
        drop(ending);
        assert!(trial.guard.watched().ending.is_empty());
        assert!(!trial.guard.begin_end(trial.writer).was_frozen);
    }

    #[test]
    fn a_machine_that_cannot_be_frozen_is_no_frozen_one() {
        let trial = Trial { fails: true, ..Trial::new() };
        trial.look(0, 9000, (0, 0));
        assert_eq!(trial.look(1, 400, (8600, 0)).len(), 1);
        assert!(!trial.guard.is_frozen(trial.writer));
    }
}
