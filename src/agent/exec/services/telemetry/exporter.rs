//! Queue of requests to a collector, sent one after another.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use reqwest::{Client, header};
use serde_json::Value;
use tokio::sync::Notify;

use crate::exec::services::health::probe;
use hotdesk_base::backoff::Backoff;

/// Most bytes that wait: those of an hour of figures, or of a few seconds of busy logs.
const MAX_WAITING: usize = 4 << 20;
/// Waiting bytes from which on no logs are read.
const FULL: usize = MAX_WAITING / 2;
/// Longest time of a request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// Pauses between two attempts.
const MIN_PAUSE: Duration = Duration::from_secs(1);
const MAX_PAUSE: Duration = Duration::from_secs(60);
/// Statuses that ask for a repetition (OTLP specification, "Retryable Response Codes").
const RETRYABLE: [u16; 4] = [429, 502, 503, 504];

/// The queue.
#[derive(Debug)]
pub(in crate::exec::services) struct Exporter {
    endpoint: String,
    queue: Mutex<ExportQueue>,
    news: Notify,
    cleared: Notify,
}

#[derive(Debug, Default)]
struct ExportQueue {
    waiting: VecDeque<Export>,
    bytes: usize,
    dropped: u64,
}

/// A request.
#[derive(Clone, Debug)]
struct Export {
    /// `metrics` or `logs`.
    signal: &'static str,
    records: u64,
    body: Bytes,
}

impl Exporter {
    /// `endpoint` is the URL of the collector without the path of a signal.
    pub(super) fn new(endpoint: &str) -> Self {
        Self {
            endpoint: endpoint.to_owned(),
            queue: Mutex::default(),
            news: Notify::new(),
            cleared: Notify::new(),
        }
    }

    fn queue(&self) -> MutexGuard<'_, ExportQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets what waits and was dropped, and ends the request that is repeated.
    pub(in crate::exec::services) fn clear(&self) {
        *self.queue() = ExportQueue::default();
        self.cleared.notify_one();
    }

    /// Whether so much waits that no logs should be read.
    pub(super) fn is_full(&self) -> bool {
        self.queue().bytes >= FULL
    }

    /// Adds a request with this number of records. It is dropped when too much waits; the only one is never too large.
    pub(super) fn add(&self, signal: &'static str, records: u64, body: &Value) {
        let body = Bytes::from(body.to_string());
        {
            let mut queue = self.queue();
            if queue.bytes > 0 && queue.bytes + body.len() > MAX_WAITING {
                queue.dropped += records;
                tracing::debug!(signal, records, "too much telemetry waits; it is dropped");
                return;
            }
            queue.bytes += body.len();
            queue.waiting.push_back(Export { signal, records, body });
        }
        self.news.notify_one();
    }

    /// Records that were dropped since the agent started.
    pub(super) fn dropped(&self) -> u64 {
        self.queue().dropped
    }

    /// Sends what waits, for ever.
    pub(super) async fn run(&self) {
        let client = match probe::client(&self.endpoint) {
            Ok(client) => client,
            Err(error) => {
                tracing::error!(%error, "could not prepare the telemetry of the template");
                return;
            }
        };
        loop {
            // It stays in the queue until it was sent: its bytes count.
            let first = self.queue().waiting.front().cloned();
            let Some(export) = first else {
                self.news.notified().await;
                continue;
            };
            let is_sent = tokio::select! {
                biased;
                () = self.cleared.notified() => continue,
                is_sent = self.send(&client, &export) => is_sent,
            };
            let mut queue = self.queue();
            // Unless the queue was cleared just now.
            let Some(first) = queue.waiting.pop_front() else { continue };
            queue.bytes -= first.body.len();
            if !is_sent {
                queue.dropped += first.records;
            }
        }
    }

    /// Sends a request until the collector takes it. Returns false when it refuses it.
    async fn send(&self, client: &Client, export: &Export) -> bool {
        let url = format!("{}/v1/{}", self.endpoint, export.signal);
        let mut pauses = Backoff::new(MIN_PAUSE, MAX_PAUSE, Duration::MAX);
        loop {
            let request = client.post(&url).header(header::CONTENT_TYPE, "application/json");
            let why = match request.body(export.body.clone()).timeout(REQUEST_TIMEOUT).send().await {
                Ok(answer) if answer.status().is_success() => return true,
                Ok(answer) if RETRYABLE.contains(&answer.status().as_u16()) => answer.status().to_string(),
                Ok(answer) => {
                    let status = answer.status().as_u16();
                    tracing::warn!(
                        url,
                        status,
                        "the collector refuses telemetry of the template; it is dropped"
                    );
                    return false;
                }
                Err(error) => probe::causes(&error),
            };
            if pauses.is_first() {
                tracing::info!(
                    url,
                    why,
                    "the collector does not take telemetry of the template now; it is repeated"
                );
            }
            tokio::time::sleep(pauses.after(Duration::ZERO)).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_waits_is_bounded_and_what_is_dropped_is_counted() {
        let exporter = Exporter::new("http://127.0.0.1:9");
        let body = json!("x".repeat(MAX_WAITING / 2 - 2));
        exporter.add("logs", 3, &body);
        exporter.add("logs", 3, &body);
        assert_eq!(exporter.dropped(), 0);
        assert!(exporter.is_full());
        exporter.add("metrics", 4, &json!(1));
        assert_eq!((exporter.dropped(), exporter.queue().waiting.len()), (4, 2));
        // A computer that continues from the memory of another one sends nothing of it.
        exporter.clear();
        assert!(!exporter.is_full());
        exporter.add("logs", 1, &json!("x".repeat(MAX_WAITING)));
        assert_eq!((exporter.dropped(), exporter.queue().waiting.len()), (0, 1));
    }
}
