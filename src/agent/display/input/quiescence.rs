//! Is a program that cannot be asked done with what it was sent? It is once it sleeps, waiting for more; one that computes, or
//! waits for a processor, is not.

use std::time::{Duration, Instant};

use super::fault::Outcome;

/// How long a program may take to come to rest: one that takes longer computes for reasons of its own.
const REST_TIMEOUT: Duration = Duration::from_secs(3);
/// Looks in a row between which it must not have run.
const LOOKS: u32 = 3;
/// Pause between two looks, in which what was woken gets its turn where there are turns to get.
const PAUSE: Duration = Duration::from_millis(2);

/// Waits until a process rests; false when it did not in time. One that is gone rests. `served` returns once the X server has
/// answered everybody: who sleeps in the middle of its work, for an answer of the server, is woken by that.
///
/// # Errors
/// When the server cannot be asked.
pub(super) fn comes_to_rest(pid: u32, served: impl Fn() -> Outcome<()>) -> Outcome<bool> {
    let deadline = Instant::now() + REST_TIMEOUT;
    let (mut last, mut alike) = (None, 0);
    while Instant::now() <= deadline {
        served()?;
        let Ok(status) = std::fs::read_to_string(format!("/proc/{pid}/status")) else { return Ok(true) };
        let seen = asleep_since(&status);
        alike = if seen.is_some() && (alike == 0 || seen == last) {
            alike + 1
        } else {
            u32::from(seen.is_some())
        };
        if alike == LOOKS {
            return Ok(true);
        }
        last = seen;
        std::thread::sleep(PAUSE);
    }
    Ok(false)
}

/// How often its first thread, the one that reads events in nearly every program, has gone to sleep, if it sleeps now (proc(5)).
/// A kernel that does not count says 0.
fn asleep_since(status: &str) -> Option<u64> {
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let state = field("State:")?;
    let sleeps = state.starts_with(['S', 'Z', 'X']);
    let times = field("voluntary_ctxt_switches:").and_then(|count| count.parse().ok()).unwrap_or_default();
    sleeps.then_some(times)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleep_is_told_with_its_number() {
        for (status, expected) in [
            (
                "Name:\txterm\nState:\tS (sleeping)\nvoluntary_ctxt_switches:\t12\nnonvoluntary_ctxt_switches:\t3\n",
                Some(12),
            ),
            ("Name:\tState: S\nState:\tR (running)\nvoluntary_ctxt_switches:\t12\n", None),
            ("State:\tZ (zombie)\n", Some(0)),
            ("State:\tT (stopped)\n", None),
            ("", None),
        ] {
            assert_eq!(asleep_since(status), expected, "{status}");
        }
    }
}
