//! The header in which the controller tells an agent who acts.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use std::convert::Infallible;

use hotdesk_domain::identity::access::actor::Actor;

/// The header's name. It is between the controller and the agent alone: the controller replaces what a client
/// sends.
pub const NAME: HeaderName = HeaderName::from_static("x-hotdesk-actor");

/// Returns the header's value.
pub fn value(actor: Actor) -> Option<HeaderValue> {
    HeaderValue::from_str(&actor.to_string()).ok()
}

/// Reads the header; `None` without it, and for a text that names no actor.
pub fn read(headers: &HeaderMap) -> Option<Actor> {
    headers.get(NAME)?.to_str().ok()?.parse().ok()
}

/// Who sends a request, if the controller said so. An agent that is used alone has no actors.
#[derive(Clone, Copy, Debug)]
pub struct ActingAs(pub Option<Actor>);

impl<S: Send + Sync> FromRequestParts<S> for ActingAs {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Infallible> {
        Ok(Self(read(&parts.headers)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_names_an_actor() {
        let mut headers = HeaderMap::new();
        assert_eq!(read(&headers), None);
        headers.insert(NAME, value(Actor::Password).unwrap());
        assert_eq!(read(&headers), Some(Actor::Password));
        headers.insert(NAME, HeaderValue::from_static("root"));
        assert_eq!(read(&headers), None);
    }
}
