//! Where do log lines go? To standard error, as text or JSON, filtered by level.

use std::io::IsTerminal;

use tracing::Level;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::{FilterExt, FilterFn};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer};

/// Crates that no filter makes louder than this: their lower levels write down what clients type, and the header fields of
/// handshakes, tokens among them.
const QUIET: [(&str, LevelFilter); 2] = [("rmcp", LevelFilter::WARN), ("tungstenite", LevelFilter::INFO)];

/// Installs the process's one log subscriber. `filter` is in `tracing`'s directive form, for example `info,hotdesk=debug`.
///
/// # Errors
/// When the filter does not parse, or a subscriber is installed already.
pub fn init(filter: &str, json: bool) -> Result<(), String> {
    let filter = EnvFilter::try_new(filter).map_err(|error| format!("log filter {filter:?}: {error}"))?;
    let quiet = FilterFn::new(|metadata| is_shown(metadata.target(), *metadata.level()));
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal());
    let lines = if json { lines.json().boxed() } else { lines.boxed() };
    let installed = tracing_subscriber::registry().with(lines.with_filter(filter.and(quiet))).try_init();
    installed.map_err(|error| format!("log subscriber: {error}"))
}

/// Whether lines of a module may be shown at a level at all.
fn is_shown(target: &str, level: Level) -> bool {
    let krate = target.split("::").next().unwrap_or_default();
    QUIET.iter().all(|(quiet, most)| krate != *quiet || level <= *most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crates_that_write_down_secrets_stay_quiet_however_they_are_named() {
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
