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
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::sys::statfs::{TMPFS_MAGIC, statfs};
use tokio::sync::Mutex;

use super::logs::tail;
use super::script::{ScriptName, ScriptRun};
use super::{Parts, Services, login_environment};
use crate::files::blocking;
use hotdesk_domain::error::{Error, Result};
use hotdesk_wire::programs::service::{RuntimeFile, TemplatePrograms};

/// Folder of the secrets beside the agent's runtime folder, which only root may enter: a file may belong to another user.
const FOLDER: &str = "hotdesk-files";
/// Mode of the folder: others may open a file whose name they know.
const FOLDER_MODE: u32 = 0o711;
/// Marks that the files of the boot are written: an agent that starts again keeps what their users made of them.
const WRITTEN: &str = "files-written";
/// Longest time to write all files without secrets, which may be downloads: that of a hook. Hooks and services wait for it.
const FILES_TIMEOUT: Duration = Duration::from_secs(600);
/// Longest time to write all files with secrets: with the end of their script, less than the 15 s for which the service waits.
const SECRETS_TIMEOUT: Duration = Duration::from_secs(8);
/// Name of the script of all files with secrets.
const SECRETS: &str = "secrets";
/// Most bytes of output in an error.
const MAX_OUTPUT: u64 = 500;

/// Held while secrets are written: two writers would use one draft, and an earlier value must not be the last one.
static WRITER: Mutex<()> = Mutex::const_new(());

/// The folder of the secrets for a runtime folder.
pub(super) fn folder(runtime_dir: &Path) -> PathBuf {
    runtime_dir.with_file_name(FOLDER)
}

impl Services {
    /// Writes the files whose contents are secrets, after the secrets were replaced. One that cannot be written keeps no other one
    /// from its value.
    ///
    /// # Errors
    /// `Conflict` when a file cannot be written; `Internal` when the folder is not in memory.
    pub async fn write_secret_files(&self) -> Result<()> {
        let programs = self.parts.programs().await?;
        let Some(script) = secrets_script(&programs.files) else { return Ok(()) };
        let parts = Arc::clone(&self.parts);
        // In its own task: a client that disconnects leaves no script that runs beside the next one.
        let writing = self.parts.tasks.spawn("files with secrets", async move {
            let _turn = WRITER.lock().await;
            let folder = parts.secret_files.clone();
            blocking(move || make_folder(&folder)).await?;
            // Secrets are written before the desktop is there.
            let written = parts.write_file(SECRETS, &script, login_environment(), SECRETS_TIMEOUT).await;
            written.map_err(|why| {
                Error::conflict(format!(
                    "The template has a file with a secret that cannot be written: {why}"
                ))
            })
        });
        let written = writing.await.map_err(Error::internal)?;
        written.unwrap_or_else(|| Err(Error::internal("the task that writes files with secrets panicked")))
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
        if self.is_done(WRITTEN) {
            return;
        }
        let began = Instant::now();
        for (at, file) in programs.files.iter().enumerate().filter(|(_, file)| !file.secret) {
            let left = FILES_TIMEOUT.saturating_sub(began.elapsed());
            if left.is_zero() {
                tracing::warn!(
                    file = at,
                    "the files of the template take too long; the others are not written"
                );
                break;
            }
            if let Err(why) = self.write_file(&at.to_string(), &file.script, self.environment(), left).await {
                tracing::warn!(file = at, why, "could not write a file of the template");
            }
        }
        self.mark_done(WRITTEN);
    }

    /// Runs a script that writes files, after the end of one that an earlier agent began. Returns why they could not be written.
    async fn write_file(
        &self,
        name: &str,
        script: &str,
        mut environment: Vec<(String, String)>,
        timeout: Duration,
    ) -> Result<(), String> {
        for (name, path) in [("hotdesk_secrets", &self.secrets_file), ("hotdesk_files", &self.secret_files)] {
            environment.push((name.to_owned(), path.display().to_string()));
        }
        let run = ScriptRun {
            name: ScriptName { kind: "files", name },
            script,
            environment: &environment,
            cwd: Path::new("/root"),
            folder: &self.folder,
            timeout,
        };
        fs::create_dir_all(&self.folder).map_err(|error| format!("{}: {error}", self.folder.display()))?;
        run.name.end_processes().await;
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

/// The script that writes all files with secrets, each in a subshell to its end; `None` without any. It fails when one has failed.
fn secrets_script(files: &[RuntimeFile]) -> Option<String> {
    let secrets: Vec<&RuntimeFile> = files.iter().filter(|file| file.secret).collect();
    if secrets.is_empty() {
        return None;
    }
    // `-e` has no effect in a subshell whose result is a condition.
    let script = |file: &RuntimeFile| format!("(\nset -e\n{}\n)\n[ $? -eq 0 ] || failed=1\n", file.script);
    let all: String = secrets.into_iter().map(script).collect();
    Some(format!("set +e\nfailed=0\n{all}exit $failed\n"))
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

    #[test]
    fn a_file_with_a_secret_that_fails_does_not_keep_others_from_their_value() {
        let file = |script: &str, secret| RuntimeFile { script: script.to_owned(), secret };
        let run = |files: &[RuntimeFile]| {
            let script = secrets_script(files).unwrap();
            let output = std::process::Command::new("bash").args(["-e", "-c", &script]).output().unwrap();
            (output.status.success(), String::from_utf8(output.stdout).unwrap())
        };
        let (fails, works) = (file("false\necho goes on", true), file("echo works", true));
        assert_eq!(run(&[fails, file("echo other", false), works.clone()]), (false, "works\n".to_owned()));
        assert_eq!(run(&[works]), (true, "works\n".to_owned()));
        assert_eq!(secrets_script(&[file("echo other", false)]), None);
    }
}
