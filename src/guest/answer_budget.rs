//! How much of an agent's answers is kept at once? Each answer has its limit, and all of one computer's a common one: a
//! hostile agent that answers many calls at once must not fill the controller's memory (threats.md T4).

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::sync::Semaphore;

use super::failure;
use hotdesk_domain::error::{Error, Result};

/// Bytes of unfinished answers kept per computer: the largest image once, or dozens of real ones.
const ROOM: usize = super::screenshot::MAX_IMAGE;

/// The room for one computer's unfinished answers.
#[derive(Clone, Debug)]
pub(super) struct Room(Arc<Semaphore>);

impl Room {
    pub(super) fn new() -> Self {
        Self(Arc::new(Semaphore::new(ROOM)))
    }

    /// Reads a whole body of at most `limit` bytes.
    pub(super) async fn collect(&self, mut body: Incoming, limit: usize) -> Result<Bytes> {
        let full =
            |_| Error::unavailable("The computer is sending more than can be kept at once").retry_after(1);
        let mut held = self.0.try_acquire_many(0).map_err(full)?;
        let mut whole = BytesMut::new();
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame.map_err(|error| failure::broke_off(&error))?.into_data() else { continue };
            if whole.len() + data.len() > limit {
                return Err(failure::nonsense(&format!("an answer of more than {limit} bytes")));
            }
            let piece = u32::try_from(data.len()).unwrap_or(u32::MAX);
            // Not awaited: whoever holds the room may be waiting for the same computer.
            held.merge(self.0.try_acquire_many(piece).map_err(full)?);
            whole.extend_from_slice(&data);
        }
        Ok(whole.freeze())
    }
}
