//! Memory limits of agents' answers: one for each answer and one for all answers of a computer.
//!
//! A hostile agent that answers many calls at once must not fill the controller's memory, T4
//! (docs/security.md).

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::failure;
use hotdesk_domain::error::{Error, Result};

/// Largest sum of answers per computer that are unfinished or unread, in bytes: the largest image once, or dozens of real ones.
const BUDGET: usize = super::screenshot::MAX_IMAGE;

/// Byte budget for the answers of one computer; a permit is a byte.
#[derive(Clone, Debug)]
pub(super) struct AnswerBudget(Arc<Semaphore>);

impl AnswerBudget {
    pub(super) fn new() -> Self {
        Self(Arc::new(Semaphore::new(BUDGET)))
    }

    /// Reads a whole body of at most `limit` bytes. They count until the last copy of the answer is dropped, so
    /// also while a client does not read it.
    ///
    /// # Errors
    /// `Unavailable` when the budget is used up or the agent breaks off; `Internal` for a longer body.
    pub(super) async fn collect(&self, mut body: Incoming, limit: usize) -> Result<Bytes> {
        let full =
            |_| Error::unavailable("The computer is sending more than can be kept at once").retry_after(1);
        let acquire = |bytes| Arc::clone(&self.0).try_acquire_many_owned(bytes).map_err(full);
        let mut permit = acquire(0)?;
        let mut whole = BytesMut::new();
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame.map_err(|error| failure::broke_off(&error))?.into_data() else { continue };
            if whole.len() + data.len() > limit {
                return Err(failure::invalid_answer(&format!("an answer of more than {limit} bytes")));
            }
            let piece = u32::try_from(data.len()).unwrap_or(u32::MAX);
            // No wait for bytes of the budget: two answers that each need more of it would wait for each
            // other.
            permit.merge(acquire(piece)?);
            whole.extend_from_slice(&data);
        }
        Ok(Bytes::from_owner(Answer { bytes: whole, _permit: permit }))
    }
}

/// An answer with its part of the budget.
struct Answer {
    bytes: BytesMut,
    _permit: OwnedSemaphorePermit,
}

impl AsRef<[u8]> for Answer {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}
