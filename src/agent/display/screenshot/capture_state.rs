//! State between captures of a screen: shared memory, pixel buffers and the number of the connection.

use std::sync::atomic::{AtomicU64, Ordering};

use super::shm::Segment;
use crate::display::fault::Outcome;
use crate::display::link::Link;
use hotdesk_pictures::Pool;

/// Numbers the connections, so that stamps of two connections never are equal.
static NEXT_CONNECTION: AtomicU64 = AtomicU64::new(1);

/// State between captures.
#[derive(Debug)]
pub(in crate::display) struct CaptureState {
    /// Number of the X connection.
    pub(in crate::display) number: u64,
    pub(in crate::display) segment: Option<Segment>,
    pub(in crate::display) pool: Pool,
}

impl CaptureState {
    pub(in crate::display) fn new() -> Self {
        Self { number: NEXT_CONNECTION.fetch_add(1, Ordering::Relaxed), segment: None, pool: Pool::default() }
    }

    /// The shared memory segment, which holds a whole screen; recreated after a change of the size.
    pub(in crate::display) fn segment_id(&mut self, link: &Link, bytes: usize) -> Outcome<u32> {
        if let Some(segment) = &self.segment
            && segment.len() == bytes
        {
            return Ok(segment.id);
        }
        if let Some(old) = self.segment.take() {
            old.detach(link)?;
        }
        let segment = Segment::attach(link, bytes)?;
        Ok(self.segment.insert(segment).id)
    }
}
