//! TAI64N time stamps (<https://cr.yp.to/libtai/tai64.html>), which s6 has in its files.

use std::time::{SystemTime, UNIX_EPOCH};

/// Second of 1970 as TAI64 counts them, with the 37 leap seconds since then; none has been added since 2017 (IERS bulletin C).
const EPOCH: u64 = (1 << 62) + 37;

/// Returns a time as 24 hexadecimal digits, whose order is that of the times.
pub(super) fn label(time: SystemTime) -> String {
    // A clock before 1970 is one that is not set.
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("{:016x}{:08x}", EPOCH + since.as_secs(), since.subsec_nanos())
}

/// Returns the seconds since 1970 of a binary stamp; 0 for a time before.
pub(in crate::exec::services) fn unix_seconds(stamp: [u8; 12]) -> u64 {
    let [seconds @ .., _, _, _, _] = stamp;
    u64::from_be_bytes(seconds).saturating_sub(EPOCH)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn stamps_are_those_of_s6() {
        // s6-supervise wrote this at 2026-11-27 00:25:45 UTC.
        let stamp = [0x40, 0, 0, 0, 0x6b, 0x08, 0xce, 0x2e, 0, 0, 0, 0x0a];
        assert_eq!(unix_seconds(stamp), 1_795_739_145);
        let time = UNIX_EPOCH + Duration::new(1_795_739_145, 0x0a);
        assert_eq!(label(time), "400000006b08ce2e0000000a");
        assert_eq!(unix_seconds([0; 12]), 0);
    }
}
