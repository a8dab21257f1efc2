//! `hotdesk config`, `openapi`, `completions` and `man`: output that needs no server.

use std::path::Path;

use clap::CommandFactory;
use clap_complete::Shell;

use crate::Cli;
use crate::client::completion;
use crate::failure::Outcome;
use crate::operator::serve;
use crate::output;

/// `hotdesk config`: effective configuration of `hotdesk serve`, as TOML, or as JSON with `--json`.
///
/// # Errors
/// When the configuration is invalid, or standard output cannot be written.
pub fn config(options: &serve::Options, json: bool) -> Outcome<()> {
    let config = options.load()?;
    let text = if json {
        serde_json::to_string_pretty(&config).map_err(|error| error.to_string())
    } else {
        toml::to_string_pretty(&config).map_err(|error| error.to_string())
    };
    output::line(text.map_err(|error| format!("cannot print the configuration: {error}"))?.trim_end())
}

/// `hotdesk openapi`.
///
/// # Errors
/// When the document cannot be decompressed, or standard output cannot be written.
pub fn openapi() -> Outcome<()> {
    output::bytes(&hotdesk_controller::api::openapi::recorded()?)
}

/// `hotdesk completions`.
///
/// # Errors
/// When standard output cannot be written.
pub fn completions(shell: Shell) -> Outcome<()> {
    output::bytes(&completion::script(shell)?)
}

/// `hotdesk man`: writes a manual page for each command.
///
/// # Errors
/// When the folder does not exist or cannot be written.
pub fn man(folder: &Path) -> Outcome<()> {
    clap_mangen::generate_to(Cli::command(), folder)
        .map_err(|error| format!("cannot write manual pages to {}: {error}", folder.display()).into())
}
