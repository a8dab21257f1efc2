//! How is an X server started and ended? Xvnc where it is installed (it can change its size), else Xvfb.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::link;
use super::process::{self, Kept};
use hotdesk_base::tasks::Tasks;
use hotdesk_domain::resolution::Size;

/// How long a server may take to end before it is killed: it has nothing to save.
const END_TIMEOUT: Duration = Duration::from_secs(1);

/// A running X server.
#[derive(Debug)]
pub(super) struct Server {
    display: u16,
    kept: Kept,
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
    pub(super) async fn start(
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
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut kept = process::keep("the X server", command).await?;
        process::note(&note, kept.pid);
        let last_words = Arc::<Mutex<String>>::default();
        if let Some(stderr) = kept.stderr.take() {
            let words = Arc::clone(&last_words);
            process::listen(tasks, "X server", format!(":{display}"), stderr, words)?;
        }
        Ok(Self { display, kept, note, last_words })
    }

    /// Waits until it has ended; the text says how.
    pub(super) async fn ended(&mut self) -> String {
        let how = self.kept.ended().await;
        format!("{how}: {}", self.last_words.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Ends it; on return it is gone.
    pub(super) async fn end(self) {
        self.kept.end(END_TIMEOUT).await;
        process::forget(&self.note);
        // One that had to be killed leaves its files.
        if let Err(why) = clear_way(self.display) {
            tracing::warn!(why, "could not clean up after an X server");
        }
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
        // All viewers come from one address, this program: connections that broke off early would shut everybody out.
        .arg("-UseBlacklist=0")
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
