//! Route `PUT /secrets`: the file of secrets, which replaces the previous one.

use axum::extract::{Request, State};
use axum::routing::put;
use axum::{Json as Answer, Router};

use crate::files::blocking;
use crate::state::Agent;
use crate::system::env_file::EnvFile;
use hotdesk_domain::secret::env_file::MAX_BYTES;
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::read_body;
use hotdesk_wire::agent::PutSecretsResult;

/// Route of the secrets. The body is the text of the file.
pub fn router() -> Router<Agent> {
    Router::new().route("/secrets", put(replace))
}

async fn replace(State(agent): State<Agent>, request: Request) -> Result<Answer<PutSecretsResult>> {
    let text = read_body(request.into_body(), MAX_BYTES).await?;
    let file = EnvFile::new(&agent.runtime_dir, &agent.home);
    let path = blocking(move || file.write(&text)).await?;
    Ok(Answer(PutSecretsResult { path: path.display().to_string() }))
}
