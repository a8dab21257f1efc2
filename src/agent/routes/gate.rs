//! Who may call? Whoever shows the token and is not a web page.

use axum::extract::{Request, State};
use axum::http::header;
use axum::middleware::Next;
use axum::response::Response;

use crate::agent::state::Agent;
use crate::domain::error::{Error, Result};
use crate::http::bearer::{self, Shown};

/// Lets a request through or refuses it: 403 for one that a browser sent for a page, 401 without the token.
pub async fn pass(State(agent): State<Agent>, request: Request, next: Next) -> Result<Response> {
    // No client of this API sends Origin, and every browser does on requests that could do harm (threats.md T2, T27).
    if request.headers().contains_key(header::ORIGIN) {
        return Err(Error::forbidden("web pages may not call the agent"));
    }
    match bearer::shown(request.headers()) {
        Shown::Nothing => Err(Error::unauthenticated("Missing token")),
        Shown::Bearer(token) if agent.token.matches(token) => Ok(next.run(request).await),
        Shown::Bearer(_) | Shown::Unusable => Err(Error::unauthenticated("Invalid token")),
    }
}
