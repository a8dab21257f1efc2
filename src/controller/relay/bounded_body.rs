//! Streamed body with bounds on its size and on pauses.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use hyper::body::{Frame, SizeHint};
use tokio::time::{Instant, Sleep};

/// Time of the last progress, shared by a body and the task that waits for its effect.
#[derive(Clone, Debug)]
pub struct Progress(Arc<Mutex<Instant>>);

impl Progress {
    /// Starts now.
    pub fn starting() -> Self {
        Self(Arc::new(Mutex::new(Instant::now())))
    }

    fn moved(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// Returns when there was no progress for this long.
    pub async fn stalled(&self, timeout: Duration) {
        loop {
            let until = *self.0.lock().unwrap_or_else(PoisonError::into_inner) + timeout;
            if until <= Instant::now() {
                return;
            }
            tokio::time::sleep_until(until).await;
        }
    }
}

/// Body with bounds.
pub struct BoundedBody {
    body: Body,
    left: u64,
    timeout: Duration,
    waiting: Option<Pin<Box<Sleep>>>,
    progress: Progress,
}

impl BoundedBody {
    /// Creates a body of at most `most` bytes, with at most `timeout` between two frames.
    pub fn new(body: Body, most: u64, timeout: Duration, progress: Progress) -> Self {
        Self { body, left: most, timeout, waiting: None, progress }
    }
}

impl HttpBody for BoundedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = &mut *self;
        match Pin::new(&mut this.body).poll_frame(cx) {
            Poll::Ready(polled) => {
                this.waiting = None;
                this.progress.moved();
                if let Some(Ok(frame)) = &polled {
                    let length = frame.data_ref().map_or(0, Bytes::len) as u64;
                    let Some(left) = this.left.checked_sub(length) else {
                        return Poll::Ready(Some(Err(axum::Error::new("the body is larger than allowed"))));
                    };
                    this.left = left;
                }
                Poll::Ready(polled)
            }
            Poll::Pending => {
                // The clock runs only while waiting for the sender, because a slow reader is not its fault.
                let timeout = this.timeout;
                let waiting = this.waiting.get_or_insert_with(|| Box::pin(tokio::time::sleep(timeout)));
                match waiting.as_mut().poll(cx) {
                    Poll::Ready(()) => {
                        Poll::Ready(Some(Err(axum::Error::new("the sender was silent for too long"))))
                    }
                    Poll::Pending => Poll::Pending,
                }
            }
        }
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
    use http_body_util::BodyExt;

    #[tokio::test]
    async fn a_body_fails_when_it_is_too_long_or_stalls() {
        let short = Duration::from_millis(20);
        let paced = |body, most| BoundedBody::new(body, most, short, Progress::starting());
        let whole = paced(Body::from("12345"), 5).collect().await.unwrap().to_bytes();
        assert_eq!(whole, "12345");
        assert!(paced(Body::from("123456"), 5).collect().await.is_err());
        let stuck = futures_util::stream::pending::<Result<Bytes, std::io::Error>>();
        assert!(paced(Body::from_stream(stuck), 5).collect().await.is_err());
        let progress = Progress::starting();
        let started = Instant::now();
        progress.stalled(short).await;
        assert!(started.elapsed() >= short);
    }
}
