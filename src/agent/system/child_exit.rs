//! When has a child of the agent ended? SIGCHLD tells; where that is lost, a look now and then does. Over gVisor (20240729) a
//! signal that comes while memory is saved can take the wake-up of every later one with it, and whoever waits for a child then
//! waits for ever.

use std::io;
use std::process::ExitStatus;
use std::time::Duration;

use tokio::process::Child;

use hotdesk_base::backoff::Backoff;

/// Pauses between looks: soon at first, because most commands are short, and seldom for what runs for days.
const LEAST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Waits for a child's end, and takes note of it. Cancel-safe.
///
/// # Errors
/// When the kernel cannot tell.
pub async fn ended(child: &mut Child) -> io::Result<ExitStatus> {
    let mut pauses = Backoff::new(LEAST_PAUSE, LONGEST_PAUSE, LONGEST_PAUSE);
    loop {
        if let Ok(told) = tokio::time::timeout(pauses.after(Duration::ZERO), child.wait()).await {
            return told;
        }
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::process::Command;

    #[tokio::test]
    async fn an_end_is_told_whether_it_is_waited_for_or_long_past() {
        for command in ["exit 3", "sleep 0.1; exit 3"] {
            let mut child = Command::new("sh").args(["-c", command]).spawn().unwrap();
            for _ in 0..2 {
                assert_eq!(ended(&mut child).await.unwrap().code(), Some(3), "{command}");
            }
        }
    }
}
