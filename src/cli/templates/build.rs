//! Builds of templates: begin, log and cancel.

use std::process::ExitCode;
use std::time::Duration;

use reqwest::Method;

use super::name::reference;
use crate::client::Session;
use crate::client::api::REQUEST_TIMEOUT;
use crate::client::event_stream::EventStream;
use crate::failure::Outcome;
use crate::output;
use hotdesk_domain::computer::template::TemplateRef;
use hotdesk_domain::computer::template::build::BuildStatus;
use hotdesk_wire::computer::template::{BuildLogEntry, TemplateBuild};

/// For a cancel: the server ends the computer of the build first, and the copy of a layer may take half an hour.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(1800);

/// The path of a template in the API. A name without a namespace is the account's own template.
///
/// # Errors
/// When the text is no reference.
pub fn path(template: &str) -> Outcome<Vec<String>> {
    let TemplateRef { namespace, name, version } = reference(template)?;
    Ok(vec!["templates".to_owned(), namespace, name, version])
}

/// The path of a template's build, with further segments.
fn build_path(template: &str, more: &[&str]) -> Outcome<Vec<String>> {
    let mut path = path(template)?;
    path.push("build".to_owned());
    path.extend(more.iter().map(|segment| (*segment).to_owned()));
    Ok(path)
}

/// Begins a build, and prints its log until it ends. The exit code is 1 when it failed.
///
/// # Errors
/// When the server refuses the request or is unreachable.
pub async fn begin(session: &Session, template: &str, detach: bool) -> Outcome {
    let path = build_path(template, &[])?;
    let path: Vec<&str> = path.iter().map(String::as_str).collect();
    let response = session.api.call(Method::POST, &path, None::<&()>, REQUEST_TIMEOUT).await?;
    let begun: TemplateBuild = response.decode()?;
    if detach || begun.status != BuildStatus::Building.name() {
        session.show(&response, || output::line(&format!("{}: {}", begun.reference, begun.status)))?;
        return Ok(ExitCode::SUCCESS);
    }
    follow(session, template).await?;
    let response = session.api.get(&path, &[], REQUEST_TIMEOUT).await?;
    let ended: TemplateBuild = response.decode()?;
    if ended.status == BuildStatus::Ready.name() {
        let seconds = ended.build_time_ms.unwrap_or_default() as f64 / 1000.0;
        session.show(&response, || {
            output::line(&format!("{} is ready after {seconds:.1} s.", ended.reference))
        })?;
        return Ok(ExitCode::SUCCESS);
    }
    session.show(&response, || Ok(()))?;
    Err(format!("{} is {}: {}", ended.reference, ended.status, ended.error.unwrap_or_default()).into())
}

/// Prints the status of the last build.
///
/// # Errors
/// When the server refuses the request or is unreachable.
pub async fn status(session: &Session, template: &str) -> Outcome<()> {
    let path = build_path(template, &[])?;
    let path: Vec<&str> = path.iter().map(String::as_str).collect();
    let response = session.api.get(&path, &[], REQUEST_TIMEOUT).await?;
    let build: TemplateBuild = response.decode()?;
    session.show(&response, || {
        let time = build.build_time_ms.map(|time| format!("{:.1} s", time as f64 / 1000.0));
        output::fields([
            ("template", build.reference),
            ("digest", build.digest),
            ("status", build.status),
            ("time", time.unwrap_or_default()),
        ])?;
        build.error.map_or(Ok(()), |error| output::line(&multi_line(&error)))
    })
}

/// Prints the log of the last build until it ends: on standard output, or on standard error beside `--json`.
///
/// # Errors
/// When the server refuses the request or breaks off, or the log cannot be printed.
pub async fn follow(session: &Session, template: &str) -> Outcome<()> {
    let path = build_path(template, &["events"])?;
    let path: Vec<&str> = path.iter().map(String::as_str).collect();
    let mut events = EventStream::open(&session.api, &path, &[]).await?;
    while let Some(data) = events.next_data().await? {
        let entry = serde_json::from_str(&data)
            .map_err(|error| format!("cannot parse the server's log entry: {error}"))?;
        print(session, &entry)?;
    }
    Ok(())
}

/// Text of a build without control characters, which could change the terminal.
fn multi_line(text: &str) -> String {
    text.replace(|c: char| c.is_control() && c != '\t' && c != '\n', " ")
}

fn print(session: &Session, entry: &BuildLogEntry) -> Outcome<()> {
    let source = entry.source.as_deref().map(|source| format!("{source}: ")).unwrap_or_default();
    let text = format!("{source}{}", multi_line(&entry.line).replace('\n', " "));
    if session.json {
        eprintln!("{text}");
        return Ok(());
    }
    output::line(&text)
}

/// Cancels a build.
///
/// # Errors
/// When no build runs, or the server is unreachable.
pub async fn cancel(session: &Session, template: &str) -> Outcome<()> {
    let path = build_path(template, &[])?;
    let path: Vec<&str> = path.iter().map(String::as_str).collect();
    let response = session.api.call(Method::DELETE, &path, None::<&()>, CANCEL_TIMEOUT).await?;
    session.show(&response, || output::line(&format!("Cancelled the build of {template}.")))
}
