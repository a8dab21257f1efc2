//! `hotdesk snapshots`: snapshots of a computer.

use clap::{Args, Subcommand};
use reqwest::Method;

use crate::client::api::REQUEST_TIMEOUT;
use crate::client::watch::Watch;
use crate::client::{Session, resolve, wait};
use crate::computers::ComputerArg;
use crate::failure::Outcome;
use crate::output::{self, Column, Confirmation, ListView};
use crate::progress::Progress;
use hotdesk_wire::computer::snapshot::{CreateSnapshot, RollBack, RollbackResult, Snapshot, SnapshotList};

/// Timeout of a snapshot request. The server responds earlier when an operation takes long, and finishes it in the
/// background.
const TIMEOUT: std::time::Duration = std::time::Duration::from_secs(120);

/// `hotdesk snapshots`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// List the snapshots of a computer.
    List {
        #[command(flatten)]
        target: ComputerArg,
        #[command(flatten)]
        view: ListView,
        #[command(flatten)]
        watch: Watch,
    },
    /// Create a snapshot of a computer.
    Create(SnapshotOptions),
    /// Delete a snapshot; the computer is not affected.
    Delete {
        #[command(flatten)]
        target: SnapshotArg,
        #[command(flatten)]
        confirmation: Confirmation,
    },
    /// Roll a computer back to a snapshot; later changes are lost.
    Rollback(SnapshotArg),
}

/// `hotdesk snapshots create`.
#[derive(Debug, Args)]
pub struct SnapshotOptions {
    #[command(flatten)]
    target: ComputerArg,
    /// Name of the snapshot.
    name: Option<String>,
    /// Include the memory: running programs and open windows.
    #[arg(long)]
    memory: bool,
}

/// A snapshot of a computer.
#[derive(Debug, Args)]
pub struct SnapshotArg {
    #[command(flatten)]
    target: ComputerArg,
    /// Snapshot: name, id, or the beginning of its id.
    snapshot: String,
}

/// Runs a subcommand.
///
/// # Errors
/// When the server refuses the request or is unreachable.
pub async fn run(command: Command, session: &Session) -> Outcome<()> {
    match command {
        Command::List { target, view, watch } => watch.run(async || list(session, &target, view).await).await,
        Command::Create(options) => create(session, options).await,
        Command::Delete { target, confirmation } => delete(session, &target, confirmation).await,
        Command::Rollback(target) => roll_back(session, &target).await,
    }
}

async fn list(session: &Session, target: &ComputerArg, view: ListView) -> Outcome<()> {
    let id = resolve::computer(&session.api, &target.computer).await?;
    let response = session.api.get(&["computers", &id, "snapshots"], &[], REQUEST_TIMEOUT).await?;
    let list: SnapshotList = response.decode()?;
    session.show(&response, || {
        let row = |it: Snapshot| {
            let holds = if it.memory { "disk, memory" } else { "disk" };
            let size = it.size_bytes.map(|bytes| format!("{} MB", bytes / 1_000_000));
            let size = size.unwrap_or_default();
            vec![it.name.unwrap_or_default(), it.state, holds.to_owned(), size, it.created_at, it.id]
        };
        let columns = [
            Column::Text("NAME"),
            Column::Text("STATE"),
            Column::Text("HOLDS"),
            Column::Text("SIZE"),
            Column::Text("CREATED"),
            Column::Id("ID"),
        ];
        let rows = list.snapshots.into_iter().map(row).collect();
        output::list(view, &columns, rows, &format!("{} has no snapshots.", target.computer))
    })
}

async fn create(session: &Session, options: SnapshotOptions) -> Outcome<()> {
    let id = resolve::computer(&session.api, &options.target.computer).await?;
    let progress =
        Progress::operation("snapshot", format!("creating a snapshot of {}", options.target.computer));
    let body = CreateSnapshot { name: options.name, memory: options.memory };
    let path = ["computers", id.as_str(), "snapshots"];
    let response = session.api.call(Method::POST, &path, Some(&body), TIMEOUT).await?;
    progress.complete();
    let created: Snapshot = response.decode()?;
    session.show(&response, || output::line(&format!("Snapshot {} is {}.", created.id, created.state)))
}

async fn delete(session: &Session, target: &SnapshotArg, confirmation: Confirmation) -> Outcome<()> {
    let id = resolve::computer(&session.api, &target.target.computer).await?;
    let snapshot = resolve::snapshot(&session.api, &id, &target.snapshot).await?;
    let wanted = (&target.snapshot, &target.target.computer);
    confirmation.ask(async || Ok(format!("Delete snapshot {} of {}?", wanted.0, wanted.1))).await?;
    let path = ["computers", id.as_str(), "snapshots", snapshot.as_str()];
    let response = session.api.call(Method::DELETE, &path, None::<&()>, TIMEOUT).await?;
    session.show(&response, || output::line(&format!("Deleted snapshot {}.", target.snapshot)))
}

async fn roll_back(session: &Session, target: &SnapshotArg) -> Outcome<()> {
    let computer = &target.target.computer;
    let id = resolve::computer(&session.api, computer).await?;
    let snapshot_id = resolve::snapshot(&session.api, &id, &target.snapshot).await?;
    let progress = Progress::operation("rollback", format!("rolling back {computer}"));
    let body = RollBack { snapshot_id };
    let response =
        session.api.call(Method::POST, &["computers", &id, "rollback"], Some(&body), TIMEOUT).await?;
    progress.complete();
    let done: RollbackResult = response.decode()?;
    let (snapshot, status) = (&target.snapshot, &done.status);
    session.show(&response, || {
        output::line(&if wait::is_transitional(status) {
            format!("{computer} is {status}: the rollback to {snapshot} continues.")
        } else {
            format!("{computer} is rolled back to {snapshot} and is {status}.")
        })
    })
}
