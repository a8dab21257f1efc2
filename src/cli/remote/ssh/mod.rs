//! `hotdesk ssh` and the commands that OpenSSH's client calls: connections to computers, by the server's API alone.
//!
//! ```text
//!   ssh --- ProxyCommand -------> hotdesk ssh-proxy NAME ---- WebSocket ---> server ---> sshd -i in the computer
//!       --- KnownHostsCommand --> hotdesk ssh-known-hosts NAME --- GET host-keys
//! ```

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::{Command as Process, ExitCode};

use clap::{Args, Subcommand};

use crate::client::api::REQUEST_TIMEOUT;
use crate::client::{Session, resolve};
use crate::failure::Outcome;
use crate::output;
use hotdesk_wire::computer::ssh::SshHostKeys;

mod client_config;
mod proxy;

use client_config::{ClientConfig, HOST_SUFFIX};

/// User that the configuration names; every image of hotdesk has it.
const DEFAULT_USER: &str = "root";

/// SSH commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Connect to a computer with OpenSSH's client, signed in by a key of `hotdesk ssh-keys`.
    Ssh(Options),
    /// Print the block for ~/.ssh/config that lets ssh, scp, rsync, git and editors reach computers as NAME.hotdesk.
    SshConfig {
        /// Only this computer, by its id: its name, id, or the beginning of its id.
        computer: Option<String>,
    },
    /// Connect standard input and output with the SSH server of a computer. OpenSSH's client calls this.
    SshProxy {
        /// Computer: name, id, the beginning of its id, or instance id; `.hotdesk` may follow.
        computer: String,
    },
    /// Print the host keys of a computer in the format of known_hosts. OpenSSH's client calls this.
    SshKnownHosts {
        /// Computer: name, id, the beginning of its id, or instance id; `.hotdesk` may follow.
        computer: String,
    },
}

/// `hotdesk ssh`.
#[derive(Debug, Args)]
pub struct Options {
    /// Computer: name, id, the beginning of its id, or instance id.
    computer: String,
    /// Options of ssh, such as `-L 8080:localhost:80`, and the command. Without a command, a shell.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "SSH ARGUMENTS")]
    arguments: Vec<OsString>,
}

/// Runs a subcommand. `hotdesk ssh` becomes the client of OpenSSH, so it has that one's exit code.
///
/// # Errors
/// When the server refuses the request or is unreachable, the connection breaks, or there is no client of OpenSSH.
pub async fn run(command: Command, session: &Session) -> Outcome {
    match command {
        Command::Ssh(options) => ssh(options, session).await,
        Command::SshConfig { computer } => {
            let text = match computer {
                None => ClientConfig::of_this_program(session)?.block(&format!("*{HOST_SUFFIX}"), None),
                Some(wanted) => {
                    let id = resolve::computer(&session.api, &wanted).await?;
                    let host = format!("{wanted}{HOST_SUFFIX}");
                    ClientConfig::of_this_program(session)?.block(&host, Some(&id))
                }
            };
            output::line(text.trim_end())?;
            Ok(ExitCode::SUCCESS)
        }
        Command::SshProxy { computer } => proxy::run(&without_suffix(computer), session).await,
        Command::SshKnownHosts { computer } => {
            let id = resolve::computer(&session.api, &without_suffix(computer)).await?;
            let found = host_keys(&id, session).await?;
            // The answer is for this host alone, whatever name the client calls it by.
            found.host_keys.iter().try_for_each(|key| output::line(&format!("* {key}")))?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

async fn ssh(Options { computer, arguments }: Options, session: &Session) -> Outcome {
    let id = resolve::computer(&session.api, &computer).await?;
    // Also wakes the computer, and says what it lacks.
    let SshHostKeys { user, .. } = host_keys(&id, session).await?;
    let mut client = Process::new("ssh");
    for (name, value) in ClientConfig::of_this_program(session)?.options(&user, &id) {
        client.arg("-o").arg(format!("{name}={value}"));
    }
    // OpenSSH also reads options behind the destination.
    let error = client.arg(&id).args(arguments).exec();
    Err(format!("cannot start ssh: {error}; install the client of OpenSSH 8.5 or newer").into())
}

async fn host_keys(id: &str, session: &Session) -> Outcome<SshHostKeys> {
    session.api.get(&["computers", id, "ssh", "host-keys"], &[], REQUEST_TIMEOUT).await?.decode()
}

fn without_suffix(host: String) -> String {
    host.strip_suffix(HOST_SUFFIX).map(str::to_owned).unwrap_or(host)
}
