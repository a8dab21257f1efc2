//! Check of a build's services: they start in a computer that is not kept, and must be up and healthy.

mod secrets;

use std::time::Duration;

use tokio::time::Instant;

use super::BUILD_FAILED;
use super::build::Build;
use super::build_log::{Level, Phase};
use super::steps::program_list::ProgramList;
use crate::computers::runner::power::boot_guest;
use crate::computers::runner::refused;
use hotdesk_base::secret::Secret;
use hotdesk_base::time::phase::PhaseTimer;
use hotdesk_domain::computer::prepared::services::{ServiceProgress, ServiceRun};
use hotdesk_domain::computer::template::health::HealthStatus;
use hotdesk_domain::desktop::resolution::Resolution;
use hotdesk_domain::error::{Error, Result};
use hotdesk_engine::{Boot, MachineSpec};
use hotdesk_guest::Guest;
use hotdesk_wire::programs::service::{
    AppHealthStatus, BeginTemplate, ServiceList, ServiceProgram, ServiceStatus, TemplatePrograms,
};
use secrets::CheckSecrets;

/// Time after the hooks of the boot in which all services must be up and healthy: twice the time in which failures of a
/// health check do not count.
const SERVICES_TIMEOUT: Duration = Duration::from_secs(120);
/// Pause between two questions: an author waits for the answer, and the agent reads a small file in memory
/// for each service.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Bytes of a service's output that are read, and lines of it in the error.
const LOG_BYTES: u64 = 4096;
const LOG_LINES: usize = 10;
/// Most problems in the error of a build, and most characters of each: the agent is not trusted, T4 (docs/security.md).
const MAX_PROBLEMS: usize = 5;
const MAX_PROBLEM: usize = 500;
/// What errors have in the place of texts of programs that had secrets: errors are stored.
const HIDDEN: &str = "is not shown, because the programs had the secrets of the template";

/// Whether the services work.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    /// All are up and healthy.
    Works,
    /// Some are not yet; each with the name of its service, if it is one, and what is wrong.
    NotYet(Vec<Problem>),
    /// Some never will.
    Never(Vec<Problem>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Problem {
    /// Service whose output says more.
    service: Option<String>,
    what: String,
}

impl Build<'_> {
    /// Starts the services of a complete set of layers in a computer of its own, and waits until they are up
    /// and healthy. What they write is not kept. Programs that may need secrets get those of the account, and
    /// the egress policy of the template's computers; without all of the secrets nothing is checked.
    ///
    /// With `asks` the computer must have what the programs need. Returns false when it has not, or nothing was checked; no program
    /// has started then.
    ///
    /// # Errors
    /// Which service is not up or which application not healthy, with the last lines of its output if it had no
    /// secrets.
    pub(super) async fn check_services(
        &self,
        list: &ProgramList,
        spec: &MachineSpec,
        asks: bool,
    ) -> Result<bool> {
        let programs = &list.programs;
        if !has_checks(programs) {
            return Ok(!asks);
        }
        let (env_file, spec) = match self.check_secrets().await? {
            CheckSecrets::Undeclared => (None, spec.clone()),
            // A policy may be what keeps the secrets in.
            CheckSecrets::All(text) => {
                (Some(text), MachineSpec { egress: self.definition.egress()?, ..spec.clone() })
            }
            CheckSecrets::Withheld(why) => {
                self.log.add(Level::Warn, Phase::Check, None, &secrets::skipped(programs, &why));
                return Ok(!asks);
            }
        };
        let _lease = self.fleet.temporary_machines.lease(spec.id);
        let checked = tokio::select! {
            checked = self.run_check(list, &spec, env_file.as_ref(), asks) => checked,
            error = self.interruption() => Err(error),
            error = self.shortage(spec.id, "the check of the services") => Err(error),
        };
        if let Err(error) = self.fleet.engine.destroy(spec.id).await {
            tracing::warn!(
                computer = %spec.id,
                error = format_args!("{error:#}"),
                "could not remove the machine of a check; the next start retries"
            );
        }
        checked
    }

    /// Whether the services of a list can be checked.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails, or a secret was changed by another program.
    pub(super) async fn checks_services(&self, list: &ProgramList) -> Result<bool> {
        Ok(has_checks(&list.programs) && !matches!(self.check_secrets().await?, CheckSecrets::Withheld(_)))
    }

    /// Runs the check in a machine that is removed afterwards. `env_file` is the text of its file of secrets. Returns false when
    /// the check `asks` whether the machine has what the programs need, and it has not.
    async fn run_check(
        &self,
        list: &ProgramList,
        spec: &MachineSpec,
        env_file: Option<&Secret>,
        asks: bool,
    ) -> Result<bool> {
        let programs = &list.programs;
        let engine = &self.fleet.engine;
        let guest = {
            let _turn = self.fleet.starts.acquire().await.map_err(Error::internal)?;
            let secrets = env_file.map_or("", |_| " with the secrets of the account");
            self.note(Phase::Check, &format!("a computer boots, and its services start{secrets}"));
            engine.create(spec).await.map_err(|error| refused(BUILD_FAILED, &error))?;
            let token = Secret::random(super::build::TOKEN_CHARACTERS);
            let boot =
                Boot { generation: super::build::GENERATION, token, resolution: Resolution::default() };
            boot_guest(&**engine, spec, &boot).await?
        };
        // Before the machine has secrets, and before a service starts.
        if asks {
            let environment = self.definition.values()?.environment().clone();
            if !list.is_satisfied(&guest, &environment).await {
                self.note(Phase::Check, "the computer lacks what the programs need: another one installs it");
                return Ok(false);
            }
        }
        if let Some(text) = env_file {
            guest.put_env_file(text).await.map(drop)?;
        }
        guest.begin_template(BeginTemplate { check: true }).await?;
        let problems = {
            let _phase = PhaseTimer::begin(spec.id, "services");
            wait_for_services(&guest, programs, env_file.is_some()).await?
        };
        if problems.is_empty() {
            self.note(Phase::Check, "the services are up and healthy");
            return Ok(true);
        }
        let mut message = String::new();
        for problem in problems.into_iter().take(MAX_PROBLEMS) {
            message.extend(problem.what.chars().take(MAX_PROBLEM));
            let Some(service) = problem.service else { continue };
            if env_file.is_some() {
                message.push_str(&format!("; the output of {service} {HIDDEN}\n"));
                continue;
            }
            let log = guest.service_log(&service, LOG_BYTES).await?.text;
            // The agent may send more than it was asked for.
            let most = usize::try_from(LOG_BYTES).unwrap_or(usize::MAX);
            let log = &log[log.ceil_char_boundary(log.len().saturating_sub(most))..];
            let lines: Vec<&str> = log.lines().collect();
            let last = &lines[lines.len().saturating_sub(LOG_LINES)..];
            if !last.is_empty() {
                message.push_str(&format!("; the last lines of {service}:\n{}\n", last.join("\n")));
            }
        }
        Err(Error::conflict(message.trim_end()))
    }
}

/// Whether there is something to check.
fn has_checks(programs: &TemplatePrograms) -> bool {
    !(programs.services.is_empty() && programs.health.is_empty())
}

/// Waits until the services work. Returns what is wrong; nothing when they work. With `hides_reasons` those of
/// health checks, which may have output of programs, are not in it.
async fn wait_for_services(
    guest: &Guest,
    programs: &TemplatePrograms,
    hides_reasons: bool,
) -> Result<Vec<Problem>> {
    let mut deadline = None;
    loop {
        let mut list = guest.services().await?;
        if hides_reasons {
            list.health.iter_mut().for_each(hide_reason);
        }
        let problems = match verdict(&list, programs) {
            Verdict::Works => return Ok(Vec::new()),
            Verdict::Never(problems) => return Ok(problems),
            Verdict::NotYet(problems) => problems,
        };
        // Hooks have their own bound; services start after them.
        let hooks_run = list.hooks.iter().any(|hook| hook.status == "running");
        let until = *deadline.get_or_insert_with(|| Instant::now() + SERVICES_TIMEOUT);
        if hooks_run {
            deadline = None;
        } else if Instant::now() >= until {
            return Ok(problems);
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// Takes the text of the last check from the state of an application.
fn hide_reason(health: &mut AppHealthStatus) {
    health.reason = health.reason.take().map(|_| format!("why {HIDDEN}"));
}

fn verdict(list: &ServiceList, programs: &TemplatePrograms) -> Verdict {
    let (mut not_yet, mut never) = (Vec::new(), Vec::new());
    for program in &programs.services {
        let status = list.services.iter().find(|status| status.name == program.name);
        match state(status, program).progress() {
            ServiceProgress::Up => {}
            ServiceProgress::NotYet(why) => not_yet.push(service_problem(program, &why)),
            ServiceProgress::Never(why) => never.push(service_problem(program, &why)),
        }
    }
    for program in &programs.health {
        let health = list.health.iter().find(|health| health.app == program.app);
        if health.is_none_or(|health| health.status != HealthStatus::Healthy.name()) {
            let why = health.and_then(|health| health.reason.as_deref()).unwrap_or("it has not been checked");
            let why: String = why.chars().take(MAX_PROBLEM).collect();
            let what = format!("the application {} is not healthy: {why}", program.app);
            not_yet.push(Problem { service: None, what });
        }
    }
    match (never.is_empty(), not_yet.is_empty()) {
        (false, _) => Verdict::Never(never),
        (true, false) => Verdict::NotYet(not_yet),
        (true, true) => Verdict::Works,
    }
}

fn service_problem(program: &ServiceProgram, why: &str) -> Problem {
    let what = format!("the service {} is not up: {why}", program.name);
    Problem { service: Some(program.name.clone()), what }
}

/// The state of a service, of which the agent may know nothing yet.
fn state<'a>(status: Option<&ServiceStatus>, program: &'a ServiceProgram) -> ServiceRun<'a> {
    let running = status.filter(|status| status.status == "running");
    ServiceRun {
        running_seconds: running.map(|status| status.since_seconds),
        exit_code: status.and_then(|status| status.exit_code),
        signal: status.and_then(|status| status.signal),
        restart: &program.restart,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hotdesk_wire::programs::service::HealthProgram;
    use hotdesk_wire::template::health::HealthProbe;

    fn program(restart: &str, applications: usize) -> TemplatePrograms {
        let service = ServiceProgram {
            name: "api".to_owned(),
            run: String::new(),
            cwd: None,
            user: "root".to_owned(),
            env: Default::default(),
            secret_env: Default::default(),
            restart: restart.to_owned(),
            stop_signal: "SIGTERM".to_owned(),
            log: None,
            prestart: false,
        };
        let health = (0..applications).map(|number| HealthProgram {
            app: format!("web{number}"),
            probe: HealthProbe::Tcp { port: 3000 },
            every_ms: 1000,
            timeout_ms: 1000,
            retries: 3,
            on_fail: "none".to_owned(),
            prestart: false,
        });
        let health = health.collect();
        TemplatePrograms { services: vec![service], health, ..TemplatePrograms::default() }
    }

    fn list(
        running_for: Option<u64>,
        exit_code: Option<i32>,
        signal: Option<i32>,
        health: &[&str],
    ) -> ServiceList {
        let status = ServiceStatus {
            name: "api".to_owned(),
            status: if running_for.is_some() { "running" } else { "stopped" }.to_owned(),
            pid: None,
            exit_code,
            signal,
            since_seconds: running_for.unwrap_or(9),
            log: String::new(),
        };
        let health = health.iter().enumerate().map(|(number, status)| AppHealthStatus {
            app: format!("web{number}"),
            status: (*status).to_owned(),
            failures: 0,
            actions: 0,
            reason: None,
            checked_at: None,
        });
        ServiceList { services: vec![status], hooks: Vec::new(), health: health.collect() }
    }

    #[test]
    fn a_template_works_when_its_services_are_up_and_its_applications_healthy() {
        for (restart, running_for, exit_code, signal, health, expected) in [
            ("always", Some(2), None, None, vec![], "works"),
            ("always", Some(2), None, None, vec!["healthy"], "works"),
            ("always", Some(2), None, None, vec!["healthy", "starting"], "not yet"),
            ("always", Some(2), None, None, vec!["unhealthy"], "not yet"),
            ("always", Some(1), Some(1), None, vec![], "not yet"),
            ("always", None, Some(0), None, vec![], "not yet"),
            ("always", None, None, None, vec![], "not yet"),
            ("on-failure", None, Some(0), None, vec![], "works"),
            ("on-failure", None, Some(1), None, vec![], "not yet"),
            ("no", None, Some(0), None, vec![], "works"),
            ("no", None, Some(3), None, vec!["starting"], "never"),
            ("no", None, None, Some(9), vec![], "never"),
        ] {
            let list = list(running_for, exit_code, signal, &health);
            let word = match verdict(&list, &program(restart, health.len())) {
                Verdict::Works => "works",
                Verdict::NotYet(_) => "not yet",
                Verdict::Never(_) => "never",
            };
            assert_eq!(word, expected, "{restart} {list:?}");
        }
    }

    #[test]
    fn problems_name_the_service_and_the_reason() {
        let what =
            |list: &ServiceList, restart: &str| match verdict(list, &program(restart, list.health.len())) {
                Verdict::NotYet(problems) | Verdict::Never(problems) => problems[0].what.clone(),
                Verdict::Works => String::new(),
            };
        assert_eq!(
            what(&list(None, Some(3), None, &[]), "no"),
            "the service api is not up: it ended with exit code 3"
        );
        assert_eq!(
            what(&list(Some(5), None, None, &["starting"]), "always"),
            "the application web0 is not healthy: it has not been checked"
        );
    }

    #[test]
    fn reasons_of_programs_with_secrets_are_hidden() {
        let mut list = list(Some(5), None, None, &["starting", "unhealthy"]);
        list.health[1].reason = Some("the answer was hunter2".to_owned());
        list.health.iter_mut().for_each(hide_reason);
        assert_eq!(list.health[0].reason, None);
        let why = list.health[1].reason.clone().unwrap();
        assert!(why.starts_with("why is not shown") && !why.contains("hunter2"), "{why}");
    }
}
