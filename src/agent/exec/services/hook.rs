//! Hooks of a template: scripts that run at moments of the computer's life, and the files of their results.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::boot::BEGUN;
use super::script::{ScriptName, ScriptRun, exit_code};
use super::{Parts, Services};
use hotdesk_base::step_error::StepError;
use hotdesk_domain::computer::template::hook::{AWAITED, EVERY_BOOT, FIRST_BOOT, HOOK_TIMEOUT, RESUME};
use hotdesk_domain::error::{Error, Result};
use hotdesk_wire::programs::service::{HookStatus, TemplatePrograms};

/// Hooks of a boot, in their order. The first one runs once for a disk.
const BOOT_HOOKS: [&str; 2] = [FIRST_BOOT, EVERY_BOOT];
/// Marks on the disk that the first boot is over.
const FIRST_BOOT_MARK: &str = "/var/lib/hotdesk/first-boot";

impl Services {
    /// Runs a hook in the background, if the template has it.
    pub fn begin_hook(&self, name: &'static str) {
        let services = self.clone();
        let work = async move {
            let _turn = services.parts.running.lock().await;
            if name == RESUME {
                services.parts.tell_triggers("resume", []);
            }
            match services.parts.programs().await {
                Ok(programs) => services.parts.run_hook(name, &programs).await,
                Err(error) => tracing::warn!(%error, "could not read the programs of the template"),
            }
        };
        let _task = self.parts.tasks.spawn("hook of the template", work);
    }

    /// Begins a hook that the service waits for, and returns its status; `None` when the template has no such hook.
    ///
    /// # Errors
    /// `NotFound` for another hook; `Internal` when the file of the programs cannot be read.
    pub async fn begin_awaited_hook(&self, name: &str) -> Result<Option<HookStatus>> {
        let name = awaited(name)?;
        let programs = self.parts.programs().await?;
        // Without the folder the template has not begun, and its hooks belong to another life of the disk.
        if !programs.hooks.contains_key(name) || !self.parts.is_done(BEGUN) {
            return Ok(None);
        }
        let status = begun(name);
        self.parts.record_hook(&status);
        self.begin_hook(name);
        Ok(Some(status))
    }

    /// The status of a hook that the service waits for.
    ///
    /// # Errors
    /// `NotFound` for another hook.
    pub fn awaited_hook(&self, name: &str) -> Result<Option<HookStatus>> {
        Ok(self.parts.hook_result(awaited(name)?))
    }
}

impl Parts {
    /// Records that the hooks failed which an earlier agent ran when it ended, so that nobody waits for them.
    pub(super) async fn end_lost_hooks(&self) {
        for name in AWAITED {
            if let Some(status) = self.hook_result(name).filter(|status| status.status == "running") {
                script_name(name).end_processes().await;
                self.record_hook(&HookStatus { status: "failed".to_owned(), ..status });
            }
        }
    }

    /// Runs the hooks of the boot that an earlier agent has not run.
    pub(super) async fn run_boot_hooks(&self, programs: &TemplatePrograms) -> Result<()> {
        for name in BOOT_HOOKS {
            if name != FIRST_BOOT || !Path::new(FIRST_BOOT_MARK).exists() {
                // Not again after a restart of the agent, unless that ended it half-way.
                let earlier = self.hook_result(name);
                if earlier.as_ref().is_some_and(|result| result.status == "running") {
                    script_name(name).end_processes().await;
                }
                if earlier.is_none_or(|result| result.status == "running") {
                    self.run_hook(name, programs).await;
                }
            }
            if name == FIRST_BOOT {
                mark_first_boot().map_err(Error::internal)?;
            }
        }
        Ok(())
    }

    /// Runs a hook and records its result.
    async fn run_hook(&self, name: &str, programs: &TemplatePrograms) {
        let Some(text) = programs.hooks.get(name) else { return };
        self.record_hook(&begun(name));
        let script = format!("{}{text}\n", self.prelude(programs));
        let status = run(name, &script, &self.environment(), &self.folder, HOOK_TIMEOUT).await;
        self.record_hook(&status);
    }

    fn record_hook(&self, status: &HookStatus) {
        let path = self.result_file(&status.name);
        let draft = path.with_extension("new");
        let written = serde_json::to_vec(status)
            .map_err(io::Error::other)
            .and_then(|text| fs::write(&draft, text))
            .and_then(|()| fs::rename(&draft, &path));
        if let Err(error) = written {
            tracing::warn!(%error, hook = status.name, "could not record the result of a hook");
        }
    }

    fn hook_result(&self, name: &str) -> Option<HookStatus> {
        serde_json::from_slice(&fs::read(self.result_file(name)).ok()?).ok()
    }

    /// The results of the template's hooks, by their names.
    pub(super) fn hook_results(&self, programs: &TemplatePrograms) -> Vec<HookStatus> {
        programs.hooks.keys().filter_map(|name| self.hook_result(name)).collect()
    }

    fn result_file(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.json"))
    }
}

/// The script of a hook.
fn script_name(name: &str) -> ScriptName<'_> {
    ScriptName { kind: "hooks", name }
}

/// The status of a hook that begins.
fn begun(name: &str) -> HookStatus {
    HookStatus {
        name: name.to_owned(),
        status: "running".to_owned(),
        exit_code: None,
        log: script_name(name).log_path().display().to_string(),
    }
}

/// Runs a script with `bash -e` to its end, or to its timeout. Its output replaces the previous one in its log.
async fn run(
    name: &str,
    script: &str,
    environment: &[(String, String)],
    folder: &Path,
    timeout: Duration,
) -> HookStatus {
    let mut status = begun(name);
    let cwd = Path::new("/root");
    let run = ScriptRun { name: script_name(name), script, environment, cwd, folder, timeout };
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

/// The hook of this name that the service waits for.
fn awaited(name: &str) -> Result<&'static str> {
    let found = AWAITED.into_iter().find(|known| *known == name);
    found.ok_or_else(|| Error::not_found("There is no hook of that name that somebody waits for"))
}

fn mark_first_boot() -> Result<(), StepError> {
    let mark = Path::new(FIRST_BOOT_MARK);
    let failed = StepError::at(FIRST_BOOT_MARK);
    let made = mark.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(mark, ""));
    made.map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::super::script::MARK;
    use super::*;
    use crate::exec::tree::{Target, alive};

    /// For scripts that do not end by themselves.
    const SHORT: Duration = Duration::from_millis(300);

    #[tokio::test]
    async fn a_hook_ends_at_its_first_failure_or_its_timeout_and_its_output_stays() {
        if !nix::unistd::geteuid().is_root() {
            return hotdesk_capability::Capability::Root.skip("a hook runs in the home folder of root");
        }
        let folder = tempfile::tempdir().unwrap();
        let environment = [("PATH".to_owned(), "/usr/bin:/bin".to_owned())];
        let name = format!("test-{}", std::process::id());
        for (script, timeout, status, code, output) in [
            ("echo one\necho two >&2", HOOK_TIMEOUT, "succeeded", Some(0), Some("one\ntwo\n")),
            ("echo one\n(exit 7)\necho two", HOOK_TIMEOUT, "failed", Some(7), Some("one\n")),
            (
                "echo one\nfalse | true\nif false; then :; fi",
                HOOK_TIMEOUT,
                "succeeded",
                Some(0),
                Some("one\n"),
            ),
            ("echo one; kill -9 $$", HOOK_TIMEOUT, "failed", Some(137), Some("one\n")),
            // Whether it has begun by then depends on the machine.
            ("setsid sleep 600 & trap '' TERM; sleep 600", SHORT, "timed_out", None, None),
        ] {
            let ended = run(&name, script, &environment, folder.path(), timeout).await;
            assert_eq!((&*ended.status, ended.exit_code), (status, code), "{script}");
            let written = fs::read_to_string(&ended.log).unwrap();
            assert!(output.is_none_or(|output| output == written), "{script}: {written}");
            let marker = Some(format!("{MARK}={}", script_name(&name).mark()));
            assert_eq!(alive(&Target { below: -1, session: None, marker }), Vec::<i32>::new(), "{script}");
        }
        let log = script_name(&name).log_path();
        fs::remove_file(&log).unwrap();
        for folder in log.ancestors().skip(1).take(2) {
            fs::remove_dir(folder).unwrap();
        }
    }
}
