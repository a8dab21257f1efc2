//! `hotdesk computers clone`, `fork`, `resize` and `move`.

use clap::Args;
use reqwest::Method;

use crate::client::api::{CREATE_TIMEOUT, REQUEST_TIMEOUT};
use crate::client::{Session, resolve, wait};
use crate::failure::Outcome;
use crate::output;
use crate::progress::Progress;
use hotdesk_wire::computer::Computer;
use hotdesk_wire::computer::clone::{CloneComputer, ComputerMoved, ForkComputer, MoveComputer};
use hotdesk_wire::computer::resize::{ResizeComputer, ResizeReport};

/// `hotdesk computers clone`.
#[derive(Debug, Args)]
pub struct CloneOptions {
    /// Computer: name, id, the beginning of its id, or instance id.
    computer: String,
    /// Name of the clone; default: derived from the computer's name.
    name: Option<String>,
    /// Workspace of the clone (id or name); default: the computer's.
    #[arg(long, short)]
    workspace: Option<String>,
}

/// `hotdesk computers fork`.
#[derive(Debug, Args)]
pub struct ForkOptions {
    /// Computer: name, id, the beginning of its id, or instance id.
    computer: String,
    /// Name of the fork; default: derived from the computer's name.
    name: Option<String>,
    /// Snapshot with memory to fork from (id or name); default: the current state.
    #[arg(long, short)]
    snapshot: Option<String>,
}

/// `hotdesk computers resize`. Omitted dimensions do not change.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("size").required(true).multiple(true))]
pub struct ResizeOptions {
    /// Computer: name, id, the beginning of its id, or instance id.
    computer: String,
    /// Number of vCPUs: 0.5, 1, 2, 4, 8 or 16.
    #[arg(long, group = "size")]
    cpu: Option<f64>,
    /// Memory in GB: 4, 8, 16 or 32.
    #[arg(long, group = "size")]
    ram: Option<f64>,
    /// Disk in GB; it can only grow.
    #[arg(long, group = "size")]
    disk: Option<f64>,
    /// Bandwidth limit in Mbps, for each direction.
    #[arg(long, group = "size")]
    bandwidth: Option<f64>,
    /// Idle minutes before the computer is suspended; 0 disables it.
    #[arg(long, group = "size", value_name = "MINUTES")]
    auto_stop: Option<i64>,
}

/// `hotdesk computers move`.
#[derive(Debug, Args)]
pub struct MoveOptions {
    /// Computer: name, id, the beginning of its id, or instance id.
    computer: String,
    /// Target workspace (id or name).
    workspace: String,
}

/// `hotdesk computers clone`.
///
/// # Errors
/// When the server refuses the request or is unreachable.
pub async fn clone(session: &Session, options: CloneOptions) -> Outcome<()> {
    let id = resolve::computer(&session.api, &options.computer).await?;
    let target_project_id = match &options.workspace {
        Some(wanted) => Some(resolve::workspace(&session.api, wanted).await?),
        None => None,
    };
    let progress = Progress::operation("clone", format!("cloning {}", options.computer));
    let body = CloneComputer { name: options.name, target_project_id };
    let path = ["computers", id.as_str(), "clone"];
    let cloning = session.api.call(Method::POST, &path, Some(&body), CREATE_TIMEOUT);
    let response = wait::or_interrupt(cloning, || wait::creation_goes_on("the clone")).await?;
    progress.complete();
    let created: Computer = response.decode()?;
    session.show(&response, || {
        output::line(&format!("{} is {} ({}).", created.name, created.status, created.id))
    })
}

/// `hotdesk computers fork`.
///
/// # Errors
/// When the server refuses the request or is unreachable.
pub async fn fork(session: &Session, options: ForkOptions) -> Outcome<()> {
    let id = resolve::computer(&session.api, &options.computer).await?;
    let snapshot_id = match &options.snapshot {
        Some(wanted) => Some(resolve::snapshot(&session.api, &id, wanted).await?),
        None => None,
    };
    let progress = Progress::operation("fork", format!("forking {}", options.computer));
    let body = ForkComputer { name: options.name, snapshot_id };
    let path = ["computers", id.as_str(), "fork"];
    let forking = session.api.call(Method::POST, &path, Some(&body), CREATE_TIMEOUT);
    let response = wait::or_interrupt(forking, || wait::creation_goes_on("the fork")).await?;
    progress.complete();
    let created: Computer = response.decode()?;
    session.show(&response, || {
        output::line(&format!("{} is {} ({}).", created.name, created.status, created.id))
    })
}

/// `hotdesk computers resize`.
///
/// # Errors
/// When the server refuses the request or is unreachable, or no dimension changed.
pub async fn resize(session: &Session, options: ResizeOptions) -> Outcome<()> {
    let id = resolve::computer(&session.api, &options.computer).await?;
    let progress = Progress::operation("resize", format!("resizing {}", options.computer));
    let body = ResizeComputer {
        vcpus: options.cpu,
        mem_gb: options.ram,
        disk_size_gb: options.disk,
        bandwidth_limit_mbps: options.bandwidth,
        auto_stop_minutes: options.auto_stop,
        ..ResizeComputer::default()
    };
    // A resize may include a restart, which takes as long as a boot.
    let response =
        session.api.call(Method::POST, &["computers", &id, "resize"], Some(&body), CREATE_TIMEOUT).await?;
    progress.complete();
    let report: ResizeReport = response.decode()?;
    session.show(&response, || {
        for failed in report.results.iter().flatten().filter(|result| !result.ok) {
            let why = failed.error.as_deref().unwrap_or("unknown reason");
            output::line(&format!("{} stays {}: {why}.", failed.dimension, failed.applied))?;
        }
        let restarted = if report.restarted { " and was restarted" } else { "" };
        let size = format!("{} vCPU, {} GB, {} GB disk", report.vcpus, report.mem_gb, report.disk_size_gb);
        output::line(&format!("{} has {size}{restarted}.", options.computer))
    })
}

/// `hotdesk computers move`.
///
/// # Errors
/// When the server refuses the request or is unreachable.
pub async fn relocate(session: &Session, options: MoveOptions) -> Outcome<()> {
    let id = resolve::computer(&session.api, &options.computer).await?;
    let workspace_id = resolve::workspace(&session.api, &options.workspace).await?;
    let body = MoveComputer { workspace_id: Some(workspace_id), project_id: None };
    let response =
        session.api.call(Method::PATCH, &["computers", &id, "move"], Some(&body), REQUEST_TIMEOUT).await?;
    let _: ComputerMoved = response.decode()?;
    session.show(&response, || output::line(&format!("Moved {} to {}.", options.computer, options.workspace)))
}
