//! Files of the template that each boot writes, and those with secrets, which are written whenever the secrets change.
//!
//! ```text
//! /opt/app/token --link--> /run/hotdesk-files/0
//! ```
//! The disk has only a link to a secret, so that no snapshot, copy or saved disk has its value.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::statfs::{TMPFS_MAGIC, statfs};
use tokio::sync::Mutex;

use super::script_run::{ScriptName, ScriptRun};
use super::{Parts, Services, login_environment, tail};
use crate::files::blocking;
use hotdesk_domain::error::{Error, Result};
use hotdesk_wire::programs::service::{RuntimeFile, TemplatePrograms};

/// Folder of the secrets beside the agent's runtime folder, which only root may enter: a file may belong to another user.
const FOLDER: &str = "hotdesk-files";
/// Mode of the folder: others may open a file whose name they know.
const FOLDER_MODE: u32 = 0o711;
/// Marks that the files of the boot are written: an agent that starts again keeps what their users made of them.
const WRITTEN: &str = "files-written";
/// Longest time to write a file, which may be a download: that of a hook.
const FILE_TIMEOUT: Duration = Duration::from_secs(600);
/// Longest time to write a secret. The service waits for it.
const SECRET_TIMEOUT: Duration = Duration::from_secs(5);
/// Most bytes of output in an error.
const MAX_OUTPUT: u64 = 500;

/// Held while secrets are written: two writers would use one draft.
static WRITER: Mutex<()> = Mutex::const_new(());

/// The folder of the secrets for a runtime folder.
pub(super) fn folder(runtime_dir: &Path) -> PathBuf {
    runtime_dir.with_file_name(FOLDER)
}

impl Services {
    /// Writes the files whose contents are secrets, after the secrets were replaced.
    ///
    /// # Errors
    /// `Conflict` when a file cannot be written; `Internal` when the folder is not in memory.
    pub async fn write_secret_files(&self) -> Result<()> {
        let programs = self.parts.programs().await?;
        if !programs.files.iter().any(|file| file.secret) {
            return Ok(());
        }
        let _turn = WRITER.lock().await;
        let folder = self.parts.secret_files.clone();
        blocking(move || make_folder(&folder)).await?;
        let secrets = programs.files.iter().enumerate().filter(|(_, file)| file.secret);
        for (at, file) in secrets {
            self.parts.write_file(at, file, SECRET_TIMEOUT).await.map_err(|why| {
                Error::conflict(format!(
                    "The template has a file with a secret that cannot be written: {why}"
                ))
            })?;
        }
        Ok(())
    }

    /// Removes the files whose contents are secrets. Missing ones are not an error.
    ///
    /// # Errors
    /// When they cannot be removed.
    pub fn remove_secret_files(&self) -> io::Result<()> {
        match fs::remove_dir_all(&self.parts.secret_files) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            Ok(()) | Err(_) => Ok(()),
        }
    }
}

impl Parts {
    /// Writes the files without secrets, once for a boot.
    pub(super) async fn write_files(&self, programs: &TemplatePrograms) {
        let written = self.folder.join(WRITTEN);
        if written.exists() {
            return;
        }
        for (at, file) in programs.files.iter().enumerate().filter(|(_, file)| !file.secret) {
            if let Err(why) = self.write_file(at, file, FILE_TIMEOUT).await {
                tracing::warn!(file = at, why, "could not write a file of the template");
            }
        }
        if let Err(error) = fs::write(&written, "") {
            tracing::warn!(%error, "a restart of the agent writes the files of the template again");
        }
    }

    /// Writes a file. Returns why it could not be written.
    async fn write_file(&self, at: usize, file: &RuntimeFile, timeout: Duration) -> Result<(), String> {
        // Secrets are written before the desktop is there.
        let mut environment = if file.secret { login_environment() } else { self.environment() };
        for (name, path) in [("hotdesk_secrets", &self.secrets_file), ("hotdesk_files", &self.secret_files)] {
            environment.push((name.to_owned(), path.display().to_string()));
        }
        let name = at.to_string();
        let run = ScriptRun {
            name: ScriptName { kind: "files", name: &name },
            script: &file.script,
            environment: &environment,
            cwd: Path::new("/root"),
            folder: &self.folder,
            timeout,
        };
        fs::create_dir_all(&self.folder).map_err(|error| format!("{}: {error}", self.folder.display()))?;
        match run.run().await {
            Ok(Some(exit)) if exit.success() => Ok(()),
            Ok(Some(_)) => {
                let log = run.name.log_path();
                let output = tail(&log, MAX_OUTPUT).map_or_else(|error| error.to_string(), |log| log.text);
                Err(output.trim_end().to_owned())
            }
            Ok(None) => Err(format!("it took more than {timeout:?}")),
            Err(error) => Err(format!("{error:#}")),
        }
    }
}

/// Makes the folder of the secrets, which must be in memory.
fn make_folder(folder: &Path) -> Result<()> {
    let mode = Permissions::from_mode(FOLDER_MODE);
    let made = DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(folder);
    made.and_then(|()| fs::set_permissions(folder, mode)).map_err(Error::internal)?;
    if statfs(folder).is_ok_and(|facts| facts.filesystem_type() == TMPFS_MAGIC) {
        return Ok(());
    }
    Err(Error::failed(format!(
        "The files with secrets were not written, because {} is on a disk: start the agent with --runtime-dir on a tmpfs, such \
         as /run",
        folder.display()
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_of_secrets_is_in_memory_and_can_be_entered() {
        let memory = tempfile::tempdir_in("/dev/shm").unwrap();
        let place = folder(&memory.path().join("agent"));
        make_folder(&place).unwrap();
        make_folder(&place).unwrap();
        assert_eq!(fs::metadata(&place).unwrap().permissions().mode() & 0o777, FOLDER_MODE);
        assert!(make_folder(Path::new("/proc/self")).is_err());
    }
}
