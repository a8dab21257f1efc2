//! What runs on a screen, and what do other programs need to know of it?

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use include_dir::{Dir, include_dir};

use super::config::{SESSION_DIR, Session};
use super::process::{self, Kept};
use hotdesk_base::tasks::Tasks;

static EMBEDDED: Dir<'static> = include_dir!("$CARGO_MANIFEST_DIR/../../xsession");

/// How long a session may take to end by itself.
const END_TIMEOUT: Duration = Duration::from_secs(2);
/// Largest environment file that is read: the session writes a dozen short lines.
const MAX_ENV_BYTES: u64 = 64 * 1024;
/// Most variables taken from it.
const MAX_ENV_LINES: usize = 256;

/// Puts the session's scripts where they can be run; `None` where nothing shall run.
pub(super) fn prepare(session: &Session, runtime_dir: &Path) -> io::Result<Option<PathBuf>> {
    match session {
        Session::None => Ok(None),
        Session::Folder(folder) => Ok(Some(folder.clone())),
        Session::Embedded => {
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
        // A file that a session of an earlier agent still runs from must not change under it.
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

/// The variables that programs need to join the desktop session (message bus, sound), from the file that the session
/// wrote. Empty while there is none. For whoever runs programs for the API.
pub fn session_env() -> Vec<(String, String)> {
    session_env_in(Path::new(SESSION_DIR))
}

/// As [`session_env`], from another folder.
pub fn session_env_in(session_dir: &Path) -> Vec<(String, String)> {
    use std::io::Read;
    let mut text = String::new();
    let opened = std::fs::File::open(session_dir.join("env"));
    if opened.and_then(|file| file.take(MAX_ENV_BYTES).read_to_string(&mut text)).is_err() {
        return Vec::new();
    }
    let pairs = text.lines().filter_map(|line| line.split_once('='));
    let named = pairs.filter(|(name, value)| {
        let letters = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        !name.is_empty() && letters && !value.contains('\0')
    });
    named.take(MAX_ENV_LINES).map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// A running session.
#[derive(Debug)]
pub(super) struct Running {
    kept: Kept,
    marks: Vec<String>,
}

impl Running {
    /// Starts a screen's session, in a process group of its own.
    pub(super) async fn start(
        folder: &Path,
        session_dir: &Path,
        screen: &str,
        display: &str,
        default: bool,
        tasks: &Tasks,
    ) -> Result<Self, String> {
        let home = std::env::var("HOME").ok().filter(|home| !home.is_empty());
        let mut command = Command::new(folder.join("session"));
        command
            .arg(if default { "default" } else { "bare" })
            .env("DISPLAY", display)
            .env("HOME", home.as_deref().unwrap_or("/root"))
            .env("HOTDESK_SCREEN", screen)
            .env("HOTDESK_SESSION_DIR", session_dir)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let mut kept = process::keep("the session", command).await?;
        if let Some(stderr) = kept.stderr.take() {
            process::listen(tasks, "session", display.to_owned(), stderr, Arc::default())?;
        }
        let marks = vec![format!("HOTDESK_SCREEN={screen}"), format!("DISPLAY={display}")];
        Ok(Self { kept, marks })
    }

    /// Waits until it has ended; the text says how.
    pub(super) async fn ended(&mut self) -> String {
        self.kept.ended().await
    }

    /// Ends the session and all that it started, also what left its process group; on return they are gone.
    pub(super) async fn end(self) {
        self.kept.end(END_TIMEOUT).await;
        let marks = self.marks;
        let swept = tokio::task::spawn_blocking(move || process::sweep(&marks)).await;
        if let Err(error) = swept {
            tracing::warn!(%error, "the sweep for a session's processes failed");
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
        let unpacked = prepare(&Session::Embedded, folder.path()).unwrap().unwrap();
        let mode = std::fs::metadata(unpacked.join("session")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o755);
    }
}
