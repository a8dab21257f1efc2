//! X server process of a screen: Xvnc where it is installed (it can change its size), else Xvfb.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::display::link;
use crate::display::process::{self, ProcessGroup};
use hotdesk_base::step_error::StepError;
use hotdesk_base::tasks::Tasks;
use hotdesk_domain::desktop::resolution::Size;
use hotdesk_wire::desktop::clipboard::MAX_TEXT_BYTES;

/// How long a server may take to terminate before it is killed: it has nothing to save.
const END_TIMEOUT: Duration = Duration::from_secs(1);

/// Longest clipboard message of a viewer in bytes: the longest text, each line end of which may be two bytes,
/// and a NUL (extended clipboard). Xvnc drops a longer one silently.
const MAX_CUT_TEXT: usize = 2 * MAX_TEXT_BYTES + 1;

/// A running X server.
#[derive(Debug)]
pub(in crate::display) struct XServerProcess {
    display: u16,
    process: ProcessGroup,
    pid_file: PathBuf,
    last_stderr_line: Arc<Mutex<String>>,
}

/// Path of a program in `$PATH`.
fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.is_file())
}

/// Whether an X server is installed.
pub(in crate::display) fn available() -> bool {
    find("Xvnc").or_else(|| find("Xvfb")).is_some()
}

/// Path of the RFB socket of a screen's VNC server.
pub(in crate::display) fn vnc_socket(runtime_dir: &Path, display: u16) -> PathBuf {
    runtime_dir.join(format!("vnc-{display}.sock"))
}

impl XServerProcess {
    /// Starts the X server of a display. On return its process runs, but may not answer yet.
    pub(in crate::display) async fn start(
        display: u16,
        size: Size,
        runtime_dir: &Path,
        tasks: &Tasks,
    ) -> Result<Self, StepError> {
        let pid_file = runtime_dir.join(format!("x-{display}.pid"));
        process::kill_recorded(&pid_file);
        remove_stale_files(display)?;
        let mut command = match (find("Xvnc"), find("Xvfb")) {
            (Some(program), _) => xvnc(&program, display, size, runtime_dir),
            (None, Some(program)) => xvfb(&program, display, size),
            (None, None) => return Err(StepError::new("neither Xvnc nor Xvfb is installed")),
        };
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut process = process::spawn_group("the X server", command).await?;
        process::write_pid_file(&pid_file, process.pid);
        let last_stderr_line = Arc::<Mutex<String>>::default();
        if let Some(stderr) = process.stderr.take() {
            let last_line = Arc::clone(&last_stderr_line);
            process::log_stderr(tasks, "X server", format!(":{display}"), stderr, last_line)?;
        }
        Ok(Self { display, process, pid_file, last_stderr_line })
    }

    /// Waits until the server has ended; returns how.
    pub(in crate::display) async fn ended(&mut self) -> String {
        let how = self.process.ended().await;
        format!("{how}: {}", self.last_stderr_line.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Ends the server; on return it is gone.
    pub(in crate::display) async fn end(self) {
        self.process.end(END_TIMEOUT).await;
        process::remove_pid_file(&self.pid_file);
        // A killed server leaves its files.
        if let Err(error) = remove_stale_files(self.display) {
            tracing::warn!(why = format!("{error:#}"), "could not remove the files of an X server");
        }
    }
}

fn xvnc(program: &Path, display: u16, size: Size, runtime_dir: &Path) -> Command {
    let mut command = Command::new(program);
    command
        .arg(format!(":{display}"))
        .args(["-geometry", &format!("{}x{}", size.width, size.height), "-depth", "24"])
        .args(["-nolisten", "tcp", "-noreset", "-br"])
        // Only the agent can open the socket, so RFB needs no authentication. Port -1 disables TCP.
        .args(["-SecurityTypes", "None", "-rfbport", "-1", "-rfbunixmode", "0600"])
        .arg("-rfbunixpath")
        .arg(vnc_socket(runtime_dir, display))
        .arg(format!("-MaxCutText={MAX_CUT_TEXT}"))
        // A viewer must not change the size under a program that clicks by coordinates.
        .args(["-AlwaysShared", "-AcceptSetDesktopSize=0", "-desktop", "hotdesk"])
        // All viewers connect from one address, the agent. A blacklist would block all of them after a few
        // broken connections.
        .arg("-UseBlacklist=0")
        // Errors only: by default it logs every connection.
        .args(["-Log", "*:stderr:0"]);
    command
}

fn xvfb(program: &Path, display: u16, size: Size) -> Command {
    let mut command = Command::new(program);
    command
        .arg(format!(":{display}"))
        .args(["-screen", "0", &format!("{}x{}x24", size.width, size.height)])
        .args(["-nolisten", "tcp", "-noreset"]);
    command
}

/// Prepares a display number: creates the folder of the sockets, and removes files of a dead server. The
/// socket shows whether a server runs. The process id in the lock file does not, because it can belong to any
/// process in a new pid namespace.
fn remove_stale_files(display: u16) -> Result<(), StepError> {
    use std::os::unix::fs::PermissionsExt;
    let socket = link::socket_path(display);
    if let Some(folder) = socket.parent()
        && !folder.is_dir()
    {
        std::fs::create_dir_all(folder)
            .and_then(|()| std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o1777)))
            .map_err(StepError::at(folder.display().to_string()))?;
    }
    if link::open_socket(display).is_ok() {
        return Err(StepError::new(format!(
            "display :{display} belongs to an X server that the agent did not start"
        )));
    }
    for left in [socket, format!("/tmp/.X{display}-lock").into()] {
        match std::fs::remove_file(&left) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(StepError::at(left.display().to_string())(error));
            }
            Ok(()) => tracing::info!(file = %left.display(), "removed a file of a dead X server"),
            Err(_) => {}
        }
    }
    Ok(())
}
