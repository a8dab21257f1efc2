//! `hotdesk clients`: client accounts of an operator, and their usage.

use std::time::Duration;

use clap::{Args, Subcommand};
use reqwest::Method;

use crate::client::api::REQUEST_TIMEOUT;
use crate::client::watch::Watch;
use crate::client::{Session, resolve};
use crate::failure::Outcome;
use crate::output::{self, Column, Confirmation, ListView};
use hotdesk_wire::identity::client::{Client, ClientList, ClientUsage, CreateClient, CreatedClient};

/// Timeout of a delete: the computers of the client first shut down, each with a grace period.
const DELETE_TIMEOUT: Duration = Duration::from_secs(180);

/// `hotdesk clients`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// List clients.
    List {
        #[command(flatten)]
        view: ListView,
        #[command(flatten)]
        watch: Watch,
    },
    /// Create a client with its own workspace and API key. The key is not shown again.
    Create(ClientOptions),
    /// Print the monthly usage of a client.
    Usage(UsageOptions),
    /// Delete a client with its workspace and API key.
    Delete {
        /// Client: external id or id.
        client: String,
        /// Delete its computers too.
        #[arg(long)]
        computers: bool,
        #[command(flatten)]
        confirmation: Confirmation,
    },
}

/// `hotdesk clients create`.
#[derive(Debug, Args)]
pub struct ClientOptions {
    /// External id, unique among your clients.
    external_id: String,
    /// Display name.
    #[arg(long)]
    name: Option<String>,
    /// Largest number of computers.
    #[arg(long, value_name = "COUNT")]
    max_computers: Option<u32>,
    /// Monthly spending limit for AI models, in US dollars.
    #[arg(long, value_name = "USD")]
    monthly_ai_cap: Option<f64>,
    /// Payer: operator or client.
    #[arg(long, value_name = "WHO")]
    billed_to: Option<String>,
}

/// `hotdesk clients usage`.
#[derive(Debug, Args)]
pub struct UsageOptions {
    /// Client: external id or id.
    client: String,
    /// Month in UTC as YYYY-MM; default: the current month.
    #[arg(long)]
    month: Option<String>,
    /// Print CSV, one line per computer.
    #[arg(long)]
    csv: bool,
}

/// Runs a subcommand.
///
/// # Errors
/// When the server refuses the request or is unreachable.
pub async fn run(command: Command, session: &Session) -> Outcome<()> {
    match command {
        Command::List { view, watch } => watch.run(async || list(view, session).await).await,
        Command::Create(options) => create(options, session).await,
        Command::Usage(options) => usage(&options, session).await,
        Command::Delete { client, computers, confirmation } => {
            delete(&client, computers, confirmation, session).await
        }
    }
}

async fn list(view: ListView, session: &Session) -> Outcome<()> {
    let response = session.api.get(&["v1", "accounts"], &[], REQUEST_TIMEOUT).await?;
    let list: ClientList = response.decode()?;
    session.show(&response, || {
        let row = |it: Client| {
            let limit = it.max_computers.map_or_else(String::new, |limit| format!(" of {limit}"));
            vec![it.external_id, it.name, format!("{}{limit}", it.computers_used), it.billed_to, it.id]
        };
        let columns = [
            Column::Text("EXTERNAL ID"),
            Column::Text("NAME"),
            Column::Text("COMPUTERS"),
            Column::Text("BILLED TO"),
            Column::Id("ID"),
        ];
        output::list(view, &columns, list.accounts.into_iter().map(row).collect(), "There are no clients.")
    })
}

async fn create(options: ClientOptions, session: &Session) -> Outcome<()> {
    let ClientOptions { external_id, name, max_computers, monthly_ai_cap, billed_to } = options;
    let body =
        CreateClient { external_id, name, max_computers, monthly_ai_cap_usd: monthly_ai_cap, billed_to };
    let response = session.api.call(Method::POST, &["v1", "accounts"], Some(&body), REQUEST_TIMEOUT).await?;
    let created: CreatedClient = response.decode()?;
    session.show(&response, || {
        let client = &created.client;
        output::line(&format!(
            "Created client {} ({}), workspace {}.",
            client.external_id, client.id, client.workspace_id
        ))?;
        output::line(&format!("Its key (shown once): {}", created.key))
    })
}

async fn usage(options: &UsageOptions, session: &Session) -> Outcome<()> {
    let id = resolve::client(&session.api, &options.client).await?;
    let mut query = Vec::new();
    query.extend(options.month.as_deref().map(|month| ("month", month)));
    query.extend(options.csv.then_some(("format", "csv")));
    let response = session.api.get(&["v1", "accounts", &id, "usage"], &query, REQUEST_TIMEOUT).await?;
    if options.csv {
        return output::bytes(response.body());
    }
    let used: ClientUsage = response.decode()?;
    session.show(&response, || {
        let rows = used.computers.iter().map(|it| {
            vec![
                it.computer_id.clone(),
                format!("{:.2}", it.computer_hours),
                format!("{:.2}", it.ram_gb_hours),
            ]
        });
        let all = vec![
            "all".to_owned(),
            format!("{:.2}", used.computer_hours),
            format!("{:.2}", used.ram_gb_hours),
        ];
        let columns = [Column::Id("COMPUTER"), Column::Text("HOURS"), Column::Text("GB HOURS")];
        output::list(ListView::default(), &columns, rows.chain([all]).collect(), "")?;
        output::line(&format!("AI models in {}: {:.2} USD", used.month, used.ai_spend_usd))
    })
}

async fn delete(client: &str, computers: bool, confirmation: Confirmation, session: &Session) -> Outcome<()> {
    let id = resolve::client(&session.api, client).await?;
    let what = if computers { "its workspace, API key and computers" } else { "its workspace and API key" };
    confirmation.ask(async || Ok(format!("Delete client {client} with {what}?"))).await?;
    let path = ["v1", "accounts", id.as_str()];
    let mut request = session.api.request(Method::DELETE, session.api.url(&path)).timeout(DELETE_TIMEOUT);
    if computers {
        request = request.query(&[("computers", "delete")]);
    }
    let response = session.api.send(request).await?;
    session.show(&response, || output::line(&format!("Deleted client {client}.")))
}
