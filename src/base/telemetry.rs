//! Log set-up: lines to standard error, as text or JSON, filtered by level.

use std::io::IsTerminal;

use tracing::Level;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{FilterExt, FilterFn, ParseError, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::step_error::StepError;

/// Highest levels of crates, whatever the filter: their lower levels log what clients type, and header fields
/// with tokens.
const LEVEL_CAPS: [(&str, LevelFilter); 2] =
    [("rmcp", LevelFilter::WARN), ("tungstenite", LevelFilter::INFO)];

/// Installs the process's log subscriber. `filter` has levels, for all modules or those whose path begins so, for
/// example `info,hotdesk=debug`.
///
/// # Errors
/// When the filter does not parse or a subscriber is already installed.
pub fn init(filter: &str, json: bool) -> Result<(), StepError> {
    let filter = parse(filter).map_err(StepError::at(format!("log filter {filter:?}")))?;
    let capped = FilterFn::new(|metadata| is_shown(metadata.target(), *metadata.level()));
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal());
    let lines = if json { lines.json().boxed() } else { lines.boxed() };
    let installed = tracing_subscriber::registry().with(lines.with_filter(filter.and(capped))).try_init();
    installed.map_err(StepError::at("log subscriber"))
}

/// Reads a filter. `EnvFilter` would also filter by fields of spans, for which the program would contain an engine of
/// regular expressions.
fn parse(filter: &str) -> Result<Targets, ParseError> {
    let levels: Vec<&str> = filter.split(',').map(str::trim).filter(|level| !level.is_empty()).collect();
    levels.join(",").parse()
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
    fn filters_have_levels_of_all_modules_and_of_some() {
        for (filter, target, level, shown) in [
            ("info", "hotdesk_http::edge", Level::INFO, true),
            ("info", "hotdesk_http::edge", Level::DEBUG, false),
            ("info,hotdesk=debug", "hotdesk_http::edge", Level::DEBUG, true),
            ("info,hotdesk=debug", "hyper::proto", Level::DEBUG, false),
            ("info, hotdesk=debug,", "hotdesk_http::edge", Level::DEBUG, true),
            ("info,hotdesk=off", "hotdesk_http::edge", Level::ERROR, false),
            ("", "hotdesk_http::edge", Level::ERROR, true),
            ("", "hotdesk_http::edge", Level::WARN, false),
        ] {
            let filter_of = parse(filter).unwrap();
            assert_eq!(filter_of.would_enable(target, &level), shown, "{filter}: {target} at {level}");
        }
        for bad in ["hotdesk=loud", "a=info=debug"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

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
