//! Command line of hotdesk: arguments, subcommands and their dispatch (floor 7).

use std::env;
use std::ffi::OsString;
use std::io::{IsTerminal, Read};
use std::path::PathBuf;
use std::pin::Pin;
use std::process::ExitCode;

use clap::{Args, CommandFactory, Parser, Subcommand};
use clap_complete::Shell as CompletionShell;
use console::Term;

mod account;
mod client;
mod computers;
mod copy;
mod desktop;
mod failure;
mod open;
mod operator;
mod output;
mod progress;
mod remote;
mod suggestions;
mod templates;

use account::{api_keys, audit, capacity, clients, hosts, login, profile, secrets, ssh_keys, workspaces};
use client::Session;
use client::api::Api;
use client::completion;
use client::connection::{self, ConnectionOptions};
use client::credentials::{self, Credentials};
use computers::{chat, screenshot, shortcuts, snapshots, timeline};
use failure::{Failure, Outcome};
use hotdesk_base::secret::Secret;
use operator::{
    add_host, admin, agent, doctor, host, image, repair, secrets as sealing, serve, settings, store, up,
};
use remote::{bash, forward, mcp, shell, ssh};

/// Largest text in bytes that `-` reads from standard input: above the largest request body of the API.
const MAX_INPUT: u64 = 4 * 1024 * 1024;

/// Self-hosted cloud computers for programs and AI agents.
///
/// Client commands read the server address from --url, HOTDESK_URL or the current profile (default:
/// http://127.0.0.1:8700). They read the API key from HOTDESK_API_KEY or from a profile for that server.
#[derive(Debug, Parser)]
#[command(name = "hotdesk", version)]
struct Cli {
    #[command(flatten)]
    global: GlobalOptions,
    #[command(subcommand)]
    command: Command,
}

/// Options of every client command.
#[derive(Debug, Args)]
#[command(next_help_heading = "Server and output")]
struct GlobalOptions {
    /// Server address.
    #[arg(long, global = true, env = "HOTDESK_URL", hide_env_values = true)]
    url: Option<String>,
    /// Profile with the server address and the API key.
    #[arg(long, global = true, value_name = "NAME", env = "HOTDESK_PROFILE")]
    profile: Option<String>,
    /// Print the JSON response of the server.
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Start a controller on this host in the background, unless one answers, and print a link that signs in.
    Up(up::Options),
    #[command(flatten)]
    Service(ServiceCommand),
    /// Manage workspaces.
    #[command(subcommand, alias = "workspace")]
    Workspaces(workspaces::Command),
    /// Manage computers.
    #[command(subcommand, alias = "computer")]
    Computers(computers::Command),
    #[command(flatten)]
    Shortcut(shortcuts::Shortcut),
    /// Manage snapshots of a computer.
    #[command(subcommand, alias = "snapshot")]
    Snapshots(snapshots::Command),
    /// Manage client accounts. Each client has its own workspace and API key.
    #[command(subcommand)]
    Clients(clients::Command),
    /// Show the computer quota of the account, or change it.
    Capacity(capacity::Options),
    /// Manage the hosts of computers, for the operator of the service.
    #[command(subcommand)]
    Hosts(HostsCommand),
    /// Manage templates: definition files, and what was built from them.
    #[command(subcommand, alias = "template")]
    Templates(templates::Command),
    /// Take a screenshot of a computer.
    Screenshot(screenshot::Options),
    /// List the actions on the screens of a computer: who did what, with what effect.
    Timeline(timeline::Options),
    #[command(flatten)]
    Desktop(desktop::Command),
    /// Run a shell command on a computer with the standard streams and the exit code of this program, like ssh.
    Bash(bash::Options),
    /// Open an interactive shell on a computer, like ssh.
    Shell(shell::Options),
    #[command(flatten)]
    Ssh(ssh::Command),
    /// Forward local ports to ports of programs in a computer, until Ctrl-C.
    Forward(forward::Options),
    /// Serve MCP on the standard streams, for AI clients that start it with an API key.
    Mcp,
    /// Let a language model work on a computer, and print what it says and does.
    Chat(chat::Options),
    /// Copy files and folders to or from a computer, like scp.
    Cp(copy::Options),
    /// Open a desktop in a browser, signed in by a link that works once.
    Open(open::Options),
    /// Manage API keys.
    #[command(subcommand, alias = "api-key")]
    ApiKeys(api_keys::Command),
    /// Manage public SSH keys.
    #[command(subcommand, visible_alias = "ssh-key")]
    SshKeys(ssh_keys::Command),
    /// Show the audit log.
    Audit(audit::Options),
    /// Sign in through a browser and store the API key in a profile (--profile or the current one).
    Login,
    /// Manage accounts, plans and payments in a data folder on this host. The controller may be running.
    Admin {
        #[command(flatten)]
        folder: admin::Folder,
        #[command(subcommand)]
        command: admin::Command,
    },
    /// Move the database of an installation on this host.
    #[command(subcommand)]
    Store(store::Command),
    /// Manage secrets for computers, or the keys that seal them in a data folder on this host.
    #[command(subcommand, alias = "secret")]
    Secrets(SecretsCommand),
    /// Manage profiles: servers and their API keys.
    #[command(subcommand)]
    Profile(profile::Command),
    /// Check whether this host can run computers, and how to fix it.
    Doctor {
        #[command(flatten)]
        options: serve::Options,
        /// List host resources that no computer owns, and the planned repair.
        #[arg(long)]
        repair: bool,
        /// Remove the listed resources.
        #[arg(long, requires = "repair")]
        yes: bool,
    },
    /// Build the guest image or the kernel of virtual machines, and import images for templates.
    #[command(subcommand)]
    Image(image::Command),
    /// Print the effective configuration as a configuration file.
    Config(serve::Options),
    /// Print the OpenAPI document.
    Openapi,
    /// Print a shell completion script. It completes commands, and names of computers and of what they have.
    Completions {
        /// Shell.
        shell: CompletionShell,
    },
    /// Write the manual pages into a folder.
    #[command(hide = true)]
    Man {
        /// Folder, which must exist.
        #[arg(long, value_name = "DIR")]
        dir: PathBuf,
    },
    #[command(flatten)]
    Guest(GuestCommand),
}

/// Commands that run the service on a host.
#[derive(Debug, Subcommand)]
enum ServiceCommand {
    /// Run the controller: API, store and computers.
    Serve(serve::Options),
    /// Run the host helper, which makes the computers of a controller without root. Both read the same configuration.
    Host(serve::Options),
    /// Remove all computers of a data folder from this host, with their disks.
    Purge {
        #[command(flatten)]
        options: serve::Options,
        /// Confirm the removal. It cannot be undone.
        #[arg(long, required = true)]
        yes: bool,
    },
}

/// Commands of computers, which other programs start.
#[derive(Debug, Subcommand)]
enum GuestCommand {
    /// Run the agent inside a computer: API for its screens, commands and files.
    Agent(agent::Options),
    /// Run as process 1 of a computer: supervise the agent and reap orphans.
    Init {
        /// Log file of the agent; one rotated file stays beside it.
        #[arg(long, value_name = "FILE", default_value = "/var/log/hotdesk/agent.log")]
        log: PathBuf,
        /// CPUs that programs see. The engine sets this for gVisor, whose kernel shows all CPUs of the host.
        #[arg(long, value_name = "COUNT", hide = true)]
        cpus: Option<usize>,
        /// Options of `hotdesk agent`.
        #[arg(last = true, value_name = "AGENT OPTIONS")]
        agent: Vec<OsString>,
    },
    /// Run as process 1 of a virtual machine: run a command, then power off.
    #[command(hide = true)]
    VmInit {
        /// Command and arguments.
        #[arg(last = true, value_name = "COMMAND")]
        command: Vec<OsString>,
    },
    /// Supervise one command for the agent.
    #[command(hide = true)]
    ExecShim,
    /// Set how many CPUs the programs of this computer see. The engine runs this after a change of vCPUs.
    #[command(hide = true)]
    SetCpus {
        /// CPUs, at least one.
        count: usize,
    },
    /// Connect the agent of a computer to the controller through standard input and output. The engine over Incus starts this.
    #[command(hide = true)]
    Bridge {
        /// Socket of the agent.
        #[arg(long, value_name = "FILE")]
        socket: PathBuf,
    },
    /// Run a computer under gVisor in its Incus instance (`start`, `resume`), or ask this for something (`ready`, `suspend`,
    /// `checkpoint`). The engine over Incus starts this.
    #[command(hide = true)]
    Launcher {
        /// What to do.
        verb: String,
        /// Generation of the boot.
        #[arg(long, value_name = "NUMBER")]
        generation: u64,
    },
    /// Resolve the names that the egress policy of a computer permits. The engine starts this.
    #[command(hide = true)]
    NameProxy {
        /// Settings, of which another process must have no use.
        #[arg(long, value_name = "FILE")]
        settings: PathBuf,
    },
}

/// Command line with the commands that other programs start, and often: for them clap does not describe all other commands,
/// which would stay in the memory of the process and of each fork.
#[derive(Debug, Parser)]
#[command(name = "hotdesk", version)]
struct StartedCli {
    #[command(flatten)]
    _global: GlobalOptions,
    #[command(subcommand)]
    command: StartedCommand,
}

#[derive(Debug, Subcommand)]
enum StartedCommand {
    #[command(flatten)]
    Service(ServiceCommand),
    #[command(flatten)]
    Guest(GuestCommand),
}

/// `hotdesk hosts`.
#[derive(Debug, Subcommand)]
enum HostsCommand {
    #[command(flatten)]
    Service(hosts::Command),
    /// Make a token by which a machine joins the Incus cluster of a configuration, and print the command to run on it.
    Add {
        #[command(flatten)]
        options: Box<serve::Options>,
        #[command(flatten)]
        host: add_host::NewHost,
    },
}

/// `hotdesk secrets`.
#[derive(Debug, Subcommand)]
enum SecretsCommand {
    #[command(flatten)]
    Stored(secrets::Command),
    #[command(flatten)]
    Sealing(sealing::Command),
}

/// Parses the arguments, runs the command and returns its exit code; prints a failure to standard error.
pub fn main() -> ExitCode {
    if let Some(command) = started_command() {
        let outcome = match command {
            StartedCommand::Service(command) => run_service(command),
            StartedCommand::Guest(command) => run_guest(command),
        };
        return outcome.unwrap_or_else(|failure| failure.report());
    }
    match completion::answer() {
        Ok(false) => {}
        Ok(true) => return ExitCode::SUCCESS,
        Err(error) => error.exit(),
    }
    let parsed = Cli::try_parse().map_err(|error| suggestions::extend(error, &Cli::command()));
    let Cli { global, command } = parsed.unwrap_or_else(|error| error.exit());
    run(&global, command).unwrap_or_else(|failure| failure.report())
}

/// Parses the arguments if they begin with a [`StartedCommand`]. Returns `None` for all others, wrong ones and requests for help:
/// [`Cli`] answers those.
fn started_command() -> Option<StartedCommand> {
    let name = env::args_os().nth(1)?;
    if !StartedCommand::has_subcommand(name.to_str()?) {
        return None;
    }
    StartedCli::try_parse().ok().map(|parsed| parsed.command)
}

fn run_service(command: ServiceCommand) -> Outcome {
    match command {
        ServiceCommand::Serve(options) => serve::run(&options)?,
        ServiceCommand::Host(options) => host::run(&options)?,
        ServiceCommand::Purge { options, yes: _ } => serve::purge(&options)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn run_guest(command: GuestCommand) -> Outcome {
    match command {
        GuestCommand::Agent(options) => agent::run(options)?,
        GuestCommand::Init { log, cpus, agent } => {
            cpus.map_or(Ok(()), hotdesk_agent::system::cpus::limit_own)?;
            hotdesk_agent::system::init::run(&agent, &log)?;
        }
        GuestCommand::VmInit { command } => hotdesk_agent::system::vm::run(&command)?,
        GuestCommand::ExecShim => hotdesk_agent::exec::shim::run().map_err(|error| error.to_string())?,
        GuestCommand::SetCpus { count } => hotdesk_agent::system::cpus::limit_all(count)?,
        GuestCommand::Bridge { socket } => hotdesk_engine::run_bridge(&socket)
            .map_err(|error| format!("cannot serve the connections to {}: {error}", socket.display()))?,
        GuestCommand::Launcher { verb, generation } => {
            hotdesk_engine::run_launcher(&verb, generation).map_err(|error| format!("{error:#}"))?;
        }
        GuestCommand::NameProxy { settings } => {
            hotdesk_engine::run_name_proxy(&settings).map_err(|error| format!("{error:#}"))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn run(global: &GlobalOptions, command: Command) -> Outcome {
    match command {
        Command::Up(options) => up::run(&options, global)?,
        Command::Service(command) => return run_service(command),
        Command::Guest(command) => return run_guest(command),
        Command::Image(command) => image::run(command, global.json)?,
        Command::Config(options) => settings::config(&options, global.json)?,
        Command::Openapi => settings::openapi()?,
        Command::Completions { shell } => settings::completions(shell)?,
        Command::Man { dir } => settings::man(&dir)?,
        Command::Templates(templates::Command::Validate { file }) => {
            return templates::check(&file, global.json);
        }
        Command::Templates(it) => {
            return global.with_session(async |session| templates::run(it, session).await);
        }
        Command::Login => login::run(global.url(), global.profile(), global.json)?,
        Command::Admin { folder, command } => admin::run(&folder, command, global.json)?,
        Command::Store(it) => store::run(&it, global.json)?,
        Command::Secrets(SecretsCommand::Sealing(it)) => sealing::run(&it)?,
        Command::Secrets(SecretsCommand::Stored(it)) => {
            global.with_session(async |session| secrets::run(it, session).await)?;
        }
        Command::Profile(command) => profile::run(command, global.url(), global.json)?,
        Command::Doctor { options, repair: true, yes } => return repair::run(&options, yes, global.json),
        Command::Doctor { options, .. } => return doctor::run(&options, global.json),
        Command::Bash(options) => {
            let ended = global.with_session(async |session| bash::run(options, session).await);
            return Ok(ended.unwrap_or_else(|failure| failure.report_as_ssh()));
        }
        Command::Shell(options) => {
            let ended = global.with_session(async |session| shell::run(options, session).await);
            return Ok(ended.unwrap_or_else(|failure| failure.report_as_ssh()));
        }
        Command::Ssh(it) => {
            let ended = global.with_session(async |session| ssh::run(it, session).await);
            return Ok(ended.unwrap_or_else(|failure| failure.report_as_ssh()));
        }
        Command::Forward(it) => {
            return global.with_session(async |session| forward::run(it, session).await);
        }
        Command::Chat(it) => return global.with_session(async |session| chat::run(it, session).await),
        Command::Mcp => return global.with_session(async |session| mcp::run(session).await),
        Command::Workspaces(it) => global.with_session(async |session| workspaces::run(it, session).await)?,
        Command::Computers(it) => {
            return global.with_session(async |session| computers::run(it, session).await);
        }
        Command::Shortcut(it) => {
            return global.with_session(async |session| computers::run(it.into(), session).await);
        }
        Command::Desktop(it) => return global.with_session(async |session| desktop::run(it, session).await),
        Command::Snapshots(it) => global.with_session(async |session| snapshots::run(it, session).await)?,
        Command::Clients(it) => global.with_session(async |session| clients::run(it, session).await)?,
        Command::Hosts(HostsCommand::Add { options, host }) => add_host::run(&options, &host, global.json)?,
        Command::Hosts(HostsCommand::Service(it)) => {
            global.with_session(async |session| hosts::run(it, session).await)?
        }
        Command::Capacity(it) => global.with_session(async |session| capacity::run(&it, session).await)?,
        Command::Screenshot(it) => global.with_session(async |session| screenshot::run(it, session).await)?,
        Command::Timeline(it) => global.with_session(async |session| timeline::run(it, session).await)?,
        Command::ApiKeys(it) => global.with_session(async |session| api_keys::run(it, session).await)?,
        Command::SshKeys(it) => global.with_session(async |session| ssh_keys::run(it, session).await)?,
        Command::Audit(it) => global.with_session(async |session| audit::run(it, session).await)?,
        Command::Open(it) => global.with_session(async |session| open::run(it, session).await)?,
        Command::Cp(it) => global.with_session(async |session| copy::run(it, session).await)?,
    }
    Ok(ExitCode::SUCCESS)
}

impl GlobalOptions {
    /// Server address of `--url` or `HOTDESK_URL`. An empty variable counts as unset.
    fn url(&self) -> Option<&str> {
        self.url.as_deref().filter(|url| !url.is_empty())
    }

    /// Profile name of `--profile` or `HOTDESK_PROFILE`. An empty variable counts as unset.
    fn profile(&self) -> Option<&str> {
        self.profile.as_deref().filter(|name| !name.is_empty())
    }

    /// Server and profile of this call as options, for another call of this program.
    fn connection_flags(&self) -> Vec<String> {
        let flags = [("--url", self.url()), ("--profile", self.profile())];
        let given = flags.into_iter().filter_map(|(flag, value)| Some([flag, value?]));
        given.flatten().map(str::to_owned).collect()
    }

    /// Resolves server and key, then runs `command` with them.
    fn with_session<T>(&self, command: impl AsyncFnOnce(&Session) -> Outcome<T>) -> Outcome<T> {
        self.with_key(None, command)
    }

    /// [`Self::with_session`] with this key, if any, instead of the one of the environment.
    fn with_key<T>(
        &self,
        key: Option<Secret>,
        command: impl AsyncFnOnce(&Session) -> Outcome<T>,
    ) -> Outcome<T> {
        let of_environment = || std::env::var("HOTDESK_API_KEY").ok().filter(|key| !key.is_empty());
        let key = key.or_else(|| of_environment().map(Secret::new));
        let options = ConnectionOptions {
            url: self.url().map(str::to_owned),
            profile: self.profile().map(str::to_owned),
            key,
        };
        let complete = options.url.is_some() && options.key.is_some() && options.profile.is_none();
        // A complete command line works without a home folder and with a broken credentials file.
        let stored =
            if complete { Credentials::default() } else { Credentials::load(&credentials::path()?)? };
        let connection = connection::resolve(&options, &stored)?;
        let session = Session { api: Api::new(connection)?, json: self.json, flags: self.connection_flags() };
        let runtime = runtime()?;
        // Boxed commands with one type of a result share the code of the runtime.
        let command: Pin<Box<dyn Future<Output = Outcome<T>> + '_>> = Box::pin(command(&session));
        let outcome = runtime.block_on(command);
        // A thread that reads standard input may block for ever.
        runtime.shutdown_background();
        outcome
    }
}

/// Single-threaded runtime for one command.
fn runtime() -> Outcome<tokio::runtime::Runtime> {
    let built = tokio::runtime::Builder::new_current_thread().enable_all().build();
    built.map_err(|error| format!("cannot start the async runtime: {error}").into())
}

/// Returns `text`, or the content of standard input when `text` is `-`.
fn read_text(text: String) -> Outcome<String> {
    if text != "-" {
        return Ok(text);
    }
    let mut read = String::new();
    let input = std::io::stdin().lock().take(MAX_INPUT + 1).read_to_string(&mut read);
    let count = input.map_err(|error| format!("cannot read standard input: {error}"))?;
    if count as u64 > MAX_INPUT {
        return Err(Failure::Failed(format!(
            "standard input is larger than the limit of {} MiB",
            MAX_INPUT >> 20
        )));
    }
    Ok(read)
}

/// Reads a secret from standard input; a terminal shows `prompt` and no echo. Reads at most `limit + 1` bytes, so that
/// the caller can detect a secret that is too long.
fn read_secret(prompt: &str, limit: u64) -> Outcome<Secret> {
    if std::io::stdin().is_terminal() {
        let terminal = Term::stderr();
        let entered = terminal.write_str(prompt).and_then(|()| terminal.read_secure_line());
        return entered
            .map(Secret::new)
            .map_err(|error| format!("cannot read from the terminal: {error}").into());
    }
    let mut text = String::new();
    let input = std::io::stdin().lock().take(limit + 1).read_to_string(&mut text);
    input.map_err(|error| format!("cannot read standard input: {error}"))?;
    Ok(Secret::new(text))
}
