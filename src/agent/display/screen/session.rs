//! Desktop session of a screen, and the environment that it publishes.

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use include_dir::{Dir, include_dir};

use crate::display::config::{SESSION_DIR, ScreenSession};
use crate::display::process::{self, ProcessGroup};
use crate::display::template_environment::template_environment;
use hotdesk_base::step_error::StepError;
use hotdesk_base::tasks::Tasks;

static EMBEDDED: Dir<'static> = include_dir!("$CARGO_MANIFEST_DIR/../../xsession");

/// How long a session may take to terminate before it is killed.
const END_TIMEOUT: Duration = Duration::from_secs(2);
/// Limit of a file of the session in bytes: it writes a dozen short lines.
const MAX_BYTES: u64 = 64 * 1024;
/// Most variables that are read from its environment file.
const MAX_ENV_LINES: usize = 256;

/// Installs the session's scripts and returns their folder; `None` without a session.
pub(in crate::display) fn prepare(
    session: &ScreenSession,
    runtime_dir: &Path,
) -> io::Result<Option<PathBuf>> {
    match session {
        ScreenSession::None => Ok(None),
        ScreenSession::Folder(folder) => Ok(Some(folder.clone())),
        ScreenSession::Embedded => {
            let folder = runtime_dir.join("xsession");
            unpack(&EMBEDDED, &folder)?;
            Ok(Some(folder))
        }
    }
}

fn unpack(dir: &Dir<'_>, folder: &Path) -> io::Result<()> {
    std::fs::create_dir_all(folder)?;
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o755))?;
    for file in dir.files() {
        let Some(name) = file.path().file_name() else { continue };
        let path = folder.join(name);
        // A running session of an earlier agent may still read the file, so it is replaced and not changed.
        let fresh = path.with_extension("new");
        std::fs::write(&fresh, file.contents())?;
        std::fs::set_permissions(&fresh, std::fs::Permissions::from_mode(0o755))?;
        std::fs::rename(&fresh, &path)?;
    }
    for inner in dir.dirs() {
        if let Some(name) = inner.path().file_name() {
            unpack(inner, &folder.join(name))?;
        }
    }
    Ok(())
}

/// Environment variables that programs need to join the desktop session (message bus, sound). The session
/// writes them to a file; empty while there is none.
pub fn session_env() -> Vec<(String, String)> {
    session_env_in(Path::new(SESSION_DIR))
}

/// Like [`session_env`], from another folder.
pub fn session_env_in(session_dir: &Path) -> Vec<(String, String)> {
    let text = read_bounded(&session_dir.join("env"));
    let pairs = text.lines().filter_map(|line| line.split_once('='));
    let named = pairs.filter(|(name, value)| {
        let letters = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        !name.is_empty() && letters && !value.contains('\0')
    });
    named.take(MAX_ENV_LINES).map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// Kinds of the windows that the session of the boot screen shows first, as words. The session writes them to
/// a file before its window manager starts; empty without one.
pub(in crate::display) fn initial_windows(session_dir: &Path) -> String {
    read_bounded(&session_dir.join("windows"))
}

/// Reads a file of the session; empty when that fails.
fn read_bounded(path: &Path) -> String {
    use std::io::Read;
    let mut text = String::new();
    let read = std::fs::File::open(path).and_then(|file| file.take(MAX_BYTES).read_to_string(&mut text));
    if read.is_ok() { text } else { String::new() }
}

/// A running session.
#[derive(Debug)]
pub(in crate::display) struct RunningSession {
    process: ProcessGroup,
    marks: Vec<String>,
}

impl RunningSession {
    /// Starts the session of a screen in a new process group.
    pub(in crate::display) async fn start(
        folder: &Path,
        session_dir: &Path,
        screen: &str,
        display: &str,
        default: bool,
        tasks: &Tasks,
    ) -> Result<Self, StepError> {
        let home = std::env::var("HOME").ok().filter(|home| !home.is_empty());
        let mut command = Command::new(folder.join("session"));
        command
            .arg(if default { "default" } else { "bare" })
            .envs(template_environment())
            .env("DISPLAY", display)
            .env("HOME", home.as_deref().unwrap_or("/root"))
            .env("HOTDESK_SCREEN", screen)
            .env("HOTDESK_SESSION_DIR", session_dir)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let mut process = process::spawn_group("the session", command).await?;
        if let Some(stderr) = process.stderr.take() {
            process::log_stderr(tasks, "session", display.to_owned(), stderr, Arc::default())?;
        }
        let marks = vec![format!("HOTDESK_SCREEN={screen}"), format!("DISPLAY={display}")];
        Ok(Self { process, marks })
    }

    /// Waits until the session has ended; returns how.
    pub(in crate::display) async fn ended(&mut self) -> String {
        self.process.ended().await
    }

    /// Ends the session and all its processes, also those that left its process group; on return they are
    /// gone.
    pub(in crate::display) async fn end(self) {
        self.process.end(END_TIMEOUT).await;
        let marks = self.marks;
        let swept = hotdesk_base::tasks::spawn_blocking(move || process::sweep(&marks)).await;
        if let Err(error) = swept {
            tracing::warn!(%error, "could not end the processes that left a session's process group");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_file_is_read_within_bounds() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(session_env_in(folder.path()), []);
        let text = "A=1\nB=x=y\n\n# note\nBAD NAME=1\n=2\nC=\nno equals\n";
        std::fs::write(folder.path().join("env"), text).unwrap();
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(session_env_in(folder.path()), [pair("A", "1"), pair("B", "x=y"), pair("C", "")]);
        std::fs::write(folder.path().join("env"), "K=V\n".repeat(1_000_000)).unwrap();
        assert_eq!(session_env_in(folder.path()).len(), MAX_ENV_LINES);
        std::fs::write(folder.path().join("env"), b"A=\xff\n").unwrap();
        assert_eq!(session_env_in(folder.path()), []);
    }

    #[test]
    fn the_embedded_session_unpacks_as_programs() {
        let folder = tempfile::tempdir().unwrap();
        let unpacked = prepare(&ScreenSession::Embedded, folder.path()).unwrap().unwrap();
        let mode = std::fs::metadata(unpacked.join("session")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o755);
    }
}
