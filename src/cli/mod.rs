//! Floor 7: the command line.

use std::ffi::OsString;
use std::io::Read;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;

mod agent;
mod bash;
mod client;
mod computers;
mod copy;
mod desktop;
mod doctor;
mod failure;
mod hardware;
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

use crate::base::secret::Secret;
use client::Session;
use client::api::Api;
use client::connection::{self, Wishes};
use client::credentials::{self, Credentials};
use failure::{Failure, Outcome};

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
        /// Do it without asking: there is no way back.
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
        Command::Init { log, agent } => crate::agent::init::run(&agent, &log)?,
        Command::VmInit { command } => crate::agent::vm::run(&command)?,
        Command::ExecShim => crate::agent::exec::shim::run().map_err(|error| error.to_string())?,
        Command::SetHostname { name } => nix::unistd::sethostname(name).map_err(|error| error.to_string())?,
        Command::Config(options) => settings::config(&options, shared.json)?,
        Command::Openapi => settings::openapi()?,
        Command::Completions { shell } => settings::completions(shell)?,
        Command::Profile(command) => profile::run(command, shared.url(), shared.json)?,
        Command::Doctor { options, repair: true, yes } => return repair::run(&options, yes, shared.json),
        Command::Doctor { options, .. } => return doctor::run(&options, shared.json),
        Command::Bash(options) => return shared.ask(async |session| bash::run(options, session).await),
        Command::Workspaces(it) => shared.ask(async |session| workspaces::run(it, session).await)?,
        Command::Computers(it) => return shared.ask(async |session| computers::run(it, session).await),
        Command::Snapshots(it) => shared.ask(async |session| snapshots::run(it, session).await)?,
        Command::Screenshot(it) => shared.ask(async |session| screenshot::run(it, session).await)?,
        Command::Click(it) => shared.ask(async |session| desktop::click(it, session).await)?,
        Command::Type(it) => shared.ask(async |session| desktop::type_text(it, session).await)?,
        Command::Key(it) => shared.ask(async |session| desktop::key(it, session).await)?,
        Command::Cp(it) => shared.ask(async |session| copy::run(it, session).await)?,
    }
    Ok(ExitCode::SUCCESS)
}

impl Shared {
    /// An empty variable is none.
    fn url(&self) -> Option<&str> {
        self.url.as_deref().filter(|url| !url.is_empty())
    }

    /// Finds server and key, and asks.
    fn ask<T>(&self, question: impl AsyncFnOnce(&Session) -> Outcome<T>) -> Outcome<T> {
        let key = std::env::var("HOTDESK_API_KEY").ok().filter(|key| !key.is_empty()).map(Secret::new);
        let wishes = Wishes {
            url: self.url().map(str::to_owned),
            profile: self.profile.clone().filter(|name| !name.is_empty()),
            key,
        };
        let complete = wishes.url.is_some() && wishes.key.is_some() && wishes.profile.is_none();
        let known = if complete { Credentials::default() } else { Credentials::load(&credentials::path()?)? };
        let connection = connection::choose(&wishes, &known)?;
        let session = Session { api: Api::new(connection)?, json: self.json };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| format!("tokio: {error}"))?;
        runtime.block_on(question(&session))
    }
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
