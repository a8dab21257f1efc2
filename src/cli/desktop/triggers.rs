//! `hotdesk triggers`: triggers that a computer has from its template.

use clap::{Args, Subcommand};
use reqwest::Method;
use serde_json::{Map, Value};

use super::printable;
use crate::client::api::{ApiResponse, REQUEST_TIMEOUT};
use crate::client::watch::Watch;
use crate::client::{Session, resolve};
use crate::computers::{ComputerArg, ComputerListArg};
use crate::failure::Outcome;
use crate::output;
use hotdesk_wire::programs::trigger::{FireTrigger, TriggerList, TriggerRun, TriggerStatus};

/// A trigger of a computer.
#[derive(Debug, Args)]
pub struct TriggerArg {
    #[command(flatten)]
    target: ComputerArg,
    /// Trigger: its name in the template.
    trigger: String,
}

/// `hotdesk triggers`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// List triggers with their state and their last run.
    #[command(visible_alias = "ls")]
    List(ComputerListArg),
    /// List the last runs of a trigger, the newest first.
    Runs {
        #[command(flatten)]
        trigger: TriggerArg,
        #[command(flatten)]
        watch: Watch,
    },
    /// Run the actions of a trigger now, in the background.
    Fire {
        #[command(flatten)]
        trigger: TriggerArg,
        /// Fields of the event for the actions: a JSON object.
        #[arg(long, value_name = "JSON", value_parser = fields)]
        event: Option<Map<String, Value>>,
    },
}

/// Runs a subcommand.
///
/// # Errors
/// When the computer has no such trigger, the server refuses the request or is unreachable.
pub async fn run(command: Command, session: &Session) -> Outcome<()> {
    match command {
        Command::List(ComputerListArg { target, watch }) => {
            watch.run(async || list(session, &target).await).await
        }
        Command::Runs { trigger, watch } => watch.run(async || runs(session, &trigger).await).await,
        Command::Fire { trigger, event } => fire(session, &trigger, event).await,
    }
}

async fn fetch(session: &Session, target: &ComputerArg) -> Outcome<(ApiResponse, Vec<TriggerStatus>)> {
    let id = resolve::computer(&session.api, &target.computer).await?;
    let response = session.api.get(&["computers", &id, "triggers"], &[], REQUEST_TIMEOUT).await?;
    let list: TriggerList = response.decode()?;
    Ok((response, list.triggers))
}

async fn list(session: &Session, target: &ComputerArg) -> Outcome<()> {
    let (response, triggers) = fetch(session, target).await?;
    session.show(&response, || {
        if triggers.is_empty() {
            return output::line("The computer has no triggers from a template, or its hooks still run.");
        }
        let rows = triggers.iter().map(row).collect();
        output::table(&["NAME", "SOURCE", "STATUS", "RUNS", "DROPPED", "NEXT", "LAST RUN"], rows)
    })
}

async fn runs(session: &Session, wanted: &TriggerArg) -> Outcome<()> {
    let (response, triggers) = fetch(session, &wanted.target).await?;
    let Some(trigger) = triggers.iter().find(|it| it.name == wanted.trigger) else {
        let (computer, name) = (&wanted.target.computer, &wanted.trigger);
        return Err(format!(
            "{computer} has no trigger {name:?}: list them with `hotdesk triggers list {computer}`"
        )
        .into());
    };
    session.show(&response, || {
        if trigger.runs.is_empty() {
            return output::line(&format!("{} has not run since the boot.", trigger.name));
        }
        output::table(
            &["STARTED", "ENDED", "STATUS", "EVENT", "ERRORS"],
            trigger.runs.iter().map(run_row).collect(),
        )
    })
}

async fn fire(session: &Session, wanted: &TriggerArg, event: Option<Map<String, Value>>) -> Outcome<()> {
    let id = resolve::computer(&session.api, &wanted.target.computer).await?;
    let path = ["computers", &id, "triggers", &wanted.trigger];
    let response =
        session.api.call(Method::POST, &path, Some(&FireTrigger { event }), REQUEST_TIMEOUT).await?;
    session.show(&response, || output::line(&format!("{} runs.", wanted.trigger)))
}

fn row(it: &TriggerStatus) -> Vec<String> {
    let status = match &it.error {
        Some(error) => format!("{}: {error}", it.status),
        None => it.status.clone(),
    };
    let last = it.runs.first().map(|run| format!("{} {}", run.started_at, run.status)).unwrap_or_default();
    vec![
        printable(&it.name),
        it.source.clone(),
        printable(&status),
        it.run_count.to_string(),
        it.dropped.to_string(),
        it.next_at.clone().unwrap_or_default(),
        last,
    ]
}

fn run_row(it: &TriggerRun) -> Vec<String> {
    vec![
        it.started_at.clone(),
        it.ended_at.clone().unwrap_or_default(),
        it.status.clone(),
        printable(&it.event.to_string()),
        printable(&it.errors.join("; ")),
    ]
}

/// Parses the fields of an event.
fn fields(text: &str) -> Result<Map<String, Value>, String> {
    serde_json::from_str(text)
        .map_err(|error| format!("use a JSON object, such as '{{\"path\": \"/a\"}}': {error}"))
}
