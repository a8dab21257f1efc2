//! The newest actions on the screens of a computer, and when somebody acted last.

use std::sync::atomic::{AtomicI64, Ordering};

use axum::body::Body;
use axum::http::Request;

use super::{Guest, QUICK_TIMEOUT, uri};
use hotdesk_base::clock;
use hotdesk_base::time::UnixMillis;
use hotdesk_domain::error::Result;
use hotdesk_wire::agent::timeline::{GuestTimeline, GuestTimelineQuery};

/// Largest answer in bytes: the agent sends a megabyte of pictures in base64, and up to 64 records of some
/// KB.
const MAX_TIMELINE_ANSWER: usize = 4 * 1024 * 1024;

/// When a client of somebody was made, or somebody acted through a socket, last; nobody acted yet when it is
/// 0.
#[derive(Debug, Default)]
pub(super) struct LastActed(AtomicI64);

impl LastActed {
    pub(super) fn note(&self) {
        self.0.store(clock::now().as_i64(), Ordering::Relaxed);
    }
}

impl Guest {
    /// When somebody's request or input was sent last through this client or a clone of it; `None` when
    /// nobody's was.
    pub fn last_acted(&self) -> Option<UnixMillis> {
        let at = self.acted.0.load(Ordering::Relaxed);
        (at != 0).then(|| UnixMillis::new(at))
    }

    /// Notes that somebody acts through a socket of this client, whose input is no request.
    pub fn note_acted(&self) {
        self.acted.note();
    }

    /// Reads the newest actions on the screens. The agent bounds the number of entries; what it says is
    /// untrusted.
    ///
    /// # Errors
    /// Those of [`Guest::call`].
    pub async fn timeline(&self, query: &GuestTimelineQuery) -> Result<GuestTimeline> {
        let mut request = Request::new(Body::empty());
        *request.uri_mut() = uri("/timeline", query)?;
        self.exchange_json(request, QUICK_TIMEOUT, MAX_TIMELINE_ANSWER).await.map(|reply| reply.answer)
    }
}
