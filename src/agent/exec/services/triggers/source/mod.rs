//! Sources of triggers: what they look at, and how often.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};
use tokio::sync::broadcast;

use super::Reporter;
use crate::exec::services::Parts;
use crate::exec::services::script::guest_path;
use hotdesk_domain::computer::template::timing;
use hotdesk_domain::computer::template::trigger::{DEFAULT_HTTP_INTERVAL, MIN_POLL};
use hotdesk_wire::template::trigger::TriggerSource;

mod event;
mod file;
mod log;
mod metric;
mod process;
mod schedule;
mod url;

/// A source with what it remembers between failures.
pub(super) struct WatchedSource {
    source: TriggerSource,
    /// Since before the source was begun, so that no event of the computer is missed.
    computer: broadcast::Receiver<Map<String, Value>>,
}

/// The type of a source.
pub(super) fn name(source: &TriggerSource) -> &'static str {
    match source {
        TriggerSource::Cron { .. } => "cron",
        TriggerSource::File { .. } => "file",
        TriggerSource::Http { .. } => "http",
        TriggerSource::Process { .. } => "process",
        TriggerSource::Metric { .. } => "metric",
        TriggerSource::Log { .. } => "log",
        TriggerSource::Event { .. } => "event",
        TriggerSource::Desktop { .. } => "desktop",
    }
}

impl WatchedSource {
    pub(super) fn new(parts: &Arc<Parts>, source: &TriggerSource) -> Self {
        Self { source: source.clone(), computer: parts.computer_events.subscribe() }
    }

    /// Watches until a failure, and returns its reason.
    pub(super) async fn watch(&mut self, reporter: &Reporter) -> String {
        let interval = |text: &Option<String>, default: Duration| {
            let time = text.as_deref().and_then(timing::milliseconds).map(Duration::from_millis);
            time.unwrap_or(default).max(MIN_POLL)
        };
        match &self.source {
            TriggerSource::Cron { schedule } => schedule::watch(schedule, reporter).await,
            TriggerSource::File { path, events } => file::watch(&guest_path(path), events, reporter).await,
            TriggerSource::Http { url, method, expect_code, interval: every } => {
                let every = interval(every, DEFAULT_HTTP_INTERVAL);
                url::watch(url, *method, *expect_code, every, reporter).await
            }
            TriggerSource::Process { process } => process::watch(process, reporter).await,
            TriggerSource::Metric { metric, op, value, duration } => {
                let least = duration.as_deref().and_then(timing::milliseconds).map(Duration::from_millis);
                metric::watch(metric, *op, *value, least.unwrap_or_default(), reporter).await
            }
            TriggerSource::Log { service, pattern, parse } => {
                log::watch(service, pattern, *parse, reporter).await
            }
            TriggerSource::Event { event } => {
                event::watch_computer(event, &mut self.computer, reporter).await
            }
            TriggerSource::Desktop { event } => event::watch_desktop(event, reporter).await,
        }
    }
}
