//! End of requests whose credential or membership is revoked.
//!
//! Such a request ends within a second, A11 (docs/authentication-rules.md): its handler is dropped as if the
//! client had disconnected, and a response in progress is cut off.
//!
//! Code that removes a credential signals [`Store::credentials`]; code that removes a membership signals
//! [`Store::memberships`]. Credentials that expire or that another process removes are found by polling.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::Request;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::future::BoxFuture;
use hyper::body::{Frame, SizeHint};

use crate::web::request_lease::RequestLease;
use hotdesk_base::revocation_registry::Lease;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::identity::access::Credential;
use hotdesk_http::error_response::HttpError;
use hotdesk_http::unread_body::SkipDrain;
use hotdesk_store::Store;

/// Time between two polls. It is half of the second that a revoked credential may remain in use.
pub const CHECK_INTERVAL: Duration = Duration::from_millis(500);
/// Largest response that is sent in one piece, in bytes. It covers the response of a request that deletes its
/// own key.
const MAX_ATOMIC: u64 = 64 * 1024;

/// Layer that ends a request when the credential that [`identify`](super::identify) found, or a membership
/// that it used, is revoked.
pub async fn while_valid(mut request: Request, next: Next) -> Response {
    let hold = request.extensions_mut().remove::<Lease<Credential>>();
    under(hold, next.run(request)).await
}

/// Produces a response while the credential and the used memberships hold.
pub async fn under(hold: Option<Lease<Credential>>, answering: impl Future<Output = Response>) -> Response {
    let lease = RequestLease::of(hold);
    let response = tokio::select! {
        // A request that deletes its own key, or leaves a workspace, gets its response.
        biased;
        response = lease.recording(answering) => response,
        error = lease.lost() => return ended(error),
    };
    if lease.is_empty() {
        return response;
    }
    match (response.body().size_hint().exact(), lease.refusal()) {
        (Some(0), _) | (Some(1..=MAX_ATOMIC), Some(_)) => response,
        (_, Some(error)) => ended(error),
        (_, None) => response.map(|body| Body::new(LeasedBody::new(body, lease))),
    }
}

fn ended(error: Error) -> Response {
    let mut response = HttpError(error).into_response();
    // The rest of the request body is not read.
    response.extensions_mut().insert(SkipDrain);
    response
}

/// Ends requests whose credential expired or was removed by another process.
///
/// # Errors
/// `Internal` when the database fails; the next poll retries.
pub async fn end_removed(store: &Store) -> Result<()> {
    let held = store.credentials.leased();
    for credential in store.ended_credentials(&held).await? {
        store.credentials.revoke(&credential);
    }
    Ok(())
}

/// Response body that fails when one of the request's leases ends.
struct LeasedBody {
    body: Body,
    lost: BoxFuture<'static, Error>,
}

impl LeasedBody {
    fn new(body: Body, lease: RequestLease) -> Self {
        // It owns the leases, because only holders are notified.
        Self { body, lost: Box::pin(async move { lease.lost().await }) }
    }
}

impl HttpBody for LeasedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if let Poll::Ready(error) = self.lost.as_mut().poll(cx) {
            // The future has completed and must not be polled again.
            self.lost = Box::pin(std::future::pending());
            return Poll::Ready(Some(Err(axum::Error::new(error))));
        }
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::web::request_lease::note;
    use axum::http::StatusCode;
    use hotdesk_base::ids::{AccountId, KeyId, WorkspaceId};
    use hotdesk_base::revocation_registry::RevocationRegistry;
    use hotdesk_store::identity::members::Membership;
    use http_body_util::BodyExt;

    fn endless() -> Response {
        Response::new(Body::from_stream(futures_util::stream::pending::<Result<Bytes, std::io::Error>>()))
    }

    #[tokio::test]
    async fn a_revocation_drops_the_handler_or_cuts_off_the_response() {
        let (registry, key) = (RevocationRegistry::default(), Credential::Key(KeyId::random()));
        let other = under(Some(registry.lease(Credential::Key(KeyId::random()))), async { endless() }).await;
        let answer = under(Some(registry.lease(key)), async { endless() }).await;
        let waiting = under(Some(registry.lease(key)), std::future::pending());
        let end = async { registry.revoke(&key) };
        let (answered, ()) = tokio::join!(waiting, end);
        assert_eq!(answered.status(), StatusCode::UNAUTHORIZED);
        assert!(answered.extensions().get::<SkipDrain>().is_some());
        assert!(answer.into_body().collect().await.is_err());
        assert!(futures_util::poll!(other.into_body().frame()).is_pending());
    }

    #[tokio::test]
    async fn a_request_that_revokes_its_own_credential_is_answered() {
        let (registry, key) = (RevocationRegistry::default(), Credential::Key(KeyId::random()));
        let own = async {
            registry.revoke(&key);
            Response::new(Body::from("done"))
        };
        let answer = under(Some(registry.lease(key)), own).await;
        assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "done");
        let stream = async {
            registry.revoke(&key);
            endless()
        };
        assert_eq!(under(Some(registry.lease(key)), stream).await.status(), StatusCode::UNAUTHORIZED);
    }

    #[tokio::test]
    async fn a_lost_membership_ends_only_requests_in_that_workspace() {
        let (registry, account) = (RevocationRegistry::default(), AccountId::random());
        let membership = || Membership { workspace: WorkspaceId::random(), account };
        let (lost, kept) = (membership(), membership());
        let streaming = async |into: Membership| {
            note(registry.lease(into));
            endless()
        };
        let (broken, other) = (under(None, streaming(lost)).await, under(None, streaming(kept)).await);
        let (admitted, was_admitted) = tokio::sync::oneshot::channel();
        let waiting = under(None, async {
            note(registry.lease(kept));
            // It already waits when another membership is added.
            tokio::task::yield_now().await;
            note(registry.lease(lost));
            admitted.send(()).expect("a receiver");
            std::future::pending().await
        });
        let end = async {
            was_admitted.await.expect("an admitted request");
            registry.revoke(&lost);
        };
        let (answered, ()) = tokio::join!(waiting, end);
        assert_eq!(answered.status(), StatusCode::FORBIDDEN);
        assert!(answered.extensions().get::<SkipDrain>().is_some());
        assert!(broken.into_body().collect().await.is_err());
        assert!(futures_util::poll!(other.into_body().frame()).is_pending());
        let leaves = async {
            note(registry.lease(kept));
            registry.revoke(&kept);
            Response::new(Body::from("left"))
        };
        assert_eq!(under(None, leaves).await.into_body().collect().await.unwrap().to_bytes(), "left");
    }
}
