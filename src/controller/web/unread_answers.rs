//! Bounds on the bytes of answers that clients have not read yet, by account and by address (T13, docs/security.md).
//!
//! Bytes count from the moment when the server takes them for a connection until that has sent them. An answer that is
//! in memory as a whole is refused when it does not fit; a streamed one waits for space. A client that reads nothing is
//! closed after a minute (`src/http/serve/stalled_client.rs`), so no wait is longer.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Poll, ready};

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use http_body_util::BodyExt;
use hyper::body::{Frame, SizeHint};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::PollSemaphore;

use super::caller::IdentifiedCaller;
use super::source::Source;
use crate::AppState;
use hotdesk_base::ids::AccountId;
use hotdesk_domain::error::Error;
use hotdesk_http::error_response::HttpError;
use hotdesk_http::serve::ClientMayPause;

/// Most unread bytes of one account, and of one address: the largest screenshot as base64, or hundreds of real ones.
const MOST: usize = 256 << 20;
/// Pieces up to this many bytes do not count: what the server buffers for a connection anyway. The number of
/// connections bounds them.
const SMALL: usize = 16 << 10;

/// Whom unread bytes count for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Reader {
    Account(AccountId),
    Source(Source),
}

/// Budgets of unread bytes; a permit is a byte. It stores nothing of readers without unread bytes.
#[derive(Debug, Default)]
pub struct UnreadAnswers(Mutex<HashMap<Reader, Weak<Semaphore>>>);

/// Layer that counts the answers of the caller's account.
pub async fn count_for_account(State(app): State<AppState>, request: Request, next: Next) -> Response {
    let caller = request.extensions().get::<IdentifiedCaller>().and_then(|caller| caller.0.as_ref().ok());
    let reader = caller.map(|caller| Reader::Account(caller.account));
    let response = next.run(request).await;
    match reader {
        Some(reader) => app.unread_answers.count(reader, response),
        None => response,
    }
}

/// Layer that counts the answers of the client's address. This machine has no bound of its own, because a reverse
/// proxy here serves all clients.
pub async fn count_for_source(
    State(app): State<AppState>,
    source: Source,
    request: Request,
    next: Next,
) -> Response {
    let response = next.run(request).await;
    if source.is_this_machine() {
        return response;
    }
    app.unread_answers.count(Reader::Source(source), response)
}

impl UnreadAnswers {
    fn budget(&self, reader: Reader) -> Arc<Semaphore> {
        let mut budgets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(budget) = budgets.get(&reader).and_then(Weak::upgrade) {
            return budget;
        }
        budgets.retain(|_, budget| budget.strong_count() > 0);
        let budget = Arc::new(Semaphore::new(MOST));
        budgets.insert(reader, Arc::downgrade(&budget));
        budget
    }

    /// Counts the bytes of an answer, or refuses it.
    fn count(&self, reader: Reader, response: Response) -> Response {
        // A socket has limits of its own, and so has a body whose client may pause.
        if response.status() == StatusCode::SWITCHING_PROTOCOLS
            || response.extensions().get::<ClientMayPause>().is_some()
        {
            return response;
        }
        let (parts, body) = response.into_parts();
        match CountedBody::begin(body, self.budget(reader)) {
            Ok(body) => Response::from_parts(parts, Body::new(body)),
            Err(error) => HttpError(error).into_response(),
        }
    }
}

/// A body whose bytes count until they are sent.
struct CountedBody {
    body: Body,
    budget: PollSemaphore,
    /// Frame that was read ahead, or the end.
    ahead: Option<Option<Result<Frame<Bytes>, axum::Error>>>,
    /// Data that waits for space.
    waiting: Option<Bytes>,
}

/// Data with its part of a budget.
struct CountedData {
    bytes: Bytes,
    _permit: OwnedSemaphorePermit,
}

impl AsRef<[u8]> for CountedData {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl CountedBody {
    /// Reads the first piece ahead if it is there.
    ///
    /// # Errors
    /// `Unavailable` when that is the whole body and does not fit.
    fn begin(mut body: Body, budget: Arc<Semaphore>) -> Result<Self, Error> {
        let mut ahead = body.frame().now_or_never();
        if body.is_end_stream()
            && let Some(Some(Ok(frame))) = &mut ahead
            && let Some(data) = frame.data_mut()
            && data.len() > SMALL
        {
            let permit = Arc::clone(&budget).try_acquire_many_owned(permits(data)).map_err(|_| {
                Error::unavailable("Too many answers are unread: read them, or close their connections")
                    .retry_after(1)
            })?;
            *data = counted(std::mem::take(data), permit);
            // It is counted already.
            let (body, budget) = (Body::empty(), PollSemaphore::new(budget));
            return Ok(Self { body, budget, ahead, waiting: None });
        }
        Ok(Self { body, budget: PollSemaphore::new(budget), ahead, waiting: None })
    }
}

/// The permits of data. What exceeds a budget takes all of it.
fn permits(data: &Bytes) -> u32 {
    u32::try_from(data.len().min(MOST)).unwrap_or(u32::MAX)
}

fn counted(bytes: Bytes, permit: OwnedSemaphorePermit) -> Bytes {
    Bytes::from_owner(CountedData { bytes, _permit: permit })
}

impl HttpBody for CountedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = &mut *self;
        if this.waiting.is_none() {
            let frame = match this.ahead.take() {
                // A whole body was counted when it was read ahead.
                Some(frame) if this.body.is_end_stream() => return Poll::Ready(frame),
                Some(frame) => frame,
                None => ready!(Pin::new(&mut this.body).poll_frame(context)),
            };
            match frame {
                Some(Ok(frame)) if frame.data_ref().is_some_and(|data| data.len() > SMALL) => {
                    this.waiting = frame.into_data().ok();
                }
                frame => return Poll::Ready(frame),
            }
        }
        let Some(data) = this.waiting.take() else { return Poll::Ready(None) };
        match this.budget.poll_acquire_many(context, permits(&data)) {
            Poll::Ready(Some(permit)) => Poll::Ready(Some(Ok(Frame::data(counted(data, permit))))),
            // Nothing closes a budget.
            Poll::Ready(None) => Poll::Ready(Some(Ok(Frame::data(data)))),
            Poll::Pending => {
                this.waiting = Some(data);
                Poll::Pending
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.ahead {
            Some(frame) => frame.is_none(),
            None => self.waiting.is_none() && self.body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        let ahead = self.ahead.iter().flatten().flatten().filter_map(Frame::data_ref).map(Bytes::len).next();
        let more = (ahead.unwrap_or_default() + self.waiting.as_ref().map_or(0, Bytes::len)) as u64;
        let inner = self.body.size_hint();
        let mut hint = SizeHint::new();
        hint.set_lower(inner.lower().saturating_add(more));
        if let Some(upper) = inner.upper() {
            hint.set_upper(upper.saturating_add(more));
        }
        hint
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LARGE: usize = 100 << 20;

    fn answer(bytes: usize) -> Response {
        Bytes::from(vec![0; bytes]).into_response()
    }

    fn reader(id: &str) -> Reader {
        Reader::Source(Source::parse(id))
    }

    #[tokio::test]
    async fn an_unread_answer_counts_for_its_reader_until_it_is_gone() {
        let (unread, one, other) = (UnreadAnswers::default(), reader("192.0.2.1"), reader("192.0.2.2"));
        let mut held: Vec<Response> = (0..2).map(|_| unread.count(one, answer(LARGE))).collect();
        assert!(held.iter().all(|response| response.status() == StatusCode::OK));
        assert_eq!(unread.count(one, answer(LARGE)).status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(unread.count(one, answer(SMALL)).status(), StatusCode::OK, "small ones do not count");
        assert_eq!(unread.count(other, answer(LARGE)).status(), StatusCode::OK);

        // The server takes the data of the body before it is sent.
        let mut body = held.pop().unwrap().into_body();
        assert_eq!(body.size_hint().exact(), Some(LARGE as u64));
        let data = body.frame().await.unwrap().unwrap().into_data().unwrap();
        assert!(body.is_end_stream() && body.frame().await.is_none());
        drop(body);
        assert_eq!(unread.count(one, answer(LARGE)).status(), StatusCode::SERVICE_UNAVAILABLE);
        drop(data);
        assert_eq!(unread.count(one, answer(LARGE)).status(), StatusCode::OK);
        drop(held);
        assert_eq!(Arc::strong_count(&unread.budget(other)), 1);
    }

    #[tokio::test]
    async fn a_streamed_answer_waits_for_room_and_loses_nothing() {
        let (unread, one) = (UnreadAnswers::default(), reader("192.0.2.1"));
        let pieces = (0..4_u8).map(|piece| Ok::<_, std::io::Error>(Bytes::from(vec![piece; LARGE])));
        let stream = Body::from_stream(futures_util::stream::iter(pieces));
        let mut body = unread.count(one, Response::new(stream)).into_body();
        let first = body.frame().await.unwrap().unwrap().into_data().unwrap();
        let second = body.frame().await.unwrap().unwrap().into_data().unwrap();
        assert!(body.frame().now_or_never().is_none(), "no space for the third");
        drop(first);
        let third = body.frame().await.unwrap().unwrap().into_data().unwrap();
        drop((second, third));
        let last = body.frame().await.unwrap().unwrap().into_data().unwrap();
        assert_eq!((last.len(), last[0]), (LARGE, 3));
        assert!(body.frame().await.is_none());
    }
}
