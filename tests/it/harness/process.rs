//! Child processes of tests, with a wait for readiness; none outlives its test.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use hotdesk::base::wait;

/// Longest time between SIGTERM and the end of a program.
const END_TIMEOUT: Duration = Duration::from_secs(12);

/// A child process that the drop ends, also when the test panics.
pub struct OwnedChild(pub Child);

impl OwnedChild {
    /// Starts a program and reads its output until `find` returns a value. After `timeout` the program is
    /// ended and the test panics.
    pub async fn spawn_until_ready<T: Send + 'static>(
        command: &mut Command,
        timeout: Duration,
        mut find: impl FnMut(&str) -> Option<T> + Send + 'static,
    ) -> (Self, T) {
        let mut child = Self(command.stdout(Stdio::piped()).spawn().expect("the program starts"));
        let output = child.0.stdout.take().expect("piped");
        let reading = tokio::task::spawn_blocking(move || {
            BufReader::new(output).lines().map_while(Result::ok).find_map(|line| find(&line))
        });
        let found = tokio::time::timeout(timeout, reading).await.expect("ready in time").expect("no panic");
        (child, found.expect("a line that says it is ready, before the program ends"))
    }
}

/// A field of a process's memory in KiB, such as `VmRSS:` or `VmHWM:`, its peak (proc_pid_status(5)).
pub fn memory_kib(pid: u32, field: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("the process runs");
    let line = status.lines().find(|line| line.starts_with(field)).expect("the field");
    line.split_whitespace().nth(1).expect("a number").parse().expect("a number")
}

impl Drop for OwnedChild {
    fn drop(&mut self) {
        end(&mut self.0);
    }
}

/// Sends SIGTERM and waits. Sends SIGKILL after [`END_TIMEOUT`].
pub fn end(child: &mut Child) {
    // The id of a reaped process may belong to another process by now.
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

/// Whether a process runs. A zombie does not.
pub fn alive(pid: &str) -> bool {
    let pid = pid.trim();
    fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| !stat.rsplit(')').next().unwrap_or_default().starts_with(" Z"))
}

/// Waits until a process has ended; `false` after 30 s.
pub async fn gone(pid: &str) -> bool {
    wait::until(Duration::from_secs(30), || async { (!alive(pid)).then_some(()) }).await.is_some()
}
