//! Execution of the host's tools: argument lists, a fixed environment, a timeout, and bounded output.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::fs::MemfdFlags;

use crate::host::process;
use crate::{EngineError, EngineResult, Shortage};

/// No tool that the engine calls takes longer than a second on a busy host; one that takes this long hangs.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(30);
/// Bytes of a tool's standard error that go into an error text: enough for a few lines.
const MAX_STDERR: u64 = 2048;
/// Bytes of a tool's standard output that are read: `runc state` is below 4 KiB.
const MAX_STDOUT: u64 = 256 * 1024;
/// The search path for tools, independent of the controller's environment. The last folder has what hotdesk's own package
/// brings: gVisor's runtime.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/usr/libexec/hotdesk";

/// The Debian package of a tool.
fn package(program: &OsStr) -> &'static str {
    match program.to_str().unwrap_or_default() {
        "nft" => "nftables",
        "ip" | "tc" => "iproute2",
        "mkfs.ext4" | "e2fsck" | "resize2fs" => "e2fsprogs",
        "nsenter" | "fsfreeze" => "util-linux",
        "cat" | "cp" | "du" | "rm" => "coreutils",
        "find" => "findutils",
        "sh" => "dash",
        "qemu-system-x86_64" => "qemu-system-x86",
        "zstd" => "zstd",
        "runsc" => "gVisor's runsc; set engines.runsc, or list isolations without sandbox in engines.offered",
        _ => "the OCI runtime, for example runc",
    }
}

/// A command without the controller's environment, terminal and process group.
pub(crate) fn tool(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    command.env_clear().env("PATH", PATH).env("LC_ALL", "C").process_group(0).stdin(Stdio::null());
    command
}

/// Whether a tool is in one of the folders that [`tool`] searches.
pub(crate) fn is_installed(program: &str) -> bool {
    find(program).is_some()
}

/// The file that [`tool`] runs for a name or a path.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    PATH.split(':')
        .map(|folder| Path::new(folder).join(program))
        .find(|path| path.metadata().is_ok_and(|data| data.is_file() && data.mode() & 0o111 != 0))
}

/// Runs a tool and returns its standard output.
///
/// # Errors
/// `Failed` with its standard error when it exits with another status than 0, is not installed, or takes over
/// 30 seconds; `NoCapacity` when it reports a full disk.
pub(crate) fn run(step: &'static str, mut command: Command) -> EngineResult<String> {
    let (status, stdout, stderr) = run_with_timeout(step, &mut command, None, TIMEOUT)?;
    check_status(step, status, &stderr)?;
    Ok(stdout)
}

/// [`run`] with `input` on the tool's standard input.
pub(crate) fn run_with(step: &'static str, mut command: Command, input: &str) -> EngineResult<String> {
    let (status, stdout, stderr) = run_with_timeout(step, &mut command, Some(input), TIMEOUT)?;
    check_status(step, status, &stderr)?;
    Ok(stdout)
}

/// The first line of the output of `program --version`. It is asked once of each file: every create and every wake needs
/// the answer, and a start of the program costs 20 ms.
pub(crate) fn version(step: &'static str, program: &str) -> EngineResult<String> {
    static KNOWN: Mutex<BTreeMap<PathBuf, (FileVersion, String)>> = Mutex::new(BTreeMap::new());
    let file = find(program).and_then(|path| Some((FileVersion::of(&path)?, path)));
    if let Some((now, path)) = &file
        && let Some((then, text)) = KNOWN.lock().unwrap_or_else(PoisonError::into_inner).get(path)
        && then == now
    {
        return Ok(text.clone());
    }
    let mut command = tool(program);
    command.arg("--version");
    let text = run(step, command)?.lines().next().unwrap_or_default().to_owned();
    if let Some((version, path)) = file {
        KNOWN.lock().unwrap_or_else(PoisonError::into_inner).insert(path, (version, text.clone()));
    }
    Ok(text)
}

/// A text that differs once the program of a tool is replaced; a constant one without the tool.
pub(crate) fn fingerprint(program: &str) -> String {
    let found = find(program).and_then(|path| Some((FileVersion::of(&path)?, path)));
    format!("{found:?}")
}

/// What differs once a program is replaced: device, inode, length, and the time of the last change of the inode in seconds and
/// nanoseconds, which no program can set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileVersion([u64; 3], [i64; 2]);

impl FileVersion {
    fn of(path: &Path) -> Option<Self> {
        let data = path.metadata().ok()?;
        Some(Self([data.dev(), data.ino(), data.len()], [data.ctime(), data.ctime_nsec()]))
    }
}

/// Runs a tool to its end and returns its status, standard output and standard error. The streams are memory
/// files, so a full pipe cannot block the tool.
pub(crate) fn run_with_timeout(
    step: &'static str,
    command: &mut Command,
    input: Option<&str>,
    timeout: Duration,
) -> EngineResult<(ExitStatus, String, String)> {
    let failed = |error: io::Error| EngineError::failed(step, error);
    let mut stdout = memory_file().map_err(failed)?;
    let mut stderr = memory_file().map_err(failed)?;
    if let Some(input) = input {
        let mut file = memory_file().map_err(failed)?;
        file.write_all(input.as_bytes()).map_err(failed)?;
        file.rewind().map_err(failed)?;
        command.stdin(file);
    }
    command.stdout(stdout.try_clone().map_err(failed)?);
    command.stderr(stderr.try_clone().map_err(failed)?);
    let begun = Instant::now();
    let mut child = spawn(step, command)?;
    let status = finish(step, &mut child, timeout)?;
    // Shows where the time of a create or a wake goes.
    let (program, took) = (Path::new(command.get_program()).display(), begun.elapsed());
    tracing::debug!(step, %program, ms = took.as_secs_f64() * 1e3, "ran a tool");
    Ok((
        status,
        head(&mut stdout, MAX_STDOUT).map_err(failed)?,
        head(&mut stderr, MAX_STDERR).map_err(failed)?,
    ))
}

/// Runs a tool to its end without its output, and fails unless it succeeds. For programs of guests: they may write without end, and
/// a memory file belongs to the service.
pub(crate) fn run_without_output(step: &'static str, mut command: Command) -> EngineResult<()> {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = spawn(step, &mut command)?;
    let status = finish(step, &mut child, TIMEOUT)?;
    check_status(step, status, "its output is not read")
}

/// Starts a tool. The error for a missing tool names its package.
pub(crate) fn spawn(step: &'static str, command: &mut Command) -> EngineResult<Child> {
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

/// Waits for a tool and kills it after `timeout`.
pub(crate) fn finish(step: &'static str, child: &mut Child, timeout: Duration) -> EngineResult<ExitStatus> {
    let deadline = Instant::now() + timeout;
    let failed = |error: io::Error| EngineError::failed(step, error);
    let on_time = match process::open_child(child) {
        Ok(pidfd) => process::wait_exit(&pidfd, deadline).map_err(failed)?,
        Err(error) => return Err(failed(error)),
    };
    if !on_time {
        child.kill().map_err(failed)?;
        child.wait().map_err(failed)?;
        return Err(EngineError::failed(
            step,
            format!("it took longer than {} s and was killed", timeout.as_secs()),
        ));
    }
    child.wait().map_err(failed)
}

/// Success, or an error with the tool's standard error.
pub(crate) fn check_status(step: &'static str, status: ExitStatus, stderr: &str) -> EngineResult<()> {
    if status.success() {
        return Ok(());
    }
    let stderr = stderr.trim();
    // Programs in Go write the kernel's texts in small letters.
    let lower = stderr.to_lowercase();
    if lower.contains("no space left on device") || lower.contains("disk quota exceeded") {
        return Err(EngineError::NoCapacity(Shortage::DiskSpace, format!("{step}: {stderr}")));
    }
    Err(EngineError::failed(step, format!("{status}: {stderr}")))
}

/// Converts an I/O error on `path`; a full disk becomes `NoCapacity`.
pub(crate) fn host_error(step: &'static str, path: &Path) -> impl Fn(io::Error) -> EngineError + use<> {
    let path = path.to_owned();
    move |error| {
        let full = [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded].contains(&error.kind());
        if full {
            EngineError::NoCapacity(Shortage::DiskSpace, format!("{step}: {}: {error}", path.display()))
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
    let mut bytes_read = Vec::new();
    file.take(bytes).read_to_end(&mut bytes_read)?;
    Ok(String::from_utf8_lossy(&bytes_read).into_owned())
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    #[test]
    fn a_missing_tool_is_named_with_its_package() {
        let error = format!("{:#}", spawn("try", &mut tool("/nowhere/runc")).unwrap_err());
        assert!(error.contains("/nowhere/runc is not installed"), "{error}");
    }

    #[test]
    fn a_version_is_asked_again_once_the_program_was_replaced() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let (program, calls) = (folder.path().join("program"), folder.path().join("calls"));
        let install = |version: &str| {
            let fresh = folder.path().join("fresh");
            let script = format!("#!/bin/sh\necho x >>{}\necho {version}\necho more\n", calls.display());
            std::fs::write(&fresh, script).unwrap();
            std::fs::set_permissions(&fresh, std::fs::Permissions::from_mode(0o755)).unwrap();
            std::fs::rename(fresh, &program).unwrap();
        };
        let ask = || version("ask", program.to_str().unwrap()).unwrap();
        install("tool 1");
        assert_eq!((ask(), ask()), ("tool 1".to_owned(), "tool 1".to_owned()));
        install("tool 2");
        assert_eq!((ask(), ask()), ("tool 2".to_owned(), "tool 2".to_owned()));
        assert_eq!(std::fs::read_to_string(&calls).unwrap().lines().count(), 2);
        std::fs::remove_file(&program).unwrap();
        version("ask", program.to_str().unwrap()).unwrap_err();
    }

    #[test]
    fn a_tool_reads_its_input_and_its_error_text_is_returned() {
        assert_eq!(run_with("echo", tool("cat"), "hello").unwrap(), "hello");
        let mut failing = tool("cat");
        failing.arg("/nowhere/at/all");
        let error = format!("{:#}", run("read", failing).unwrap_err());
        assert!(error.contains("/nowhere/at/all"), "{error}");
    }

    #[test]
    fn a_full_disk_is_no_capacity_in_the_words_of_c_and_of_go() {
        for (complaint, expected) in [
            ("mkfs.ext4: No space left on device", true),
            ("writing pages: write /x/pages.img: no space left on device", true),
            ("cp: Disk quota exceeded", true),
            ("no such device", false),
        ] {
            let refused = check_status("try", ExitStatus::from_raw(256), complaint).unwrap_err();
            let full = matches!(refused, EngineError::NoCapacity(Shortage::DiskSpace, _));
            assert_eq!(full, expected, "{complaint}");
        }
    }

    #[test]
    fn a_late_tool_is_killed() {
        let mut sleeper = tool("sleep");
        let mut child = sleeper.arg("60").spawn().unwrap();
        let error = format!("{:#}", finish("wait", &mut child, Duration::from_millis(20)).unwrap_err());
        assert!(error.contains("longer than"), "{error}");
    }
}
