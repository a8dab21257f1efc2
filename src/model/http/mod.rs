//! Requests to servers of models whose replies are streams of events, with retries.
//!
//! ```text
//! attempt -> status 2xx -> events -> assembler -> reply
//!    ^          |            |
//!    |   429, 5xx, no connection, broken off
//!    +-- pause, while no part of the reply was passed on
//! ```

use std::error::Error;
use std::fmt::Write;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use bytes::Bytes;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER};
use reqwest::{Response, Url};
use tokio::time::timeout;

pub(crate) mod limits;
pub(crate) mod sse;
pub(crate) mod upstream_error;

use crate::conversation::{Delta, ModelReply};
use crate::error::{ModelError, ModelErrorKind};
use hotdesk_base::secret::Secret;
use limits::RequestLimits;
use sse::{SseEvent, SseParser};
use upstream_error::{Failure, UpstreamError};

/// Largest event in bytes. The largest are encrypted thinking, and arguments that a server sends at once.
const MAX_EVENT: usize = 4 * 1024 * 1024;
/// Largest request in bytes: Anthropic takes 32 MB.
const MAX_REQUEST: usize = 32 * 1000 * 1000;
/// Bytes that are read of an error's body.
const MAX_ERROR: usize = 16 * 1024;
/// Longest wait for an error's body: the status says enough.
const ERROR_TIMEOUT: Duration = Duration::from_secs(5);
/// Wait for what follows a complete reply, such as usage: servers send it at once.
const TRAILER_TIMEOUT: Duration = Duration::from_secs(2);
/// Wait for the end of a body, so that the connection can be used again; a new one costs a TLS handshake.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(100);
/// Time for which an unused connection stays open: the servers close theirs after a minute or more.
const IDLE_CONNECTION: Duration = Duration::from_secs(50);
/// Sentence for a server that sends nothing.
const NO_ANSWER: &str = "The model's server did not answer in time.";

/// Passes parts of a reply on.
pub(crate) type DeltaSink<'a> = dyn FnMut(Delta) + Send + 'a;

/// Builder of a reply from its events.
pub(crate) trait ReplyAssembler: Send {
    /// Takes the next event and passes text on. Returns whether it was the last one.
    ///
    /// # Errors
    /// [`Failure`] for an event that is none, or that is the server's error.
    fn take(&mut self, event: &SseEvent, deltas: &mut DeltaSink<'_>) -> Result<bool, Failure>;

    /// Whether the reply can be used, although more may follow.
    fn is_complete(&self) -> bool;

    /// Returns the reply.
    ///
    /// # Errors
    /// [`Failure`] for an incomplete reply.
    fn finish(self) -> Result<ModelReply, Failure>;
}

/// A request that is ready to be sent, as often as necessary.
pub(crate) struct OutgoingRequest {
    headers: HeaderMap,
    body: Bytes,
}

impl OutgoingRequest {
    /// Returns the request with a JSON document.
    ///
    /// # Errors
    /// `Refused` for a document that no server takes, because it is too large.
    pub fn new(mut headers: HeaderMap, document: &serde_json::Value) -> Result<Self, ModelError> {
        let body = Bytes::from(document.to_string());
        if body.len() > MAX_REQUEST {
            return Err(ModelError {
                kind: ModelErrorKind::Refused,
                message: crate::error::CONTEXT_OVERFLOW.to_owned(),
                detail: Some(format!("the request has {} bytes, above {MAX_REQUEST}", body.len())),
            });
        }
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        Ok(Self { headers, body })
    }

    /// Returns a text of the server without the key, which some servers quote.
    fn without_key(&self, text: &str) -> String {
        let values = self.headers.values().filter(|value| value.is_sensitive());
        let keys = values.filter_map(|value| value.to_str().ok()?.rsplit(' ').next());
        keys.filter(|key| !key.is_empty()).fold(text.to_owned(), |text, key| text.replace(key, "***"))
    }
}

/// Client of one endpoint. Copies share its connections.
#[derive(Clone, Debug)]
pub(crate) struct EndpointClient {
    /// The client, or why there is none. The first request makes it: that reads and parses the certificate authorities of
    /// the host, which most services without chat never need.
    http: Arc<OnceLock<Result<reqwest::Client, String>>>,
    url: Url,
    limits: RequestLimits,
}

impl EndpointClient {
    /// Returns the client of an endpoint. A host without certificate authorities has no client for https: its requests
    /// fail, so that a service without chat starts there.
    pub fn new(url: Url, limits: RequestLimits) -> Self {
        Self { http: Arc::default(), url, limits }
    }

    /// Returns the client, and makes it before the first request.
    fn http(&self) -> Result<&reqwest::Client, Failure> {
        self.http.get_or_init(|| self.make_http()).as_ref().map_err(|why| no_client(why))
    }

    fn make_http(&self) -> Result<reqwest::Client, String> {
        // A process has one crypto provider; an earlier one is equally good.
        drop(rustls::crypto::ring::default_provider().install_default());
        let mut builder = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .referer(false)
            .connect_timeout(self.limits.connect)
            .pool_idle_timeout(IDLE_CONNECTION)
            .user_agent(concat!("hotdesk/", env!("CARGO_PKG_VERSION")));
        if self.url.scheme() == "http" {
            // Such a server is near; a proxy would read the key and the screen. It needs no certificate authorities.
            builder = builder.no_proxy().tls_certs_only([]);
        }
        builder.build().map_err(|error| format!("no HTTP client: {}", causes(&error)))
    }

    /// Returns the host of the endpoint; empty for none.
    pub fn host(&self) -> &str {
        self.url.host_str().unwrap_or_default()
    }

    /// Sends a request until one of the allowed attempts succeeds. `assembler` makes the builder of each
    /// attempt's reply.
    ///
    /// # Errors
    /// [`ModelError`] of the last attempt.
    pub async fn reply<A: ReplyAssembler>(
        &self,
        request: &OutgoingRequest,
        assembler: impl Fn() -> A + Send,
        deltas: &mut DeltaSink<'_>,
    ) -> Result<ModelReply, ModelError> {
        let deadline = Instant::now() + self.limits.total;
        let mut has_passed = false;
        let mut failed = 0;
        loop {
            let attempt = {
                let mut sink = |delta: Delta| {
                    has_passed |= !matches!(delta, Delta::Usage(_));
                    deltas(delta);
                };
                self.attempt(request, assembler(), deadline, &mut sink).await
            };
            let mut failure = match attempt {
                Ok(reply) => return Ok(reply),
                Err(failure) => failure,
            };
            failure.error.detail = failure.error.detail.map(|detail| request.without_key(&detail));
            failed += 1;
            let can_repeat = failure.is_transient && !has_passed;
            let pause = self
                .limits
                .pause(failed, failure.retry_after, rand::random())
                .filter(|pause| can_repeat && Instant::now() + *pause < deadline);
            let Some(pause) = pause else { return Err(failure.error) };
            tracing::debug!(
                error = format_args!("{:#}", failure.error),
                pause_ms = pause.as_millis(),
                "request to a model is repeated"
            );
            tokio::time::sleep(pause).await;
        }
    }

    async fn attempt<A: ReplyAssembler>(
        &self,
        request: &OutgoingRequest,
        mut assembler: A,
        deadline: Instant,
        deltas: &mut DeltaSink<'_>,
    ) -> Result<ModelReply, Failure> {
        let left = |bound: Duration| bound.min(deadline.saturating_duration_since(Instant::now()));
        let http = self.http()?;
        let sending =
            http.post(self.url.clone()).headers(request.headers.clone()).body(request.body.clone()).send();
        let first_byte = Instant::now() + self.limits.first_byte;
        let mut response = match timeout(left(self.limits.first_byte), sending).await {
            Ok(sent) => sent.map_err(|error| unreachable_server(&error))?,
            Err(_) => return Err(timed_out("no head of an answer")),
        };
        if !response.status().is_success() {
            return Err(refusal(response, request).await);
        }
        check_type(&response)?;
        let mut parser = SseParser::new(MAX_EVENT);
        let (mut events, mut received, mut is_first) = (Vec::new(), 0_usize, true);
        loop {
            // A stream that never pauses meets no timeout.
            if Instant::now() >= deadline {
                return Err(timed_out("a reply that does not end"));
            }
            let wait = if assembler.is_complete() {
                TRAILER_TIMEOUT
            } else if is_first {
                first_byte.saturating_duration_since(Instant::now())
            } else {
                self.limits.idle
            };
            let chunk = match timeout(left(wait), response.chunk()).await {
                Ok(Ok(chunk)) => chunk,
                Ok(Err(_)) | Err(_) if assembler.is_complete() => return assembler.finish(),
                Ok(Err(error)) => return Err(Failure::broken_off(causes(&error.without_url()))),
                Err(_) => return Err(timed_out("no further part of a reply")),
            };
            is_first = false;
            let Some(chunk) = chunk else { break };
            received = received.saturating_add(chunk.len());
            if received > self.limits.reply_bytes {
                return Err(Failure::malformed(format!(
                    "a reply has more than {} bytes",
                    self.limits.reply_bytes
                )));
            }
            parser
                .push(&chunk, &mut events)
                .map_err(|_| Failure::malformed(format!("an event has more than {MAX_EVENT} bytes")))?;
            for event in events.drain(..) {
                if assembler.take(&event, deltas)? {
                    // Nothing of the body is used; the result does not matter.
                    drop(timeout(DRAIN_TIMEOUT, response.chunk()).await);
                    return assembler.finish();
                }
            }
        }
        if let Some(event) = parser.finish() {
            assembler.take(&event, deltas)?;
        }
        assembler.finish()
    }
}

/// Returns the address below another one.
pub(crate) fn below(base: &Url, path: &[&str]) -> Url {
    let mut url = base.clone();
    // Only addresses without a host have no path; the catalog refuses those.
    if let Ok(mut segments) = url.path_segments_mut() {
        segments.pop_if_empty().extend(path);
    }
    url
}

/// Returns a value of a header that no log prints, or `None` for a key that no header can hold.
pub(crate) fn sensitive(prefix: &str, key: &Secret) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(&format!("{prefix}{}", key.reveal())).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// Checks that an answer is a stream of events. Some servers send no type.
fn check_type(response: &Response) -> Result<(), Failure> {
    let Some(kind) = response.headers().get(CONTENT_TYPE) else { return Ok(()) };
    if kind.as_bytes().starts_with(b"text/event-stream") {
        return Ok(());
    }
    Err(Failure::malformed(format!("the answer has the type {kind:?} instead of text/event-stream")))
}

/// Returns the failure of an answer that is no reply.
async fn refusal(mut response: Response, request: &OutgoingRequest) -> Failure {
    let status = response.status().as_u16();
    let after = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok());
    let after = after.and_then(|value| limits::retry_after(value, jiff::Timestamp::now()));
    let mut body = Vec::new();
    let reading = async {
        while let Ok(Some(part)) = response.chunk().await {
            body.extend_from_slice(&part[..part.len().min(MAX_ERROR - body.len())]);
            if body.len() == MAX_ERROR {
                break;
            }
        }
    };
    // What was read until then is enough.
    drop(timeout(ERROR_TIMEOUT, reading).await);
    // Before the text is cut, so that no part of a key is left.
    let text = request.without_key(&String::from_utf8_lossy(&body));
    UpstreamError::of_body(text.as_bytes()).failure(Some(status), after)
}

fn unreachable_server(error: &reqwest::Error) -> Failure {
    Failure::transient(
        ModelErrorKind::Unreachable,
        "The model's server cannot be reached.",
        // The address is the operator's; a client does not see details.
        causes(error),
    )
}

/// A host whose certificate authorities are missing, or cannot be read: another attempt would not help.
fn no_client(why: &str) -> Failure {
    Failure::lasting(
        ModelErrorKind::Unreachable,
        "The service cannot connect to the model's server: the operator has to install certificate authorities.",
        why,
    )
}

/// A server that was waited for long enough: another attempt would take as long.
fn timed_out(what: &str) -> Failure {
    Failure::lasting(ModelErrorKind::Unreachable, NO_ANSWER, what)
}

/// Returns the text of an error with its causes.
fn causes(error: &reqwest::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        // Writing to a string does not fail.
        let _written = write!(text, ": {inner}");
        cause = inner.source();
    }
    text
}
