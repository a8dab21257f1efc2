//! `POST /identity`: what is this computer from now on?

use axum::extract::State;
use axum::routing::post;
use axum::{Extension, Json as Answer, Router};

use crate::agent::identity;
use crate::agent::state::Agent;
use crate::agent::token::Term;
use crate::domain::error::{Error, Result};
use crate::http::extract::Json;
use crate::wire::agent::{Renewal, Renewed};

/// Its own term must not bound it: it ends that.
pub(super) fn router() -> Router<Agent> {
    Router::new().route("/identity", post(renew))
}

async fn renew(
    State(agent): State<Agent>,
    Extension(term): Extension<Term>,
    Json(renewal): Json<Renewal>,
) -> Result<Answer<Renewed>> {
    let tasks = agent.tasks.clone();
    // A client that hangs up does not leave a computer with a new token and an old clock.
    let renewing = tasks.spawn("identity", async move { identity::renew(&agent, term, renewal).await });
    let renewed = renewing.await.map_err(|error| Error::internal(format!("a renewal: {error}")))?;
    renewed.unwrap_or_else(|| Err(Error::internal("a renewal panicked"))).map(Answer)
}
