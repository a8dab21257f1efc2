//! Rules for snapshots and rollbacks (docs/lifecycle.md).

use crate::computer::allowance::{Allowance, ResourceUse};
use crate::computer::lifecycle::{Status, not_running};
use crate::computer::{Hardware, MEMORY_SETTINGS};
use crate::error::{Error, Result};
use crate::error_code::ErrorCode;
use hotdesk_base::ids::SnapshotId;
use hotdesk_base::time::UnixMillis;

/// Bytes in a GB of RAM or disk.
const GB: u64 = 1024 * 1024 * 1024;

/// State of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SnapshotState {
    /// It is being created; after a crash it is removed.
    Creating,
    /// A computer can be rolled back to it.
    Ready,
    /// It is being removed.
    Deleting,
}

impl SnapshotState {
    const ALL: [Self; 3] = [Self::Creating, Self::Ready, Self::Deleting];

    /// Returns the name in the API and in the store.
    pub fn name(self) -> &'static str {
        match self {
            Self::Creating => "creating",
            Self::Ready => "ready",
            Self::Deleting => "deleting",
        }
    }

    /// Parses a stored name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.name() == name)
    }
}

/// Checks that a snapshot can be used for a rollback or a fork.
///
/// # Errors
/// `Conflict` while it is being created or removed.
pub fn check_ready(state: SnapshotState) -> Result<()> {
    if state == SnapshotState::Ready {
        return Ok(());
    }
    Err(Error::conflict(format!("The snapshot is not ready (state: {})", state.name())))
}

/// Parts of a running machine that an engine can save in a snapshot.
#[derive(Clone, Copy, Debug)]
pub struct SnapshotCapabilities {
    /// Whether it can copy the disk while the machine runs.
    pub copy_while_running: bool,
    /// Whether it can save disk and memory at one moment.
    pub memory: bool,
}

/// Checks whether a snapshot of a computer with this status can be taken, with or without its memory.
///
/// # Errors
/// `Invalid` (`snapshot_unsupported`) for memory that its engine cannot save; `Conflict` when the status does
/// not permit it.
pub fn check_snapshot(status: Status, memory: bool, can: SnapshotCapabilities) -> Result<()> {
    if memory && !can.memory {
        return Err(unsupported(&format!(
            "This computer's memory cannot be kept in a snapshot: its engine saves none. {MEMORY_SETTINGS}"
        )));
    }
    match status {
        Status::Running if memory || can.copy_while_running => Ok(()),
        Status::Running => {
            Err(Error::conflict("This computer's disk cannot be kept while it runs: stop it first"))
        }
        Status::Stopped if !memory => Ok(()),
        Status::Stopped => Err(not_running(status)),
        // The disk of a suspended computer is not complete: writes that were not flushed are in its saved
        // memory.
        Status::Suspending | Status::Suspended => Err(not_running(status).code(ErrorCode::ComputerAsleep)),
        Status::Creating | Status::Starting | Status::Stopping | Status::Restarting => {
            Err(not_running(status).retry_after(2))
        }
        Status::Deleting | Status::Error => Err(not_running(status)),
    }
}

/// Returns the error for a snapshot that the engine does not support.
pub fn unsupported(message: &str) -> Error {
    Error::invalid(message).code(ErrorCode::SnapshotUnsupported)
}

/// Returns the status of a computer during a rollback: `Restarting` if it runs and boots again afterwards,
/// else `Stopping`.
///
/// # Errors
/// `Conflict` while the computer is in a transition.
pub fn rollback(status: Status) -> Result<Status> {
    match status {
        Status::Running => Ok(Status::Restarting),
        Status::Stopped | Status::Suspended | Status::Error => Ok(Status::Stopping),
        Status::Creating
        | Status::Starting
        | Status::Stopping
        | Status::Restarting
        | Status::Deleting
        | Status::Suspending => {
            Err(Error::conflict(format!("Computer cannot be rolled back now (status: {})", status.name())))
        }
    }
}

/// CPU and RAM size of a memory snapshot, with which the computer continues. The disk is not part of it,
/// because a disk never shrinks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MachineSize {
    /// Number of vCPUs.
    pub cpu: f64,
    /// RAM, in GB.
    pub ram_gb: u32,
}

impl MachineSize {
    /// Checks whether a computer can return to this size when the other computers of the account use
    /// `others`. The current size is always permitted.
    ///
    /// # Errors
    /// `Conflict` (`snapshot_too_large`) when the account's limits do not permit it.
    pub fn admit(&self, current: &Hardware, allowance: &Allowance, others: &ResourceUse) -> Result<()> {
        let Self { cpu, ram_gb } = *self;
        let fits = (cpu <= current.cpu || allowance.check_cpu(cpu).is_ok())
            && (ram_gb <= current.ram_gb || allowance.check_ram(ram_gb, others).is_ok());
        if fits {
            return Ok(());
        }
        let text =
            format!("The account has no room for the snapshot's size (vCPUs: {cpu}, GB of RAM: {ram_gb})");
        Err(Error::conflict(text).code(ErrorCode::SnapshotTooLarge))
    }
}

/// Returns the largest possible size of a snapshot of a computer, in bytes.
pub fn most_bytes(size: &Hardware, memory: bool) -> u64 {
    let ram = if memory { size.ram_gb } else { 0 };
    u64::from(size.disk_gb).saturating_add(u64::from(ram)).saturating_mul(GB)
}

/// Checks whether a computer with `there` snapshots can have one more of at most `bytes` bytes, when the
/// account uses `used`.
///
/// # Errors
/// `Forbidden` with the code `SNAPSHOT_LIMIT` or `DISK_QUOTA_EXCEEDED`.
pub fn admit(allowance: &Allowance, there: u32, bytes: u64, used: &ResourceUse) -> Result<()> {
    let most = allowance.snapshots;
    if there >= most {
        return Err(Error::forbidden(format!(
            "A computer may have {most} snapshots and this one has {there}"
        ))
        .code(ErrorCode::SnapshotLimit)
        .number("max_snapshots", i64::from(most)));
    }
    let left = allowance.account_disk_gb.saturating_sub(used.disk_gb);
    let wanted = bytes.div_ceil(GB);
    if wanted > u64::from(left) {
        let text = format!(
            "a snapshot of up to {wanted} GB exceeds the {left} GB of disk that the account has left"
        );
        return Err(Error::forbidden(text)
            .code(ErrorCode::DiskQuotaExceeded)
            .number("max_disk_gb", i64::from(left)));
    }
    Ok(())
}

/// A snapshot, for the choice of the one to go back to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EarlierSnapshot {
    /// Its id.
    pub id: SnapshotId,
    /// Its state.
    pub state: SnapshotState,
    /// Whether it contains memory.
    pub memory: bool,
    /// When it was complete: what happened before is in it.
    pub ready_at: UnixMillis,
}

/// Returns the newest snapshot with memory that was complete before an action began.
pub fn snapshot_before(action: UnixMillis, snapshots: &[EarlierSnapshot]) -> Option<EarlierSnapshot> {
    let fitting =
        snapshots.iter().filter(|it| it.state == SnapshotState::Ready && it.memory && it.ready_at < action);
    fitting.max_by_key(|it| it.ready_at).copied()
}

/// The error when there is no such snapshot. `has_memory` says whether the computer's engine can save memory.
pub fn nothing_to_go_back_to(has_memory: bool) -> Error {
    let message = if has_memory {
        "No snapshot with memory was made before this action: make one before the steps that you may undo"
    } else {
        "The computer's engine saves no memory, so there is no state from before this action"
    };
    Error::conflict(message).code(ErrorCode::NothingToGoBackTo)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::desktop::resolution::Resolution;

    /// `.` is permitted, `4` is a conflict, `u` is unsupported; columns in the order of `Status::ALL`.
    #[test]
    fn the_table_of_snapshot_checks() {
        let able = |copy_while_running, memory| SnapshotCapabilities { copy_while_running, memory };
        // columns: creating starting running stopping stopped restarting deleting error suspending suspended
        for (memory, can, row) in [
            (false, able(true, true), "44.4.44444"),
            (false, able(false, true), "4444.44444"),
            (true, able(false, true), "44.4444444"),
            (true, able(true, false), "uuuuuuuuuu"),
        ] {
            for (status, expected) in Status::ALL.into_iter().zip(row.chars()) {
                let got = match check_snapshot(status, memory, can) {
                    Ok(()) => '.',
                    Err(error) if error.code == Some(ErrorCode::SnapshotUnsupported) => 'u',
                    Err(error) => {
                        assert_eq!(error.kind, crate::error::Kind::Conflict);
                        '4'
                    }
                };
                assert_eq!(got, expected, "{} {memory} {can:?}", status.name());
            }
        }
    }

    #[test]
    fn a_running_computer_restarts_after_a_rollback() {
        // columns: creating starting running stopping stopped restarting deleting error suspending suspended
        for (status, expected) in Status::ALL.into_iter().zip("!!R!S!!S!S".chars()) {
            let got = match rollback(status) {
                Ok(Status::Restarting) => 'R',
                Ok(Status::Stopping) => 'S',
                Ok(_) | Err(_) => '!',
            };
            assert_eq!(got, expected, "{}", status.name());
        }
    }

    #[test]
    fn a_snapshot_is_admitted_by_its_largest_possible_size() {
        let size = Hardware {
            cpu: 1.0,
            ram_gb: 4,
            disk_gb: 8,
            resolution: Resolution::default(),
            bandwidth_mbps: 0,
        };
        assert_eq!((most_bytes(&size, false), most_bytes(&size, true)), (8 * GB, 12 * GB));
        let allowance = Allowance {
            computers: 1,
            cpu: 1,
            ram_gb: 4,
            resize_ram_gb: 4,
            account_ram_gb: 4,
            disk_gb: 8,
            account_disk_gb: 20,
            bandwidth_mbps: 0,
            snapshots: 2,
        };
        for (there, bytes, disk_gb, code) in [
            (1, 8 * GB, 12, None),
            (1, 8 * GB + 1, 12, Some(ErrorCode::DiskQuotaExceeded)),
            (1, 1, 21, Some(ErrorCode::DiskQuotaExceeded)),
            (2, 1, 0, Some(ErrorCode::SnapshotLimit)),
        ] {
            let used = ResourceUse { computers: 1, ram_gb: 4, disk_gb };
            let got = admit(&allowance, there, bytes, &used).err().and_then(|error| error.code);
            assert_eq!(got, code, "{there} {bytes} {disk_gb}");
        }
    }

    #[test]
    fn a_memory_snapshot_is_restored_if_the_limits_permit_its_size() {
        let allowance = Allowance {
            computers: 9,
            cpu: 4,
            ram_gb: 8,
            resize_ram_gb: 4,
            account_ram_gb: 16,
            disk_gb: 8,
            account_disk_gb: 80,
            bandwidth_mbps: 0,
            snapshots: 2,
        };
        let now = |cpu, ram_gb| Hardware {
            cpu,
            ram_gb,
            disk_gb: 8,
            resolution: Resolution::default(),
            bandwidth_mbps: 0,
        };
        for (cpu, ram_gb, current, others, admitted) in [
            (4.0, 8, now(1.0, 4), 8, true),
            (4.0, 8, now(1.0, 4), 9, false),
            (8.0, 4, now(1.0, 4), 0, false),
            (1.0, 16, now(1.0, 4), 0, false),
            // The current size and smaller ones are always possible.
            (8.0, 16, now(8.0, 16), 99, true),
            (0.5, 2, now(8.0, 16), 99, true),
        ] {
            let used = ResourceUse { computers: 2, ram_gb: others, disk_gb: 0 };
            let refused = MachineSize { cpu, ram_gb }.admit(&current, &allowance, &used).err();
            let expected = (!admitted).then_some(ErrorCode::SnapshotTooLarge);
            assert_eq!(refused.and_then(|error| error.code), expected, "{cpu} {ram_gb} beside {others}");
        }
    }

    #[test]
    fn the_newest_complete_snapshot_with_memory_before_the_action_is_chosen() {
        let snapshot = |at, state, memory| EarlierSnapshot {
            id: SnapshotId::random(),
            state,
            memory,
            ready_at: UnixMillis::new(at),
        };
        let ready = SnapshotState::Ready;
        let all = [
            snapshot(10, ready, true),
            snapshot(20, ready, true),
            snapshot(25, ready, false),
            snapshot(26, SnapshotState::Creating, true),
            snapshot(27, SnapshotState::Deleting, true),
            snapshot(40, ready, true),
        ];
        for (action, expected) in [(5, None), (10, None), (11, Some(0)), (30, Some(1)), (41, Some(5))] {
            let found = snapshot_before(UnixMillis::new(action), &all);
            assert_eq!(found, expected.map(|at: usize| all[at]), "{action}");
        }
    }
}
