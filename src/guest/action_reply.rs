//! Agent's reply to an action, and whether it is a replay of a stored one.

use axum::Json;
use axum::http::HeaderValue;
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use hotdesk_http::idempotency::REPLAYED;

/// An agent's reply to an action. As a response, a replay has the header `Idempotency-Replayed: true`.
#[derive(Debug)]
pub struct ActionReply<Answer> {
    /// The reply's body.
    pub answer: Answer,
    /// Whether it is the stored reply to an earlier request with the same `Idempotency-Key`; nothing was done
    /// then.
    pub replayed: bool,
}

impl<Answer: Serialize> IntoResponse for ActionReply<Answer> {
    fn into_response(self) -> Response {
        let mut response = Json(self.answer).into_response();
        if self.replayed {
            response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
        }
        response
    }
}
