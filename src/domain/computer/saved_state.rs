//! What is to be done about the copy of a computer's saved state, and which computers make room on the host? Pure rules
//! over what is stored.

use super::error::{Error, Result};
use super::lifecycle::Status;
use hotdesk_base::ids::ComputerId;

/// When a client may ask again for a suspend that `converging` refused, in seconds (interface.md, errors of suspend).
const CONVERGING_RETRY_SECONDS: u32 = 30;

/// How far a copy is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyState {
    /// It is being made; some of its objects may be there.
    Saving,
    /// All of it is there.
    Whole,
    /// Nobody needs it; its objects are being removed.
    Removing,
}

impl CopyState {
    /// The name in the store.
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

/// What a computer's runner is to see to while nothing else is asked of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Duty {
    /// Store the intent to copy.
    Begin,
    /// Copy.
    Copy,
    /// Bring what was fetched to the host's disk, and give up the copy then.
    Converge,
    /// Give up the copy: what it is of was used or thrown away.
    GiveUp,
}

/// What is to be done for a computer with this status, its copy (those that are being removed do not count) and a store
/// that is there or not.
pub fn duty(status: Status, converging: bool, copy: Option<CopyState>, has_store: bool) -> Option<Duty> {
    match status {
        Status::Suspended | Status::Suspending => match copy {
            None if has_store && status == Status::Suspended => Some(Duty::Begin),
            Some(CopyState::Saving) if has_store => Some(Duty::Copy),
            None | Some(_) => None,
        },
        Status::Running | Status::Stopped | Status::Error if converging => Some(Duty::Converge),
        Status::Running | Status::Stopped | Status::Error => copy.map(|_| Duty::GiveUp),
        Status::Creating | Status::Starting | Status::Stopping | Status::Restarting | Status::Deleting => {
            None
        }
    }
}

/// Refuses to suspend a computer that woke from storage moments ago.
///
/// # Errors
/// `converging`.
pub fn check_converged(converging: bool) -> Result<()> {
    if !converging {
        return Ok(());
    }
    Err(Error::conflict("Computer is still finishing waking up; retry in a minute")
        .code("converging")
        .retry_after(CONVERGING_RETRY_SECONDS))
}

/// A suspended computer whose saved state is on the host.
#[derive(Clone, Copy, Debug)]
pub struct Kept {
    /// Which computer.
    pub computer: ComputerId,
    /// When it was suspended, in milliseconds since 1970.
    pub since: i64,
    /// What it takes on the host's disk.
    pub bytes: u64,
    /// Whether its copy is whole, so that it can be evicted.
    pub copied: bool,
}

/// Which are evicted so that the rest takes at most `quota` bytes: those that were suspended first.
pub fn to_evict(kept: &[Kept], quota: u64) -> Vec<ComputerId> {
    let mut taken: u64 = kept.iter().map(|it| it.bytes).sum();
    let mut oldest: Vec<&Kept> = kept.iter().filter(|it| it.copied).collect();
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
    fn what_is_to_be_done() {
        // A column for no copy, one that is being saved, one that is whole: b begin, c copy, v converge, g give up. First
        // with a store, then without, then while converging.
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
                let told: String = copies
                    .into_iter()
                    .map(|copy| match duty(status, converging, copy, has_store) {
                        None => '.',
                        Some(Duty::Begin) => 'b',
                        Some(Duty::Copy) => 'c',
                        Some(Duty::Converge) => 'v',
                        Some(Duty::GiveUp) => 'g',
                    })
                    .collect();
                assert_eq!(told, row, "{} converging {converging} store {has_store}", status.name());
            }
        }
    }

    #[test]
    fn the_first_suspended_go_first_and_only_with_a_copy() {
        let ids: Vec<ComputerId> = (0..4).map(|_| ComputerId::random()).collect();
        let kept = |at: usize, since, copied| Kept { computer: ids[at], since, bytes: 100, copied };
        let all = [kept(0, 30, true), kept(1, 10, false), kept(2, 20, true), kept(3, 40, true)];
        for (quota, expected) in
            [(400, vec![]), (399, vec![2]), (300, vec![2]), (299, vec![2, 0]), (0, vec![2, 0, 3])]
        {
            let expected: Vec<ComputerId> = expected.into_iter().map(|at: usize| ids[at]).collect();
            assert_eq!(to_evict(&all, quota), expected, "{quota}");
        }
        assert_eq!(to_evict(&[], 0), []);
    }

    #[test]
    fn a_converging_computer_is_told_when_to_come_back() {
        assert!(check_converged(false).is_ok());
        let refused = check_converged(true).unwrap_err();
        assert_eq!((refused.code, refused.retry_after), (Some("converging"), Some(30)));
        for state in [CopyState::Saving, CopyState::Whole, CopyState::Removing] {
            assert_eq!(CopyState::parse(state.name()), Some(state));
        }
    }
}
