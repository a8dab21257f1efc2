//! `GET /selftest`: does this computer do what it says?

use axum::extract::State;
use axum::routing::get;
use axum::{Json as Answer, Router};

use crate::selftest::SelfTests;
use hotdesk_http::error_response::Result;
use hotdesk_wire::selftest::SelfTest;

/// The self-test's operation.
pub fn router(tests: SelfTests) -> Router {
    Router::new().route("/selftest", get(run)).with_state(tests)
}

async fn run(State(tests): State<SelfTests>) -> Result<Answer<SelfTest>> {
    Ok(Answer(tests.run().await?))
}
