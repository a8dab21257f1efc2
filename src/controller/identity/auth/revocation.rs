//! What becomes of a request whose credential ends while it goes on, or whose sender is put out of the workspace that it is about?
//! It ends too, within a second (access.md A11): its handler is dropped as if its client had hung up, and an answer under way
//! breaks off.
//!
//! Whatever removes a credential from the store tells [`Store::live`](hotdesk_store::Store::live), and whatever takes a workspace
//! from a member [`Store::belonging`](hotdesk_store::Store::belonging). A credential that is removed by another process, or ends
//! with its time, is found by looking.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::Request;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::future::BoxFuture;
use hyper::body::{Frame, SizeHint};

use super::grounds::Grounds;
use crate::Shared;
use hotdesk_base::living::Hold;
use hotdesk_domain::access::Credential;
use hotdesk_domain::error::{Error, Result};
use hotdesk_http::error_response::HttpError;
use hotdesk_http::leftover::Abandoned;

/// Between two looks for credentials that went without a word: half of the second that they may live on.
pub const LOOKED_EVERY: Duration = Duration::from_millis(500);
/// Bytes of an answer that is all there at once: that of the request which deletes its own key.
const MAX_WHOLE: u64 = 64 * 1024;

/// The layer: a request lives no longer than the credential that [`identify`](super::identify) found on it, nor than its sender
/// belongs where it was let in.
pub async fn while_valid(mut request: Request, next: Next) -> Response {
    let hold = request.extensions_mut().remove::<Hold<Credential>>();
    under(hold, next.run(request)).await
}

/// Answers for as long as a credential is held valid, and its sender belongs where it is let in.
pub async fn under(hold: Option<Hold<Credential>>, answering: impl Future<Output = Response>) -> Response {
    let grounds = Grounds::of(hold);
    let response = tokio::select! {
        // Whoever deletes its own key, or leaves, is told that it did.
        biased;
        response = grounds.noting(answering) => response,
        error = grounds.lost() => return ended(error),
    };
    if grounds.are_none() {
        return response;
    }
    match (response.body().size_hint().exact(), grounds.refusal()) {
        (Some(0), _) | (Some(1..=MAX_WHOLE), Some(_)) => response,
        (_, Some(error)) => ended(error),
        (_, None) => response.map(|body| Body::new(Held::new(body, grounds))),
    }
}

fn ended(error: Error) -> Response {
    let mut response = HttpError(error).into_response();
    // What the client still sends is not waited for.
    response.extensions_mut().insert(Abandoned);
    response
}

/// Tells those who work under a credential that another process removed, or whose time is over.
///
/// # Errors
/// When the store fails.
pub async fn look(app: Shared) -> Result<()> {
    let held = app.store.live.held();
    for credential in app.store.gone(&held).await? {
        app.store.live.end(&credential);
    }
    Ok(())
}

/// A body that breaks off when one of its request's grounds ends.
struct Held {
    body: Body,
    lost: BoxFuture<'static, Error>,
}

impl Held {
    fn new(body: Body, grounds: Grounds) -> Self {
        // It owns them: nobody is told of the end of what nobody holds.
        Self { body, lost: Box::pin(async move { grounds.lost().await }) }
    }
}

impl HttpBody for Held {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if let Poll::Ready(error) = self.lost.as_mut().poll(cx) {
            // Not asked again: it has answered.
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
    use crate::auth::grounds::note;
    use axum::http::StatusCode;
    use hotdesk_base::ids::{AccountId, KeyId, WorkspaceId};
    use hotdesk_base::living::Living;
    use hotdesk_store::members::Belonging;
    use http_body_util::BodyExt;

    fn endless() -> Response {
        Response::new(Body::from_stream(futures_util::stream::pending::<Result<Bytes, std::io::Error>>()))
    }

    #[tokio::test]
    async fn an_end_drops_the_handler_or_breaks_the_answer_off() {
        let (living, key) = (Living::default(), Credential::Key(KeyId::random()));
        let other = under(Some(living.hold(Credential::Key(KeyId::random()))), async { endless() }).await;
        let answer = under(Some(living.hold(key)), async { endless() }).await;
        let waiting = under(Some(living.hold(key)), std::future::pending());
        let end = async { living.end(&key) };
        let (answered, ()) = tokio::join!(waiting, end);
        assert_eq!(answered.status(), StatusCode::UNAUTHORIZED);
        assert!(answered.extensions().get::<Abandoned>().is_some());
        assert!(answer.into_body().collect().await.is_err());
        assert!(futures_util::poll!(other.into_body().frame()).is_pending());
    }

    #[tokio::test]
    async fn whoever_ends_its_own_credential_is_answered() {
        let (living, key) = (Living::default(), Credential::Key(KeyId::random()));
        let own = async {
            living.end(&key);
            Response::new(Body::from("done"))
        };
        let answer = under(Some(living.hold(key)), own).await;
        assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "done");
        let stream = async {
            living.end(&key);
            endless()
        };
        assert_eq!(under(Some(living.hold(key)), stream).await.status(), StatusCode::UNAUTHORIZED);
    }

    #[tokio::test]
    async fn what_goes_on_in_a_workspace_ends_with_its_sender_s_part_in_it_and_elsewhere_does_not() {
        let (living, account) = (Living::default(), AccountId::random());
        let belonging = || Belonging { workspace: WorkspaceId::random(), account };
        let (lost, kept) = (belonging(), belonging());
        let streaming = async |into: Belonging| {
            note(living.hold(into));
            endless()
        };
        let (broken, other) = (under(None, streaming(lost)).await, under(None, streaming(kept)).await);
        let (told, heard) = tokio::sync::oneshot::channel();
        let waiting = under(None, async {
            note(living.hold(kept));
            // It waits already when it is let in to one more.
            tokio::task::yield_now().await;
            note(living.hold(lost));
            told.send(()).expect("somebody listens");
            std::future::pending().await
        });
        let end = async {
            heard.await.expect("it is let in");
            living.end(&lost);
        };
        let (answered, ()) = tokio::join!(waiting, end);
        assert_eq!(answered.status(), StatusCode::FORBIDDEN);
        assert!(answered.extensions().get::<Abandoned>().is_some());
        assert!(broken.into_body().collect().await.is_err());
        assert!(futures_util::poll!(other.into_body().frame()).is_pending());
        let leaves = async {
            note(living.hold(kept));
            living.end(&kept);
            Response::new(Body::from("left"))
        };
        assert_eq!(under(None, leaves).await.into_body().collect().await.unwrap().to_bytes(), "left");
    }
}
