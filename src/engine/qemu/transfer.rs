//! Transfer of a guest's memory between QEMU and a file: a QEMU migration through a passed pipe, so that QEMU
//! opens no file and starts no program. `zstd` compresses at the other end if it is installed.

use std::fs::{File, OpenOptions};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::host::command::{self, check_status, host_error, run, tool};
use crate::host::sandbox::streams::spawn_between_streams;
use crate::qemu::monitor::Monitor;
use crate::state::disk;
use crate::{EngineError, EngineResult};

/// For saving or reading 16 GiB at the 60 MB/s of a slow disk.
const TIMEOUT: Duration = Duration::from_secs(300);
/// For the cancellation of a migration: QEMU writes out what it has begun. Shorter than the wait for the
/// machine's lock.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(60);
/// Migration bandwidth in bytes a second, practically unlimited; QEMU's default is for networks.
const UNLIMITED: u64 = 1 << 40;
/// Names of the memory file, uncompressed and compressed.
const PLAIN: &str = "memory";
const COMPRESSED: &str = "memory.zst";

/// Writes a paused guest's memory to a file in a folder.
pub(super) fn write(folder: &Path, monitor: &mut Monitor) -> EngineResult<()> {
    const STEP: &str = "write the guest's memory";
    let (zstd, pipe) = if can_compress() {
        // The fastest level: memory is mostly zeros and text, and the guest is paused.
        let (zstd, pipe) =
            Zstd::start_reading(STEP, &["-1", "-T0", "-c"], create(STEP, &folder.join(COMPRESSED))?)?;
        (Some(zstd), pipe)
    } else {
        (None, create(STEP, &folder.join(PLAIN))?.into())
    };
    monitor.pass_fd("memory", pipe.as_fd())?;
    drop(pipe);
    monitor.ask("migrate-set-parameters", json!({ "max-bandwidth": UNLIMITED }))?;
    monitor.ask("migrate", json!({ "uri": "fd:memory" }))?;
    let moved = monitor.until("query-migrate", TIMEOUT, |state| {
        match state.get("status").and_then(Value::as_str) {
            Some("completed") => Ok(Some(())),
            Some(ended @ ("failed" | "cancelled")) => {
                Err(EngineError::failed(STEP, format!("{ended}: {state}")))
            }
            // Nobody knows before how large compressed memory is.
            Some(_) | None => disk::check_reserve(folder).map(|()| None),
        }
    });
    if moved.is_err()
        && let Err(error) = monitor.ask("migrate_cancel", json!({}))
    {
        tracing::warn!(
            error = format_args!("{error:#}"),
            "could not cancel a migration; QEMU still writes the guest's memory"
        );
    }
    moved?;
    // Its input has ended with the migration.
    zstd.map_or(Ok(()), Zstd::finish)
}

/// Cancels a failed migration, or one that a dead controller left running. At its end it would pause a guest
/// that was unpaused meanwhile.
pub(super) fn cancel(monitor: &mut Monitor) -> EngineResult<()> {
    monitor.ask("migrate_cancel", json!({}))?;
    monitor.until("query-migrate", CANCEL_TIMEOUT, |state| {
        let status = state.get("status").and_then(Value::as_str);
        Ok(matches!(status, None | Some("none" | "completed" | "failed" | "cancelled")).then_some(()))
    })
}

/// Loads the memory in a folder into a QEMU that waits for it. On return the guest is paused.
pub(super) fn read(folder: &Path, monitor: &mut Monitor) -> EngineResult<()> {
    const STEP: &str = "read the guest's memory";
    let open = |name: &str| File::open(folder.join(name)).map_err(host_error(STEP, &folder.join(name)));
    let (zstd, pipe) = if folder.join(COMPRESSED).exists() {
        let (zstd, pipe) = Zstd::start_writing(STEP, &["-d", "-c"], open(COMPRESSED)?)?;
        (Some(zstd), pipe)
    } else {
        (None, open(PLAIN)?.into())
    };
    monitor.pass_fd("memory", pipe.as_fd())?;
    drop(pipe);
    monitor.ask("migrate-incoming", json!({ "uri": "fd:memory" }))?;
    // The status is `inmigrate` until all memory is loaded. A guest unpaused before that would lack some of
    // it.
    monitor.until("query-status", TIMEOUT, |state| match state.get("status").and_then(Value::as_str) {
        Some("paused" | "postmigrate") => Ok(Some(())),
        Some("inmigrate" | "prelaunch") => Ok(None),
        Some(_) | None => Err(EngineError::failed(STEP, state)),
    })?;
    zstd.map_or(Ok(()), Zstd::finish)
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

/// A `zstd` process between a file and a pipe. Dropping it kills the process.
#[derive(Debug)]
struct Zstd {
    step: &'static str,
    /// `None` once it was reaped.
    child: Option<Child>,
}

impl Zstd {
    /// Starts one that reads from the pipe whose other end is returned.
    fn start_reading(step: &'static str, options: &[&str], to: File) -> EngineResult<(Self, OwnedFd)> {
        let (ours, theirs) = pipe(step)?;
        Ok((Self::start(step, options, ours.into(), to.into())?, theirs))
    }

    /// Starts one that writes to the pipe whose other end is returned.
    fn start_writing(step: &'static str, options: &[&str], from: File) -> EngineResult<(Self, OwnedFd)> {
        let (theirs, ours) = pipe(step)?;
        Ok((Self::start(step, options, from.into(), ours.into())?, theirs))
    }

    fn start(step: &'static str, options: &[&str], from: Stdio, to: Stdio) -> EngineResult<Self> {
        let mut zstd = tool("zstd");
        zstd.arg("-q").args(options).stdin(from).stdout(to).stderr(Stdio::null());
        spawn_between_streams(step, zstd).map(|child| Self { step, child: Some(child) })
    }

    /// Waits for its end and checks its status.
    fn finish(mut self) -> EngineResult<()> {
        let Some(mut child) = self.child.take() else { return Ok(()) };
        let status = command::finish(self.step, &mut child, TIMEOUT)?;
        check_status(self.step, status, "zstd")
    }
}

impl Drop for Zstd {
    fn drop(&mut self) {
        let Some(child) = &mut self.child else { return };
        if let Err(error) = child.kill().and_then(|()| child.wait()) {
            tracing::warn!(%error, "could not kill zstd");
        }
    }
}

/// A pipe: the read end, then the write end.
fn pipe(step: &'static str) -> EngineResult<(OwnedFd, OwnedFd)> {
    let (read, write) = std::io::pipe().map_err(|error| EngineError::failed(step, error))?;
    Ok((read.into(), write.into()))
}

#[cfg(test)]
mod tests {
    use super::super::monitor::tests::fake_qemu;
    use super::*;

    /// The `zstd` children of this process that were not reaped.
    fn left() -> Vec<String> {
        let own = format!("\nPPid:\t{}\n", std::process::id());
        let entries = std::fs::read_dir("/proc").unwrap().flatten();
        let statuses = entries.filter_map(|entry| std::fs::read_to_string(entry.path().join("status")).ok());
        statuses.filter(|status| status.starts_with("Name:\tzstd\n") && status.contains(&own)).collect()
    }

    #[test]
    fn a_transfer_that_cannot_begin_leaves_no_process() {
        if !can_compress() {
            return hotdesk_capability::Capability::Qemu.skip("zstd is not installed");
        }
        for reads in [false, true] {
            let place = tempfile::tempdir().unwrap();
            let (folder, speaking) = fake_qemu(&["{\"return\": {}}\n", "{\"error\": {\"desc\": \"no\"}}\n"]);
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
