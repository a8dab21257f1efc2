//! `hotdesk clients`: for whom does an operator run desktops, and what did they use?

use std::time::Duration;

use clap::{Args, Subcommand};
use reqwest::Method;

use super::client::Session;
use super::client::api::{Api, QUICK};
use super::failure::Outcome;
use super::output;
use hotdesk_wire::client::{Client, ClientList, ClientUsage, CreateClient, MadeClient};

/// How long removing a client may take: its computers are stopped first, each with a grace.
const REMOVAL: Duration = Duration::from_secs(180);

/// `hotdesk clients`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// List the clients.
    List,
    /// Make a client, with a workspace and a key that reaches only it; the key is printed once.
    Create(Order),
    /// Print what a client used in a month.
    Usage(Asked),
    /// Remove a client with its workspace; its key is dead.
    Delete {
        /// Its external id or its id.
        client: String,
        /// Its computers go as well.
        #[arg(long)]
        computers: bool,
    },
}

/// A client to be made.
#[derive(Debug, Args)]
pub struct Order {
    /// What you call it; unique among your clients.
    external_id: String,
    /// What it is called.
    #[arg(long)]
    name: Option<String>,
    /// Computers that it may have.
    #[arg(long, value_name = "COUNT")]
    max_computers: Option<u32>,
    /// Dollars that AI models may cost it in a month.
    #[arg(long, value_name = "USD")]
    monthly_ai_cap: Option<f64>,
    /// Who pays: operator or client.
    #[arg(long, value_name = "WHO")]
    billed_to: Option<String>,
}

/// A month of a client.
#[derive(Debug, Args)]
pub struct Asked {
    /// Its external id or its id.
    client: String,
    /// YYYY-MM in UTC; the present month when absent.
    #[arg(long)]
    month: Option<String>,
    /// Print it as CSV, a line per computer.
    #[arg(long)]
    csv: bool,
}

/// Does it.
///
/// # Errors
/// When the server refuses or is not reached.
pub async fn run(command: Command, session: &Session) -> Outcome<()> {
    match command {
        Command::List => list(session).await,
        Command::Create(order) => create(order, session).await,
        Command::Usage(asked) => usage(&asked, session).await,
        Command::Delete { client, computers } => delete(&client, computers, session).await,
    }
}

async fn list(session: &Session) -> Outcome<()> {
    let answer = session.api.get(&["v1", "accounts"], &[], QUICK).await?;
    let list: ClientList = answer.decode()?;
    session.show(&answer, || {
        let row = |it: Client| {
            let most = it.max_computers.map_or_else(String::new, |most| format!(" of {most}"));
            vec![it.external_id, it.name, format!("{}{most}", it.computers_used), it.billed_to, it.id]
        };
        let headings = ["EXTERNAL ID", "NAME", "COMPUTERS", "BILLED TO", "ID"];
        output::table(&headings, list.accounts.into_iter().map(row).collect())
    })
}

async fn create(order: Order, session: &Session) -> Outcome<()> {
    let Order { external_id, name, max_computers, monthly_ai_cap, billed_to } = order;
    let body =
        CreateClient { external_id, name, max_computers, monthly_ai_cap_usd: monthly_ai_cap, billed_to };
    let answer = session.api.call(Method::POST, &["v1", "accounts"], Some(&body), QUICK).await?;
    let made: MadeClient = answer.decode()?;
    session.show(&answer, || {
        let client = &made.client;
        output::line(&format!(
            "Made client {} ({}), workspace {}.",
            client.external_id, client.id, client.workspace_id
        ))?;
        output::line(&format!("Its key (shown once): {}", made.key))
    })
}

async fn usage(asked: &Asked, session: &Session) -> Outcome<()> {
    let id = meant(&session.api, &asked.client).await?;
    let mut query = Vec::new();
    query.extend(asked.month.as_deref().map(|month| ("month", month)));
    query.extend(asked.csv.then_some(("format", "csv")));
    let answer = session.api.get(&["v1", "accounts", &id, "usage"], &query, QUICK).await?;
    if asked.csv {
        return output::bytes(answer.body());
    }
    let used: ClientUsage = answer.decode()?;
    session.show(&answer, || {
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
        output::table(&["COMPUTER", "HOURS", "GB HOURS"], rows.chain([all]).collect())?;
        output::line(&format!("AI models in {}: {:.2} USD", used.month, used.ai_spend_usd))
    })
}

async fn delete(client: &str, computers: bool, session: &Session) -> Outcome<()> {
    let id = meant(&session.api, client).await?;
    let path = ["v1", "accounts", id.as_str()];
    let mut request = session.api.request(Method::DELETE, session.api.url(&path)).timeout(REMOVAL);
    if computers {
        request = request.query(&[("computers", "delete")]);
    }
    let answer = session.api.send(request).await?;
    session.show(&answer, || output::line(&format!("Removed client {client}.")))
}

/// The id of the client that is meant: one that is none of the external ids is taken as it is.
async fn meant(api: &Api, wanted: &str) -> Outcome<String> {
    let list: ClientList = api.get(&["v1", "accounts"], &[], QUICK).await?.decode()?;
    let found = list.accounts.into_iter().find(|it| it.external_id == wanted).map(|it| it.id);
    Ok(found.unwrap_or_else(|| wanted.to_owned()))
}
