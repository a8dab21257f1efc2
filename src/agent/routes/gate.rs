//! Who may call? Whoever shows the token and is not a web page; and for as long as that token is in force.

use axum::Extension;
use axum::body::{Body, HttpBody};
use axum::extract::{Request, State};
use axum::http::header;
use axum::middleware::Next;
use axum::response::Response;
use futures_util::{StreamExt, stream};

use crate::state::Agent;
use crate::token::{self, Term};
use hotdesk_domain::error::Error;
use hotdesk_http::bearer::{self, Shown};
use hotdesk_http::error_response::Result;

/// Lets a request through or refuses it: 403 for one that a browser sent for a page, 401 without the token.
pub async fn pass(State(agent): State<Agent>, mut request: Request, next: Next) -> Result<Response> {
    // No client of this API sends Origin, and every browser does on requests that could do harm (threats.md T2, T27).
    if request.headers().contains_key(header::ORIGIN) {
        return Err(Error::forbidden("web pages may not call the agent").into());
    }
    let admitted = match bearer::shown(request.headers()) {
        Shown::Nothing => return Err(Error::unauthenticated("Missing token").into()),
        Shown::Bearer(token) => agent.token.admits(token),
        Shown::Unusable => None,
    };
    let term = admitted.ok_or_else(|| Error::unauthenticated("Invalid token"))?;
    request.extensions_mut().insert(term);
    Ok(next.run(request).await)
}

/// Ends a request, and an answer that is sent as it comes, when another token replaces the one that was shown.
pub async fn bound(
    State(agent): State<Agent>,
    Extension(term): Extension<Term>,
    request: Request,
    next: Next,
) -> Result<Response> {
    let response = tokio::select! {
        response = next.run(request) => response,
        () = term.ended() => return Err(token::over().into()),
    };
    if response.body().size_hint().exact().is_some() {
        return Ok(response);
    }
    let seat = agent.answers.admit((), usize::MAX);
    Ok(response.map(|body| {
        let pieces = (body.into_data_stream(), seat);
        Body::from_stream(stream::try_unfold(pieces, move |(mut body, seat)| {
            let term = term.clone();
            async move {
                let piece = tokio::select! {
                    piece = body.next() => piece.transpose()?,
                    () = term.ended() => return Err(axum::Error::new(token::over())),
                };
                Ok(piece.map(|piece| (piece, (body, seat))))
            }
        }))
    }))
}
