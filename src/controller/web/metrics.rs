//! Prometheus metrics: HTTP requests by route and status, and their durations.

use std::path::Path;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Instant;

use axum::extract::{MatchedPath, Request};
use axum::http::HeaderMap;
use axum::middleware::Next;
use axum::response::Response;
use metrics::{describe_counter, describe_gauge, describe_histogram};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};

use crate::config::secret_file;
use crate::web::source::Source;
use hotdesk_base::secret::Secret;
use hotdesk_domain::error::{Error, Result};
use hotdesk_http::bearer::{self, Credentials};

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

/// Who may read the metrics. They tell how many computers there are and what is asked of the service, which is not for
/// everybody who reaches the port.
#[derive(Debug)]
pub struct MetricsAccess(Option<Secret>);

impl MetricsAccess {
    /// Reads the key from the file of `web.metrics_key_file`; an empty path means no key.
    ///
    /// # Errors
    /// Those of [`secret_file::read`].
    pub fn open(file: &Path) -> Result<Self> {
        Ok(Self(secret_file::read("web.metrics_key_file", file)?))
    }

    /// Checks that a request has the key, or comes from this machine when there is no key.
    ///
    /// # Errors
    /// `Unauthenticated` for another key or none; `Forbidden` for a request from elsewhere.
    pub fn check(&self, source: Source, headers: &HeaderMap) -> Result<()> {
        let Some(key) = &self.0 else {
            // A proxy on this machine speaks for others, whether the settings name it or not.
            if source.is_this_machine() && !headers.contains_key("x-forwarded-for") {
                return Ok(());
            }
            let what =
                "The metrics are for callers on the service's machine; web.metrics_key_file admits others";
            return Err(Error::forbidden(what));
        };
        if matches!(bearer::credentials(headers), Credentials::Bearer(shown) if key.matches(shown)) {
            Ok(())
        } else {
            Err(Error::unauthenticated("The key of web.metrics_key_file is needed"))
        }
    }
}

/// Registers the help text of every metric (docs/operating.md).
fn describe() {
    describe_counter!("hotdesk_http_requests_total", "HTTP requests by method, route pattern and status.");
    describe_histogram!("hotdesk_http_request_seconds", "Durations of HTTP requests in seconds.");
    describe_gauge!("hotdesk_computers", "Computers by status.");
    describe_gauge!("hotdesk_computers_by_isolation", "Computers by isolation.");
    describe_gauge!(
        "hotdesk_hosts",
        "Hosts of computers by status; none where the service runs on one host."
    );
    describe_gauge!("hotdesk_host_memory_free_bytes", "Memory of each host that programs can get.");
    describe_gauge!("hotdesk_host_computers", "Computers of each host.");
    describe_gauge!("hotdesk_boot_snapshots", "Snapshots of booted desktops that creates can use.");
    describe_gauge!("hotdesk_pool_ready", "Booted computers that nobody has claimed.");
    describe_counter!("hotdesk_computers_begun_total", "Created computers by what they began from.");
    describe_gauge!(
        "hotdesk_computers_frozen",
        "Computers that are frozen because the host's disk is nearly full."
    );
    describe_gauge!("hotdesk_computers_host_unreachable", "Computers whose host does not answer.");
    describe_counter!("hotdesk_replica_failures_total", "Refreshes of replicas that failed.");
    describe_gauge!(
        "hotdesk_disk_free_bytes",
        "Free space for computers, less what they have not written back yet."
    );
    describe_gauge!(
        "hotdesk_download_cache_bytes",
        "Bytes of the downloads that are kept for builds of templates."
    );
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

#[cfg(test)]
mod tests {
    use axum::http::{HeaderValue, header};

    use super::*;

    #[test]
    fn metrics_are_for_this_machine_or_for_a_key() {
        let key = "k".repeat(32);
        let (open, keyed) = (MetricsAccess(None), MetricsAccess(Some(Secret::new(&key))));
        let fields = |pairs: &[(header::HeaderName, String)]| {
            let pair = |(name, value): &(header::HeaderName, String)| {
                (name.clone(), HeaderValue::from_str(value).unwrap())
            };
            pairs.iter().map(pair).collect::<HeaderMap>()
        };
        let shown = |key: &str| fields(&[(header::AUTHORIZATION, format!("Bearer {key}"))]);
        let forwarded =
            fields(&[(header::HeaderName::from_static("x-forwarded-for"), "192.0.2.1".to_owned())]);
        let (here, elsewhere) = (Source::parse("127.0.0.1"), Source::parse("192.0.2.1"));
        for (access, source, headers, admitted) in [
            (&open, here, HeaderMap::new(), true),
            (&open, here, forwarded.clone(), false),
            (&open, elsewhere, HeaderMap::new(), false),
            (&open, elsewhere, shown(&key), false),
            (&keyed, here, HeaderMap::new(), false),
            (&keyed, here, shown("other"), false),
            (&keyed, here, shown(&key), true),
            (&keyed, elsewhere, shown(&key), true),
        ] {
            assert_eq!(access.check(source, &headers).is_ok(), admitted, "{access:?} {source} {headers:?}");
        }
    }
}
