//! `hotdesk ports`: ports that a computer has from its template, and links to ports.

use clap::Subcommand;
use reqwest::Method;

use super::printable;
use super::share::seconds;
use crate::client::api::REQUEST_TIMEOUT;
use crate::client::{Session, resolve};
use crate::computers::{ComputerArg, ComputerListArg};
use crate::failure::Outcome;
use crate::output;
use hotdesk_wire::computer::port::{NewPortTicket, Port, PortList, PortTicket};

/// `hotdesk ports`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// List the ports that the template of a computer declares, with their URLs.
    #[command(visible_alias = "ls")]
    List(ComputerListArg),
    /// Create a link that opens a port in a browser once, without a key.
    Link {
        #[command(flatten)]
        target: ComputerArg,
        /// Port in the computer; it need not be declared.
        port: u16,
        /// Time until the link expires if nobody opens it: seconds, or for example 90s, 15m or 1h; at most 1h.
        #[arg(long, value_name = "TIME", default_value = "10m", value_parser = seconds)]
        ttl: u32,
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
        Command::Link { target, port, ttl } => link(session, &target, port, ttl).await,
    }
}

async fn list(session: &Session, target: &ComputerArg) -> Outcome<()> {
    let id = resolve::computer(&session.api, &target.computer).await?;
    let response = session.api.get(&["computers", &id, "ports"], &[], REQUEST_TIMEOUT).await?;
    let list: PortList = response.decode()?;
    session.show(&response, || {
        if list.ports.is_empty() {
            return output::line(
                "The computer has no ports from a template. Any port: hotdesk forward, hotdesk ports link",
            );
        }
        output::table(
            &["PORT", "PROTOCOL", "ACCESS", "NAME", "URL"],
            list.ports.into_iter().map(row).collect(),
        )
    })
}

async fn link(session: &Session, target: &ComputerArg, port: u16, ttl: u32) -> Outcome<()> {
    let id = resolve::computer(&session.api, &target.computer).await?;
    let body = NewPortTicket { port: port.into(), ttl_seconds: Some(ttl) };
    let path = ["computers", &id, "port-tickets"];
    let response = session.api.call(Method::POST, &path, Some(&body), REQUEST_TIMEOUT).await?;
    let ticket: PortTicket = response.decode()?;
    session.show(&response, || {
        output::line(&ticket.url)?;
        let name = &target.computer;
        output::line(&format!("It opens port {} of {name} once, until {}.", ticket.port, ticket.expires_at))
    })
}

fn row(it: Port) -> Vec<String> {
    let access = if it.public { "public" } else { "key" };
    vec![it.port.to_string(), it.protocol, access.to_owned(), printable(&it.name), it.url.unwrap_or_default()]
}
