//! `hotdesk timeline`: the actions on the screens of a computer.

use std::path::{Path, PathBuf};

use clap::Args;
use reqwest::Method;

use super::ComputerArg;
use crate::client::api::REQUEST_TIMEOUT;
use crate::client::{Session, download, resolve};
use crate::failure::{Failure, Outcome};
use crate::output;
use hotdesk_wire::desktop::action::timeline::{
    ScreenTimelineEntry, ScreenTimelineFilter, ScreenTimelinePage, TimelineActor,
};

/// `hotdesk timeline`.
#[derive(Debug, Args)]
pub struct Options {
    #[command(flatten)]
    target: ComputerArg,
    /// Only actions on this screen (id).
    #[arg(long, value_name = "ID")]
    screen: Option<String>,
    /// Only actions by this actor, KIND:ID, or by this kind: key, person, connection, thread, password or
    /// template.
    #[arg(long, value_name = "ACTOR")]
    by: Option<String>,
    /// Only actions at or after this time (ISO 8601 with a time zone).
    #[arg(long, value_name = "TIME")]
    from: Option<String>,
    /// Only actions at or before this time (ISO 8601 with a time zone).
    #[arg(long, value_name = "TIME")]
    to: Option<String>,
    /// Write all entries with their pictures to a file as JSON lines; `-` is standard output.
    #[arg(long, value_name = "FILE")]
    export: Option<PathBuf>,
}

/// Lists the newest actions, or exports all of them.
///
/// # Errors
/// When there is no such computer, a file cannot be written, the server refuses a request or is unreachable.
pub async fn run(options: Options, session: &Session) -> Outcome<()> {
    let Options { target, screen, by, from, to, export } = options;
    let id = resolve::computer(&session.api, &target.computer).await?;
    let filter = ScreenTimelineFilter { screen, by, from, to };
    if let Some(file) = export {
        return write_export(session, &id, &filter, &file).await;
    }
    let request = session.api.request(Method::GET, session.api.url(&["computers", &id, "timeline"]));
    let response = session.api.send(request.query(&filter).timeout(REQUEST_TIMEOUT)).await?;
    let page: ScreenTimelinePage = response.decode()?;
    session.show(&response, || {
        if page.entries.is_empty() {
            return output::line("There are no entries.");
        }
        let headings = ["AT", "BY", "SCREEN", "ACTION", "RESULT", "ID"];
        output::table(&headings, page.entries.into_iter().map(row).collect())
    })
}

async fn write_export(
    session: &Session,
    id: &str,
    filter: &ScreenTimelineFilter,
    file: &Path,
) -> Outcome<()> {
    if session.json {
        return Err(Failure::Usage("an export has no JSON response: drop --json".to_owned()));
    }
    let url = session.api.url(&["computers", id, "timeline", "export"]);
    let request = session.api.request(Method::GET, url).query(filter);
    if file == Path::new("-") {
        return download::to_stdout(&session.api, request).await;
    }
    let size = download::to_file(&session.api, request, file).await?;
    output::line(&format!("{} ({size} bytes)", file.display()))
}

fn row(entry: ScreenTimelineEntry) -> Vec<String> {
    let record = entry.record;
    let place = match (record.x, record.y) {
        (Some(x), Some(y)) => format!(" at {x},{y}"),
        (Some(_) | None, None) | (None, Some(_)) => String::new(),
    };
    let result = match (record.success, record.code, record.status) {
        (true, _, _) => "done".to_owned(),
        (false, Some(code), _) => code,
        (false, None, Some(status)) => status.to_string(),
        (false, None, None) => "failed".to_owned(),
    };
    let viewer = if record.source.is_some() { " (viewer)" } else { "" };
    let action = format!("{}{place}{viewer}", record.action);
    vec![entry.at, entry.by.map(actor).unwrap_or_default(), record.screen, action, result, entry.id]
}

/// The name of an actor, or its id.
fn actor(by: TimelineActor) -> String {
    match by.name.or(by.actor.id) {
        Some(name) => format!("{} {name}", by.actor.kind),
        None => by.actor.kind,
    }
}
