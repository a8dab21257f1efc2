//! Access control of the agent: the token is required, browser pages are refused, and a replaced token ends
//! its requests.

use axum::Extension;
use axum::body::{Body, HttpBody};
use axum::extract::{Request, State};
use axum::http::header;
use axum::middleware::Next;
use axum::response::Response;
use futures_util::{StreamExt, stream};

use crate::state::Agent;
use crate::state::token::{self, Term};
use hotdesk_domain::error::Error;
use hotdesk_http::bearer::{self, Credentials};
use hotdesk_http::error_response::Result;

/// Middleware: passes a request with the active token. 403 for a request of a web page, 401 without the
/// token.
pub async fn pass(State(agent): State<Agent>, mut request: Request, next: Next) -> Result<Response> {
    // API clients never send `Origin`; every browser does on requests that could do harm (T2, T27,
    // docs/security.md).
    if request.headers().contains_key(header::ORIGIN) {
        return Err(Error::forbidden("web pages may not call the agent").into());
    }
    let admitted = match bearer::credentials(request.headers()) {
        Credentials::Missing => return Err(Error::unauthenticated("Missing token").into()),
        Credentials::Bearer(token) => agent.token.admits(token),
        Credentials::Invalid => None,
    };
    let term = admitted.ok_or_else(|| Error::unauthenticated("Invalid token"))?;
    request.extensions_mut().insert(term);
    Ok(next.run(request).await)
}

/// Middleware: ends a request, and an answer that is being streamed, when its token is replaced.
pub async fn bound(
    State(agent): State<Agent>,
    Extension(term): Extension<Term>,
    request: Request,
    next: Next,
) -> Result<Response> {
    let response = tokio::select! {
        response = next.run(request) => response,
        () = term.ended() => return Err(token::replaced().into()),
    };
    if response.body().size_hint().exact().is_some() {
        return Ok(response);
    }
    let permit = agent.answers.try_acquire((), usize::MAX);
    Ok(response.map(|body| {
        let pieces = (body.into_data_stream(), permit);
        Body::from_stream(stream::try_unfold(pieces, move |(mut body, permit)| {
            let term = term.clone();
            async move {
                let piece = tokio::select! {
                    piece = body.next() => piece.transpose()?,
                    () = term.ended() => return Err(axum::Error::new(token::replaced())),
                };
                Ok(piece.map(|piece| (piece, (body, permit))))
            }
        }))
    }))
}
