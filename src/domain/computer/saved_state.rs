//! Copies of saved states in object storage: the next task for a computer's copy, and eviction from the host.

use crate::computer::lifecycle::Status;
use crate::error::{Error, Result};
use crate::error_code::ErrorCode;
use hotdesk_base::ids::ComputerId;
use hotdesk_base::time::UnixMillis;

/// `Retry-After` of a suspend that is refused with `converging`, in seconds (docs/lifecycle.md).
const CONVERGING_RETRY_SECONDS: u32 = 30;

/// State of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyState {
    /// The copy is in progress; some of its objects may exist.
    Saving,
    /// The copy is complete.
    Whole,
    /// The copy is not needed any more; its objects are being removed.
    Removing,
}

impl CopyState {
    /// Returns the name in the store.
    pub fn name(self) -> &'static str {
        match self {
            Self::Saving => "saving",
            Self::Whole => "whole",
            Self::Removing => "removing",
        }
    }

    /// Parses a stored name.
    pub fn parse(name: &str) -> Option<Self> {
        [Self::Saving, Self::Whole, Self::Removing].into_iter().find(|state| state.name() == name)
    }
}

/// Task of a computer's runner when it has no command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyTask {
    /// Record the intent to copy.
    Begin,
    /// Copy the saved state.
    Copy,
    /// Write the fetched state to the host's disk, then discard the copy.
    Converge,
    /// Discard the copy: its saved state was used or removed.
    GiveUp,
}

/// Returns the next task for a computer.
///
/// `copy` is the state of its copy, without copies that are being removed. `has_store` says whether object
/// storage is configured.
pub fn next_copy_task(
    status: Status,
    converging: bool,
    copy: Option<CopyState>,
    has_store: bool,
) -> Option<CopyTask> {
    match status {
        Status::Suspended | Status::Suspending => match copy {
            None if has_store && status == Status::Suspended => Some(CopyTask::Begin),
            Some(CopyState::Saving) if has_store => Some(CopyTask::Copy),
            None | Some(_) => None,
        },
        Status::Running | Status::Stopped | Status::Error if converging => Some(CopyTask::Converge),
        Status::Running | Status::Stopped | Status::Error => copy.map(|_| CopyTask::GiveUp),
        Status::Creating | Status::Starting | Status::Stopping | Status::Restarting | Status::Deleting => {
            None
        }
    }
}

/// Checks that a computer has fetched all of its state after a resume from object storage, so that it can be
/// suspended.
///
/// # Errors
/// `Conflict` with the code `converging` and a `Retry-After` while it has not.
pub fn check_converged(converging: bool) -> Result<()> {
    if !converging {
        return Ok(());
    }
    Err(Error::conflict("Computer is still finishing waking up; retry in a minute")
        .code(ErrorCode::Converging)
        .retry_after(CONVERGING_RETRY_SECONDS))
}

/// A suspended computer with its saved state on the host's disk.
#[derive(Clone, Copy, Debug)]
pub struct EvictionCandidate {
    /// The computer.
    pub computer: ComputerId,
    /// Time of the suspend.
    pub since: UnixMillis,
    /// Size of its saved state on the host's disk, in bytes.
    pub bytes: u64,
    /// Whether its copy is complete, so that it can be evicted.
    pub copied: bool,
}

/// Chooses the computers to evict, oldest suspend first, so that the others use at most `quota` bytes.
/// Computers without a complete copy are never chosen.
pub fn choose_evictions(candidates: &[EvictionCandidate], quota: u64) -> Vec<ComputerId> {
    let mut taken: u64 = candidates.iter().map(|it| it.bytes).sum();
    let mut oldest: Vec<&EvictionCandidate> = candidates.iter().filter(|it| it.copied).collect();
    oldest.sort_by_key(|it| (it.since, it.computer));
    let mut evicted = Vec::new();
    for it in oldest {
        if taken <= quota {
            break;
        }
        taken = taken.saturating_sub(it.bytes);
        evicted.push(it.computer);
    }
    evicted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_copy_tasks() {
        // One column each for no copy, one in progress, one complete: b begin, c copy, v converge, g give up.
        // The three strings are for: with object storage, without, and while converging.
        let table = [
            (Status::Creating, "...", "...", "..."),
            (Status::Starting, "...", "...", "..."),
            (Status::Running, ".gg", ".gg", "vvv"),
            (Status::Stopping, "...", "...", "..."),
            (Status::Stopped, ".gg", ".gg", "vvv"),
            (Status::Restarting, "...", "...", "..."),
            (Status::Deleting, "...", "...", "..."),
            (Status::Error, ".gg", ".gg", "vvv"),
            (Status::Suspending, ".c.", "...", ".c."),
            (Status::Suspended, "bc.", "...", "bc."),
        ];
        assert_eq!(table.map(|row| row.0), Status::ALL);
        for (status, stored, bare, converging) in table {
            for (row, converging, has_store) in
                [(stored, false, true), (bare, false, false), (converging, true, true)]
            {
                let copies = [None, Some(CopyState::Saving), Some(CopyState::Whole)];
                let tasks: String = copies
                    .into_iter()
                    .map(|copy| match next_copy_task(status, converging, copy, has_store) {
                        None => '.',
                        Some(CopyTask::Begin) => 'b',
                        Some(CopyTask::Copy) => 'c',
                        Some(CopyTask::Converge) => 'v',
                        Some(CopyTask::GiveUp) => 'g',
                    })
                    .collect();
                assert_eq!(tasks, row, "{} converging {converging} store {has_store}", status.name());
            }
        }
    }

    #[test]
    fn the_first_suspended_go_first_and_only_with_a_copy() {
        let ids: Vec<ComputerId> = (0..4).map(|_| ComputerId::random()).collect();
        let candidate = |at: usize, since, copied| EvictionCandidate {
            computer: ids[at],
            since: UnixMillis::new(since),
            bytes: 100,
            copied,
        };
        let all =
            [candidate(0, 30, true), candidate(1, 10, false), candidate(2, 20, true), candidate(3, 40, true)];
        for (quota, expected) in
            [(400, vec![]), (399, vec![2]), (300, vec![2]), (299, vec![2, 0]), (0, vec![2, 0, 3])]
        {
            let expected: Vec<ComputerId> = expected.into_iter().map(|at: usize| ids[at]).collect();
            assert_eq!(choose_evictions(&all, quota), expected, "{quota}");
        }
        assert_eq!(choose_evictions(&[], 0), []);
    }

    #[test]
    fn a_converging_computer_gets_a_retry_after() {
        assert!(check_converged(false).is_ok());
        let refused = check_converged(true).unwrap_err();
        assert_eq!((refused.code, refused.retry_after), (Some(ErrorCode::Converging), Some(30)));
        for state in [CopyState::Saving, CopyState::Whole, CopyState::Removing] {
            assert_eq!(CopyState::parse(state.name()), Some(state));
        }
    }
}
