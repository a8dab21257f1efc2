//! Planned failures of engine calls.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::EngineError;

/// An operation of the engine that can be made to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)]
pub enum Verb {
    Create,
    CheckCapacity,
    Start,
    Stop,
    Destroy,
    Observe,
    List,
    Resize,
    SetEgress,
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
    SavedState,
    ReadSaved,
    Evict,
    WriteSaved,
    FinishFetch,
    SyncFetched,
    KeepLayer,
    KeepPrograms,
    RemoveLayer,
    Layers,
    MoveMachine,
}

/// How a call fails.
#[derive(Clone, Debug)]
pub enum Failure {
    /// The call fails and has done nothing.
    Before(EngineError),
    /// The call has done its work and fails: its answer is lost.
    After(EngineError),
    /// The call takes this much longer.
    Delay(Duration),
    /// The call does its work after the token is cancelled.
    Until(CancellationToken),
    /// The call never returns, like that of a killed controller.
    Never {
        /// Whether it has done its work.
        done: bool,
    },
}

/// A failure at the `call`-th call of an operation, counted from 1 over all machines.
#[derive(Clone, Debug)]
pub struct Fault {
    /// The operation.
    pub verb: Verb,
    /// The number of the call.
    pub call: u32,
    /// How it fails.
    pub failure: Failure,
}

/// The planned failures and the counts of calls.
#[derive(Debug, Default)]
pub(super) struct Faults {
    pub(super) planned: Vec<Fault>,
    pub(super) calls: BTreeMap<Verb, u32>,
    /// Calls that will never return and have reached that point.
    pub(super) stuck: u32,
}

impl Faults {
    /// Counts a call and takes the failure that was planned for it.
    pub(super) fn count_call(&mut self, verb: Verb) -> Option<Failure> {
        let call = self.calls.entry(verb).or_default();
        *call += 1;
        let call = *call;
        let found = self.planned.iter().position(|fault| fault.verb == verb && fault.call == call);
        found.map(|found| self.planned.swap_remove(found).failure)
    }
}
