//! Prometheus metrics: HTTP requests by route and status, and their durations.

use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Instant;

use axum::extract::{MatchedPath, Request};
use axum::middleware::Next;
use axum::response::Response;
use metrics::{describe_counter, describe_gauge, describe_histogram};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};

use hotdesk_domain::error::{Error, Result};

/// Upper bounds of the duration histogram in seconds: from a cached screenshot to the longest command.
const BUCKETS: [f64; 12] = [0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 30.0, 300.0];

static HANDLE: OnceLock<PrometheusHandle> = OnceLock::new();
static INSTALLING: Mutex<()> = Mutex::new(());

/// Handle of the process's metrics recorder.
#[derive(Clone, Debug)]
pub struct Metrics(PrometheusHandle);

impl Metrics {
    /// Installs the recorder. Later calls in the same process return the first one.
    ///
    /// # Errors
    /// `Internal` when another recorder is installed.
    pub fn install() -> Result<Self> {
        // Two controllers of one process (tests) may start at the same time.
        let _turn = INSTALLING.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(handle) = HANDLE.get() {
            return Ok(Self(handle.clone()));
        }
        let builder = PrometheusBuilder::new().set_buckets(&BUCKETS).map_err(Error::internal)?;
        let handle = builder.install_recorder().map_err(Error::internal)?;
        describe();
        Ok(Self(HANDLE.get_or_init(|| handle).clone()))
    }

    /// Returns the text of `/metrics` in the Prometheus exposition format.
    pub fn render(&self) -> String {
        self.0.run_upkeep();
        self.0.render()
    }
}

/// Registers the help text of every metric (docs/operating.md).
fn describe() {
    describe_counter!("hotdesk_http_requests_total", "HTTP requests by method, route pattern and status.");
    describe_histogram!("hotdesk_http_request_seconds", "Durations of HTTP requests in seconds.");
    describe_gauge!("hotdesk_computers", "Computers by status.");
    describe_counter!("hotdesk_hosts_refused_total", "Requests under a foreign host name.");
    describe_counter!("hotdesk_audit_lost_total", "Audit entries that could not be stored.");
    describe_counter!(
        "hotdesk_audit_anonymous_skipped_total",
        "Audit entries of unknown senders beyond their bound."
    );
    describe_counter!("hotdesk_events_refused_total", "Messages of agents that are not events.");
}

/// Counts a request by its route pattern, not its path, because paths are unbounded.
pub async fn count(request: Request, next: Next) -> Response {
    let started = Instant::now();
    let method = request.method().as_str().to_owned();
    let route = request.extensions().get::<MatchedPath>().map_or("none", MatchedPath::as_str).to_owned();
    let response = next.run(request).await;
    let labels = [("method", method), ("route", route), ("status", response.status().as_u16().to_string())];
    metrics::counter!("hotdesk_http_requests_total", &labels).increment(1);
    metrics::histogram!("hotdesk_http_request_seconds", &labels[..2]).record(started.elapsed().as_secs_f64());
    response
}
