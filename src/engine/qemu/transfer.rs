//! How does a guest's memory get from its QEMU into a file, and back? As QEMU moves one to another host, through a pipe that it is
//! handed: it opens no file and starts no program of its own. `zstd` is at the other end where it is installed.

use std::fs::{File, OpenOptions};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use super::monitor::Monitor;
use crate::command::{self, host_error, judge, run, spawn, tool};
use crate::{EngineError, EngineResult};

/// Saving and reading 16 GiB at the 60 MB/s of a slow disk.
const TIMEOUT: Duration = Duration::from_secs(300);
/// Ending one under way: QEMU writes out what it has begun, and the machine's lock is waited for longer.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(60);
/// As fast as it goes, in bytes a second; QEMU's own choice spares a network.
const UNBOUNDED: u64 = 1 << 40;
/// What the memory is called, compressed where that can be done.
const PLAIN: &str = "memory";
const COMPRESSED: &str = "memory.zst";

/// Writes a standing guest's memory to a file in a folder.
pub(super) fn write(folder: &Path, monitor: &mut Monitor) -> EngineResult<()> {
    const STEP: &str = "write the guest's memory";
    let (zstd, pipe) = if can_compress() {
        // The least effort: memory is mostly zeros and text, and the guest waits.
        let (zstd, pipe) = Zstd::reads(STEP, &["-1", "-T0", "-c"], create(STEP, &folder.join(COMPRESSED))?)?;
        (Some(zstd), pipe)
    } else {
        (None, create(STEP, &folder.join(PLAIN))?.into())
    };
    monitor.hand_over("memory", pipe.as_fd())?;
    drop(pipe);
    monitor.ask("migrate-set-parameters", json!({ "max-bandwidth": UNBOUNDED }))?;
    monitor.ask("migrate", json!({ "uri": "fd:memory" }))?;
    let moved =
        monitor.until("query-migrate", TIMEOUT, |state| match state.get("status").and_then(Value::as_str) {
            Some("completed") => Ok(Some(())),
            Some(ended @ ("failed" | "cancelled")) => {
                Err(EngineError::failed(STEP, format!("{ended}: {state}")))
            }
            Some(_) | None => Ok(None),
        });
    if moved.is_err()
        && let Err(error) = monitor.ask("migrate_cancel", json!({}))
    {
        tracing::warn!(%error, "a guest's memory is still being written");
    }
    moved?;
    // Its input has ended with the migration.
    zstd.map_or(Ok(()), Zstd::ended)
}

/// Ends a transfer that was given up, or that a controller which died left under way: a guest that went on during it would be
/// made to stand again at its end.
pub(super) fn call_off(monitor: &mut Monitor) -> EngineResult<()> {
    monitor.ask("migrate_cancel", json!({}))?;
    monitor.until("query-migrate", CANCEL_TIMEOUT, |state| {
        let status = state.get("status").and_then(Value::as_str);
        Ok(matches!(status, None | Some("none" | "completed" | "failed" | "cancelled")).then_some(()))
    })
}

/// Gives a QEMU that waits for it the memory in a folder. On return the guest has it and stands.
pub(super) fn read(folder: &Path, monitor: &mut Monitor) -> EngineResult<()> {
    const STEP: &str = "read the guest's memory";
    let open = |name: &str| File::open(folder.join(name)).map_err(host_error(STEP, &folder.join(name)));
    let (zstd, pipe) = if folder.join(COMPRESSED).exists() {
        let (zstd, pipe) = Zstd::writes(STEP, &["-d", "-c"], open(COMPRESSED)?)?;
        (Some(zstd), pipe)
    } else {
        (None, open(PLAIN)?.into())
    };
    monitor.hand_over("memory", pipe.as_fd())?;
    drop(pipe);
    monitor.ask("migrate-incoming", json!({ "uri": "fd:memory" }))?;
    // `inmigrate` until all of it is there; a guest that was let go on before would have half of its memory.
    monitor.until("query-status", TIMEOUT, |state| match state.get("status").and_then(Value::as_str) {
        Some("paused" | "postmigrate") => Ok(Some(())),
        Some("inmigrate" | "prelaunch") => Ok(None),
        Some(_) | None => Err(EngineError::failed(STEP, state)),
    })?;
    zstd.map_or(Ok(()), Zstd::ended)
}

fn create(step: &'static str, path: &Path) -> EngineResult<File> {
    let opened = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    opened.map_err(host_error(step, path))
}

fn can_compress() -> bool {
    let mut zstd = tool("zstd");
    zstd.arg("--version");
    run("look for zstd", zstd).is_ok()
}

/// `zstd` between a file and a pipe. It never outlives its holder, whatever became of what it was for.
#[derive(Debug)]
struct Zstd {
    step: &'static str,
    /// `None` once it was waited for.
    child: Option<Child>,
}

impl Zstd {
    /// One that reads the pipe whose other end is returned.
    fn reads(step: &'static str, options: &[&str], to: File) -> EngineResult<(Self, OwnedFd)> {
        let (ours, theirs) = pipe(step)?;
        Ok((Self::start(step, options, ours.into(), to.into())?, theirs))
    }

    /// One that writes the pipe whose other end is returned.
    fn writes(step: &'static str, options: &[&str], from: File) -> EngineResult<(Self, OwnedFd)> {
        let (theirs, ours) = pipe(step)?;
        Ok((Self::start(step, options, from.into(), ours.into())?, theirs))
    }

    fn start(step: &'static str, options: &[&str], from: Stdio, to: Stdio) -> EngineResult<Self> {
        let mut zstd = tool("zstd");
        zstd.arg("-q").args(options).stdin(from).stdout(to).stderr(Stdio::null());
        spawn(step, &mut zstd).map(|child| Self { step, child: Some(child) })
    }

    /// Waits for its end, which must be a good one.
    fn ended(mut self) -> EngineResult<()> {
        let Some(mut child) = self.child.take() else { return Ok(()) };
        let status = command::finish(self.step, &mut child, TIMEOUT)?;
        judge(self.step, status, "zstd")
    }
}

impl Drop for Zstd {
    fn drop(&mut self) {
        let Some(child) = &mut self.child else { return };
        if let Err(error) = child.kill().and_then(|()| child.wait()) {
            tracing::warn!(%error, "zstd was left behind");
        }
    }
}

/// The ends of a pipe, the one to read first.
fn pipe(step: &'static str) -> EngineResult<(OwnedFd, OwnedFd)> {
    let (read, write) = std::io::pipe().map_err(|error| EngineError::failed(step, error))?;
    Ok((read.into(), write.into()))
}

#[cfg(test)]
mod tests {
    use super::super::monitor::tests::speaks;
    use super::*;

    /// The processes called `zstd` that this one has started and not waited for.
    fn left() -> Vec<String> {
        let own = format!("\nPPid:\t{}\n", std::process::id());
        let entries = std::fs::read_dir("/proc").unwrap().flatten();
        let told = entries.filter_map(|entry| std::fs::read_to_string(entry.path().join("status")).ok());
        told.filter(|status| status.starts_with("Name:\tzstd\n") && status.contains(&own)).collect()
    }

    #[test]
    fn nothing_is_left_of_a_transfer_that_cannot_begin() {
        if !can_compress() {
            return eprintln!("skipped: zstd is not installed");
        }
        for reads in [false, true] {
            let place = tempfile::tempdir().unwrap();
            let (folder, speaking) = speaks(&["{\"return\": {}}\n", "{\"error\": {\"desc\": \"no\"}}\n"]);
            let mut monitor = Monitor::open(&folder.path().join("qmp")).unwrap();
            let refused = if reads {
                std::fs::write(place.path().join(COMPRESSED), "no memory").unwrap();
                read(place.path(), &mut monitor)
            } else {
                write(place.path(), &mut monitor)
            };
            refused.unwrap_err();
            speaking.join().unwrap();
            assert_eq!(left(), Vec::<String>::new());
        }
    }
}
