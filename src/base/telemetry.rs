//! Log set-up: lines to standard error, as text or JSON, filtered by level.

use std::io::IsTerminal;

use tracing::Level;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::{FilterExt, FilterFn};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer};

use crate::step_error::StepError;

/// Highest levels of crates, whatever the filter: their lower levels log what clients type, and header fields
/// with tokens.
const LEVEL_CAPS: [(&str, LevelFilter); 2] =
    [("rmcp", LevelFilter::WARN), ("tungstenite", LevelFilter::INFO)];

/// Installs the process's log subscriber. `filter` has `tracing`'s directive form, for example
/// `info,hotdesk=debug`.
///
/// # Errors
/// When the filter does not parse or a subscriber is already installed.
pub fn init(filter: &str, json: bool) -> Result<(), StepError> {
    let filter = EnvFilter::try_new(filter).map_err(StepError::at(format!("log filter {filter:?}")))?;
    let capped = FilterFn::new(|metadata| is_shown(metadata.target(), *metadata.level()));
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal());
    let lines = if json { lines.json().boxed() } else { lines.boxed() };
    let installed = tracing_subscriber::registry().with(lines.with_filter(filter.and(capped))).try_init();
    installed.map_err(StepError::at("log subscriber"))
}

/// Whether [`LEVEL_CAPS`] allow lines of a module at a level.
fn is_shown(target: &str, level: Level) -> bool {
    let krate = target.split("::").next().unwrap_or_default();
    LEVEL_CAPS.iter().all(|(capped, most)| krate != *capped || level <= *most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crates_that_log_secrets_are_capped() {
        for (target, level, shown) in [
            ("tungstenite::handshake::client", Level::TRACE, false),
            ("tungstenite", Level::DEBUG, false),
            ("tungstenite::protocol", Level::INFO, true),
            ("rmcp::service", Level::INFO, false),
            ("rmcp::service", Level::WARN, true),
            ("hotdesk::http", Level::TRACE, true),
        ] {
            assert_eq!(is_shown(target, level), shown, "{target} at {level}");
        }
    }
}
