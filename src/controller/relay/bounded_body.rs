//! How is a body passed on that may be of any size? Piece by piece, none kept, with an end to its size and to waiting.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use hyper::body::{Frame, SizeHint};
use tokio::time::{Instant, Sleep};

/// When something moved last; shared by a body and whoever waits for what comes of it.
#[derive(Clone, Debug)]
pub struct Progress(Arc<Mutex<Instant>>);

impl Progress {
    /// From now on.
    pub fn starting() -> Self {
        Self(Arc::new(Mutex::new(Instant::now())))
    }

    fn moved(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// Returns when nothing has moved for so long.
    pub async fn stalled(&self, patience: Duration) {
        loop {
            let until = *self.0.lock().unwrap_or_else(PoisonError::into_inner) + patience;
            if until <= Instant::now() {
                return;
            }
            tokio::time::sleep_until(until).await;
        }
    }
}

/// A body with bounds.
pub struct Paced {
    body: Body,
    left: u64,
    patience: Duration,
    waiting: Option<Pin<Box<Sleep>>>,
    progress: Progress,
}

impl Paced {
    /// At most `most` bytes, and at most `patience` between two pieces.
    pub fn new(body: Body, most: u64, patience: Duration, progress: Progress) -> Self {
        Self { body, left: most, patience, waiting: None, progress }
    }
}

impl HttpBody for Paced {
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
                        return Poll::Ready(Some(Err(axum::Error::new("more than may be passed on"))));
                    };
                    this.left = left;
                }
                Poll::Ready(polled)
            }
            Poll::Pending => {
                // The clock runs only while we wait for the sender: a slow reader is not its fault.
                let patience = this.patience;
                let waiting = this.waiting.get_or_insert_with(|| Box::pin(tokio::time::sleep(patience)));
                match waiting.as_mut().poll(cx) {
                    Poll::Ready(()) => Poll::Ready(Some(Err(axum::Error::new("nothing came in time")))),
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
    async fn a_body_ends_where_it_grows_too_long_or_stalls() {
        let short = Duration::from_millis(20);
        let paced = |body, most| Paced::new(body, most, short, Progress::starting());
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
