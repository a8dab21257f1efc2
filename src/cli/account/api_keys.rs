//! `hotdesk api-keys`: API keys of the account.

use std::collections::HashMap;

use clap::Subcommand;
use reqwest::Method;

use crate::client::api::REQUEST_TIMEOUT;
use crate::client::watch::Watch;
use crate::client::{Session, resolve};
use crate::failure::Outcome;
use crate::output::{self, Column, Confirmation, ListView};
use hotdesk_wire::identity::api_key::{ApiKey, CreateKey, KeyList, MintedKey};
use hotdesk_wire::identity::workspace::WorkspaceList;

/// `hotdesk api-keys`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// List API keys, without their secrets.
    List {
        /// Only keys that are limited to this workspace (id or name).
        #[arg(long)]
        workspace: Option<String>,
        #[command(flatten)]
        view: ListView,
        #[command(flatten)]
        watch: Watch,
    },
    /// Create an API key and print it. It is not shown again.
    Create {
        /// Name of the key.
        #[arg(long)]
        name: String,
        /// Limit the key to this workspace (id or name); default: all workspaces.
        #[arg(long)]
        workspace: Option<String>,
    },
    /// Delete an API key; its open connections are closed.
    Delete {
        /// Key: name, id, or the beginning of its id.
        key: String,
        #[command(flatten)]
        confirmation: Confirmation,
    },
}

/// Runs a subcommand.
///
/// # Errors
/// When the server refuses the request or is unreachable.
pub async fn run(command: Command, session: &Session) -> Outcome<()> {
    match command {
        Command::List { workspace, view, watch } => {
            watch.run(async || list(workspace.as_deref(), view, session).await).await
        }
        Command::Create { name, workspace } => create(name, workspace, session).await,
        Command::Delete { key, confirmation } => {
            let id = resolve::key(&session.api, &key).await?;
            confirmation.ask(async || Ok(format!("Delete API key {key} and close its connections?"))).await?;
            let response =
                session.api.call(Method::DELETE, &["keys", &id], None::<&()>, REQUEST_TIMEOUT).await?;
            session.show(&response, || output::line(&format!("Deleted key {key}.")))
        }
    }
}

async fn list(workspace: Option<&str>, view: ListView, session: &Session) -> Outcome<()> {
    let workspace = match workspace {
        Some(wanted) => Some(resolve::workspace(&session.api, wanted).await?),
        None => None,
    };
    let query: Vec<(&str, &str)> = workspace.iter().map(|id| ("workspace_id", id.as_str())).collect();
    let response = session.api.get(&["keys"], &query, REQUEST_TIMEOUT).await?;
    let list: KeyList = response.decode()?;
    let names: HashMap<String, String> = if list.keys.iter().any(|it| it.workspace_id.is_some()) {
        let all: WorkspaceList = session.api.get(&["workspaces"], &[], REQUEST_TIMEOUT).await?.decode()?;
        all.workspaces.into_iter().map(|it| (it.id, it.name)).collect()
    } else {
        HashMap::new()
    };
    session.show(&response, || {
        let row = |it: ApiKey| {
            let text = format!("{}…{}", it.prefix, it.last_four);
            let scope = match it.workspace_id {
                Some(id) => names.get(&id).cloned().unwrap_or(id),
                None => "all workspaces".to_owned(),
            };
            vec![it.name, text, scope, it.last_used_at.unwrap_or_else(|| "never".to_owned()), it.id]
        };
        let rows = list.keys.into_iter().map(row).collect();
        let columns = [
            Column::Text("NAME"),
            Column::Text("KEY"),
            Column::Text("SCOPE"),
            Column::Text("LAST USED"),
            Column::Id("ID"),
        ];
        output::list(view, &columns, rows, "There are no API keys.")
    })
}

async fn create(name: String, workspace: Option<String>, session: &Session) -> Outcome<()> {
    let workspace_id = match workspace {
        Some(wanted) => Some(resolve::workspace(&session.api, &wanted).await?),
        None => None,
    };
    let body = CreateKey { name, workspace_id };
    let response = session.api.call(Method::POST, &["keys"], Some(&body), REQUEST_TIMEOUT).await?;
    let created: MintedKey = response.decode()?;
    session.show(&response, || {
        let ApiKey { name, id, .. } = &created.record;
        output::line(&format!("Created key {name} ({id}). It is not shown again:\n{}", created.key))
    })
}
