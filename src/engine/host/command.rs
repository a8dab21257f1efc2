//! How does the engine run the host's tools? By argv, with a fixed environment, bounded in time and in what is kept.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::MemfdFlags;

use super::process;
use crate::{EngineError, EngineResult};

/// No tool that the engine calls takes longer than a second on a busy host; past this it hangs.
pub(super) const TIMEOUT: Duration = Duration::from_secs(30);
/// How much of a tool's complaint goes into an error: enough for its last lines.
const KEPT_COMPLAINT: u64 = 2048;
/// How much of a tool's answer is read: `runc state` is below 4 KiB.
const KEPT_ANSWER: u64 = 256 * 1024;
/// Where tools are looked up, whatever the controller's own environment says.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The Debian package that brings a tool.
fn package(program: &OsStr) -> &'static str {
    match program.to_str().unwrap_or_default() {
        "nft" => "nftables",
        "ip" | "tc" | "ss" => "iproute2",
        "mkfs.ext4" | "e2fsck" | "resize2fs" => "e2fsprogs",
        "nsenter" | "fsfreeze" => "util-linux",
        "tee" | "cat" => "coreutils",
        "qemu-system-x86_64" => "qemu-system-x86",
        "zstd" => "zstd",
        "runsc" => "runsc, of gVisor's own archive",
        _ => "the OCI runtime, for example runc",
    }
}

/// A command with nothing of the controller's environment, terminal or signals.
pub(super) fn tool(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    command.env_clear().env("PATH", PATH).env("LC_ALL", "C").process_group(0).stdin(Stdio::null());
    command
}

/// What a tool that succeeded said.
pub(super) fn run(step: &'static str, mut command: Command) -> EngineResult<String> {
    let (status, answer, complaint) = run_patiently(step, &mut command, None, TIMEOUT)?;
    judge(step, status, &complaint)?;
    Ok(answer)
}

/// As [`run`], with `input` on the tool's standard input.
pub(super) fn run_with(step: &'static str, mut command: Command, input: &str) -> EngineResult<String> {
    let (status, answer, complaint) = run_patiently(step, &mut command, Some(input), TIMEOUT)?;
    judge(step, status, &complaint)?;
    Ok(answer)
}

/// Runs a tool to its end; what it said on both streams. Streams are memory files, so that nothing can block on them.
pub(super) fn run_patiently(
    step: &'static str,
    command: &mut Command,
    input: Option<&str>,
    patience: Duration,
) -> EngineResult<(ExitStatus, String, String)> {
    let failed = |error: io::Error| EngineError::failed(step, error);
    let mut answer = memory_file().map_err(failed)?;
    let mut complaint = memory_file().map_err(failed)?;
    if let Some(input) = input {
        let mut file = memory_file().map_err(failed)?;
        file.write_all(input.as_bytes()).map_err(failed)?;
        file.rewind().map_err(failed)?;
        command.stdin(file);
    }
    command.stdout(answer.try_clone().map_err(failed)?);
    command.stderr(complaint.try_clone().map_err(failed)?);
    let mut child = spawn(step, command)?;
    let status = finish(step, &mut child, patience)?;
    Ok((
        status,
        head(&mut answer, KEPT_ANSWER).map_err(failed)?,
        head(&mut complaint, KEPT_COMPLAINT).map_err(failed)?,
    ))
}

/// Starts a tool; one that is missing is named with its package.
pub(super) fn spawn(step: &'static str, command: &mut Command) -> EngineResult<Child> {
    command.spawn().map_err(|error| {
        let program = command.get_program();
        let named = Path::new(program).display();
        EngineError::failed(
            step,
            if error.kind() == io::ErrorKind::NotFound {
                format!("{named} is not installed (package {})", package(program))
            } else {
                format!("{named}: {error}")
            },
        )
    })
}

/// Waits for a tool; one that is late is killed.
pub(super) fn finish(step: &'static str, child: &mut Child, patience: Duration) -> EngineResult<ExitStatus> {
    let deadline = Instant::now() + patience;
    let failed = |error: io::Error| EngineError::failed(step, error);
    let on_time = match process::open_child(child) {
        Ok(pidfd) => process::wait_exit(&pidfd, deadline).map_err(failed)?,
        Err(error) => return Err(failed(error)),
    };
    if !on_time {
        child.kill().map_err(failed)?;
        child.wait().map_err(failed)?;
        return Err(EngineError::failed(step, format!("it took longer than {} s", patience.as_secs())));
    }
    child.wait().map_err(failed)
}

/// Success, or the tool's own complaint as an error.
pub(super) fn judge(step: &'static str, status: ExitStatus, complaint: &str) -> EngineResult<()> {
    if status.success() {
        return Ok(());
    }
    let complaint = complaint.trim();
    if complaint.contains("No space left on device") || complaint.contains("Disk quota exceeded") {
        return Err(EngineError::NoCapacity(format!("{step}: {complaint}")));
    }
    Err(EngineError::failed(step, format!("{status}: {complaint}")))
}

/// An error of the host's files as the engine's: a full disk is a lack of capacity.
pub(super) fn host_error(step: &'static str, path: &Path) -> impl Fn(io::Error) -> EngineError + use<> {
    let path = path.to_owned();
    move |error| {
        let full = [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded].contains(&error.kind());
        if full {
            EngineError::NoCapacity(format!("{step}: {}: {error}", path.display()))
        } else {
            EngineError::failed(step, format!("{}: {error}", path.display()))
        }
    }
}

fn memory_file() -> io::Result<File> {
    Ok(rustix::fs::memfd_create("hotdesk", MemfdFlags::CLOEXEC)?.into())
}

fn head(file: &mut File, bytes: u64) -> io::Result<String> {
    file.rewind()?;
    let mut kept = Vec::new();
    file.take(bytes).read_to_end(&mut kept)?;
    Ok(String::from_utf8_lossy(&kept).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_tool_is_named_with_its_package() {
        let error = spawn("try", &mut tool("/nowhere/runc")).unwrap_err().to_string();
        assert!(error.contains("/nowhere/runc is not installed"), "{error}");
    }

    #[test]
    fn a_tool_reads_its_input_and_its_complaint_is_kept() {
        assert_eq!(run_with("echo", tool("cat"), "hello").unwrap(), "hello");
        let mut failing = tool("cat");
        failing.arg("/nowhere/at/all");
        let error = run("read", failing).unwrap_err().to_string();
        assert!(error.contains("/nowhere/at/all"), "{error}");
    }

    #[test]
    fn a_late_tool_is_killed() {
        let mut sleeper = tool("sleep");
        let mut child = sleeper.arg("60").spawn().unwrap();
        let error = finish("wait", &mut child, Duration::from_millis(20)).unwrap_err().to_string();
        assert!(error.contains("longer than"), "{error}");
    }
}
