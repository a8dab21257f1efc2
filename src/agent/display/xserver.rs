//! How is an X server started and ended? Xvnc where it is installed (it can change its size), else Xvfb.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nix::sys::signal::Signal;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use super::link;
use super::process;
use crate::base::tasks::Tasks;
use crate::domain::resolution::Size;

/// How long a server may take to end before it is killed: it has nothing to save.
const END_PATIENCE: Duration = Duration::from_secs(1);
/// Bytes of one line of a server's words that are kept.
const LINE_BYTES: usize = 400;

/// A running X server.
#[derive(Debug)]
pub(super) struct Server {
    child: Child,
    note: PathBuf,
    last_words: Arc<Mutex<String>>,
}

/// The program in `$PATH`.
fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.is_file())
}

/// Whether screens can be made at all.
pub(super) fn available() -> bool {
    find("Xvnc").or_else(|| find("Xvfb")).is_some()
}

/// The socket of a screen's VNC server.
pub(super) fn vnc_socket(runtime_dir: &Path, display: u16) -> PathBuf {
    runtime_dir.join(format!("vnc-{display}.sock"))
}

impl Server {
    /// Starts the server of a display. On return it runs; whether it answers is for the caller to find out.
    pub(super) fn start(
        display: u16,
        size: Size,
        runtime_dir: &Path,
        tasks: &Tasks,
    ) -> Result<Self, String> {
        let note = runtime_dir.join(format!("x-{display}.pid"));
        process::end_noted(&note);
        clear_way(display)?;
        let mut command = match (find("Xvnc"), find("Xvfb")) {
            (Some(program), _) => xvnc(&program, display, size, runtime_dir),
            (None, Some(program)) => xvfb(&program, display, size),
            (None, None) => return Err(String::from("neither Xvnc nor Xvfb is installed")),
        };
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| format!("could not start the X server of :{display}: {error}"))?;
        if let Some(pid) = child.id() {
            process::note(&note, pid);
        }
        let last_words = Arc::<Mutex<String>>::default();
        if let Some(stderr) = child.stderr.take() {
            let kept = Arc::clone(&last_words);
            let name = format!(":{display}");
            let _listener = tasks.spawn("x server log", async move {
                let mut lines = BufReader::new(stderr).split(b'\n');
                while let Ok(Some(mut line)) = lines.next_segment().await {
                    line.truncate(LINE_BYTES);
                    let line = String::from_utf8_lossy(&line).trim().to_owned();
                    if !line.is_empty() {
                        tracing::debug!(screen = name, line, "X server");
                        *kept.lock().unwrap_or_else(PoisonError::into_inner) = line;
                    }
                }
            });
        }
        Ok(Self { child, note, last_words })
    }

    /// Waits until it has ended; the text says how.
    pub(super) async fn ended(&mut self) -> String {
        let status = self.child.wait().await;
        let words = self.last_words.lock().unwrap_or_else(PoisonError::into_inner);
        match status {
            Ok(status) => format!("the X server ended ({status}): {words}"),
            Err(error) => format!("the X server cannot be waited for: {error}"),
        }
    }

    /// Ends it; on return it is gone.
    pub(super) async fn end(mut self) {
        if let Some(pid) = self.child.id() {
            process::signal(pid, Signal::SIGTERM);
            if tokio::time::timeout(END_PATIENCE, self.child.wait()).await.is_err()
                && let Err(error) = self.child.kill().await
            {
                tracing::warn!(%error, pid, "could not kill an X server");
            }
        }
        process::forget(&self.note);
    }
}

fn xvnc(program: &Path, display: u16, size: Size, runtime_dir: &Path) -> Command {
    let mut command = Command::new(program);
    command
        .arg(format!(":{display}"))
        .args(["-geometry", &format!("{}x{}", size.width, size.height), "-depth", "24"])
        .args(["-nolisten", "tcp", "-noreset", "-br"])
        // Nobody but this program reaches the socket, so RFB itself asks for nothing; -1 is "no TCP port".
        .args(["-SecurityTypes", "None", "-rfbport", "-1", "-rfbunixmode", "0600"])
        .arg("-rfbunixpath")
        .arg(vnc_socket(runtime_dir, display))
        // A viewer must not change the size under a program that clicks by coordinates.
        .args(["-AlwaysShared", "-AcceptSetDesktopSize=0", "-desktop", "hotdesk"])
        // Errors only: it logs every connection otherwise.
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

/// Makes the display number usable: the folder of the sockets exists, and what a dead server left is removed. The
/// socket decides, not the process id in the lock file, which may be anybody's in a new process namespace.
fn clear_way(display: u16) -> Result<(), String> {
    use std::os::unix::fs::PermissionsExt;
    let socket = link::socket_path(display);
    if let Some(folder) = socket.parent()
        && !folder.is_dir()
    {
        std::fs::create_dir_all(folder)
            .and_then(|()| std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o1777)))
            .map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    if link::open_socket(display).is_ok() {
        return Err(format!("display :{display} belongs to an X server that somebody else started"));
    }
    for left in [socket, format!("/tmp/.X{display}-lock").into()] {
        match std::fs::remove_file(&left) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(format!("{}: {error}", left.display()));
            }
            Ok(()) => tracing::info!(file = %left.display(), "removed what a dead X server left"),
            Err(_) => {}
        }
    }
    Ok(())
}
