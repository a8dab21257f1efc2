//! Where do log lines go? To standard error, as text or JSON, filtered by level.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::util::SubscriberInitExt;

/// Installs the process's one log subscriber. `filter` is in `tracing`'s directive form, for example `info,hotdesk=debug`.
///
/// # Errors
/// When the filter does not parse, or a subscriber is installed already.
pub fn init(filter: &str, json: bool) -> Result<(), String> {
    let filter = EnvFilter::try_new(filter).map_err(|error| format!("log filter {filter:?}: {error}"))?;
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal());
    let installed = if json { builder.json().finish().try_init() } else { builder.finish().try_init() };
    installed.map_err(|error| format!("log subscriber: {error}"))
}
