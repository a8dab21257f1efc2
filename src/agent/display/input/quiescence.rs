//! Quiescence of a process: it sleeps and waits for more input.
//!
//! For programs that do not answer pings. A process that computes, or waits for a processor, is not
//! quiescent.

use std::time::{Duration, Instant};

use crate::display::fault::Outcome;

/// Timeout: a process that runs longer computes for other reasons.
const QUIESCENCE_TIMEOUT: Duration = Duration::from_secs(3);
/// Samples in succession between which the process must not have run.
const SAMPLES: u32 = 3;
/// Pause between two samples, in which a woken process gets to run if a processor is free.
const PAUSE: Duration = Duration::from_millis(2);

/// Waits until a process is quiescent or gone; false after a timeout. `served` must return after the X server
/// answered all clients: that wakes a process that sleeps while it waits for an X reply.
///
/// # Errors
/// The fault of `served`.
pub(super) fn wait_until_quiescent(pid: u32, served: impl Fn() -> Outcome<()>) -> Outcome<bool> {
    let deadline = Instant::now() + QUIESCENCE_TIMEOUT;
    let (mut last, mut unchanged) = (None, 0);
    while Instant::now() <= deadline {
        served()?;
        let Ok(status) = std::fs::read_to_string(format!("/proc/{pid}/status")) else { return Ok(true) };
        let seen = sleep_count(&status);
        unchanged = if seen.is_some() && (unchanged == 0 || seen == last) {
            unchanged + 1
        } else {
            u32::from(seen.is_some())
        };
        if unchanged == SAMPLES {
            return Ok(true);
        }
        last = seen;
        std::thread::sleep(PAUSE);
    }
    Ok(false)
}

/// The count of voluntary context switches of the main thread if it sleeps now (proc(5)). Nearly every
/// program reads X events in its main thread. A kernel that does not count says 0.
fn sleep_count(status: &str) -> Option<u64> {
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
    fn sleep_is_counted_only_while_asleep() {
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
            assert_eq!(sleep_count(status), expected, "{status}");
        }
    }
}
