//! Run of a script of the template as root, with its output in a file and a bound on its time.

use std::fs::{self, File};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use crate::exec::child_exit;
use crate::exec::tree::{self, Target};
use hotdesk_base::step_error::StepError;

/// Time for killed processes to end.
const END_TIMEOUT: Duration = Duration::from_secs(5);
/// Folder of the output, with a folder for each kind. Unit tests run on the host, which has none.
const LOG_FOLDER: &str = if cfg!(test) { "/dev/shm/hotdesk-script-tests" } else { "/var/log/hotdesk" };
/// Mark in the environment of the processes.
pub(in crate::exec::services) const MARK: &str = "HOTDESK_HOOK";

/// What a script is: its name is unique within its kind.
#[derive(Clone, Copy, Debug)]
pub(in crate::exec::services) struct ScriptName<'a> {
    /// Folder of its output below [`LOG_FOLDER`], such as `hooks`.
    pub(in crate::exec::services) kind: &'static str,
    /// Its name.
    pub(in crate::exec::services) name: &'a str,
}

/// A script to run.
#[derive(Clone, Copy, Debug)]
pub(in crate::exec::services) struct ScriptRun<'a> {
    pub(in crate::exec::services) name: ScriptName<'a>,
    /// Text for bash.
    pub(in crate::exec::services) script: &'a str,
    /// Whole environment.
    pub(in crate::exec::services) environment: &'a [(String, String)],
    /// Working directory.
    pub(in crate::exec::services) cwd: &'a Path,
    /// Folder in which the script is written.
    pub(in crate::exec::services) folder: &'a Path,
    /// Longest run; then all processes are killed.
    pub(in crate::exec::services) timeout: Duration,
}

impl ScriptName<'_> {
    /// The file with the output of the last run.
    pub(in crate::exec::services) fn log_path(self) -> PathBuf {
        Path::new(LOG_FOLDER).join(self.kind).join(format!("{}.log", self.name))
    }

    /// The value of [`MARK`] in the environment of its processes.
    pub(in crate::exec::services) fn mark(self) -> String {
        format!("{}/{}", self.kind, self.name)
    }

    /// Kills all processes of the script, also those of a run that an earlier agent began.
    pub(in crate::exec::services) async fn end_processes(self) {
        let target = Target { below: -1, session: None, marker: Some(format!("{MARK}={}", self.mark())) };
        match hotdesk_base::tasks::spawn_blocking(move || tree::end(&target, END_TIMEOUT)).await {
            Ok(0) => {}
            Ok(left) => tracing::warn!(left, script = self.name, "processes of a script have not ended"),
            Err(error) => tracing::error!(%error, script = self.name, "the task that ends a script failed"),
        }
    }
}

impl ScriptRun<'_> {
    /// Runs a command of the template to its end.
    ///
    /// # Errors
    /// Why it did not succeed, for its author: without its output, which may hold secrets that the command has.
    pub(in crate::exec::services) async fn run_command(&self) -> Result<(), String> {
        let why = match self.run().await {
            Ok(Some(exit)) if exit.success() => return Ok(()),
            Ok(exit) => failure(exit, self.timeout, &self.name.log_path()),
            Err(error) => format!("the command cannot be run: {error:#}"),
        };
        Err(why)
    }

    /// Runs the script with `bash -e` to its end. Its output replaces that of the previous run. Returns `None` after
    /// the timeout.
    pub(in crate::exec::services) async fn run(&self) -> Result<Option<ExitStatus>, StepError> {
        let (file, log) =
            (self.folder.join(format!("{}.{}", self.name.kind, self.name.name)), self.name.log_path());
        let folder = log.parent().unwrap_or(Path::new(LOG_FOLDER));
        fs::create_dir_all(folder).map_err(StepError::at(folder.display().to_string()))?;
        fs::write(&file, self.script).map_err(StepError::at(file.display().to_string()))?;
        let output = File::options().write(true).create(true).truncate(true).mode(0o600).open(&log);
        let output = output.map_err(StepError::at(log.display().to_string()))?;
        let errors = output.try_clone().map_err(StepError::at(log.display().to_string()))?;
        let mut command = tokio::process::Command::new("bash");
        command.arg("-e").arg(&file).env_clear().envs(self.environment.iter().cloned());
        command.env(MARK, self.name.mark()).current_dir(self.cwd).process_group(0);
        command.stdin(Stdio::null()).stdout(output).stderr(errors);
        let mut child = command.spawn().map_err(StepError::at("bash"))?;
        match tokio::time::timeout(self.timeout, child_exit::wait(&mut child)).await {
            Ok(exit) => exit.map(Some).map_err(StepError::at("bash")),
            Err(_) => {
                self.name.end_processes().await;
                Ok(None)
            }
        }
    }
}

/// The reason why a command failed that has ended like this; `None` after the timeout.
fn failure(exit: Option<ExitStatus>, timeout: Duration, log: &Path) -> String {
    let Some(exit) = exit else { return format!("the command did not end within {timeout:?}") };
    let code = exit_code(exit).map_or_else(|| "a signal".to_owned(), |code| code.to_string());
    format!("the command ended with {code}; its output is in {}", log.display())
}

/// The exit code of a script, or 128 and the number of the signal that ended it.
pub(in crate::exec::services) fn exit_code(exit: ExitStatus) -> Option<i32> {
    exit.code().or_else(|| exit.signal().map(|signal| 128 + signal))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_command_is_named() {
        let text = |exit: Option<i32>| {
            let exit = exit.map(ExitStatus::from_raw);
            failure(exit, Duration::from_secs(2), Path::new("/var/log/hotdesk/health/web.log"))
        };
        let output = "its output is in /var/log/hotdesk/health/web.log";
        // The raw form of wait(2): an exit code in the second byte, a signal in the first.
        assert_eq!(text(Some(3 << 8)), format!("the command ended with 3; {output}"));
        assert_eq!(text(Some(9)), format!("the command ended with 137; {output}"));
        assert_eq!(text(None), "the command did not end within 2s");
    }
}
