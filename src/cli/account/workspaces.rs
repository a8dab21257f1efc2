//! `hotdesk workspaces`: which are there, and how are they made and removed?

use clap::Subcommand;
use reqwest::Method;

use super::client::api::QUICK;
use super::client::{Session, resolve};
use super::failure::Outcome;
use super::output;
use hotdesk_wire::workspace::{CreateWorkspace, Workspace, WorkspaceList};

/// How long removing a workspace may take: its computers are stopped first, each with a grace.
const REMOVAL: std::time::Duration = std::time::Duration::from_secs(180);

/// `hotdesk workspaces`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// List the workspaces.
    List,
    /// Make a workspace.
    Create {
        /// Its name, unique in the account.
        name: String,
    },
    /// Remove a workspace with its computers and files.
    Delete {
        /// Its id or name.
        workspace: String,
    },
}

/// Does it.
///
/// # Errors
/// When the server refuses or is not reached.
pub async fn run(command: Command, session: &Session) -> Outcome<()> {
    match command {
        Command::List => list(session).await,
        Command::Create { name } => {
            let body = CreateWorkspace { name, icon_url: None, status: None };
            let answer = session.api.call(Method::POST, &["workspaces"], Some(&body), QUICK).await?;
            let made: Workspace = answer.decode()?;
            session.show(&answer, || output::line(&format!("Made workspace {} ({}).", made.name, made.id)))
        }
        Command::Delete { workspace } => {
            let id = resolve::workspace(&session.api, &workspace).await?;
            let answer = session.api.call(Method::DELETE, &["workspaces", &id], None::<&()>, REMOVAL).await?;
            session.show(&answer, || output::line(&format!("Removed workspace {workspace}.")))
        }
    }
}

async fn list(session: &Session) -> Outcome<()> {
    let answer = session.api.get(&["workspaces"], &[], QUICK).await?;
    let list: WorkspaceList = answer.decode()?;
    session.show(&answer, || {
        if list.workspaces.is_empty() {
            return output::line("There are no workspaces: hotdesk workspaces create NAME");
        }
        let row = |it: Workspace| vec![it.name, it.computer_count.to_string(), it.status, it.id];
        let rows = list.workspaces.into_iter().map(row).collect();
        output::table(&["NAME", "COMPUTERS", "STATUS", "ID"], rows)
    })
}
