//! Child processes of tests, with a wait for readiness; none outlives its test.

use std::fs;
use std::io::{BufRead, BufReader, Read, Seek};
use std::process::{Child, Command, Output, Stdio};
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

/// Runs a program to its end. After `timeout` it is killed and the error says in which system call each of its threads
/// was. The streams are files: a process that inherits them cannot hold up the test.
pub fn output_within(command: &mut Command, timeout: Duration) -> Result<Output, String> {
    let shown = format!("{command:?}");
    let failed = |error: std::io::Error| format!("{shown}: {error}");
    let mut streams = [tempfile::tempfile().map_err(failed)?, tempfile::tempfile().map_err(failed)?];
    let [stdout, stderr] = [streams[0].try_clone().map_err(failed)?, streams[1].try_clone().map_err(failed)?];
    let mut child = command.stdin(Stdio::null()).stdout(stdout).stderr(stderr).spawn().map_err(failed)?;
    let until = Instant::now() + timeout;
    let mut hung = None;
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) => {}
            Err(error) => return Err(failed(error)),
        }
        if hung.is_none() && Instant::now() > until {
            hung = Some(blocked_threads(child.id()));
            let _killed = child.kill();
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let [stdout, stderr] = streams.each_mut().map(|stream| {
        let mut bytes = Vec::new();
        let read = stream.rewind().and_then(|()| stream.read_to_end(&mut bytes));
        read.map(|_| bytes)
    });
    let output = Output { status, stdout: stdout.map_err(failed)?, stderr: stderr.map_err(failed)? };
    match hung {
        Some(threads) => Err(format!("{shown} did not end in {timeout:?}: {threads}; {output:?}")),
        None => Ok(output),
    }
}

/// The name, the system call and the kernel's stack of each thread of a process (proc_pid_task(5)).
fn blocked_threads(pid: u32) -> String {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let of_thread = |thread: fs::DirEntry| {
        let read = |file: &str| fs::read_to_string(thread.path().join(file)).unwrap_or_default();
        format!(
            "{} in {} at {}",
            read("comm").trim(),
            read("syscall").trim(),
            read("stack").replace('\n', " ")
        )
    };
    threads.map(of_thread).collect::<Vec<String>>().join("; ")
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
