//! Which call of which verb goes wrong, and how?

use std::collections::BTreeMap;
use std::time::Duration;

use crate::EngineError;

/// A verb of the engine that can be made to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)]
pub enum Verb {
    Create,
    Start,
    Stop,
    Destroy,
    Observe,
    List,
    Resize,
    CopyDisk,
    Fork,
    Launch,
    Snapshot,
    Rollback,
    RemoveSnapshot,
    Snapshots,
    Suspend,
    Resume,
    DiscardMemory,
    Saved,
    ReadSaved,
    Evict,
    WriteSaved,
    Arrived,
    Converge,
}

/// What goes wrong.
#[derive(Clone, Debug)]
pub enum Failure {
    /// The verb fails and has done nothing.
    Before(EngineError),
    /// The verb has done its work and still fails: its answer was lost.
    After(EngineError),
    /// The verb takes longer.
    Delay(Duration),
    /// The verb is never answered, as where its controller is killed: before it has done anything, or when all is done.
    Never {
        /// Whether its work is done.
        done: bool,
    },
}

/// A failure at the `call`-th call of a verb, counted from 1 over all machines.
#[derive(Clone, Debug)]
pub struct Fault {
    /// Which verb.
    pub verb: Verb,
    /// Which of its calls.
    pub call: u32,
    /// What goes wrong.
    pub failure: Failure,
}

/// The failures that are planned and the calls that were made.
#[derive(Debug, Default)]
pub(super) struct Faults {
    pub(super) planned: Vec<Fault>,
    pub(super) calls: BTreeMap<Verb, u32>,
    /// Calls that will never be answered, and are as far as they get.
    pub(super) stuck: u32,
}

impl Faults {
    /// Counts a call; what was planned for it.
    pub(super) fn strike(&mut self, verb: Verb) -> Option<Failure> {
        let call = self.calls.entry(verb).or_default();
        *call += 1;
        let call = *call;
        let found = self.planned.iter().position(|fault| fault.verb == verb && fault.call == call);
        found.map(|found| self.planned.swap_remove(found).failure)
    }
}
