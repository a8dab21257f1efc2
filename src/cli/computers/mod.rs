//! `hotdesk computers`, and the commands that act on one computer.

pub mod chat;
mod egress;
pub mod hardware;
pub mod power;
pub mod screenshot;
pub mod selftest;
pub mod shortcuts;
pub mod snapshots;
mod template;
pub mod timeline;

use std::process::ExitCode;

use clap::{Args, Subcommand};
use reqwest::Method;

use crate::client::api::{CREATE_TIMEOUT, REQUEST_TIMEOUT};
use crate::client::watch::Watch;
use crate::client::{Session, resolve, wait};
use crate::failure::Outcome;
use crate::output::{self, Column, Confirmation, ListView};
use crate::progress::Progress;
use crate::templates::named;
use hotdesk_domain::plural::plural;
use hotdesk_wire::computer::replica::Replication;
use hotdesk_wire::computer::{Computer, ComputerList, CreateComputer, UpdateComputer, VncPassword};

/// Timeout of a delete: a running computer first shuts down, with a grace period, and flushes its disk.
const DELETE_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(240);

/// `hotdesk computers`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// List computers.
    #[command(visible_alias = "ls")]
    List(ListOptions),
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
    /// Change the isolation of a stopped computer, for its next start.
    Isolate {
        #[command(flatten)]
        target: ComputerArg,
        /// `sandbox`, `shared` or `vm`.
        isolation: String,
    },
    /// Keep a replica of a computer on a second host (where the engine supports it).
    Replicate {
        #[command(flatten)]
        target: ComputerArg,
        /// Minutes between two refreshes; 0 removes the replica.
        minutes: i64,
    },
    /// Show or change which destinations a computer reaches.
    Egress(egress::EgressOptions),
    /// Clone a computer with its disk.
    Clone(hardware::CloneOptions),
    /// Fork a running computer or a snapshot, with disk and memory (where the engine supports it).
    Fork(hardware::ForkOptions),
    /// Change the hardware of a running computer.
    Resize(hardware::ResizeOptions),
    /// Move a computer to another workspace.
    Move(hardware::MoveOptions),
    /// Save the disk of a computer as a template of the account.
    SaveTemplate(template::SaveOptions),
    /// Delete a computer and its disk.
    #[command(visible_alias = "rm")]
    Delete(DeleteOptions),
    /// Print the password for the screens and sockets of a computer.
    Password(ComputerArg),
    /// Test a computer and print measurements; the exit code is 1 when a check fails.
    Selftest(ComputerArg),
}

/// `hotdesk computers list`.
#[derive(Debug, Args)]
pub struct ListOptions {
    /// Only computers of this workspace (id or name).
    #[arg(long, short, value_name = "WORKSPACE")]
    workspace: Option<String>,
    /// Only computers with this status, for example `running`.
    #[arg(long)]
    status: Option<String>,
    #[command(flatten)]
    view: ListView,
    #[command(flatten)]
    watch: Watch,
}

/// `hotdesk computers delete`.
#[derive(Debug, Args)]
pub struct DeleteOptions {
    #[command(flatten)]
    target: ComputerArg,
    #[command(flatten)]
    confirmation: Confirmation,
}

/// The computer that a command acts on.
#[derive(Debug, Args)]
pub struct ComputerArg {
    /// Computer: name, id, the beginning of its id, or instance id.
    pub computer: String,
}

/// A list of what a computer has.
#[derive(Debug, Args)]
pub struct ComputerListArg {
    /// The computer.
    #[command(flatten)]
    pub target: ComputerArg,
    /// Whether the list is watched.
    #[command(flatten)]
    pub watch: Watch,
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
    /// The kernel behind its programs: `sandbox`, `shared` or `vm`.
    #[arg(long)]
    isolation: Option<String>,
    /// Screen size, for example 1280x720x24.
    #[arg(long, value_name = "WIDTHxHEIGHTxDEPTH")]
    resolution: Option<String>,
    /// Template: [NAMESPACE/]NAME[@VERSION]. Without a namespace it is one of the workspace's account. Without a version it is the one that your own account published last.
    #[arg(long, value_name = "REF")]
    template: Option<String>,
    /// Idle minutes before the computer is suspended; 0 disables it.
    #[arg(long, value_name = "MINUTES")]
    auto_stop: Option<i64>,
    /// Keep a replica on a second host, refreshed after this many minutes.
    #[arg(long, value_name = "MINUTES")]
    replicate: Option<i64>,
    /// Prefer a host with few computers of the same workspace.
    #[arg(long)]
    spread: bool,
    #[command(flatten)]
    egress: egress::EgressRules,
}

/// Runs a subcommand.
///
/// # Errors
/// When the server refuses the request or is unreachable.
pub async fn run(command: Command, session: &Session) -> Outcome {
    match command {
        Command::Selftest(target) => return selftest::run(session, &target).await,
        Command::List(options) => options.watch.run(async || list(session, &options).await).await,
        Command::Create(options) => create(session, options).await,
        Command::Get(target) => get(session, &target).await,
        Command::Start(options) => power::run(session, power::PowerCommand::Start, &options).await,
        Command::Stop(options) => power::run(session, power::PowerCommand::Stop, &options).await,
        Command::Suspend(options) => power::run(session, power::PowerCommand::Suspend, &options).await,
        Command::Resume(options) => power::run(session, power::PowerCommand::Resume, &options).await,
        Command::Restart(options) => power::run(session, power::PowerCommand::Restart, &options).await,
        Command::Egress(options) => egress::run(session, options).await,
        Command::Clone(options) => hardware::clone(session, options).await,
        Command::Fork(options) => hardware::fork(session, options).await,
        Command::Resize(options) => hardware::resize(session, options).await,
        Command::SaveTemplate(options) => template::save(session, options).await,
        Command::Move(options) => hardware::relocate(session, options).await,
        Command::Rename { target, name } => {
            let id = resolve::computer(&session.api, &target.computer).await?;
            let body = UpdateComputer { name: Some(name), ..UpdateComputer::default() };
            let response =
                session.api.call(Method::PATCH, &["computers", &id], Some(&body), REQUEST_TIMEOUT).await?;
            let renamed: Computer = response.decode()?;
            session.show(&response, || output::line(&format!("{} is now {}.", target.computer, renamed.name)))
        }
        Command::Replicate { target, minutes } => {
            let id = resolve::computer(&session.api, &target.computer).await?;
            let replicate = Some(Replication { interval_minutes: minutes });
            let body = UpdateComputer { replicate, ..UpdateComputer::default() };
            let response =
                session.api.call(Method::PATCH, &["computers", &id], Some(&body), REQUEST_TIMEOUT).await?;
            let changed: Computer = response.decode()?;
            session.show(&response, || {
                output::line(&match changed.replicate {
                    Some(it) => format!(
                        "The replica of {} is refreshed every {}.",
                        changed.name,
                        plural(it.interval_minutes, "minute")
                    ),
                    None => format!("{} has no replica.", changed.name),
                })
            })
        }
        Command::Isolate { target, isolation } => {
            let id = resolve::computer(&session.api, &target.computer).await?;
            let body = UpdateComputer { isolation: Some(isolation), ..UpdateComputer::default() };
            let response =
                session.api.call(Method::PATCH, &["computers", &id], Some(&body), REQUEST_TIMEOUT).await?;
            let changed: Computer = response.decode()?;
            session.show(&response, || {
                output::line(&format!(
                    "{} has isolation {} from its next start.",
                    changed.name, changed.isolation
                ))
            })
        }
        Command::Delete(options) => delete(session, options).await,
        Command::Password(target) => {
            let id = resolve::computer(&session.api, &target.computer).await?;
            let response = session.api.get(&["computers", &id, "vnc-password"], &[], REQUEST_TIMEOUT).await?;
            let vnc: VncPassword = response.decode()?;
            session.show(&response, || output::line(&vnc.password))
        }
    }?;
    Ok(ExitCode::SUCCESS)
}

async fn list(session: &Session, options: &ListOptions) -> Outcome<()> {
    let workspace = match &options.workspace {
        Some(wanted) => Some(resolve::workspace(&session.api, wanted).await?),
        None => None,
    };
    let filters = [("workspace_id", workspace.as_deref()), ("status", options.status.as_deref())];
    let query: Vec<(&str, &str)> =
        filters.iter().filter_map(|(name, value)| Some((*name, (*value)?))).collect();
    let response = session.api.get(&["computers"], &query, REQUEST_TIMEOUT).await?;
    let list: ComputerList = response.decode()?;
    session.show(&response, || {
        let row = |it: Computer| {
            let size = format!("{} vCPU, {} GB, {} GB", it.cpu, it.ram, it.disk_size_gb);
            let (isolation, resolution) = (it.isolation, it.resolution);
            vec![it.name, it.project_name, it.status, size, isolation, resolution, it.instance_id, it.id]
        };
        let columns = [
            Column::Text("NAME"),
            Column::Text("WORKSPACE"),
            Column::Text("STATUS"),
            Column::Text("CPU, RAM, DISK"),
            Column::Wide("ISOLATION"),
            Column::Wide("RESOLUTION"),
            Column::Wide("INSTANCE"),
            Column::Id("ID"),
        ];
        let rows = list.computers.into_iter().map(row).collect();
        output::list(options.view, &columns, rows, "No computers match.")
    })
}

async fn create(session: &Session, options: CreateOptions) -> Outcome<()> {
    let workspace = resolve::workspace(&session.api, &options.workspace).await?;
    let template_ref = match options.template {
        Some(template) => Some(named(session, &template).await?),
        None => None,
    };
    let name = options.name.clone();
    let progress = Progress::operation("create", format!("creating {name}"));
    let body = CreateComputer {
        workspace_id: Some(workspace),
        project_id: None,
        name: options.name,
        os: None,
        gpu: None,
        cpu: options.cpu,
        ram: options.ram,
        disk_size_gb: options.disk,
        isolation: options.isolation,
        resolution: options.resolution,
        auto_stop_minutes: options.auto_stop,
        replicate: options.replicate.map(|interval_minutes| Replication { interval_minutes }),
        deliver_files: false,
        spread: options.spread,
        template_ref,
        egress_policy: options.egress.policy(),
        image: None,
    };
    let creating = session.api.call(Method::POST, &["computers"], Some(&body), CREATE_TIMEOUT);
    let response = wait::or_interrupt(creating, || wait::creation_goes_on(&format!("{name:?}"))).await?;
    progress.complete();
    let created: Computer = response.decode()?;
    session.show(&response, || {
        output::line(&format!("{} is {} ({}).", created.name, created.status, created.id))
    })
}

async fn delete(session: &Session, options: DeleteOptions) -> Outcome<()> {
    let wanted = &options.target.computer;
    let id = resolve::computer(&session.api, wanted).await?;
    let question = async || {
        let response = session.api.get(&["computers", &id], &[], REQUEST_TIMEOUT).await?;
        let it: Computer = response.decode()?;
        let Computer { name, project_name, status, .. } = &it;
        Ok(format!("Delete {name} in {project_name} ({status}) and its disk?"))
    };
    options.confirmation.ask(question).await?;
    let progress = Progress::operation("delete", format!("deleting {wanted}"));
    let response = session.api.call(Method::DELETE, &["computers", &id], None::<&()>, DELETE_TIMEOUT).await?;
    progress.complete();
    session.show(&response, || output::line(&format!("Deleted {wanted}.")))
}

async fn get(session: &Session, target: &ComputerArg) -> Outcome<()> {
    let id = resolve::computer(&session.api, &target.computer).await?;
    let response = session.api.get(&["computers", &id], &[], REQUEST_TIMEOUT).await?;
    let it: Computer = response.decode()?;
    let auto_stop = match it.auto_stop_minutes {
        0 => "never".to_owned(),
        minutes => format!("after {minutes} idle minutes"),
    };
    let replica = match (&it.replicate, it.replica) {
        (None, _) => "none".to_owned(),
        (Some(_), None) => "not made yet".to_owned(),
        (Some(_), Some(replica)) => format!("on {}, of {}", replica.host, replica.refreshed_at),
    };
    let status = match it.status_message {
        Some(message) => format!("{}: {message}", it.status),
        None => it.status,
    };
    let fields = [
        ("name", it.name),
        ("id", it.id),
        ("instance", it.instance_id),
        ("workspace", it.project_name),
        ("workspace id", it.workspace_id),
        ("status", status),
        ("cpu", format!("{} vCPU", it.cpu)),
        ("ram", format!("{} GB", it.ram)),
        ("disk", format!("{} GB", it.disk_size_gb)),
        ("isolation", it.isolation),
        ("resolution", it.resolution),
        ("auto-stop", auto_stop),
        ("replica", replica),
        ("address", it.ip.unwrap_or_else(|| "none".to_owned())),
        ("url", it.url),
        ("created", it.created_at),
    ];
    session.show(&response, || output::fields(fields))
}
