//! Commands for what runs in a computer: input, screens, windows, clipboard, programs, ports, recordings, events and logs.

mod clipboard;
mod events;
mod input;
mod launch;
mod logs;
mod ports;
mod processes;
mod recordings;
mod screens;
mod selection;
mod services;
mod share;
mod triggers;
mod windows;

use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};
use reqwest::Method;
use serde::Serialize;

use crate::client::Session;
use crate::client::api::ApiResponse;
use crate::failure::Outcome;

/// Commands for what runs in a computer.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Click on the screen of a computer.
    Click(input::ClickOptions),
    /// Type text on a computer.
    Type(input::TypeOptions),
    /// Press a key or a key combination on a computer.
    Key(input::KeyOptions),
    /// Create a link that opens a screen in a browser once, without a password.
    Share(share::Options),
    /// List the event types of a computer, or follow its events.
    Events(events::Options),
    /// Print the log of a computer, or the output of a background process.
    Logs(logs::Options),
    /// Manage the screens of a computer.
    #[command(subcommand, alias = "screen")]
    Screens(screens::Command),
    /// Show, take or hand back the control of a screen.
    #[command(subcommand)]
    Control(screens::control::Command),
    /// Manage the windows on a screen.
    #[command(subcommand, alias = "window")]
    Windows(windows::Command),
    /// Read or set the clipboard of a screen.
    #[command(subcommand)]
    Clipboard(clipboard::Command),
    /// Start a program on a screen, or open a web page or a file.
    Launch(launch::Options),
    /// List background processes of a computer, or manage them.
    Ps(processes::Options),
    /// Manage the services that a computer has from its template.
    #[command(subcommand, alias = "service")]
    Services(services::Command),
    /// Manage the triggers that a computer has from its template.
    #[command(subcommand, alias = "trigger")]
    Triggers(triggers::Command),
    /// List the ports of a computer, or create links to them.
    #[command(subcommand, alias = "port")]
    Ports(ports::Command),
    /// Record a screen as video.
    #[command(subcommand)]
    Record(recordings::Command),
}

/// The screen that a command acts on.
#[derive(Debug, Args)]
pub struct ScreenArg {
    /// Screen id; default: the boot screen.
    #[arg(long, value_name = "ID")]
    screen: Option<String>,
}

/// Runs a command.
///
/// # Errors
/// When an argument is invalid, the server refuses a request or is unreachable.
pub async fn run(command: Command, session: &Session) -> Outcome {
    match command {
        Command::Click(options) => input::click(options, session).await,
        Command::Type(options) => input::type_text(options, session).await,
        Command::Key(options) => input::key(options, session).await,
        Command::Share(options) => share::run(options, session).await,
        Command::Events(options) => events::run(options, session).await,
        Command::Logs(options) => logs::run(options, session).await,
        Command::Screens(command) => screens::run(command, session).await,
        Command::Control(command) => screens::control::run(command, session).await,
        Command::Windows(command) => windows::run(command, session).await,
        Command::Clipboard(command) => clipboard::run(command, session).await,
        Command::Launch(options) => return launch::run(options, session).await,
        Command::Ps(options) => processes::run(options, session).await,
        Command::Services(command) => services::run(command, session).await,
        Command::Triggers(command) => triggers::run(command, session).await,
        Command::Ports(command) => ports::run(command, session).await,
        Command::Record(command) => recordings::run(command, session).await,
    }?;
    Ok(ExitCode::SUCCESS)
}

/// Sends a request with a query of the values that are present.
async fn send<B: Serialize>(
    session: &Session,
    method: Method,
    path: &[&str],
    query: &[(&str, Option<&str>)],
    body: Option<&B>,
    timeout: Duration,
) -> Outcome<ApiResponse> {
    let mut url = session.api.url(path);
    for (name, value) in query.iter().filter_map(|(name, value)| Some((name, (*value)?))) {
        url.query_pairs_mut().append_pair(name, value);
    }
    let mut request = session.api.request(method, url).timeout(timeout);
    if let Some(body) = body {
        request = request.json(body);
    }
    session.api.send(request).await
}

/// Text from inside a computer without control characters, which could change the terminal or break a table.
fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}
