//! What does the program say about itself without a server? Its configuration, API document and shell completions.

use clap::CommandFactory;
use clap_complete::Shell;

use super::failure::Outcome;
use super::{Cli, output, serve};

/// `hotdesk config`: the configuration that `hotdesk serve` would have, as a TOML file.
///
/// # Errors
/// When the configuration is wrong.
pub fn config(options: &serve::Options, json: bool) -> Outcome<()> {
    let config = options.load()?;
    let text = if json {
        serde_json::to_string_pretty(&config).map_err(|error| error.to_string())
    } else {
        toml::to_string_pretty(&config).map_err(|error| error.to_string())
    };
    output::line(text.map_err(|error| format!("configuration: {error}"))?.trim_end())
}

/// `hotdesk openapi`.
///
/// # Errors
/// When the description or standard output cannot be written.
pub fn openapi() -> Outcome<()> {
    let text = hotdesk_controller::api::openapi::text().map_err(|error| error.to_string())?;
    output::line(text.trim_end())
}

/// `hotdesk completions`.
///
/// # Errors
/// When standard output cannot be written.
pub fn completions(shell: Shell) -> Outcome<()> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "hotdesk", &mut script);
    output::bytes(&script)
}
