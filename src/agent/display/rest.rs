//! Is a program that cannot be asked done with what it was sent? It is once it sleeps, waiting for more; one that computes, or
//! waits for a processor, is not.

use std::time::{Duration, Instant};

/// How long a program may take to come to rest: one that takes longer computes for reasons of its own.
const REST_PATIENCE: Duration = Duration::from_secs(3);
/// Looks in a row that must find it asleep: it also sleeps for moments in the middle of its work, for an answer of the X server.
const LOOKS: u32 = 3;
/// Pause between two looks: longer than such a moment.
const PAUSE: Duration = Duration::from_millis(2);

/// Waits until a process rests; false when it did not in time. One that is gone rests.
pub(super) fn comes_to_rest(pid: u32) -> bool {
    let deadline = Instant::now() + REST_PATIENCE;
    let mut asleep = 0;
    while asleep < LOOKS {
        if Instant::now() > deadline {
            return false;
        }
        asleep = if rests(pid) { asleep + 1 } else { 0 };
        std::thread::sleep(PAUSE);
    }
    true
}

/// Whether its first thread, the one that reads events in nearly every program, sleeps now.
fn rests(pid: u32) -> bool {
    std::fs::read(format!("/proc/{pid}/stat")).map_or(true, |stat| matches!(state(&stat), b'S' | b'Z' | b'X'))
}

/// The state's letter (proc(5)): behind the name, which may hold anything and is in parentheses.
fn state(stat: &[u8]) -> u8 {
    let behind = stat.iter().rposition(|byte| *byte == b')').map_or(0, |at| at + 2);
    stat.get(behind).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_stands_behind_a_name_that_may_hold_anything() {
        for (stat, expected) in [
            ("12 (xterm) S 1 2", b'S'),
            ("12 (a ) R (b)) R 1 2", b'R'),
            ("12 (x) T", b'T'),
            ("12 (x)", 0),
            ("", 0),
        ] {
            assert_eq!(state(stat.as_bytes()), expected, "{stat}");
        }
    }
}
