//! Shell completion with the names of computers, workspaces, snapshots, templates, clients, services and triggers, which it
//! asks from the server.
//!
//! ```text
//! Tab -> completion script -> hotdesk -- WORDS, with the shell in _HOTDESK_COMPLETE -> request -> candidates
//! ```

use std::env;
use std::time::Duration;

use clap::{ArgMatches, Command, CommandFactory, FromArgMatches};
use clap_complete::Shell;
use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use clap_complete::env::{CompleteEnv, Shells};
use serde::de::DeserializeOwned;

use super::{Session, resolve};
use crate::failure::Outcome;
use crate::{Cli, GlobalOptions};
use hotdesk_domain::computer::template::reference::OWN;
use hotdesk_wire::computer::ComputerList;
use hotdesk_wire::computer::snapshot::SnapshotList;
use hotdesk_wire::computer::template::{Template, TemplateList};
use hotdesk_wire::identity::client::ClientList;
use hotdesk_wire::identity::workspace::WorkspaceList;
use hotdesk_wire::programs::service::ServiceList;
use hotdesk_wire::programs::trigger::TriggerList;

/// Environment variable with which a completion script names its shell. Not `COMPLETE`, clap's default: a program in a
/// computer could have set that for the agent.
const VARIABLE: &str = "_HOTDESK_COMPLETE";
/// Timeout of a request: a person waits at the prompt.
const TIMEOUT: Duration = Duration::from_secs(3);

/// Answers the completion script that runs the program, and returns whether one does.
///
/// # Errors
/// When the shell is unknown, or standard output cannot be written.
pub fn answer() -> Result<bool, clap::Error> {
    let folder = env::current_dir().ok();
    let command = || with_candidates(Cli::command());
    CompleteEnv::with_factory(command).var(VARIABLE).try_complete(env::args_os(), folder.as_deref())
}

/// Returns the completion script of a shell.
///
/// # Errors
/// When the script cannot be made for the shell.
pub fn script(shell: Shell) -> Outcome<Vec<u8>> {
    let mut script = Vec::new();
    let shells = Shells::builtins();
    let completer = shells.completer(&shell.to_string()).ok_or("there is no completion for this shell")?;
    completer
        .write_registration(VARIABLE, "hotdesk", "hotdesk", "hotdesk", &mut script)
        .map_err(|error| format!("cannot make the completion script: {error}"))?;
    Ok(script)
}

/// Adds candidates to every argument that names a resource. `hotdesk admin` asks no server.
fn with_candidates(command: Command) -> Command {
    let command = command.mut_args(|arg| match arg.get_id().as_str() {
        "computer" => arg.add(ArgValueCandidates::new(computers)),
        "workspace" => arg.add(ArgValueCandidates::new(workspaces)),
        "snapshot" => arg.add(ArgValueCandidates::new(snapshots)),
        "template" => arg.add(ArgValueCandidates::new(templates)),
        "client" => arg.add(ArgValueCandidates::new(clients)),
        "service" => arg.add(ArgValueCandidates::new(services)),
        "trigger" => arg.add(ArgValueCandidates::new(triggers)),
        _ => arg,
    });
    command.mut_subcommands(|inner| if inner.get_name() == "admin" { inner } else { with_candidates(inner) })
}

fn computers() -> Vec<CompletionCandidate> {
    ask(async |session, _| {
        let list: ComputerList = session.api.get(&["computers"], &[], TIMEOUT).await?.decode()?;
        Ok(list.computers.iter().map(|it| candidate(&it.name, &it.id, &it.status)).collect())
    })
}

fn workspaces() -> Vec<CompletionCandidate> {
    ask(async |session, _| {
        let list: WorkspaceList = session.api.get(&["workspaces"], &[], TIMEOUT).await?.decode()?;
        Ok(list.workspaces.iter().map(|it| candidate(&it.name, &it.id, &it.status)).collect())
    })
}

/// Snapshots of the computer that the command line names.
fn snapshots() -> Vec<CompletionCandidate> {
    ask(async |session, line| {
        let Some(computer) = named_computer(line) else { return Ok(Vec::new()) };
        let id = resolve::computer(&session.api, &computer).await?;
        let path = ["computers", id.as_str(), "snapshots"];
        let list: SnapshotList = session.api.get(&path, &[], TIMEOUT).await?.decode()?;
        let named = |name: &Option<String>, id: &str| name.clone().unwrap_or_else(|| id.to_owned());
        Ok(list.snapshots.iter().map(|it| candidate(&named(&it.name, &it.id), &it.id, &it.state)).collect())
    })
}

/// Templates of the account without their namespace, and those of the service.
fn templates() -> Vec<CompletionCandidate> {
    let list = |path: &'static [&'static str]| {
        ask(async |session, _| {
            let list: TemplateList = session.api.get(path, &[], TIMEOUT).await?.decode()?;
            let candidate = |it: Template| {
                let name = it.reference.strip_prefix(OWN).and_then(|rest| rest.strip_prefix('/'));
                CompletionCandidate::new(name.unwrap_or(&it.reference)).help(Some(it.status.into()))
            };
            Ok(list.templates.into_iter().map(candidate).collect())
        })
    };
    // A key of one workspace gets the second list alone.
    [list(&["templates"]), list(&["templates", "global"])].into_iter().flatten().collect()
}

fn clients() -> Vec<CompletionCandidate> {
    ask(async |session, _| {
        let list: ClientList = session.api.get(&["v1", "accounts"], &[], TIMEOUT).await?.decode()?;
        Ok(list.accounts.iter().map(|it| candidate(&it.external_id, &it.id, &it.name)).collect())
    })
}

fn services() -> Vec<CompletionCandidate> {
    names_in_computer::<ServiceList>("services", |list| list.services.into_iter().map(|it| it.name).collect())
}

fn triggers() -> Vec<CompletionCandidate> {
    names_in_computer::<TriggerList>("triggers", |list| list.triggers.into_iter().map(|it| it.name).collect())
}

/// Names of what the computer of the command line has. Its agent tells them and is not trusted, so only plain words are
/// offered.
fn names_in_computer<List: DeserializeOwned>(
    what: &'static str,
    names: fn(List) -> Vec<String>,
) -> Vec<CompletionCandidate> {
    ask(async |session, line| {
        let Some(computer) = named_computer(line) else { return Ok(Vec::new()) };
        let id = resolve::computer(&session.api, &computer).await?;
        let path = ["computers", id.as_str(), what];
        let list: List = session.api.get(&path, &[], TIMEOUT).await?.decode()?;
        let plain = names(list).into_iter().filter(|name| is_plain(name));
        Ok(plain.map(CompletionCandidate::new).collect())
    })
}

/// Runs requests for the server and key of the command line so far. Without an answer there are no candidates: the prompt
/// has no place for an error.
fn ask(
    list: impl AsyncFnOnce(&Session, &ArgMatches) -> Outcome<Vec<CompletionCandidate>>,
) -> Vec<CompletionCandidate> {
    let words = env::args_os().skip_while(|word| word != "--").skip(1);
    let Ok(line) = Cli::command().ignore_errors(true).try_get_matches_from(words) else { return Vec::new() };
    let Ok(global) = GlobalOptions::from_arg_matches(&line) else { return Vec::new() };
    global.with_session(async |session| list(session, &line).await).unwrap_or_default()
}

/// The computer that the innermost command names.
fn named_computer(mut line: &ArgMatches) -> Option<String> {
    while let Some((_, inner)) = line.subcommand() {
        line = inner;
    }
    line.try_get_one::<String>("computer").ok().flatten().cloned()
}

/// A resource by its name, or by its id when a shell would have to quote the name.
fn candidate(name: &str, id: &str, status: &str) -> CompletionCandidate {
    if is_plain(name) {
        return CompletionCandidate::new(name).help(Some(status.to_owned().into()));
    }
    CompletionCandidate::new(id).help(Some(format!("{name}, {status}").into()))
}

/// Whether a name is one word for every shell, and no option.
fn is_plain(name: &str) -> bool {
    let is_plain = |character: char| character.is_alphanumeric() || "-_.".contains(character);
    !name.is_empty() && !name.starts_with('-') && name.chars().all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_need_quotes_are_offered_as_ids() {
        for (name, expected) in [
            ("c1", "c1"),
            ("Größe-2.x", "Größe-2.x"),
            ("first light", "ID"),
            ("-x", "ID"),
            ("a$b", "ID"),
            ("", "ID"),
        ] {
            assert_eq!(candidate(name, "ID", "running").get_value(), expected, "{name:?}");
        }
    }

    #[test]
    fn the_innermost_command_names_the_computer() {
        for (line, expected) in [
            (&["hotdesk", "snapshots", "delete", "c1", ""][..], Some("c1")),
            (&["hotdesk", "--json", "computers", "fork", "c2", "--snapshot", ""], Some("c2")),
            (&["hotdesk", "computers", "create", ""], None),
        ] {
            let matches = Cli::command().ignore_errors(true).try_get_matches_from(line).unwrap();
            assert_eq!(named_computer(&matches).as_deref(), expected, "{line:?}");
        }
    }
}
