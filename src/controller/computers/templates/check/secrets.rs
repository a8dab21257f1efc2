//! Secrets of the programs that the check of a build starts.

use super::super::build::Build;
use hotdesk_base::secret::Secret;
use hotdesk_domain::error::Result;
use hotdesk_domain::secret::SecretName;
use hotdesk_domain::secret::env_file::{MAX_BYTES, assignment};
use hotdesk_store::secrets::SecretOwner;
use hotdesk_wire::programs::service::TemplatePrograms;

/// Most names in a line of a build's log, which ends at 2 KiB: a definition has up to 64 services and 256
/// secrets.
const MAX_NAMES: usize = 8;

/// What a check has of the secrets that a template declares.
#[derive(Debug)]
pub(super) enum CheckSecrets {
    /// The template declares none.
    Undeclared,
    /// The text of the file that sets all of them as shell variables.
    All(Secret),
    /// They are not given to a check, so nothing is checked: any program may read the file. The text is the
    /// reason.
    Withheld(String),
}

impl Build<'_> {
    /// Returns the secrets of the account that builds, in the way of a launch. Those of workspaces do not count,
    /// because a build has none. A key of one workspace, which may not use the account's, cannot build.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails, or a value was changed by another program.
    pub(super) async fn check_secrets(&self) -> Result<CheckSecrets> {
        let declared = &self.definition.secrets;
        if declared.is_empty() {
            return Ok(CheckSecrets::Undeclared);
        }
        let store = &self.fleet.store;
        if !store.file_keys().await?.is_empty() {
            let why = "computers of this service are encrypted on the host, and those of builds are not";
            return Ok(CheckSecrets::Withheld(why.to_owned()));
        }
        let (mut text, mut missing) = (String::new(), Vec::new());
        for secret in declared {
            let name = secret.name.to_ascii_uppercase();
            let line = match SecretName::parse(&name) {
                Ok(parsed) => {
                    let owner = SecretOwner::Account(self.account);
                    let value = store.secret_value(owner, &parsed).await?;
                    value.map(|value| assignment(&parsed, value.reveal()))
                }
                // A variable that shells set themselves: no account has such a secret.
                Err(_) => None,
            };
            match line {
                Some(line) => text.push_str(&line),
                None => missing.push(name),
            }
            if text.len() > MAX_BYTES {
                let why = format!("the secrets have more than {} KiB together", MAX_BYTES >> 10);
                return Ok(CheckSecrets::Withheld(why));
            }
        }
        if missing.is_empty() {
            return Ok(CheckSecrets::All(Secret::new(text)));
        }
        let why =
            format!("the account that builds has no secret {}", listed(missing.iter().map(String::as_str)));
        Ok(CheckSecrets::Withheld(why))
    }
}

/// The line of a build's log about a check that is skipped.
pub(super) fn skipped(programs: &TemplatePrograms, why: &str) -> String {
    let services = listed(programs.services.iter().map(|service| service.name.as_str()));
    let applications = listed(programs.health.iter().map(|health| health.app.as_str()));
    let mut checks = Vec::new();
    if !services.is_empty() {
        checks.push(format!("services ({services})"));
    }
    if !applications.is_empty() {
        checks.push(format!("health of applications ({applications})"));
    }
    format!("not checked: {}: they may need the secrets of the template, and {why}", checks.join(" and "))
}

/// Names with commas, at most [`MAX_NAMES`].
fn listed<'a>(names: impl ExactSizeIterator<Item = &'a str>) -> String {
    let more = names.len().saturating_sub(MAX_NAMES);
    let shown = names.take(MAX_NAMES).collect::<Vec<_>>().join(", ");
    if more == 0 { shown } else { format!("{shown} and {more} more") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::computers::templates::steps::programs;

    #[test]
    fn lists_are_bounded() {
        let names: Vec<String> = (0..MAX_NAMES + 2).map(|number| format!("n{number}")).collect();
        for (count, expected) in [
            (0, ""),
            (1, "n0"),
            (2, "n0, n1"),
            (MAX_NAMES, "n0, n1, n2, n3, n4, n5, n6, n7"),
            (MAX_NAMES + 2, "n0, n1, n2, n3, n4, n5, n6, n7 and 2 more"),
        ] {
            assert_eq!(listed(names[..count].iter().map(String::as_str)), expected);
        }
    }

    #[test]
    fn the_line_names_the_checks_and_the_reason() {
        let of = |text: &str| {
            let text = format!("api_version: hotdesk/v1\nname: lab@1.0.0\napps: [{{name: web, {text}}}]\n");
            let definition = hotdesk_wire::template::validate(text.as_bytes()).unwrap();
            programs::programs(&definition, &definition.values().unwrap()).unwrap()
        };
        let (services, health) =
            ("services: [{name: api, run: x}, {name: job, run: y}]", "health: {type: tcp, port: 80}");
        for (text, expected) in [
            (services.to_owned(), "services (api, job)"),
            (health.to_owned(), "health of applications (web)"),
            (format!("{services}, {health}"), "services (api, job) and health of applications (web)"),
        ] {
            let line = skipped(&of(&text), "no key");
            let expected =
                format!("not checked: {expected}: they may need the secrets of the template, and no key");
            assert_eq!(line, expected);
        }
    }
}
