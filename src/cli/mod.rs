//! Floor 7: the command line.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod agent;

/// Self-hosted cloud computers for programs and AI agents.
#[derive(Debug, Parser)]
#[command(name = "hotdesk", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
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
