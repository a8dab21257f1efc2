//! Exit of a child process, detected by SIGCHLD and by polling.
//!
//! Workaround for gVisor (20240729): a signal that arrives while memory is saved can suppress the wake-up of
//! every later one. A wait for SIGCHLD alone would then never return.

use std::io;
use std::process::ExitStatus;
use std::time::Duration;

use tokio::process::Child;

use hotdesk_base::backoff::Backoff;

/// Pauses between polls: short at first, because most commands are short, and long for a command that runs
/// for days.
const MIN_PAUSE: Duration = Duration::from_millis(20);
const MAX_PAUSE: Duration = Duration::from_secs(1);

/// Waits for a child to exit and reaps it. Cancel-safe.
///
/// # Errors
/// When `waitpid` fails.
pub async fn wait(child: &mut Child) -> io::Result<ExitStatus> {
    let mut pauses = Backoff::new(MIN_PAUSE, MAX_PAUSE, MAX_PAUSE);
    loop {
        if let Ok(status) = tokio::time::timeout(pauses.after(Duration::ZERO), child.wait()).await {
            return status;
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
    async fn waits_for_running_and_already_ended_children() {
        for command in ["exit 3", "sleep 0.1; exit 3"] {
            let mut child = Command::new("sh").args(["-c", command]).spawn().unwrap();
            for _ in 0..2 {
                assert_eq!(wait(&mut child).await.unwrap().code(), Some(3), "{command}");
            }
        }
    }
}
