//! Draining of request bodies that a handler did not read to the end.
//!
//! A connection that is closed with unread bytes is reset, and the client may lose the response (RFC 9112
//! section 9.6). So an unread body is drained while the response is sent, within limits.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::Request;
use axum::http::header;

use http_body_util::BodyExt;
use hyper::body::{Frame, SizeHint};
use tokio::sync::oneshot;

/// Most bytes that are drained: the client of an upload that is a few times too large still reads the
/// response.
const MAX_DRAIN_BYTES: usize = 64 * 1024 * 1024;
/// Longest time of a drain; the connection of a slower sender is closed.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

/// Response extension: the rest of the request is not drained, so the connection closes at once.
#[derive(Clone, Copy, Debug)]
pub struct SkipDrain;

/// The part of a request's body that its handler did not read.
#[derive(Debug)]
pub struct UnreadBody(Option<oneshot::Receiver<Body>>);

/// Wraps a request's body so that its unread part comes back when the handler drops it.
pub fn track(request: Request) -> (Request, UnreadBody) {
    // A client that waits for `100 Continue` has sent nothing yet.
    if request.headers().contains_key(header::EXPECT) || request.body().is_end_stream() {
        return (request, UnreadBody(None));
    }
    let (back, unread) = oneshot::channel();
    let tracked = request.map(|body| Body::new(TrackedBody { body, back: Some(back) }));
    (tracked, UnreadBody(Some(unread)))
}

impl UnreadBody {
    /// Returns the unread part, once the handler has ended. `None` when there is none, or when the body is
    /// still being forwarded: its reader decides how much of it is read.
    pub fn rest(self) -> Option<Body> {
        self.0?.try_recv().ok()
    }
}

/// Reads and discards an unread part, within limits.
pub async fn drain(mut body: Body) {
    let draining = async {
        let mut drained = 0;
        while let Some(Ok(frame)) = body.frame().await {
            drained += frame.data_ref().map_or(0, Bytes::len);
            if drained > MAX_DRAIN_BYTES {
                break;
            }
        }
    };
    // Beyond the limits the connection is closed with the rest unread.
    let _ = tokio::time::timeout(DRAIN_TIMEOUT, draining).await;
}

/// A body that is sent back when it is dropped before its end.
struct TrackedBody {
    body: Body,
    back: Option<oneshot::Sender<Body>>,
}

impl HttpBody for TrackedBody {
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

impl Drop for TrackedBody {
    fn drop(&mut self) {
        if let Some(back) = self.back.take()
            && !self.body.is_end_stream()
        {
            // The receiver may be gone; then the body is dropped.
            let _ = back.send(std::mem::take(&mut self.body));
        }
    }
}
