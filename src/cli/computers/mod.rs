//! `hotdesk computers`, and the commands that act on one computer.

pub mod desktop;
pub mod hardware;
pub mod power;
pub mod screenshot;
pub mod selftest;
pub mod snapshots;

use std::process::ExitCode;

use clap::{Args, Subcommand};
use reqwest::Method;

use crate::client::api::{CREATE_TIMEOUT, REQUEST_TIMEOUT};
use crate::client::{Session, resolve};
use crate::failure::Outcome;
use crate::output;
use crate::progress::Progress;
use hotdesk_wire::computer::{Computer, ComputerList, CreateComputer, UpdateComputer, VncPassword};

/// Timeout of a delete: a running computer first shuts down, with a grace period, and flushes its disk.
const DELETE_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(240);

/// `hotdesk computers`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// List computers.
    List {
        /// Only computers of this workspace (id or name).
        #[arg(long, short, value_name = "WORKSPACE")]
        workspace: Option<String>,
        /// Only computers with this status, for example `running`.
        #[arg(long)]
        status: Option<String>,
    },
    /// Create a computer and wait until it runs.
    Create(CreateOptions),
    /// Show a computer.
    Get(ComputerArg),
    /// Start a stopped or suspended computer.
    Start(power::PowerOptions),
    /// Stop a computer; its disk remains.
    Stop(power::PowerOptions),
    /// Suspend a computer: processes and windows continue after a resume.
    Suspend(power::PowerOptions),
    /// Resume a suspended computer.
    Resume(power::PowerOptions),
    /// Restart a computer; its password changes.
    Restart(power::PowerOptions),
    /// Rename a computer.
    Rename {
        #[command(flatten)]
        target: ComputerArg,
        /// New name, unique in its workspace.
        name: String,
    },
    /// Clone a computer with its disk.
    Clone(hardware::CloneOptions),
    /// Fork a running computer or a snapshot, with disk and memory (where the engine supports it).
    Fork(hardware::ForkOptions),
    /// Change the hardware of a running computer.
    Resize(hardware::ResizeOptions),
    /// Move a computer to another workspace.
    Move(hardware::MoveOptions),
    /// Delete a computer and its disk.
    Delete(ComputerArg),
    /// Print the password for the screens and sockets of a computer.
    Password(ComputerArg),
    /// Test a computer and print measurements; the exit code is 1 when a check fails.
    Selftest(ComputerArg),
}

/// The computer that a command acts on.
#[derive(Debug, Args)]
pub struct ComputerArg {
    /// Computer: id, instance id or name.
    pub computer: String,
}

/// `hotdesk computers create`. The server supplies the defaults.
#[derive(Debug, Args)]
pub struct CreateOptions {
    /// Name, unique in its workspace.
    name: String,
    /// Workspace (id or name).
    #[arg(long, short)]
    workspace: String,
    /// Number of vCPUs: 0.5, 1, 2, 4, 8 or 16.
    #[arg(long)]
    cpu: Option<f64>,
    /// Memory in GB: 4, 8, 16, 32 or 64.
    #[arg(long)]
    ram: Option<f64>,
    /// Disk in GB.
    #[arg(long)]
    disk: Option<f64>,
    /// Screen size, for example 1280x720x24.
    #[arg(long, value_name = "WIDTHxHEIGHTxDEPTH")]
    resolution: Option<String>,
    /// Template: namespace/name@version.
    #[arg(long, value_name = "REF")]
    template: Option<String>,
    /// Idle minutes before the computer is suspended; 0 disables it.
    #[arg(long, value_name = "MINUTES")]
    auto_stop: Option<i64>,
}

/// Runs a subcommand.
///
/// # Errors
/// When the server refuses the request or is unreachable.
pub async fn run(command: Command, session: &Session) -> Outcome {
    match command {
        Command::Selftest(target) => return selftest::run(session, &target).await,
        Command::List { workspace, status } => list(session, workspace, status).await,
        Command::Create(options) => create(session, options).await,
        Command::Get(target) => get(session, &target).await,
        Command::Start(options) => power::run(session, power::PowerCommand::Start, &options).await,
        Command::Stop(options) => power::run(session, power::PowerCommand::Stop, &options).await,
        Command::Suspend(options) => power::run(session, power::PowerCommand::Suspend, &options).await,
        Command::Resume(options) => power::run(session, power::PowerCommand::Resume, &options).await,
        Command::Restart(options) => power::run(session, power::PowerCommand::Restart, &options).await,
        Command::Clone(options) => hardware::clone(session, options).await,
        Command::Fork(options) => hardware::fork(session, options).await,
        Command::Resize(options) => hardware::resize(session, options).await,
        Command::Move(options) => hardware::relocate(session, options).await,
        Command::Rename { target, name } => {
            let id = resolve::computer(&session.api, &target.computer).await?;
            let body = UpdateComputer { name };
            let response =
                session.api.call(Method::PATCH, &["computers", &id], Some(&body), REQUEST_TIMEOUT).await?;
            let renamed: Computer = response.decode()?;
            session.show(&response, || output::line(&format!("{} is now {}.", target.computer, renamed.name)))
        }
        Command::Delete(target) => {
            let id = resolve::computer(&session.api, &target.computer).await?;
            let progress = Progress::waiting(format!("deleting {}", target.computer));
            let response =
                session.api.call(Method::DELETE, &["computers", &id], None::<&()>, DELETE_TIMEOUT).await?;
            drop(progress);
            session.show(&response, || output::line(&format!("Deleted {}.", target.computer)))
        }
        Command::Password(target) => {
            let id = resolve::computer(&session.api, &target.computer).await?;
            let response = session.api.get(&["computers", &id, "vnc-password"], &[], REQUEST_TIMEOUT).await?;
            let vnc: VncPassword = response.decode()?;
            session.show(&response, || output::line(&vnc.password))
        }
    }?;
    Ok(ExitCode::SUCCESS)
}

async fn list(session: &Session, workspace: Option<String>, status: Option<String>) -> Outcome<()> {
    let workspace = match workspace {
        Some(wanted) => Some(resolve::workspace(&session.api, &wanted).await?),
        None => None,
    };
    let filters = [("workspace_id", workspace), ("status", status)];
    let query: Vec<(&str, &str)> =
        filters.iter().filter_map(|(name, value)| Some((*name, value.as_deref()?))).collect();
    let response = session.api.get(&["computers"], &query, REQUEST_TIMEOUT).await?;
    let list: ComputerList = response.decode()?;
    session.show(&response, || {
        if list.computers.is_empty() {
            return output::line("No computers match.");
        }
        let row = |it: Computer| {
            let size = format!("{} vCPU, {} GB, {} GB", it.cpu, it.ram, it.disk_size_gb);
            vec![it.name, it.project_name, it.status, size, it.resolution, it.instance_id, it.id]
        };
        let headings = ["NAME", "WORKSPACE", "STATUS", "CPU, RAM, DISK", "RESOLUTION", "INSTANCE", "ID"];
        output::table(&headings, list.computers.into_iter().map(row).collect())
    })
}

async fn create(session: &Session, options: CreateOptions) -> Outcome<()> {
    let workspace = resolve::workspace(&session.api, &options.workspace).await?;
    let progress = Progress::waiting(format!("creating {}", options.name));
    let body = CreateComputer {
        workspace_id: Some(workspace),
        project_id: None,
        name: options.name,
        os: None,
        gpu: None,
        cpu: options.cpu,
        ram: options.ram,
        disk_size_gb: options.disk,
        resolution: options.resolution,
        auto_stop_minutes: options.auto_stop,
        template_ref: options.template,
        image: None,
    };
    let response = session.api.call(Method::POST, &["computers"], Some(&body), CREATE_TIMEOUT).await?;
    drop(progress);
    let created: Computer = response.decode()?;
    session.show(&response, || {
        output::line(&format!("{} is {} ({}).", created.name, created.status, created.id))
    })
}

async fn get(session: &Session, target: &ComputerArg) -> Outcome<()> {
    let id = resolve::computer(&session.api, &target.computer).await?;
    let response = session.api.get(&["computers", &id], &[], REQUEST_TIMEOUT).await?;
    let it: Computer = response.decode()?;
    let auto_stop = match it.auto_stop_minutes {
        0 => "never".to_owned(),
        minutes => format!("after {minutes} idle minutes"),
    };
    let fields = [
        ("name", it.name),
        ("id", it.id),
        ("instance", it.instance_id),
        ("workspace", format!("{} ({})", it.project_name, it.workspace_id)),
        ("status", it.status),
        ("cpu", format!("{} vCPU", it.cpu)),
        ("ram", format!("{} GB", it.ram)),
        ("disk", format!("{} GB", it.disk_size_gb)),
        ("resolution", it.resolution),
        ("auto-stop", auto_stop),
        ("address", it.ip.unwrap_or_else(|| "none".to_owned())),
        ("url", it.url),
        ("created", it.created_at),
    ];
    let rows = fields.into_iter().map(|(name, value)| vec![name.to_owned(), value]).collect();
    session.show(&response, || output::table(&["FIELD", "VALUE"], rows))
}
