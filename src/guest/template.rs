//! Requests about the computer's template: hooks, services, and what the template asks of the service.

use std::time::Duration;

use axum::body::Body;
use axum::http::{Method, Request};

use super::{Guest, QUICK_TIMEOUT, percent_encode, uri};
use hotdesk_domain::computer::prepared::services::PRESTART_TIMEOUT;
use hotdesk_domain::error::Result;
use hotdesk_wire::agent::{GuestRequestOutcome, GuestRequestQuery, GuestRequests};
use hotdesk_wire::desktop::action::Acknowledgement;
use hotdesk_wire::programs::service::{
    BeginTemplate, HookStatus, PrepareTemplate, ServiceList, ServiceLog, ServiceLogQuery,
};

/// Longest answer with requests of the template: the agent sends eight at a time, each with an event of a few
/// KiB. Such an answer becomes a tree, which takes many times its bytes.
const MAX_REQUESTS_ANSWER: usize = 256 * 1024;
/// Timeout of a request that waits for the template: the agent answers after 30 s.
const REQUESTS_TIMEOUT: Duration = Duration::from_secs(45);

impl Guest {
    /// Starts the supervisors of the services of the computer's template, and waits for them. Services start
    /// with [`Guest::begin_template`]; when the query asks for it, those with `prestart` start now, and this
    /// waits until they are up and healthy.
    ///
    /// # Errors
    /// Those of [`Guest::call`]; `Conflict` when one is not up or healthy after [`PRESTART_TIMEOUT`].
    pub async fn prepare_template(&self, query: PrepareTemplate) -> Result<()> {
        let timeout = if query.prestart { PRESTART_TIMEOUT + QUICK_TIMEOUT } else { QUICK_TIMEOUT };
        let prepared: Result<Acknowledgement> =
            self.call(Method::POST, "/template/prepare", query, None::<&()>, timeout).await;
        prepared.map(drop)
    }

    /// Begins the hooks and services of the computer's template, once for a boot.
    ///
    /// # Errors
    /// Those of [`Guest::call`].
    pub async fn begin_template(&self, query: BeginTemplate) -> Result<()> {
        let begun: Result<Acknowledgement> =
            self.call(Method::POST, "/template/begin", query, None::<&()>, QUICK_TIMEOUT).await;
        begun.map(drop)
    }

    /// Begins the template's hook of a wake.
    ///
    /// # Errors
    /// Those of [`Guest::call`].
    pub async fn template_resumed(&self) -> Result<()> {
        let begun: Result<Acknowledgement> =
            self.call(Method::POST, "/template/resumed", (), None::<&()>, QUICK_TIMEOUT).await;
        begun.map(drop)
    }

    /// Begins a hook of the template that the service waits for, and returns its status; `None` when the
    /// template has no such hook.
    ///
    /// # Errors
    /// Those of [`Guest::call`].
    pub async fn begin_hook(&self, name: &str) -> Result<Option<HookStatus>> {
        self.call(Method::POST, &format!("/template/hooks/{name}"), (), None::<&()>, QUICK_TIMEOUT).await
    }

    /// The status of such a hook.
    ///
    /// # Errors
    /// Those of [`Guest::call`].
    pub async fn hook(&self, name: &str) -> Result<Option<HookStatus>> {
        self.call(Method::GET, &format!("/template/hooks/{name}"), (), None::<&()>, QUICK_TIMEOUT).await
    }

    /// The services and hooks of the template.
    ///
    /// # Errors
    /// Those of [`Guest::call`].
    pub async fn services(&self) -> Result<ServiceList> {
        self.call(Method::GET, "/services", (), None::<&()>, QUICK_TIMEOUT).await
    }

    /// The last bytes of a service's output.
    ///
    /// # Errors
    /// Those of [`Guest::call`].
    pub async fn service_log(&self, name: &str, bytes: u64) -> Result<ServiceLog> {
        let path = format!("/services/{}/log", percent_encode(name));
        let query = ServiceLogQuery { bytes: Some(bytes), follow: None };
        self.call(Method::GET, &path, query, None::<&()>, QUICK_TIMEOUT).await
    }

    /// Waits for what the template asks of the service; the agent answers after 30 s at the latest.
    ///
    /// # Errors
    /// Those of [`Guest::call`].
    pub async fn template_requests(&self, query: GuestRequestQuery) -> Result<GuestRequests> {
        let mut request = Request::new(Body::empty());
        *request.uri_mut() = uri("/template/requests", query)?;
        self.exchange_json(request, REQUESTS_TIMEOUT, MAX_REQUESTS_ANSWER).await.map(|reply| reply.answer)
    }

    /// Reports the outcome of such a request.
    ///
    /// # Errors
    /// Those of [`Guest::call`].
    pub async fn finish_request(&self, number: u64, outcome: &GuestRequestOutcome) -> Result<()> {
        let path = format!("/template/requests/{number}");
        let done: Result<Acknowledgement> =
            self.call(Method::POST, &path, (), Some(outcome), QUICK_TIMEOUT).await;
        done.map(drop)
    }
}
