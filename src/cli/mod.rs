//! Floor 7: the command line.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod agent;
mod serve;

/// Self-hosted cloud computers for programs and AI agents.
#[derive(Debug, Parser)]
#[command(name = "hotdesk", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the controller: the public API and the computers.
    Serve(serve::Options),
    /// Remove every computer of a data folder from this host, with their disks.
    Purge {
        #[command(flatten)]
        options: serve::Options,
        /// Do it without asking: there is no way back.
        #[arg(long, required = true)]
        yes: bool,
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
    /// Supervise one command of the agent.
    #[command(hide = true)]
    ExecShim,
}

/// Runs the program.
pub fn main() -> ExitCode {
    let ended = match Cli::parse().command {
        Command::Serve(options) => serve::run(&options),
        Command::Purge { options, yes: _ } => serve::purge(&options),
        Command::Agent(options) => agent::run(options),
        Command::Init { log, agent } => crate::agent::init::run(&agent, &log),
        Command::ExecShim => crate::agent::exec::shim::run().map_err(|error| error.to_string()),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("hotdesk: {error}");
            ExitCode::FAILURE
        }
    }
}
