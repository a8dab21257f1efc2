//! Route `GET /selftest`: self-test of the computer.

use axum::extract::State;
use axum::routing::get;
use axum::{Json as Answer, Router};

use crate::selftest::SelfTests;
use hotdesk_http::error_response::Result;
use hotdesk_wire::agent::selftest::SelfTest;

/// Route of the self-test.
pub fn router(tests: SelfTests) -> Router {
    Router::new().route("/selftest", get(run)).with_state(tests)
}

async fn run(State(tests): State<SelfTests>) -> Result<Answer<SelfTest>> {
    Ok(Answer(tests.run().await?))
}
