//! Hooks of a template: scripts that run at moments of the computer's life.

use std::fs::{self, File};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use crate::exec::child_exit;
use crate::exec::tree::{self, Target};
use hotdesk_base::step_error::StepError;
use hotdesk_wire::programs::service::HookStatus;

/// Longest run of a hook: the definition file gives it ten minutes (docs/templates.md).
const HOOK_TIMEOUT: Duration = Duration::from_secs(600);
/// Time for killed processes to end.
const END_TIMEOUT: Duration = Duration::from_secs(5);
/// Folder of the output of hooks.
const LOG_FOLDER: &str = "/var/log/hotdesk/hooks";
/// Mark in the environment of a hook's processes.
const MARK: &str = "HOTDESK_HOOK";

/// The status of a hook that begins.
pub(super) fn begun(name: &str) -> HookStatus {
    HookStatus {
        name: name.to_owned(),
        status: "running".to_owned(),
        exit_code: None,
        log: log_path(name).display().to_string(),
    }
}

/// Runs a script with `bash -e` to its end, or to its timeout. Its output replaces the previous one in its log.
pub(super) async fn run(
    name: &str,
    script: &str,
    environment: &[(String, String)],
    folder: &Path,
) -> HookStatus {
    let mut status = begun(name);
    match execute(name, script, environment, folder).await {
        Ok(Some(exit)) => {
            let word = if exit.success() { "succeeded" } else { "failed" };
            word.clone_into(&mut status.status);
            status.exit_code = exit.code().or_else(|| exit.signal().map(|signal| 128 + signal));
        }
        Ok(None) => "timed_out".clone_into(&mut status.status),
        Err(error) => {
            tracing::warn!(%error, hook = name, "could not run a hook of the template");
            "failed".clone_into(&mut status.status);
        }
    }
    status
}

/// Returns `None` after the timeout, when everything that it started has been killed.
async fn execute(
    name: &str,
    script: &str,
    environment: &[(String, String)],
    folder: &Path,
) -> Result<Option<ExitStatus>, StepError> {
    let (file, log) = (folder.join(name), log_path(name));
    fs::create_dir_all(LOG_FOLDER).map_err(StepError::at(LOG_FOLDER))?;
    fs::write(&file, script).map_err(StepError::at(file.display().to_string()))?;
    let output = File::options().write(true).create(true).truncate(true).mode(0o600).open(&log);
    let output = output.map_err(StepError::at(log.display().to_string()))?;
    let errors = output.try_clone().map_err(StepError::at(log.display().to_string()))?;
    let mut command = tokio::process::Command::new("bash");
    command.arg("-e").arg(&file).env_clear().envs(environment.iter().cloned()).env(MARK, name);
    command.current_dir("/root").stdin(Stdio::null()).stdout(output).stderr(errors).process_group(0);
    let mut child = command.spawn().map_err(StepError::at("bash"))?;
    match tokio::time::timeout(HOOK_TIMEOUT, child_exit::wait(&mut child)).await {
        Ok(exit) => exit.map(Some).map_err(StepError::at("bash")),
        Err(_) => {
            end_processes(name).await;
            Ok(None)
        }
    }
}

/// Kills all processes of a hook, also those of a run that an earlier agent began.
pub(super) async fn end_processes(name: &str) {
    let target = Target { below: -1, session: None, marker: Some(format!("{MARK}={name}")) };
    match tokio::task::spawn_blocking(move || tree::end(&target, END_TIMEOUT)).await {
        Ok(0) => {}
        Ok(left) => tracing::warn!(left, hook = name, "processes of a hook have not ended"),
        Err(error) => tracing::error!(%error, hook = name, "the task that ends a hook failed"),
    }
}

fn log_path(name: &str) -> PathBuf {
    Path::new(LOG_FOLDER).join(format!("{name}.log"))
}
