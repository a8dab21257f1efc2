//! What becomes of a request body that nobody read to its end? A little of it is still read before the answer goes out.
//!
//! A connection that is closed while bytes of the client wait in it is reset, and the client may lose the refusal that
//! it was sent (RFC 9112 section 9.6). So a refused body is swallowed, within bounds.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::Request;
use axum::http::header;

use http_body_util::BodyExt;
use hyper::body::{Frame, SizeHint};
use tokio::sync::oneshot;

/// Most bytes that are swallowed: an upload that is a few times too large still reads its refusal.
const MOST_BYTES: usize = 64 * 1024 * 1024;
/// Longest time for it; a slower sender finds its connection closed.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Marks an answer (as an extension) after which nothing more is read of its request: the connection ends at once.
#[derive(Clone, Copy, Debug)]
pub struct Abandoned;

/// What a handler left of a request's body.
#[derive(Debug)]
pub struct Leftover(Option<oneshot::Receiver<Body>>);

/// Arranges that an unread body comes back when its handler drops it.
pub fn keep(request: Request) -> (Request, Leftover) {
    // A client that waits for `100 Continue` has sent nothing yet, and need not.
    if request.headers().contains_key(header::EXPECT) || request.body().is_end_stream() {
        return (request, Leftover(None));
    }
    let (back, leftover) = oneshot::channel();
    let kept = request.map(|body| Body::new(Kept { body, back: Some(back) }));
    (kept, Leftover(Some(leftover)))
}

impl Leftover {
    /// Swallows what was left, within bounds. Call it when the handler is done.
    pub async fn swallow(self) {
        // Somebody who still holds the body (it is being passed on) reads it or not as the other side wants it.
        let Some(Ok(mut body)) = self.0.map(|mut back| back.try_recv()) else { return };
        let swallowing = async {
            let mut swallowed = 0;
            while let Some(Ok(frame)) = body.frame().await {
                swallowed += frame.data_ref().map_or(0, Bytes::len);
                if swallowed > MOST_BYTES {
                    break;
                }
            }
        };
        // Past the bound the connection is closed with the rest unread: that is the bound's purpose.
        let _ = tokio::time::timeout(TIMEOUT, swallowing).await;
    }
}

/// A body that goes back when it is dropped before its end.
struct Kept {
    body: Body,
    back: Option<oneshot::Sender<Body>>,
}

impl HttpBody for Kept {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        if matches!(polled, Poll::Ready(None | Some(Err(_)))) {
            self.back = None;
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        if let Some(back) = self.back.take()
            && !self.body.is_end_stream()
        {
            // Whoever asked may be gone; then the body goes with it.
            let _ = back.send(std::mem::take(&mut self.body));
        }
    }
}
