//! `hotdesk workspaces`: workspaces of the account.

use clap::Subcommand;
use reqwest::Method;

use crate::client::api::REQUEST_TIMEOUT;
use crate::client::watch::Watch;
use crate::client::{Session, resolve};
use crate::failure::Outcome;
use crate::output::{self, Column, Confirmation, ListView};
use hotdesk_domain::plural::plural;
use hotdesk_wire::identity::workspace::{CreateWorkspace, UpdateWorkspace, Workspace, WorkspaceList};

/// Timeout of a delete: the computers of the workspace first shut down, each with a grace period.
const DELETE_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(180);

/// `hotdesk workspaces`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// List workspaces.
    List {
        #[command(flatten)]
        view: ListView,
        #[command(flatten)]
        watch: Watch,
    },
    /// Create a workspace.
    Create {
        /// Name, unique in the account.
        name: String,
    },
    /// Change the isolation of a workspace's new computers. Its present ones keep theirs.
    Isolate {
        /// Workspace: name, id, or the beginning of its id.
        workspace: String,
        /// `sandbox`, `shared` or `vm`; `default`: the service's.
        isolation: String,
    },
    /// Delete a workspace with its computers and files.
    Delete {
        /// Workspace: name, id, or the beginning of its id.
        workspace: String,
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
        Command::List { view, watch } => watch.run(async || list(view, session).await).await,
        Command::Create { name } => {
            let body = CreateWorkspace { name, icon_url: None, status: None };
            let response =
                session.api.call(Method::POST, &["workspaces"], Some(&body), REQUEST_TIMEOUT).await?;
            let created: Workspace = response.decode()?;
            session.show(&response, || {
                output::line(&format!("Created workspace {} ({}).", created.name, created.id))
            })
        }
        Command::Isolate { workspace, isolation } => {
            let id = resolve::workspace(&session.api, &workspace).await?;
            // The API removes the choice by an empty text.
            let chosen = if isolation == "default" { String::new() } else { isolation };
            let body = UpdateWorkspace { isolation: Some(chosen), ..UpdateWorkspace::default() };
            let response =
                session.api.call(Method::PATCH, &["workspaces", &id], Some(&body), REQUEST_TIMEOUT).await?;
            let Workspace { name, isolation, .. } = response.decode()?;
            let chosen = isolation.as_deref().unwrap_or("the default of the service");
            session.show(&response, || {
                output::line(&format!("New computers of {name} have isolation: {chosen}."))
            })
        }
        Command::Delete { workspace, confirmation } => {
            let id = resolve::workspace(&session.api, &workspace).await?;
            let question = async || {
                let response = session.api.get(&["workspaces", &id], &[], REQUEST_TIMEOUT).await?;
                let it: Workspace = response.decode()?;
                let computers = plural(it.computer_count, "computer");
                Ok(format!("Delete workspace {} with its files and {computers}?", it.name))
            };
            confirmation.ask(question).await?;
            let response =
                session.api.call(Method::DELETE, &["workspaces", &id], None::<&()>, DELETE_TIMEOUT).await?;
            session.show(&response, || output::line(&format!("Deleted workspace {workspace}.")))
        }
    }
}

async fn list(view: ListView, session: &Session) -> Outcome<()> {
    let response = session.api.get(&["workspaces"], &[], REQUEST_TIMEOUT).await?;
    let list: WorkspaceList = response.decode()?;
    session.show(&response, || {
        let row = |it: Workspace| vec![it.name, it.computer_count.to_string(), it.status, it.id];
        let rows = list.workspaces.into_iter().map(row).collect();
        let columns =
            [Column::Text("NAME"), Column::Text("COMPUTERS"), Column::Text("STATUS"), Column::Id("ID")];
        let empty = "There are no workspaces. Add one: hotdesk workspaces create NAME";
        output::list(view, &columns, rows, empty)
    })
}
