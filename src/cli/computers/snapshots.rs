//! `hotdesk snapshots`: how is a computer kept as it is, and brought back to that?

use clap::{Args, Subcommand};
use reqwest::Method;

use super::client::api::QUICK;
use super::client::{Session, resolve, settle};
use super::computers::Which;
use super::failure::Outcome;
use super::output;
use super::progress::Progress;
use hotdesk_wire::snapshot::{CreateSnapshot, RollBack, RolledBack, Snapshot, SnapshotList};

/// How long keeping, removing or rolling back may take before it is answered: the server answers what takes longer while it
/// is under way.
const TIMEOUT: std::time::Duration = std::time::Duration::from_secs(120);

/// `hotdesk snapshots`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// List the snapshots of a computer.
    List(Which),
    /// Keep a computer as it is now.
    Create(Order),
    /// Remove a snapshot; the computer goes on.
    Delete(Chosen),
    /// Bring a computer back to a snapshot; what was done since is lost.
    Rollback(Chosen),
}

/// What is kept.
#[derive(Debug, Args)]
pub struct Order {
    #[command(flatten)]
    which: Which,
    /// What the snapshot is called.
    name: Option<String>,
    /// Keep what runs, too.
    #[arg(long)]
    memory: bool,
}

/// Which snapshot of which computer.
#[derive(Debug, Args)]
pub struct Chosen {
    #[command(flatten)]
    which: Which,
    /// The snapshot's id or name.
    snapshot: String,
}

/// Does it.
///
/// # Errors
/// When the server refuses or is not reached.
pub async fn run(command: Command, session: &Session) -> Outcome<()> {
    match command {
        Command::List(which) => list(session, &which).await,
        Command::Create(order) => create(session, order).await,
        Command::Delete(chosen) => delete(session, &chosen).await,
        Command::Rollback(chosen) => roll_back(session, &chosen).await,
    }
}

async fn list(session: &Session, which: &Which) -> Outcome<()> {
    let id = resolve::computer(&session.api, &which.computer).await?;
    let answer = session.api.get(&["computers", &id, "snapshots"], &[], QUICK).await?;
    let list: SnapshotList = answer.decode()?;
    session.show(&answer, || {
        if list.snapshots.is_empty() {
            return output::line(&format!("{} has no snapshots.", which.computer));
        }
        let row = |it: Snapshot| {
            let holds = if it.memory { "disk, memory" } else { "disk" };
            let size = it.size_bytes.map(|bytes| format!("{} MB", bytes / 1_000_000));
            let size = size.unwrap_or_default();
            vec![it.name.unwrap_or_default(), it.state, holds.to_owned(), size, it.created_at, it.id]
        };
        let headings = ["NAME", "STATE", "HOLDS", "SIZE", "CREATED", "ID"];
        output::table(&headings, list.snapshots.into_iter().map(row).collect())
    })
}

async fn create(session: &Session, order: Order) -> Outcome<()> {
    let id = resolve::computer(&session.api, &order.which.computer).await?;
    let waiting = Progress::waiting(format!("keeping {}", order.which.computer));
    let body = CreateSnapshot { name: order.name, memory: order.memory };
    let path = ["computers", id.as_str(), "snapshots"];
    let answer = session.api.call(Method::POST, &path, Some(&body), TIMEOUT).await?;
    drop(waiting);
    let made: Snapshot = answer.decode()?;
    session.show(&answer, || output::line(&format!("Snapshot {} is {}.", made.id, made.state)))
}

async fn delete(session: &Session, chosen: &Chosen) -> Outcome<()> {
    let id = resolve::computer(&session.api, &chosen.which.computer).await?;
    let snapshot = resolve::snapshot(&session.api, &id, &chosen.snapshot).await?;
    let path = ["computers", id.as_str(), "snapshots", snapshot.as_str()];
    let answer = session.api.call(Method::DELETE, &path, None::<&()>, TIMEOUT).await?;
    session.show(&answer, || output::line(&format!("Removed snapshot {}.", chosen.snapshot)))
}

async fn roll_back(session: &Session, chosen: &Chosen) -> Outcome<()> {
    let computer = &chosen.which.computer;
    let id = resolve::computer(&session.api, computer).await?;
    let snapshot_id = resolve::snapshot(&session.api, &id, &chosen.snapshot).await?;
    let waiting = Progress::waiting(format!("rolling {computer} back"));
    let body = RollBack { snapshot_id };
    let answer =
        session.api.call(Method::POST, &["computers", &id, "rollback"], Some(&body), TIMEOUT).await?;
    drop(waiting);
    let done: RolledBack = answer.decode()?;
    let (snapshot, status) = (&chosen.snapshot, &done.status);
    session.show(&answer, || {
        output::line(&if settle::under_way(status) {
            format!("{computer} is {status}: it goes back to {snapshot}.")
        } else {
            format!("{computer} is as it was at {snapshot} and {status}.")
        })
    })
}
