//! What came of an action that is done at most once? The agent's answer, and whether it is one that was told before.

use axum::Json;
use axum::http::HeaderValue;
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use hotdesk_http::idempotency::REPLAYED;

/// An agent's answer to an action.
#[derive(Debug)]
pub struct Acted<Answer> {
    /// What it says.
    pub answer: Answer,
    /// Whether nothing was done for it: the request came before, with the same `Idempotency-Key`.
    pub replayed: bool,
}

impl<Answer: Serialize> IntoResponse for Acted<Answer> {
    fn into_response(self) -> Response {
        let mut response = Json(self.answer).into_response();
        if self.replayed {
            response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
        }
        response
    }
}
