//! Which computers can be kept as they are at one moment, and be brought back to that?

use super::allowance::{Allowance, Used};
use super::computer::Hardware;
use super::error::{Error, Result};
use super::lifecycle::{Status, not_running};

/// Bytes in a GB, as computers are ordered.
const GB: u64 = 1024 * 1024 * 1024;

/// What a stored snapshot is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Being made; undone when a crash cuts it short.
    Creating,
    /// A computer can be rolled back to it.
    Ready,
    /// On its way out.
    Deleting,
}

impl State {
    const ALL: [Self; 3] = [Self::Creating, Self::Ready, Self::Deleting];

    /// The wire and store name.
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

/// Is a snapshot there to be gone back to, or launched from?
///
/// # Errors
/// `Conflict` while it is being made or removed.
pub fn check_ready(state: State) -> Result<()> {
    if state == State::Ready {
        return Ok(());
    }
    Err(Error::conflict(format!("The snapshot is not ready (state: {})", state.name())))
}

/// What an engine can keep of a machine that runs.
#[derive(Clone, Copy, Debug)]
pub struct Ability {
    /// Its disk alone.
    pub copy_while_running: bool,
    /// Its disk and its memory, both of one moment.
    pub memory: bool,
}

/// May a computer with this status be kept, with its memory or without?
///
/// # Errors
/// `Invalid` (`snapshot_unsupported`) for memory that its engine cannot keep; `Conflict` when the status blocks it.
pub fn check_snapshot(status: Status, memory: bool, can: Ability) -> Result<()> {
    if memory && !can.memory {
        return Err(unsupported("This computer's memory cannot be kept in a snapshot"));
    }
    match status {
        Status::Running if memory || can.copy_while_running => Ok(()),
        Status::Running => {
            Err(Error::conflict("This computer's disk cannot be kept while it runs: stop it first"))
        }
        Status::Stopped if !memory => Ok(()),
        Status::Stopped => Err(not_running(status)),
        // A sleeping one's disk is not all of it: what was written and not yet flushed is in its memory.
        Status::Suspending | Status::Suspended => Err(not_running(status).code("computer_asleep")),
        Status::Creating | Status::Starting | Status::Stopping | Status::Restarting => {
            Err(not_running(status).retry_after(2))
        }
        Status::Deleting | Status::Error => Err(not_running(status)),
    }
}

/// The refusal of what an engine does not keep.
pub fn unsupported(message: &str) -> Error {
    Error::invalid(message).code("snapshot_unsupported")
}

/// What a computer is while it is rolled back: `restarting` when it runs afterwards, as one that runs does, else `stopping`.
///
/// # Errors
/// `Conflict` for one that is on its way somewhere.
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

/// The size that a snapshot's memory knows, and goes on with. A disk that has grown since never shrinks, and is none of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Size {
    /// vCPUs.
    pub cpu: f64,
    /// GB of RAM.
    pub ram_gb: u32,
}

impl Size {
    /// May a computer have this size again, when the account's others hold `others`? What it has it may keep.
    ///
    /// # Errors
    /// `Conflict` (`snapshot_too_large`).
    pub fn admit(&self, current: &Hardware, allowance: &Allowance, others: &Used) -> Result<()> {
        let Self { cpu, ram_gb } = *self;
        let fits = (cpu <= current.cpu || allowance.check_cpu(cpu).is_ok())
            && (ram_gb <= current.ram_gb || allowance.check_ram(ram_gb, others).is_ok());
        if fits {
            return Ok(());
        }
        let text =
            format!("The account has no room for the snapshot's size (vCPUs: {cpu}, GB of RAM: {ram_gb})");
        Err(Error::conflict(text).code("snapshot_too_large"))
    }
}

/// The most that a snapshot of a computer takes on its host, in bytes.
pub fn most_bytes(size: &Hardware, memory: bool) -> u64 {
    let ram = if memory { size.ram_gb } else { 0 };
    u64::from(size.disk_gb).saturating_add(u64::from(ram)).saturating_mul(GB)
}

/// May a computer that has `there` snapshots have one more of at most so many bytes, when the account holds `used`?
///
/// # Errors
/// `Forbidden`: `SNAPSHOT_LIMIT`, `DISK_QUOTA_EXCEEDED`.
pub fn admit(allowance: &Allowance, there: u32, bytes: u64, used: &Used) -> Result<()> {
    let most = allowance.snapshots;
    if there >= most {
        return Err(Error::forbidden(format!(
            "A computer may have {most} snapshots and this one has {there}"
        ))
        .code("SNAPSHOT_LIMIT")
        .number("max_snapshots", i64::from(most)));
    }
    let left = allowance.account_disk_gb.saturating_sub(used.disk_gb);
    let wanted = bytes.div_ceil(GB);
    if wanted > u64::from(left) {
        let text = format!(
            "a snapshot of up to {wanted} GB exceeds the {left} GB of disk that the account has left"
        );
        return Err(Error::forbidden(text)
            .code("DISK_QUOTA_EXCEEDED")
            .number("max_disk_gb", i64::from(left)));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resolution::Resolution;

    /// `.` may be kept, `4` a conflict, `u` not what the engine can; columns in the order of `Status::ALL`.
    #[test]
    fn what_is_whole_and_within_reach_can_be_kept() {
        let able = |copy_while_running, memory| Ability { copy_while_running, memory };
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
                    Err(error) if error.code == Some("snapshot_unsupported") => 'u',
                    Err(error) => {
                        assert_eq!(error.kind, super::super::error::Kind::Conflict);
                        '4'
                    }
                };
                assert_eq!(got, expected, "{} {memory} {can:?}", status.name());
            }
        }
    }

    #[test]
    fn what_runs_runs_again_after_a_rollback() {
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
    fn a_snapshot_is_admitted_while_there_is_room_for_the_most_that_it_may_take() {
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
            (1, 8 * GB + 1, 12, Some("DISK_QUOTA_EXCEEDED")),
            (1, 1, 21, Some("DISK_QUOTA_EXCEEDED")),
            (2, 1, 0, Some("SNAPSHOT_LIMIT")),
        ] {
            let used = Used { computers: 1, ram_gb: 4, disk_gb };
            let got = admit(&allowance, there, bytes, &used).err().and_then(|error| error.code);
            assert_eq!(got, code, "{there} {bytes} {disk_gb}");
        }
    }

    #[test]
    fn memory_comes_back_with_its_size_where_the_account_has_room_for_it() {
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
            // What it has it keeps, and smaller is always possible.
            (8.0, 16, now(8.0, 16), 99, true),
            (0.5, 2, now(8.0, 16), 99, true),
        ] {
            let used = Used { computers: 2, ram_gb: others, disk_gb: 0 };
            let refused = Size { cpu, ram_gb }.admit(&current, &allowance, &used).err();
            let expected = (!admitted).then_some("snapshot_too_large");
            assert_eq!(refused.and_then(|error| error.code), expected, "{cpu} {ram_gb} beside {others}");
        }
    }
}
