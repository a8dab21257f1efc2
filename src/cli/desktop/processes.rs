//! `hotdesk ps`: background processes of a computer.

use clap::{Args, Subcommand};
use reqwest::Method;

use super::selection::{Selectable, select};
use super::{ScreenArg, printable};
use crate::client::api::{Api, REQUEST_TIMEOUT};
use crate::client::watch::Watch;
use crate::client::{Session, resolve};
use crate::computers::{ComputerArg, ComputerListArg};
use crate::failure::{Failure, Outcome};
use crate::output;
use hotdesk_domain::name::fold;
use hotdesk_wire::programs::process::{Process, ProcessList, SendSignal, SignalResult, StartProcess};

/// `hotdesk ps`: with a computer alone, its list.
#[derive(Debug, Args)]
#[command(subcommand_negates_reqs = true)]
pub struct Options {
    /// List the background processes of this computer, like `ps list`: name, id, the beginning of its id, or
    /// instance id.
    #[arg(required = true)]
    computer: Option<String>,
    #[command(flatten)]
    watch: Watch,
    #[command(subcommand)]
    command: Option<Command>,
}

/// Subcommands of `hotdesk ps`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// List background processes, oldest first; the last ended ones included.
    #[command(visible_alias = "ls")]
    List(ComputerListArg),
    /// Start a command in the background. `hotdesk logs` prints its output.
    Start {
        #[command(flatten)]
        target: ComputerArg,
        #[command(flatten)]
        screen: ScreenArg,
        /// Name for people; it need not be unique.
        #[arg(long)]
        name: Option<String>,
        /// Command; its arguments are joined by spaces, like with ssh.
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
        command: Vec<String>,
    },
    /// Send a signal to a running background process and to everything that it started.
    Kill {
        #[command(flatten)]
        target: ComputerArg,
        /// Process: id, process id in the computer, or name.
        process: String,
        /// Signal, for example TERM, INT, KILL or USR1.
        #[arg(long, short, default_value = "TERM")]
        signal: String,
    },
}

impl Selectable for Process {
    const KIND: (&'static str, &'static str) = ("background process", "ps list");

    fn id(&self) -> &str {
        &self.id
    }

    fn is_named(&self, folded: &str) -> bool {
        let has_name = self.name.as_deref().is_some_and(|name| fold(name) == folded);
        has_name || self.pid.to_string() == folded
    }

    fn label(&self) -> String {
        format!("{} ({})", printable(&self.command), self.id)
    }
}

/// Runs `hotdesk ps`.
///
/// # Errors
/// `Usage` with a computer before a subcommand, and those of the subcommand.
pub async fn run(options: Options, session: &Session) -> Outcome<()> {
    match (options.computer, options.command) {
        (None, Some(command)) if !options.watch.is_on() => act(command, session).await,
        (Some(computer), None) => {
            let target = ComputerArg { computer };
            options.watch.run(async || list(session, &target).await).await
        }
        (_, Some(_)) => {
            let text = "COMPUTER and --watch belong behind the subcommand: hotdesk ps list COMPUTER --watch";
            Err(Failure::Usage(text.to_owned()))
        }
        // The parser requires one of them.
        (None, None) => Err(Failure::Usage("COMPUTER is missing".to_owned())),
    }
}

/// Runs a subcommand.
///
/// # Errors
/// When no process or more than one matches, the server refuses a request or is unreachable.
async fn act(command: Command, session: &Session) -> Outcome<()> {
    let api = &session.api;
    match command {
        Command::List(ComputerListArg { target, watch }) => {
            watch.run(async || list(session, &target).await).await
        }
        Command::Start { target, screen, name, command } => {
            let id = resolve::computer(api, &target.computer).await?;
            let command = Some(command.join(" "));
            let body = StartProcess { command, name, screen: screen.screen, ..StartProcess::default() };
            let path = ["computers", &id, "processes"];
            let response = api.call(Method::POST, &path, Some(&body), REQUEST_TIMEOUT).await?;
            let made: Process = response.decode()?;
            session.show(&response, || output::line(&format!("Started {} (process {}).", made.id, made.pid)))
        }
        Command::Kill { target, process, signal } => {
            let id = resolve::computer(api, &target.computer).await?;
            let (running, ended): (Vec<_>, Vec<_>) =
                all(api, &id).await?.processes.into_iter().partition(|it| it.tree_running);
            // A name may be used again, so what runs is meant. The server refuses to signal what has ended.
            let process =
                &select(&running, &process).or_else(|none| select(&ended, &process).map_err(|_| none))?.id;
            let path = ["computers", &id, "processes", process, "signal"];
            let body = SendSignal { signal, tree: None };
            let response = api.call(Method::POST, &path, Some(&body), REQUEST_TIMEOUT).await?;
            let sent: SignalResult = response.decode()?;
            session.show(&response, || {
                output::line(&format!("Sent {} to {process} (processes: {}).", sent.signal, sent.processes))
            })
        }
    }
}

/// Returns the background processes of a computer.
///
/// # Errors
/// When the server refuses the request or is unreachable.
pub async fn all(api: &Api, computer: &str) -> Outcome<ProcessList> {
    api.get(&["computers", computer, "processes"], &[], REQUEST_TIMEOUT).await?.decode()
}

async fn list(session: &Session, target: &ComputerArg) -> Outcome<()> {
    let id = resolve::computer(&session.api, &target.computer).await?;
    let response = session.api.get(&["computers", &id, "processes"], &[], REQUEST_TIMEOUT).await?;
    let list: ProcessList = response.decode()?;
    session.show(&response, || {
        if list.processes.is_empty() {
            return output::line("There are no background processes.");
        }
        let rows = list.processes.into_iter().map(row).collect();
        output::table(&["NAME", "STATUS", "PID", "STARTED", "OUTPUT", "COMMAND", "ID"], rows)
    })
}

fn row(it: Process) -> Vec<String> {
    let status = match (it.exit_code, it.signal) {
        (Some(code), _) => format!("{} {code}", it.status),
        (None, Some(signal)) => format!("{} {signal}", it.status),
        (None, None) => it.status,
    };
    let output = format!("{} B", it.output_bytes);
    let name = it.name.unwrap_or_default();
    let (name, command) = (printable(&name), printable(&it.command));
    vec![name, status, it.pid.to_string(), it.started_at, output, command, it.id]
}
