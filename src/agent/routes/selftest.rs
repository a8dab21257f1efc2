//! `GET /selftest`: does this computer do what it says?

use axum::extract::State;
use axum::routing::get;
use axum::{Json as Answer, Router};

use crate::agent::selftest::SelfTests;
use crate::domain::error::Result;
use crate::wire::selftest::SelfTest;

/// The self-test's operation.
pub fn router(tests: SelfTests) -> Router {
    Router::new().route("/selftest", get(run)).with_state(tests)
}

async fn run(State(tests): State<SelfTests>) -> Result<Answer<SelfTest>> {
    tests.run().await.map(Answer)
}
