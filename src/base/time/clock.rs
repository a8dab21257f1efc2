//! Wall clock and boot clock. Other modules read the wall clock only to compare it with times of files.

use std::io;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nix::time::{ClockId, clock_gettime};

use super::UnixMillis;

/// The present time. Only for timestamps and expiries: intervals use `std::time::Instant`.
pub fn now() -> UnixMillis {
    UnixMillis::EPOCH.plus(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}

/// The time since the boot of the host, which includes the time while it was suspended. `Duration::MAX` on a kernel without this
/// clock (before Linux 2.6.39), so that every deadline has passed there.
pub fn since_boot() -> Duration {
    clock_gettime(ClockId::CLOCK_BOOTTIME).map_or(Duration::MAX, Duration::from)
}

/// A moment by two clocks: the wall clock, which can be set, and the host's boot clock, which cannot. Both
/// outlive a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moment {
    /// Time by the wall clock.
    pub wall: UnixMillis,
    /// The id of the host's boot.
    pub boot_id: String,
    /// Milliseconds since that boot, including suspend of the host.
    pub up_ms: i64,
}

impl Moment {
    /// The present moment.
    ///
    /// # Errors
    /// `NotFound` when procfs is not mounted.
    pub fn now() -> io::Result<Self> {
        let up = Duration::from(clock_gettime(ClockId::CLOCK_BOOTTIME)?);
        Ok(Self {
            wall: now(),
            boot_id: boot_id()?,
            up_ms: i64::try_from(up.as_millis()).unwrap_or(i64::MAX),
        })
    }

    /// The time since an earlier moment, by the boot clock within one boot, else by the wall clock. `None`
    /// when the clock was set back to before the earlier moment.
    pub fn since(&self, earlier: &Self) -> Option<Duration> {
        if self.boot_id == earlier.boot_id {
            u64::try_from(self.up_ms.saturating_sub(earlier.up_ms)).ok().map(Duration::from_millis)
        } else {
            self.wall.since(earlier.wall)
        }
    }
}

/// The id of the host's boot (`/proc/sys/kernel/random/boot_id`).
///
/// # Errors
/// `NotFound` when procfs is not mounted.
pub fn boot_id() -> io::Result<String> {
    Ok(std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn within_a_boot_the_wall_clock_does_not_matter() {
        const HOUR: i64 = 3_600_000;
        let at =
            |wall, boot: &str, up_ms| Moment { wall: UnixMillis::new(wall), boot_id: boot.to_owned(), up_ms };
        let began = at(10 * HOUR, "a", 1000);
        for (now, passed) in [
            (at(10 * HOUR + 500, "a", 1500), Some(500)),
            (at(11 * HOUR, "a", 1500), Some(500)),
            (at(9 * HOUR, "a", 1500), Some(500)),
            (at(11 * HOUR, "b", 7), Some(3_600_000)),
            (at(9 * HOUR, "b", 7), None),
        ] {
            assert_eq!(now.since(&began), passed.map(Duration::from_millis), "{now:?}");
        }
        let (one, two) = (Moment::now().unwrap(), Moment::now().unwrap());
        assert!(two.since(&one).is_some_and(|passed| passed < Duration::from_secs(60)), "{one:?} {two:?}");
    }
}
