//! Route `POST /identity`: renewal of the computer's identity.

use axum::extract::State;
use axum::routing::post;
use axum::{Extension, Json as Answer, Router};

use crate::state::Agent;
use crate::state::token::Term;
use crate::system::identity;
use hotdesk_domain::error::Error;
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::Json;
use hotdesk_wire::agent::{Renewal, RenewalResult};

/// This route is outside of [`crate::routes::gate::bound`], because it ends the term of its own token.
pub fn router() -> Router<Agent> {
    Router::new().route("/identity", post(renew))
}

async fn renew(
    State(agent): State<Agent>,
    Extension(term): Extension<Term>,
    Json(renewal): Json<Renewal>,
) -> Result<Answer<RenewalResult>> {
    let tasks = agent.tasks.clone();
    // In its own task: a client that disconnects must not leave a computer with a new token and an old clock.
    let renewing = tasks.spawn("identity", async move { identity::renew(&agent, term, renewal).await });
    let renewed = renewing
        .await
        .map_err(|error| Error::internal(format!("the task that renews the identity failed: {error}")))?;
    Ok(Answer(renewed.unwrap_or_else(|| Err(Error::internal("the renewal of the identity panicked")))?))
}
