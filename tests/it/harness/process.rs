//! How does a test own a program? It is told when the program is ready, and the program never outlives it.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use hotdesk::base::wait;

/// How long a program may take to end when asked.
const END_TIMEOUT: Duration = Duration::from_secs(12);

/// A process that does not outlive its owner, however the test ends.
pub struct Owned(pub Child);

impl Owned {
    /// Starts a program and reads its output until `find` has what it looks for; the program is ended when it says
    /// nothing of the kind in time.
    pub async fn until_it_says<T: Send + 'static>(
        command: &mut Command,
        patience: Duration,
        mut find: impl FnMut(&str) -> Option<T> + Send + 'static,
    ) -> (Self, T) {
        let mut child = Self(command.stdout(Stdio::piped()).spawn().expect("it starts"));
        let output = child.0.stdout.take().expect("piped");
        let reading = tokio::task::spawn_blocking(move || {
            BufReader::new(output).lines().map_while(Result::ok).find_map(|line| find(&line))
        });
        let said = tokio::time::timeout(patience, reading).await.expect("it is ready in time").expect("read");
        (child, said.expect("it says that it is ready before it ends"))
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        end(&mut self.0);
    }
}

/// Asks a process to end and waits; kills it when it does not.
pub fn end(child: &mut Child) {
    // One that has been waited for has no number any more: it may be somebody else's by now.
    if !matches!(child.try_wait(), Ok(None)) {
        return;
    }
    let pid = nix::unistd::Pid::from_raw(child.id().cast_signed());
    let _gone = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM);
    let until = Instant::now() + END_TIMEOUT;
    while matches!(child.try_wait(), Ok(None)) {
        if Instant::now() > until {
            eprintln!("process {pid} ignored SIGTERM");
            let _killed = child.kill();
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Whether a process is alive (a zombie is not).
pub fn alive(pid: &str) -> bool {
    let pid = pid.trim();
    fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| !stat.rsplit(')').next().unwrap_or_default().starts_with(" Z"))
}

/// Waits until a process is gone.
pub async fn gone(pid: &str) -> bool {
    wait::until(Duration::from_secs(30), || async { (!alive(pid)).then_some(()) }).await.is_some()
}
