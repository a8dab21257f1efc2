//! List of a template's programs, and whether a computer has what they need.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::http::Method;

use super::{files, programs};
use hotdesk_domain::error::{Error, Result};
use hotdesk_guest::{Guest, QUICK_TIMEOUT};
use hotdesk_wire::desktop::bash::Bash;
use hotdesk_wire::programs::exec::BashResult;
use hotdesk_wire::programs::service::TemplatePrograms;
use hotdesk_wire::template::TemplateDefinition;

/// For some short programs in a computer. Where they take longer, something counts as missing.
const REQUIREMENTS_TIMEOUT: Duration = Duration::from_secs(30);

/// The list of a definition's programs.
pub struct ProgramList {
    /// The programs.
    pub programs: TemplatePrograms,
    /// The list as computers read it.
    pub text: String,
    /// Whether the guest image has all that they need.
    pub fits_image: bool,
    /// The script that succeeds where the step of the list would only write the list.
    requirements: String,
}

impl ProgramList {
    /// Returns the list of a definition; `None` when it has no programs.
    ///
    /// # Errors
    /// `Internal` for a definition that is not valid.
    pub fn of(definition: &TemplateDefinition) -> Result<Option<Self>> {
        let programs = programs::programs(definition, &definition.values()?)?;
        if programs == TemplatePrograms::default() {
            return Ok(None);
        }
        let text = serde_json::to_string(&programs).map_err(Error::internal)?;
        let owners = files::owner_checks(definition);
        let fits_image = owners.is_empty() && programs::fits_image(&programs);
        let requirements = programs::requirements(&programs) + &owners;
        Ok(Some(Self { programs, text, fits_image, requirements }))
    }

    /// Whether every computer has everything that the programs need, as for hooks.
    pub fn needs_nothing(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Whether a computer has everything that the programs need, with the environment of the steps. One that does not answer has
    /// not. Nothing of this is in the log of a build: the step of the list says what is missing, or installs it.
    pub async fn is_satisfied(&self, guest: &Guest, environment: &BTreeMap<String, String>) -> bool {
        let body = Bash {
            command: self.requirements.clone(),
            timeout: Some(REQUIREMENTS_TIMEOUT.as_secs_f64()),
            env: Some(environment.clone()),
            ..Bash::default()
        };
        let timeout = REQUIREMENTS_TIMEOUT + QUICK_TIMEOUT;
        let ran: Result<BashResult> = guest.call(Method::POST, "/bash", (), Some(&body), timeout).await;
        match ran {
            Ok(ran) => ran.exit_code == 0,
            Err(error) => {
                tracing::info!(
                    error = format_args!("{error:#}"),
                    "a computer does not say whether it has what the programs of a template need"
                );
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(more: &str) -> Option<ProgramList> {
        let text = format!("api_version: hotdesk/v1\nname: lab@1.0.0\n{more}\n");
        let definition = hotdesk_wire::template::validate(text.as_bytes()).unwrap();
        ProgramList::of(&definition).unwrap()
    }

    fn service(user: &str) -> String {
        format!("apps: [{{name: web, services: [{{name: api, run: x{user}}}]}}]\n")
    }

    #[test]
    fn the_guest_image_has_what_services_of_its_own_users_need() {
        assert!(list("env: {A: b}").is_none());
        assert!(list("hooks: {on_resume: 'true'}").unwrap().needs_nothing());
        assert!(!list(&service("")).unwrap().needs_nothing());
        for (more, expected) in [
            (service(""), true),
            (service(", user: root"), true),
            (service(", user: web"), false),
            ("hooks: {on_resume: 'true'}".to_owned(), true),
            ("terminal: [{name: main}]".to_owned(), false),
            ("files: [{to: /etc/x, inline: y, when: runtime, owner: web}]".to_owned(), false),
            ("files: [{to: /etc/x, inline: y, when: runtime}]".to_owned(), true),
        ] {
            assert_eq!(list(&more).unwrap().fits_image, expected, "{more}");
        }
    }

    #[test]
    fn requirements_change_nothing_and_name_each_user_once() {
        let more = "apps: [{name: web, services: [{name: a, run: x}, {name: b, run: y}, {name: c, run: z, user: web}]}]\n\
            terminal: [{name: main}]\nfiles: [{to: /etc/x, inline: y, when: runtime, owner: painter}]\n";
        let script = list(more).unwrap().requirements;
        for part in
            ["command -v s6-svscan ", "command -v tmux ", "id -u orgo ", "id -u web ", "passwd painter "]
        {
            assert_eq!(script.matches(part).count(), 1, "{part} in {script}");
        }
        for change in ["apt-get", "useradd", "mkdir", "/etc/hotdesk"] {
            assert!(!script.contains(change), "{change} in {script}");
        }
    }

    #[test]
    fn the_first_requirement_that_is_not_met_ends_the_script() {
        let run = |script: &str| {
            let output = std::process::Command::new("bash").args(["-c", script]).output().unwrap();
            output.status.success()
        };
        let requirements = |user: &str| list(&service(user)).unwrap().requirements;
        let of_root = requirements(", user: root").replace("s6-svscan", "sh");
        assert!(run(&of_root), "{of_root}");
        let without_tool = requirements(", user: root").replace("s6-svscan", "no-such-tool");
        assert!(!run(&format!("{without_tool}true")), "{without_tool}");
        let of_nobody = requirements(", user: nobody-here").replace("s6-svscan", "sh");
        assert!(!run(&format!("{of_nobody}true")), "{of_nobody}");
    }
}
