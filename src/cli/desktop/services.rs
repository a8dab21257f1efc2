//! `hotdesk services`: services and hooks that a computer has from its template.

use std::time::Duration;

use clap::{Args, Subcommand};
use reqwest::Method;

use super::printable;
use crate::client::api::REQUEST_TIMEOUT;
use crate::client::event_stream::EventStream;
use crate::client::{Session, resolve};
use crate::computers::{ComputerArg, ComputerListArg};
use crate::failure::Outcome;
use crate::output;
use hotdesk_wire::programs::service::{
    HookStatus, ServiceAction, ServiceList, ServiceLog, ServiceLogEntry, ServiceStatus,
};

/// Timeout of an action. The server waits 40 s for the service.
const ACTION_TIMEOUT: Duration = Duration::from_secs(60);

/// A service of a computer.
#[derive(Debug, Args)]
pub struct ServiceArg {
    #[command(flatten)]
    target: ComputerArg,
    /// Service: its name in the template.
    service: String,
}

/// `hotdesk services`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// List services, programs that start with the desktop, and hooks that have run since the boot.
    #[command(visible_alias = "ls")]
    List(ComputerListArg),
    /// Start a service.
    Start(ServiceArg),
    /// Stop a service.
    Stop(ServiceArg),
    /// Stop a service and start it again.
    Restart(ServiceArg),
    /// Print the end of a service's output.
    Log {
        #[command(flatten)]
        service: ServiceArg,
        /// Bytes to print at most; default: 65536. With --follow, of what was written before.
        #[arg(long, value_name = "NUMBER")]
        bytes: Option<u64>,
        /// Continue with what is written later, until the computer stops.
        #[arg(long, short)]
        follow: bool,
    },
}

/// Runs a subcommand.
///
/// # Errors
/// When the server refuses the request or is unreachable.
pub async fn run(command: Command, session: &Session) -> Outcome<()> {
    match command {
        Command::List(ComputerListArg { target, watch }) => {
            watch.run(async || list(session, &target).await).await
        }
        Command::Start(service) => act(session, &service, "start").await,
        Command::Stop(service) => act(session, &service, "stop").await,
        Command::Restart(service) => act(session, &service, "restart").await,
        Command::Log { service, bytes, follow } => log(session, &service, bytes, follow).await,
    }
}

async fn list(session: &Session, target: &ComputerArg) -> Outcome<()> {
    let id = resolve::computer(&session.api, &target.computer).await?;
    let response = session.api.get(&["computers", &id, "services"], &[], REQUEST_TIMEOUT).await?;
    let list: ServiceList = response.decode()?;
    session.show(&response, || {
        if list.services.is_empty() && list.hooks.is_empty() {
            return output::line("The computer has no services from a template.");
        }
        let rows = list.services.iter().map(service_row).chain(list.hooks.iter().map(hook_row)).collect();
        output::table(&["NAME", "STATUS", "PID", "SECONDS", "LOG"], rows)
    })
}

async fn act(session: &Session, service: &ServiceArg, action: &str) -> Outcome<()> {
    let id = resolve::computer(&session.api, &service.target.computer).await?;
    let path = ["computers", &id, "services", &service.service];
    let body = ServiceAction { action: action.to_owned() };
    let response = session.api.call(Method::POST, &path, Some(&body), ACTION_TIMEOUT).await?;
    let list: ServiceList = response.decode()?;
    let status = list.services.iter().find(|it| it.name == service.service).map(ended);
    session.show(&response, || {
        output::line(&format!("{} is {}.", service.service, status.as_deref().unwrap_or("gone")))
    })
}

async fn log(session: &Session, service: &ServiceArg, bytes: Option<u64>, follow: bool) -> Outcome<()> {
    let id = resolve::computer(&session.api, &service.target.computer).await?;
    let path = ["computers", &id, "services", &service.service, "log"];
    let bytes = bytes.map(|bytes| bytes.to_string());
    let bytes = bytes.iter().map(|bytes| ("bytes", bytes.as_str()));
    if follow {
        let query: Vec<(&str, &str)> = [("follow", "true")].into_iter().chain(bytes).collect();
        return print_lines(session, EventStream::open(&session.api, &path, &query).await?).await;
    }
    let query: Vec<(&str, &str)> = bytes.collect();
    let response = session.api.get(&path, &query, REQUEST_TIMEOUT).await?;
    let log: ServiceLog = response.decode()?;
    session.show(&response, || output::bytes(log.text.as_bytes()))
}

/// Prints the lines of a log until it ends or the reader of the output is gone.
///
/// # Errors
/// When the connection breaks, or a line cannot be parsed.
pub async fn print_lines(session: &Session, mut events: EventStream<'_>) -> Outcome<()> {
    while let Some(data) = events.next_data().await? {
        let line = if session.json {
            data
        } else {
            let entry: ServiceLogEntry = serde_json::from_str(&data)
                .map_err(|error| format!("cannot parse the server's log entry: {error}"))?;
            entry.line
        };
        if !output::stream(format!("{line}\n").as_bytes())? {
            return Ok(());
        }
    }
    eprintln!("The log has ended: the computer stopped, or the file was removed.");
    Ok(())
}

fn service_row(it: &ServiceStatus) -> Vec<String> {
    let pid = it.pid.map(|pid| pid.to_string()).unwrap_or_default();
    vec![printable(&it.name), ended(it), pid, it.since_seconds.to_string(), printable(&it.log)]
}

fn hook_row(it: &HookStatus) -> Vec<String> {
    let code = it.exit_code.map(|code| format!(" {code}")).unwrap_or_default();
    let status = format!("{}{code}", it.status);
    vec![printable(&it.name), status, String::new(), String::new(), printable(&it.log)]
}

/// The status, with how the last run ended.
fn ended(it: &ServiceStatus) -> String {
    match (it.exit_code, it.signal) {
        _ if it.pid.is_some() => it.status.clone(),
        (Some(code), _) => format!("{} (exit code {code})", it.status),
        (None, Some(signal)) => format!("{} (signal {signal})", it.status),
        (None, None) => it.status.clone(),
    }
}
