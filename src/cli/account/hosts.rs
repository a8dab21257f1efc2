//! `hotdesk hosts`: hosts of computers, for the operator.

use clap::Subcommand;
use reqwest::Method;

use crate::account::gone;
use crate::client::api::{ApiResponse, REQUEST_TIMEOUT};
use crate::client::{Session, resolve};
use crate::failure::Outcome;
use crate::output::{self, Column, ListView};
use hotdesk_domain::plural::plural;
use hotdesk_wire::billing::hosts::{Host, HostList, MoveToHost, MovedToHost};

/// MB in a GB.
const GB: u64 = 1024;

/// `hotdesk hosts`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// List the hosts with their free resources and their computers.
    List {
        #[command(flatten)]
        view: ListView,
    },
    /// Move all computers of a host to other hosts, in the background. The host takes no new ones until it is restored.
    Drain {
        /// Host: name.
        host: String,
    },
    /// Let a host take new computers again.
    Restore {
        /// Host: name.
        host: String,
    },
    /// Move a computer to another host.
    Move {
        /// Computer: name, id, or the beginning of its id.
        computer: String,
        /// Host: name; default: the one with the most room.
        host: Option<String>,
    },
    /// Confirm that a host is dead, so that its computers can start from their replicas.
    Gone(gone::Options),
}

/// Runs a subcommand.
///
/// # Errors
/// When the server refuses the request or is unreachable.
pub async fn run(command: Command, session: &Session) -> Outcome<()> {
    match command {
        Command::Gone(options) => gone::run(&options, session).await,
        Command::List { view } => {
            let response = session.api.get(&["operator", "hosts"], &[], REQUEST_TIMEOUT).await?;
            let list: HostList = response.decode()?;
            session.show(&response, || {
                let columns = [
                    Column::Id("NAME"),
                    Column::Text("STATUS"),
                    Column::Text("COMPUTERS"),
                    Column::Text("CPUS"),
                    Column::Text("FREE RAM"),
                    Column::Text("FREE DISK"),
                    Column::Wide("IMAGE"),
                    Column::Text("MESSAGE"),
                ];
                let rows = list.hosts.into_iter().map(row).collect();
                output::list(view, &columns, rows, "There are no hosts.")
            })
        }
        Command::Drain { host } => {
            let shown = change(session, &host, "drain").await?;
            session.show(&shown.response, || {
                let computers = plural(shown.host.computers, "computer");
                output::line(&format!("Host {host} is {}: {computers} left.", shown.host.status))
            })
        }
        Command::Restore { host } => {
            let shown = change(session, &host, "restore").await?;
            session.show(&shown.response, || output::line(&format!("Host {host} is {}.", shown.host.status)))
        }
        Command::Move { computer, host } => {
            let id = resolve::computer(&session.api, &computer).await?;
            let path = ["operator", "computers", &id, "move"];
            let body = MoveToHost { host };
            let response = session.api.call(Method::POST, &path, Some(&body), REQUEST_TIMEOUT).await?;
            let moved: MovedToHost = response.decode()?;
            session.show(&response, || {
                let host = moved.host.unwrap_or_default();
                let text = if moved.moving {
                    format!("{computer} is being moved from {host}.")
                } else {
                    format!("{computer} is {} on {host}.", moved.status)
                };
                output::line(&text)
            })
        }
    }
}

/// The answer to a change of a host.
struct ChangedHost {
    response: ApiResponse,
    host: Host,
}

async fn change(session: &Session, host: &str, verb: &str) -> Outcome<ChangedHost> {
    let path = ["operator", "hosts", host, verb];
    let response = session.api.call(Method::POST, &path, None::<&()>, REQUEST_TIMEOUT).await?;
    let host = response.decode()?;
    Ok(ChangedHost { response, host })
}

fn row(host: Host) -> Vec<String> {
    let of = |free: u64, all: u64| format!("{} of {} GB", free / GB, all / GB);
    vec![
        host.name,
        host.status,
        format!("{} ({} running)", host.computers, host.running),
        host.cpus.to_string(),
        of(host.memory_free_mb, host.memory_mb),
        of(host.disk_free_mb, host.disk_mb),
        if host.image_present { "ready" } else { "missing" }.to_owned(),
        host.message,
    ]
}
