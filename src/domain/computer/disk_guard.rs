//! Rules for a host whose disk runs out of space: which machines stop writing, and when they continue.
//!
//! Disks are sparse files, so machines together can store more than the host has. A machine whose write finds no
//! space gets I/O errors, and its file system becomes read-only. So machines that grow are frozen before.
//!
//! ```text
//!   running -- below the reserve, over its share --> frozen -- space again --> running
//!                                                      |-- still grows, little space left --> killed
//!   ending  -- below the reserve, over its share --> killed
//! ```

use std::time::Duration;

/// Free bytes that the host reserves. Below it, machines are neither made nor started, and those that grow are
/// frozen: the controller needs space for its log, and the machines that do not grow need some for small writes.
pub const HOST_RESERVE: u64 = 512 << 20;
/// Free bytes above which frozen machines continue: above the reserve by what a machine writes in a fraction of a
/// second, so that it is not frozen again at once.
pub const THAW_ABOVE: u64 = HOST_RESERVE + (128 << 20);
/// Growth in bytes that is never a reason to freeze: logs and the files of small programs.
const SMALL_GROWTH: u64 = 1 << 20;
/// Growth in bytes of the last second or two that shows that a machine still grows. One that was installed or booted
/// just before something else filled the disk does not.
const RECENT_GROWTH: u64 = 256 << 10;
/// Free bytes below which a frozen machine that still grows is killed: a system call that writes gigabytes
/// continues in a frozen process, and only a kill ends it.
const KILL_BELOW: u64 = HOST_RESERVE / 4;
/// Growth in bytes of a frozen machine that is not the rest of a write that had begun.
const GROWTH_WHILE_FROZEN: u64 = 32 << 20;

/// Bytes a second by which all machines together are assumed to grow at most: copies in memory by a few CPUs.
const FASTEST_GROWTH: u64 = 2 << 30;
/// Time between two looks near the reserve. At the fastest growth it costs a fifth of the reserve.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(50);
/// Time between two looks on a host with much space.
const LONGEST_INTERVAL: Duration = Duration::from_secs(5);

/// One machine with processes, as the guard measures it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MeasuredMachine {
    /// Bytes by which it grew on the host's disk since some seconds before the space was short, with what it has not
    /// written back yet.
    pub growth: u64,
    /// The same since the space is short.
    pub growth_while_short: u64,
    /// The same in the last second or two.
    pub recent_growth: u64,
    /// Its phase.
    pub phase: GuardPhase,
}

/// State of a machine under the guard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GuardPhase {
    /// It runs.
    Running,
    /// An operation ends it. It must not be frozen, because a frozen process handles no request to end.
    Ending,
    /// It is frozen.
    Frozen {
        /// Bytes by which it grew since then.
        growth: u64,
    },
}

/// Action of the guard on a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GuardStep {
    /// Nothing.
    Leave,
    /// Freeze its processes.
    Freeze,
    /// Let its processes continue.
    Thaw,
    /// Kill its processes.
    Kill,
}

/// Returns a step for each machine, in order. `free` is the host's free space in bytes, less what the machines have
/// not written back yet.
///
/// Machines that grow share half of the space that is left, so a machine that writes a little beside one that writes
/// much is not frozen.
pub fn decide(free: u64, machines: &[MeasuredMachine]) -> Vec<GuardStep> {
    let grows = |machine: &&MeasuredMachine| {
        !matches!(machine.phase, GuardPhase::Frozen { .. }) && machine.takes_more_than(SMALL_GROWTH)
    };
    let growing = machines.iter().filter(grows).count() as u64;
    let share = (free / 2 / growing.max(1)).max(SMALL_GROWTH);
    let step = |machine: &MeasuredMachine| match machine.phase {
        GuardPhase::Frozen { .. } if free >= THAW_ABOVE => GuardStep::Thaw,
        GuardPhase::Frozen { growth } if free < KILL_BELOW && growth > GROWTH_WHILE_FROZEN => GuardStep::Kill,
        GuardPhase::Running if free < HOST_RESERVE && machine.takes_more_than(share) => GuardStep::Freeze,
        GuardPhase::Ending if free < HOST_RESERVE && machine.takes_more_than(share) => GuardStep::Kill,
        GuardPhase::Frozen { .. } | GuardPhase::Running | GuardPhase::Ending => GuardStep::Leave,
    };
    machines.iter().map(step).collect()
}

impl MeasuredMachine {
    fn takes_more_than(&self, share: u64) -> bool {
        self.growth_while_short > share || self.growth > share && self.recent_growth > RECENT_GROWTH
    }
}

/// Returns the time until the next look: machines cannot reach the reserve before it.
pub fn next_look(free: u64) -> Duration {
    let distance = Duration::from_millis(free.saturating_sub(HOST_RESERVE) / (FASTEST_GROWTH / 1000));
    distance.clamp(SHORTEST_INTERVAL, LONGEST_INTERVAL)
}

/// Checks that the disks of all machines together, `promised` bytes, are at most `factor` times the size of the
/// host's file system; a factor of 0 is no limit. Returns the limit in bytes if they are more.
pub fn over_promised(promised: u64, file_system: u64, factor: u32) -> Option<u64> {
    let limit = file_system.saturating_mul(factor.into());
    (factor > 0 && promised > limit).then_some(limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// A machine that grows.
    fn machine(growth_mib: u64, phase: GuardPhase) -> MeasuredMachine {
        let growth = growth_mib * MIB;
        MeasuredMachine { growth, growth_while_short: 0, recent_growth: growth, phase }
    }

    #[test]
    fn those_that_grow_are_frozen_and_neighbours_are_not() {
        use GuardPhase::{Ending, Frozen, Running};
        use GuardStep::{Freeze, Kill, Leave, Thaw};
        let held = Frozen { growth: 0 };
        let grew = Frozen { growth: 33 * MIB };
        let cases: [(u64, Vec<MeasuredMachine>, Vec<GuardStep>); 11] = [
            (512, vec![machine(9999, Running)], vec![Leave]),
            (
                511,
                vec![machine(9999, Running), machine(5, Running), machine(0, Running)],
                vec![Freeze, Leave, Leave],
            ),
            // Each of two that grow has a quarter of what is left.
            (400, vec![machine(101, Running), machine(99, Running)], vec![Freeze, Leave]),
            // The frozen one needs no share any more.
            (200, vec![machine(999, held), machine(99, Running)], vec![Leave, Leave]),
            (200, vec![machine(999, held), machine(101, Running)], vec![Leave, Freeze]),
            // Something else filled the disk: small writes are no reason.
            (0, vec![machine(1, Running), machine(0, Running)], vec![Leave, Leave]),
            (0, vec![machine(2, Running)], vec![Freeze]),
            (639, vec![machine(0, held)], vec![Leave]),
            (640, vec![machine(0, held), machine(0, Running)], vec![Thaw, Leave]),
            (100, vec![machine(999, Ending), machine(1, Ending)], vec![Kill, Leave]),
            (127, vec![machine(999, grew), machine(999, held)], vec![Kill, Leave]),
        ];
        for (free, machines, steps) in cases {
            assert_eq!(decide(free * MIB, &machines), steps, "{free} MiB, {machines:?}");
        }
        assert_eq!(decide(128 * MIB, &[machine(999, grew)]), [Leave], "there is time for its write to end");
        let booted = MeasuredMachine { recent_growth: RECENT_GROWTH, ..machine(300, Running) };
        assert_eq!(decide(0, &[booted]), [Leave], "something else filled the disk after its boot");
        let slow = MeasuredMachine { growth_while_short: 101 * MIB, ..booted };
        assert_eq!(decide(200 * MIB, &[slow]), [Freeze], "it grows slowly, and for long");
    }

    #[test]
    fn looks_are_frequent_near_the_reserve() {
        for (free, millis) in
            [(0, 50), (HOST_RESERVE, 50), (HOST_RESERVE + FASTEST_GROWTH, 1000), (u64::MAX, 5000)]
        {
            assert_eq!(next_look(free).as_millis(), millis, "{free}");
        }
    }

    #[test]
    fn promises_are_bounded_by_the_file_system() {
        for (promised, factor, limit) in
            [(1000, 10, None), (1001, 10, Some(1000)), (u64::MAX, 0, None), (101, 1, Some(100))]
        {
            assert_eq!(over_promised(promised, 100, factor), limit, "{promised} with {factor}");
        }
    }
}
