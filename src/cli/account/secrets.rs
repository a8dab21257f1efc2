//! `hotdesk secrets`: secrets of the account and of workspaces, for computers.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use clap::Subcommand;
use reqwest::Method;

use crate::client::api::REQUEST_TIMEOUT;
use crate::client::{Session, resolve};
use crate::failure::Outcome;
use crate::output::{self, Column, Confirmation, ListView};
use crate::read_secret;
use hotdesk_base::secret::Secret;
use hotdesk_domain::plural::plural;
use hotdesk_domain::secret::MAX_VALUE;
use hotdesk_wire::identity::secret::{SecretList, SecretRecord, SetSecret, SyncResult, SyncSecrets};

/// Longest value that is read, in bytes, with a line break after it. The server refuses a longer one.
const MAX_INPUT: u64 = MAX_VALUE as u64 + 2;

/// Commands of secrets.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// List secrets, without their values.
    #[command(alias = "list")]
    Ls {
        /// Secrets of this workspace (id or name); default: those of the account.
        #[arg(long)]
        workspace: Option<String>,
        #[command(flatten)]
        view: ListView,
    },
    /// Store a secret, or replace its value, which standard input or a file has. A terminal does not show it.
    Set {
        /// Name, such as API_KEY.
        name: String,
        /// For the computers of this workspace (id or name); default: for all of the account.
        #[arg(long)]
        workspace: Option<String>,
        /// Read the value from this file, with all line breaks. One line break at the end of standard input
        /// is left out.
        #[arg(long, value_name = "FILE")]
        file: Option<PathBuf>,
    },
    /// Delete a secret. Computers that have it keep it until their next sync or boot.
    #[command(alias = "delete")]
    Rm {
        /// Name.
        name: String,
        /// Secret of this workspace (id or name); default: of the account.
        #[arg(long)]
        workspace: Option<String>,
        #[command(flatten)]
        confirmation: Confirmation,
    },
    /// Write secrets to /root/.env of a computer, in place of those that it has.
    Sync {
        /// Computer: name, id, the beginning of its id, or instance id.
        computer: String,
        /// Names; default: all secrets of its workspace and its account.
        names: Vec<String>,
    },
}

/// Runs a command.
///
/// # Errors
/// When the file cannot be read, or the server refuses the request or is unreachable.
pub async fn run(command: Command, session: &Session) -> Outcome<()> {
    match command {
        Command::Ls { workspace, view } => list(workspace.as_deref(), view, session).await,
        Command::Set { name, workspace, file } => {
            let workspace_id = workspace_of(workspace.as_deref(), session).await?;
            let body = SetSecret { value: read(file.as_deref())?, workspace_id };
            let path = ["secrets", &name];
            let response = session.api.call(Method::PUT, &path, Some(&body), REQUEST_TIMEOUT).await?;
            session.show(&response, || output::line(&format!("Stored secret {name}.")))
        }
        Command::Rm { name, workspace, confirmation } => {
            let workspace = workspace_of(workspace.as_deref(), session).await?;
            confirmation.ask(async || Ok(format!("Delete secret {name}?"))).await?;
            let request = session.api.request(Method::DELETE, session.api.url(&["secrets", &name]));
            let request = request.query(&query(workspace.as_deref())).timeout(REQUEST_TIMEOUT);
            let response = session.api.send(request).await?;
            session.show(&response, || output::line(&format!("Deleted secret {name}.")))
        }
        Command::Sync { computer, names } => {
            let id = resolve::computer(&session.api, &computer).await?;
            let body = SyncSecrets { names: Some(names).filter(|names| !names.is_empty()) };
            let path = ["computers", &id, "secrets", "sync"];
            let response = session.api.call(Method::POST, &path, Some(&body), REQUEST_TIMEOUT).await?;
            let synced: SyncResult = response.decode()?;
            session.show(&response, || {
                let count = plural(u32::try_from(synced.names.len()).unwrap_or(u32::MAX), "secret");
                output::line(&format!("{computer} has {count} in {}.", synced.path))
            })
        }
    }
}

async fn list(workspace: Option<&str>, view: ListView, session: &Session) -> Outcome<()> {
    let workspace = workspace_of(workspace, session).await?;
    let response = session.api.get(&["secrets"], &query(workspace.as_deref()), REQUEST_TIMEOUT).await?;
    let list: SecretList = response.decode()?;
    session.show(&response, || {
        let row = |it: SecretRecord| vec![it.name, it.scope, it.updated_at, it.id];
        let rows = list.secrets.into_iter().map(row).collect();
        let columns =
            [Column::Text("NAME"), Column::Text("SCOPE"), Column::Text("UPDATED"), Column::Id("ID")];
        output::list(view, &columns, rows, "There are no secrets. Add one: hotdesk secrets set NAME <FILE")
    })
}

/// Returns the id of a named workspace.
async fn workspace_of(wanted: Option<&str>, session: &Session) -> Outcome<Option<String>> {
    match wanted {
        Some(wanted) => resolve::workspace(&session.api, wanted).await.map(Some),
        None => Ok(None),
    }
}

fn query(workspace: Option<&str>) -> Vec<(&str, &str)> {
    workspace.map(|id| ("workspace_id", id)).into_iter().collect()
}

/// Reads a value from a file as it is, or from standard input without one line break at its end.
fn read(file: Option<&Path>) -> Outcome<Secret> {
    let Some(file) = file else {
        let entered = read_secret("Value: ", MAX_INPUT)?;
        let text = entered.reveal();
        let text = text.strip_suffix('\n').map_or(text, |line| line.strip_suffix('\r').unwrap_or(line));
        return Ok(Secret::new(text));
    };
    let mut text = String::new();
    let read = File::open(file).and_then(|opened| opened.take(MAX_INPUT).read_to_string(&mut text));
    read.map_err(|error| format!("cannot read {}: {error}", file.display()))?;
    Ok(Secret::new(text))
}
