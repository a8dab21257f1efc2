//! `hotdesk api-keys`: which keys are there, and how are they made and deleted?

use std::collections::HashMap;

use clap::Subcommand;
use reqwest::Method;

use super::client::api::QUICK;
use super::client::{Session, resolve};
use super::failure::Outcome;
use super::output;
use hotdesk_wire::key::{CreateKey, Key, KeyList, MintedKey};
use hotdesk_wire::workspace::WorkspaceList;

/// `hotdesk api-keys`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// List the keys, without their texts.
    List {
        /// Only those that reach this workspace alone: its id or name.
        #[arg(long)]
        workspace: Option<String>,
    },
    /// Make a key and print its text, this once.
    Create {
        /// What to call it.
        #[arg(long)]
        name: String,
        /// The only workspace that it shall reach: its id or name. Without, it reaches all.
        #[arg(long)]
        workspace: Option<String>,
    },
    /// Delete a key: what goes on under it ends.
    Delete {
        /// Its id.
        id: String,
    },
}

/// Does it.
///
/// # Errors
/// When the server refuses or is not reached.
pub async fn run(command: Command, session: &Session) -> Outcome<()> {
    match command {
        Command::List { workspace } => list(workspace, session).await,
        Command::Create { name, workspace } => create(name, workspace, session).await,
        Command::Delete { id } => {
            let answer = session.api.call(Method::DELETE, &["keys", &id], None::<&()>, QUICK).await?;
            session.show(&answer, || output::line(&format!("Deleted key {id}.")))
        }
    }
}

async fn list(workspace: Option<String>, session: &Session) -> Outcome<()> {
    let workspace = match workspace {
        Some(wanted) => Some(resolve::workspace(&session.api, &wanted).await?),
        None => None,
    };
    let query: Vec<(&str, &str)> = workspace.iter().map(|id| ("workspace_id", id.as_str())).collect();
    let answer = session.api.get(&["keys"], &query, QUICK).await?;
    let list: KeyList = answer.decode()?;
    let names: HashMap<String, String> = if list.keys.iter().any(|it| it.workspace_id.is_some()) {
        let known: WorkspaceList = session.api.get(&["workspaces"], &[], QUICK).await?.decode()?;
        known.workspaces.into_iter().map(|it| (it.id, it.name)).collect()
    } else {
        HashMap::new()
    };
    session.show(&answer, || {
        let row = |it: Key| {
            let text = format!("{}…{}", it.prefix, it.last_four);
            let reaches = match it.workspace_id {
                Some(id) => names.get(&id).cloned().unwrap_or(id),
                None => "all workspaces".to_owned(),
            };
            vec![it.name, text, reaches, it.last_used_at.unwrap_or_else(|| "never".to_owned()), it.id]
        };
        let rows = list.keys.into_iter().map(row).collect();
        output::table(&["NAME", "KEY", "REACHES", "LAST USED", "ID"], rows)
    })
}

async fn create(name: String, workspace: Option<String>, session: &Session) -> Outcome<()> {
    let workspace_id = match workspace {
        Some(wanted) => Some(resolve::workspace(&session.api, &wanted).await?),
        None => None,
    };
    let body = CreateKey { name, workspace_id };
    let answer = session.api.call(Method::POST, &["keys"], Some(&body), QUICK).await?;
    let made: MintedKey = answer.decode()?;
    session.show(&answer, || {
        let Key { name, id, .. } = &made.record;
        output::line(&format!("Made key {name} ({id}). It is shown this once:\n{}", made.key))
    })
}
