//! How are computers copied, forked, resized and moved from the command line?

use clap::Args;
use reqwest::Method;

use super::client::api::{CREATE, QUICK};
use super::client::{Session, resolve};
use super::failure::Outcome;
use super::output;
use super::progress::Progress;
use hotdesk_wire::clone::{CloneComputer, ComputerMoved, ForkComputer, MoveComputer};
use hotdesk_wire::computer::Computer;
use hotdesk_wire::resize::{ResizeComputer, Resized};

/// Which computer is copied, and what the copy is called.
#[derive(Debug, Args)]
pub struct Copy {
    /// Its id, instance id or name.
    computer: String,
    /// The clone's name; made of the computer's when absent.
    name: Option<String>,
    /// The workspace that shall hold the clone (id or name); the computer's when absent.
    #[arg(long, short)]
    workspace: Option<String>,
}

/// Which computer is forked, and what the fork is called.
#[derive(Debug, Args)]
pub struct Fork {
    /// Its id, instance id or name.
    computer: String,
    /// The fork's name; made of the computer's when absent.
    name: Option<String>,
    /// The snapshot with memory that the fork goes on from (id or name); the computer as it is when absent.
    #[arg(long, short)]
    snapshot: Option<String>,
}

/// Which computer, and its new size; what is not given stays.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("size").required(true).multiple(true))]
pub struct Size {
    /// Its id, instance id or name.
    computer: String,
    /// vCPUs: 0.5, 1, 2, 4, 8 or 16.
    #[arg(long, group = "size")]
    cpu: Option<f64>,
    /// Memory in GB: 4, 8, 16 or 32.
    #[arg(long, group = "size")]
    ram: Option<f64>,
    /// Disk in GB; it never shrinks.
    #[arg(long, group = "size")]
    disk: Option<f64>,
    /// Most that it may send and receive, in Mbps.
    #[arg(long, group = "size")]
    bandwidth: Option<f64>,
    /// Idle minutes before it suspends itself; 0 is never.
    #[arg(long, group = "size", value_name = "MINUTES")]
    auto_stop: Option<i64>,
}

/// Which computer goes where.
#[derive(Debug, Args)]
pub struct Place {
    /// Its id, instance id or name.
    computer: String,
    /// The workspace that shall hold it (id or name).
    workspace: String,
}

/// `hotdesk computers clone`.
///
/// # Errors
/// When the server refuses or is not reached.
pub async fn clone(session: &Session, copy: Copy) -> Outcome<()> {
    let id = resolve::computer(&session.api, &copy.computer).await?;
    let target_project_id = match &copy.workspace {
        Some(wanted) => Some(resolve::workspace(&session.api, wanted).await?),
        None => None,
    };
    let waiting = Progress::waiting(format!("cloning {}", copy.computer));
    let body = CloneComputer { name: copy.name, target_project_id };
    let answer = session.api.call(Method::POST, &["computers", &id, "clone"], Some(&body), CREATE).await?;
    drop(waiting);
    let made: Computer = answer.decode()?;
    session.show(&answer, || output::line(&format!("{} is {} ({}).", made.name, made.status, made.id)))
}

/// `hotdesk computers fork`.
///
/// # Errors
/// When the server refuses or is not reached.
pub async fn fork(session: &Session, fork: Fork) -> Outcome<()> {
    let id = resolve::computer(&session.api, &fork.computer).await?;
    let snapshot_id = match &fork.snapshot {
        Some(wanted) => Some(resolve::snapshot(&session.api, &id, wanted).await?),
        None => None,
    };
    let waiting = Progress::waiting(format!("forking {}", fork.computer));
    let body = ForkComputer { name: fork.name, snapshot_id };
    let answer = session.api.call(Method::POST, &["computers", &id, "fork"], Some(&body), CREATE).await?;
    drop(waiting);
    let made: Computer = answer.decode()?;
    session.show(&answer, || output::line(&format!("{} is {} ({}).", made.name, made.status, made.id)))
}

/// `hotdesk computers resize`.
///
/// # Errors
/// When the server refuses or is not reached, or nothing could be changed.
pub async fn resize(session: &Session, size: Size) -> Outcome<()> {
    let id = resolve::computer(&session.api, &size.computer).await?;
    let waiting = Progress::waiting(format!("resizing {}", size.computer));
    let body = ResizeComputer {
        vcpus: size.cpu,
        mem_gb: size.ram,
        disk_size_gb: size.disk,
        bandwidth_limit_mbps: size.bandwidth,
        auto_stop_minutes: size.auto_stop,
    };
    // It may end with a restart.
    let answer = session.api.call(Method::POST, &["computers", &id, "resize"], Some(&body), CREATE).await?;
    drop(waiting);
    let now: Resized = answer.decode()?;
    session.show(&answer, || {
        for failed in now.results.iter().flatten().filter(|result| !result.ok) {
            let why = failed.error.as_deref().unwrap_or("it did not change");
            output::line(&format!("{} stays {}: {why}.", failed.dimension, failed.applied))?;
        }
        let restarted = if now.restarted { ", and was restarted" } else { "" };
        let has = format!("{} vCPU, {} GB, {} GB disk", now.vcpus, now.mem_gb, now.disk_size_gb);
        output::line(&format!("{} has {has}{restarted}.", size.computer))
    })
}

/// `hotdesk computers move`.
///
/// # Errors
/// When the server refuses or is not reached.
pub async fn relocate(session: &Session, place: Place) -> Outcome<()> {
    let id = resolve::computer(&session.api, &place.computer).await?;
    let workspace_id = resolve::workspace(&session.api, &place.workspace).await?;
    let body = MoveComputer { workspace_id: Some(workspace_id), project_id: None };
    let answer = session.api.call(Method::PATCH, &["computers", &id, "move"], Some(&body), QUICK).await?;
    let _: ComputerMoved = answer.decode()?;
    session.show(&answer, || output::line(&format!("{} is in {} now.", place.computer, place.workspace)))
}
