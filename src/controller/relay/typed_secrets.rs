//! Secrets in texts to type on the proxy path: the only bodies that the controller reads there.

use axum::body::Body;
use axum::http::{HeaderMap, header};

use crate::identity::secrets::Secrets;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::identity::access::Caller;
use hotdesk_http::extract::{MAX_JSON_BYTES, parse, read_body};
use hotdesk_http::idempotency::{REQUEST_DIGEST, digest_header};
use hotdesk_store::fleet::computers::Computer;
use hotdesk_wire::desktop::action::{Action, Type};
use hotdesk_wire::desktop::batch::Batch;

/// Endpoints of the agent that type a text, by their first path segment.
const ENDPOINTS: [&str; 2] = ["actions", "type"];

/// A body of one of them.
enum TypedBody {
    Actions(Box<Batch>),
    Text(Box<Action>),
}

/// Whether an endpoint types a text.
pub(super) fn types(endpoint: &str) -> bool {
    ENDPOINTS.contains(&endpoint)
}

/// Returns the body to forward, with the values of secrets in its texts. `headers` are those to forward.
///
/// # Errors
/// Those of [`read_body`] and of [`Secrets::fill`].
pub(super) async fn fill(
    secrets: &Secrets,
    caller: &Caller,
    computer: &Computer,
    headers: &mut HeaderMap,
    body: Body,
) -> Result<Body> {
    let sent = read_body(body, MAX_JSON_BYTES).await?;
    let Some(mut typed) = TypedBody::parse(&sent) else {
        // The agent refuses it, and says why.
        return Ok(Body::from(sent));
    };
    if !secrets.fill(caller, computer, typed.actions()).await? {
        return Ok(Body::from(sent));
    }
    headers.remove(header::CONTENT_LENGTH);
    headers.insert(REQUEST_DIGEST, digest_header(&sent)?);
    typed.body()
}

impl TypedBody {
    fn parse(bytes: &[u8]) -> Option<Self> {
        let text = || parse::<Type>(bytes).ok().map(|body| Self::Text(Box::new(Action::Type(body))));
        text().or_else(|| parse(bytes).ok().map(|list| Self::Actions(Box::new(list))))
    }

    fn actions(&mut self) -> &mut [Action] {
        match self {
            Self::Actions(batch) => &mut batch.actions,
            Self::Text(action) => std::slice::from_mut(action.as_mut()),
        }
    }

    fn body(&self) -> Result<Body> {
        let bytes = match self {
            Self::Actions(batch) => serde_json::to_vec(batch),
            Self::Text(action) => serde_json::to_vec(&action.fields()),
        };
        bytes.map(Body::from).map_err(Error::internal)
    }
}
