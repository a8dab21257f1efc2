//! `hotdesk computers`: which are there, and how are they made, read, renamed and removed?

use std::process::ExitCode;

use clap::{Args, Subcommand};
use reqwest::Method;

use super::client::api::{CREATE, QUICK};
use super::client::{Session, resolve};
use super::failure::Outcome;
use super::hardware;
use super::output;
use super::power;
use super::progress::Progress;
use super::selftest;
use hotdesk_wire::computer::{Computer, ComputerList, CreateComputer, UpdateComputer, VncPassword};

/// How long removing a computer may take: it may be stopping, with a grace, and writing back what it holds.
const REMOVAL: std::time::Duration = std::time::Duration::from_secs(240);

/// `hotdesk computers`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// List the computers.
    List {
        /// Only this workspace's (id or name).
        #[arg(long, short, value_name = "WORKSPACE")]
        workspace: Option<String>,
        /// Only those with this status, for example `running`.
        #[arg(long)]
        status: Option<String>,
    },
    /// Make a computer and wait until it is usable.
    Create(Order),
    /// Show a computer.
    Get(Which),
    /// Start a stopped or suspended computer.
    Start(power::Change),
    /// Stop a computer; its disk is kept.
    Stop(power::Change),
    /// Suspend a computer: windows and processes go on when it wakes.
    Suspend(power::Change),
    /// Wake a suspended computer.
    Resume(power::Change),
    /// Restart a computer; its password changes.
    Restart(power::Change),
    /// Give a computer another name.
    Rename {
        #[command(flatten)]
        which: Which,
        /// The new name, unique in its workspace.
        name: String,
    },
    /// Make a copy of a computer with all that is on its disk.
    Clone(hardware::Copy),
    /// Make a copy of a running computer with all that runs on it, or of what a snapshot holds, where the engine can.
    Fork(hardware::Fork),
    /// Change a running computer's hardware.
    Resize(hardware::Size),
    /// Give a computer to another workspace.
    Move(hardware::Place),
    /// Remove a computer and everything on it.
    Delete(Which),
    /// Print the password of a computer's screens and sockets.
    Password(Which),
    /// Try what a computer can do, with figures; ends with 1 when something does not work.
    Selftest(Which),
}

/// Which computer.
#[derive(Debug, Args)]
pub struct Which {
    /// Its id, instance id or name.
    pub computer: String,
}

/// What a new computer shall be; the server knows the defaults.
#[derive(Debug, Args)]
pub struct Order {
    /// Its name, unique in its workspace.
    name: String,
    /// The workspace that holds it (id or name).
    #[arg(long, short)]
    workspace: String,
    /// vCPUs: 0.5, 1, 2, 4, 8 or 16.
    #[arg(long)]
    cpu: Option<f64>,
    /// Memory in GB: 4, 8, 16, 32 or 64.
    #[arg(long)]
    ram: Option<f64>,
    /// Disk in GB.
    #[arg(long)]
    disk: Option<f64>,
    /// Size of the screen, for example 1280x720x24.
    #[arg(long, value_name = "WIDTHxHEIGHTxDEPTH")]
    resolution: Option<String>,
    /// Template that it is made from: namespace/name@version.
    #[arg(long, value_name = "REF")]
    template: Option<String>,
    /// Minutes without anybody at work after which it suspends itself; 0 is never.
    #[arg(long, value_name = "MINUTES")]
    auto_stop: Option<i64>,
}

/// Does it.
///
/// # Errors
/// When the server refuses or is not reached.
pub async fn run(command: Command, session: &Session) -> Outcome {
    match command {
        Command::Selftest(which) => return selftest::run(session, &which).await,
        Command::List { workspace, status } => list(session, workspace, status).await,
        Command::Create(order) => create(session, order).await,
        Command::Get(which) => get(session, &which).await,
        Command::Start(change) => power::run(session, power::Verb::Start, &change).await,
        Command::Stop(change) => power::run(session, power::Verb::Stop, &change).await,
        Command::Suspend(change) => power::run(session, power::Verb::Suspend, &change).await,
        Command::Resume(change) => power::run(session, power::Verb::Resume, &change).await,
        Command::Restart(change) => power::run(session, power::Verb::Restart, &change).await,
        Command::Clone(copy) => hardware::clone(session, copy).await,
        Command::Fork(fork) => hardware::fork(session, fork).await,
        Command::Resize(size) => hardware::resize(session, size).await,
        Command::Move(place) => hardware::relocate(session, place).await,
        Command::Rename { which, name } => {
            let id = resolve::computer(&session.api, &which.computer).await?;
            let body = UpdateComputer { name };
            let answer = session.api.call(Method::PATCH, &["computers", &id], Some(&body), QUICK).await?;
            let renamed: Computer = answer.decode()?;
            session.show(&answer, || output::line(&format!("{} is now {}.", which.computer, renamed.name)))
        }
        Command::Delete(which) => {
            let id = resolve::computer(&session.api, &which.computer).await?;
            let waiting = Progress::waiting(format!("removing {}", which.computer));
            let answer = session.api.call(Method::DELETE, &["computers", &id], None::<&()>, REMOVAL).await?;
            drop(waiting);
            session.show(&answer, || output::line(&format!("Removed {}.", which.computer)))
        }
        Command::Password(which) => {
            let id = resolve::computer(&session.api, &which.computer).await?;
            let answer = session.api.get(&["computers", &id, "vnc-password"], &[], QUICK).await?;
            let told: VncPassword = answer.decode()?;
            session.show(&answer, || output::line(&told.password))
        }
    }?;
    Ok(ExitCode::SUCCESS)
}

async fn list(session: &Session, workspace: Option<String>, status: Option<String>) -> Outcome<()> {
    let workspace = match workspace {
        Some(wanted) => Some(resolve::workspace(&session.api, &wanted).await?),
        None => None,
    };
    let wishes = [("workspace_id", workspace), ("status", status)];
    let query: Vec<(&str, &str)> =
        wishes.iter().filter_map(|(name, value)| Some((*name, value.as_deref()?))).collect();
    let answer = session.api.get(&["computers"], &query, QUICK).await?;
    let list: ComputerList = answer.decode()?;
    session.show(&answer, || {
        if list.computers.is_empty() {
            return output::line("There are no such computers.");
        }
        let row = |it: Computer| {
            let size = format!("{} vCPU, {} GB, {} GB", it.cpu, it.ram, it.disk_size_gb);
            vec![it.name, it.project_name, it.status, size, it.resolution, it.instance_id, it.id]
        };
        let headings = ["NAME", "WORKSPACE", "STATUS", "CPU, RAM, DISK", "RESOLUTION", "INSTANCE", "ID"];
        output::table(&headings, list.computers.into_iter().map(row).collect())
    })
}

async fn create(session: &Session, order: Order) -> Outcome<()> {
    let workspace = resolve::workspace(&session.api, &order.workspace).await?;
    let waiting = Progress::waiting(format!("making {}", order.name));
    let body = CreateComputer {
        workspace_id: Some(workspace),
        project_id: None,
        name: order.name,
        os: None,
        gpu: None,
        cpu: order.cpu,
        ram: order.ram,
        disk_size_gb: order.disk,
        resolution: order.resolution,
        auto_stop_minutes: order.auto_stop,
        template_ref: order.template,
        image: None,
    };
    let answer = session.api.call(Method::POST, &["computers"], Some(&body), CREATE).await?;
    drop(waiting);
    let made: Computer = answer.decode()?;
    session.show(&answer, || output::line(&format!("{} is {} ({}).", made.name, made.status, made.id)))
}

async fn get(session: &Session, which: &Which) -> Outcome<()> {
    let id = resolve::computer(&session.api, &which.computer).await?;
    let answer = session.api.get(&["computers", &id], &[], QUICK).await?;
    let it: Computer = answer.decode()?;
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
    session.show(&answer, || output::table(&["FIELD", "VALUE"], rows))
}
