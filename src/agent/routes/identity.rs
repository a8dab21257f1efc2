//! `POST /identity`: what is this computer from now on?

use axum::extract::State;
use axum::routing::post;
use axum::{Extension, Json as Answer, Router};

use crate::identity;
use crate::state::Agent;
use crate::token::Term;
use hotdesk_domain::error::Error;
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::Json;
use hotdesk_wire::agent::{Renewal, Renewed};

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
    Ok(Answer(renewed.unwrap_or_else(|| Err(Error::internal("a renewal panicked")))?))
}
