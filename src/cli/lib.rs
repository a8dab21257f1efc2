//! Floor 7: the command line.

use std::ffi::OsString;
use std::io::{IsTerminal, Read};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;
use console::Term;

mod admin;
mod agent;
mod api_keys;
mod audit;
mod bash;
mod capacity;
mod client;
mod clients;
mod computers;
mod copy;
mod desktop;
mod doctor;
mod failure;
mod hardware;
mod login;
mod output;
mod power;
mod profile;
mod progress;
mod repair;
mod screenshot;
mod selftest;
mod serve;
mod settings;
mod snapshots;
mod workspaces;

use client::Session;
use client::api::Api;
use client::connection::{self, Wishes};
use client::credentials::{self, Credentials};
use failure::{Failure, Outcome};
use hotdesk_base::secret::Secret;

/// Largest text that `-` reads from standard input: more than the service takes in one request.
const MAX_INPUT: u64 = 4 * 1024 * 1024;

/// Self-hosted cloud computers for programs and AI agents.
///
/// Commands that ask a server take its address from --url, HOTDESK_URL or the profile in use (else
/// http://127.0.0.1:8700), and the key from HOTDESK_API_KEY or a profile for that server.
#[derive(Debug, Parser)]
#[command(name = "hotdesk", version)]
struct Cli {
    #[command(flatten)]
    shared: Shared,
    #[command(subcommand)]
    command: Command,
}

/// What every command that asks a server takes.
#[derive(Debug, Args)]
#[command(next_help_heading = "Server and output")]
struct Shared {
    /// Address of the server.
    #[arg(long, global = true, env = "HOTDESK_URL", hide_env_values = true)]
    url: Option<String>,
    /// Profile to take the address and the key from.
    #[arg(long, global = true, value_name = "NAME", env = "HOTDESK_PROFILE")]
    profile: Option<String>,
    /// Print the server's answer as it is.
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a controller: the API, the store and the computers.
    Serve(serve::Options),
    /// Remove every computer of a data folder from this host, with their disks.
    Purge {
        #[command(flatten)]
        options: serve::Options,
        /// Say that it is meant: there is no way back. Without it nothing is done, and that is a usage error.
        #[arg(long, required = true)]
        yes: bool,
    },
    /// Workspaces hold computers and files.
    #[command(subcommand, visible_alias = "workspace")]
    Workspaces(workspaces::Command),
    /// Make, list, start, stop and remove computers.
    #[command(subcommand, visible_alias = "computer")]
    Computers(computers::Command),
    /// Keep a computer as it is, and bring it back to that.
    #[command(subcommand, visible_alias = "snapshot")]
    Snapshots(snapshots::Command),
    /// Those for whom you run desktops: each has a workspace and a key of its own.
    #[command(subcommand)]
    Clients(clients::Command),
    /// Tell how many computers the account may have; add some to its plan, or give them back.
    Capacity(capacity::Options),
    /// Take a picture of a computer's screen.
    Screenshot(screenshot::Options),
    /// Click on a computer's screen.
    Click(desktop::ClickOptions),
    /// Type a text on a computer.
    Type(desktop::TypeOptions),
    /// Press a key or a combination on a computer.
    Key(desktop::KeyOptions),
    /// Run a shell command on a computer; print its output and end with its exit code.
    Bash(bash::Options),
    /// Copy a file to a computer's desktop, or from a computer.
    Cp(copy::Options),
    /// Keys of the API: list, make and delete them.
    #[command(subcommand, visible_alias = "api-key")]
    ApiKeys(api_keys::Command),
    /// What was done, by whom, and what was refused.
    Audit(audit::Options),
    /// Get a key from a server by approving it in a browser, and store it in a profile: --profile, else the one in use.
    Login,
    /// Manage the accounts of a data folder on this host, their plans and payments, whether a controller runs on it or not.
    Admin {
        #[command(flatten)]
        folder: admin::Folder,
        #[command(subcommand)]
        command: admin::Command,
    },
    /// Store and choose servers and their keys.
    #[command(subcommand)]
    Profile(profile::Command),
    /// Tell what this host can and cannot do, why, and how to mend it.
    Doctor {
        #[command(flatten)]
        options: serve::Options,
        /// Instead tell what is left on this host that no computer owns, and what would be done about it.
        #[arg(long)]
        repair: bool,
        /// Do it: what is left is taken away.
        #[arg(long, requires = "repair")]
        yes: bool,
    },
    /// Print the configuration in force, as a configuration file.
    Config(serve::Options),
    /// Print the API's description.
    Openapi,
    /// Print a shell's completion script.
    Completions {
        /// The shell.
        shell: Shell,
    },
    /// Run inside a computer: its screens, commands and files behind one API.
    Agent(agent::Options),
    /// Be process 1 of a computer: start the agent, start it again when it dies, reap orphans.
    Init {
        /// File for the agent's messages; one older file is kept beside it.
        #[arg(long, value_name = "FILE", default_value = "/var/log/hotdesk/agent.log")]
        log: PathBuf,
        /// Options of `hotdesk agent`.
        #[arg(last = true, value_name = "AGENT OPTIONS")]
        agent: Vec<OsString>,
    },
    /// Be process 1 of a virtual machine: run a command, and power the machine off when it ends.
    #[command(hide = true)]
    VmInit {
        /// The command and its arguments.
        #[arg(last = true, value_name = "COMMAND")]
        command: Vec<OsString>,
    },
    /// Supervise one command of the agent.
    #[command(hide = true)]
    ExecShim,
    /// Give this computer a host name: the engine's matter, of a computer that goes on as another.
    #[command(hide = true)]
    SetHostname {
        /// The name.
        name: String,
    },
    /// Wait until nobody from outside is connected to a TCP port of this computer: the engine's matter, before its memory is saved.
    #[command(hide = true)]
    AwaitHangup {
        /// The port.
        port: u16,
    },
}

/// Runs the program.
pub fn main() -> ExitCode {
    let Cli { shared, command } = Cli::parse();
    run(&shared, command).unwrap_or_else(|failure| failure.report())
}

fn run(shared: &Shared, command: Command) -> Outcome {
    match command {
        Command::Serve(options) => serve::run(&options)?,
        Command::Purge { options, yes: _ } => serve::purge(&options)?,
        Command::Agent(options) => agent::run(options)?,
        Command::Init { log, agent } => hotdesk_agent::init::run(&agent, &log)?,
        Command::VmInit { command } => hotdesk_agent::vm::run(&command)?,
        Command::ExecShim => hotdesk_agent::exec::shim::run().map_err(|error| error.to_string())?,
        Command::SetHostname { name } => nix::unistd::sethostname(name).map_err(|error| error.to_string())?,
        Command::AwaitHangup { port } => hotdesk_agent::hangup::wait(port)?,
        Command::Config(options) => settings::config(&options, shared.json)?,
        Command::Openapi => settings::openapi()?,
        Command::Completions { shell } => settings::completions(shell)?,
        Command::Login => login::run(shared.url(), shared.profile(), shared.json)?,
        Command::Admin { folder, command } => admin::run(&folder, command, shared.json)?,
        Command::Profile(command) => profile::run(command, shared.url(), shared.json)?,
        Command::Doctor { options, repair: true, yes } => return repair::run(&options, yes, shared.json),
        Command::Doctor { options, .. } => return doctor::run(&options, shared.json),
        Command::Bash(options) => return shared.ask(async |session| bash::run(options, session).await),
        Command::Workspaces(it) => shared.ask(async |session| workspaces::run(it, session).await)?,
        Command::Computers(it) => return shared.ask(async |session| computers::run(it, session).await),
        Command::Snapshots(it) => shared.ask(async |session| snapshots::run(it, session).await)?,
        Command::Clients(it) => shared.ask(async |session| clients::run(it, session).await)?,
        Command::Capacity(it) => shared.ask(async |session| capacity::run(&it, session).await)?,
        Command::Screenshot(it) => shared.ask(async |session| screenshot::run(it, session).await)?,
        Command::Click(it) => shared.ask(async |session| desktop::click(it, session).await)?,
        Command::Type(it) => shared.ask(async |session| desktop::type_text(it, session).await)?,
        Command::Key(it) => shared.ask(async |session| desktop::key(it, session).await)?,
        Command::ApiKeys(it) => shared.ask(async |session| api_keys::run(it, session).await)?,
        Command::Audit(it) => shared.ask(async |session| audit::run(it, session).await)?,
        Command::Cp(it) => shared.ask(async |session| copy::run(it, session).await)?,
    }
    Ok(ExitCode::SUCCESS)
}

impl Shared {
    /// An empty variable is none.
    fn url(&self) -> Option<&str> {
        self.url.as_deref().filter(|url| !url.is_empty())
    }

    fn profile(&self) -> Option<&str> {
        self.profile.as_deref().filter(|name| !name.is_empty())
    }

    /// Finds server and key, and asks.
    fn ask<T>(&self, question: impl AsyncFnOnce(&Session) -> Outcome<T>) -> Outcome<T> {
        let key = std::env::var("HOTDESK_API_KEY").ok().filter(|key| !key.is_empty()).map(Secret::new);
        let wishes =
            Wishes { url: self.url().map(str::to_owned), profile: self.profile().map(str::to_owned), key };
        let complete = wishes.url.is_some() && wishes.key.is_some() && wishes.profile.is_none();
        let known = if complete { Credentials::default() } else { Credentials::load(&credentials::path()?)? };
        let connection = connection::choose(&wishes, &known)?;
        let session = Session { api: Api::new(connection)?, json: self.json };
        runtime()?.block_on(question(&session))
    }
}

/// What runs a command's waiting.
fn runtime() -> Outcome<tokio::runtime::Runtime> {
    let built = tokio::runtime::Builder::new_current_thread().enable_all().build();
    built.map_err(|error| format!("tokio: {error}").into())
}

/// The text itself, or with `-` what standard input holds.
fn read_text(text: String) -> Outcome<String> {
    if text != "-" {
        return Ok(text);
    }
    let mut read = String::new();
    let input = std::io::stdin().lock().take(MAX_INPUT + 1).read_to_string(&mut read);
    let count = input.map_err(|error| format!("standard input: {error}"))?;
    if count as u64 > MAX_INPUT {
        return Err(Failure::Failed(format!("standard input holds more than {} MiB", MAX_INPUT >> 20)));
    }
    Ok(read)
}

/// A secret from standard input, at most a little more than `most` bytes; on a terminal it is asked for and not shown.
fn read_secret(prompt: &str, most: u64) -> Outcome<Secret> {
    if std::io::stdin().is_terminal() {
        let terminal = Term::stderr();
        let asked = terminal.write_str(prompt).and_then(|()| terminal.read_secure_line());
        return asked.map(Secret::new).map_err(|error| format!("terminal: {error}").into());
    }
    let mut text = String::new();
    let input = std::io::stdin().lock().take(most + 1).read_to_string(&mut text);
    input.map_err(|error| format!("standard input: {error}"))?;
    Ok(Secret::new(text))
}
