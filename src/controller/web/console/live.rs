//! Socket of the console's live records (docs/console.md#live-records): who may open it, and its end with the
//! sign-in.
//!
//! A refused upgrade is accepted first and then closed with a code, because browsers tell their pages the
//! code of a close, but not the status of a refused upgrade.

use axum::Router;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use axum::routing::get;

use crate::AppState;
use crate::web::origin::Origin;
use hotdesk_base::ids::AccountId;
use hotdesk_base::revocation_registry::Lease;
use hotdesk_domain::desktop::channel::{Channel, Failure, POLICY_VIOLATION};
use hotdesk_domain::error;
use hotdesk_domain::identity::access::Credential;
use hotdesk_http::error_response::Result;
use hotdesk_http::socket::{CloseReason, Upgrade};

/// Returns the route of the socket.
pub fn router() -> Router<AppState> {
    Router::new().route("/console/live", get(open))
}

/// `GET /console/live`.
async fn open(
    State(app): State<AppState>,
    own: Origin,
    headers: HeaderMap,
    upgrade: Upgrade,
) -> Result<Response> {
    let admitted = admit(&app, &own, &headers).await?;
    let sockets = app.sockets.clone();
    Ok(sockets.open(upgrade, "console", move |sender, receiver| async move {
        let (account, lease) = match admitted {
            Ok(admitted) => admitted,
            Err(closing) => return closing,
        };
        tokio::select! {
            biased;
            () = lease.revoked() => signed_out("the sign-in has ended"),
            closing = app.live.serve(account, own, sender, receiver) => closing,
        }
    })?)
}

/// An account whose person is signed in, with a lease on the sign-in.
type SignedInPage = (AccountId, Lease<Credential>);

/// Admits a page of this service's own origin whose person is signed in. Only those pages may use the cookie,
/// T2 (docs/security.md). Otherwise returns how to close the socket.
///
/// # Errors
/// `Unavailable` or `Internal` when the store fails.
async fn admit(
    app: &AppState,
    own: &Origin,
    headers: &HeaderMap,
) -> error::Result<std::result::Result<SignedInPage, CloseReason>> {
    if !own.is_of_page(headers) {
        let closing = CloseReason::new(POLICY_VIOLATION, "only pages of this service may open this socket");
        return Ok(Err(closing));
    }
    let none = || Ok(Err(signed_out("sign in first")));
    let Some(who) = app.sessions.signed_in(headers).await? else { return none() };
    let lease = app.store.credentials.lease(Credential::Session(who.session));
    // Again, because the sign-in may have ended before the lease.
    if app.sessions.signed_in(headers).await?.is_none() {
        return none();
    }
    Ok(Ok((who.account, lease)))
}

fn signed_out(why: &'static str) -> CloseReason {
    CloseReason::new(Channel::Events.close_code(Failure::Unauthenticated), why)
}
