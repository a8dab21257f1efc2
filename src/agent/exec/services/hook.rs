//! Hooks of a template: scripts that run at moments of the computer's life.

use std::path::Path;

use super::script_run::{ScriptName, ScriptRun, exit_code};
use hotdesk_domain::computer::template::hook::HOOK_TIMEOUT;
use hotdesk_wire::programs::service::HookStatus;

/// The script of a hook.
pub(super) fn script_name(name: &str) -> ScriptName<'_> {
    ScriptName { kind: "hooks", name }
}

/// The status of a hook that begins.
pub(super) fn begun(name: &str) -> HookStatus {
    HookStatus {
        name: name.to_owned(),
        status: "running".to_owned(),
        exit_code: None,
        log: script_name(name).log_path().display().to_string(),
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
    let cwd = Path::new("/root");
    let run = ScriptRun { name: script_name(name), script, environment, cwd, folder, timeout: HOOK_TIMEOUT };
    match run.run().await {
        Ok(Some(exit)) => {
            let word = if exit.success() { "succeeded" } else { "failed" };
            word.clone_into(&mut status.status);
            status.exit_code = exit_code(exit);
        }
        Ok(None) => "timed_out".clone_into(&mut status.status),
        Err(error) => {
            tracing::warn!(%error, hook = name, "could not run a hook of the template");
            "failed".clone_into(&mut status.status);
        }
    }
    status
}
