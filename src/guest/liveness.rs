//! Liveness of an agent: recorded for every request, and shared by all clones of its client.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::watch;

use hotdesk_base::clock;
use hotdesk_base::time::UnixMillis;

/// Outcome of the requests to one agent.
#[derive(Clone, Debug)]
pub(super) struct Liveness(Arc<Answers>);

#[derive(Debug)]
struct Answers {
    /// Number of answers, of any status.
    count: AtomicU64,
    /// The start of the first request that nothing answered; `None` while the agent answers.
    unresponsive_since: watch::Sender<Option<UnixMillis>>,
}

/// The moment at which a request was sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct SentRequest {
    at: UnixMillis,
    answers_before: u64,
}

impl Liveness {
    pub(super) fn new() -> Self {
        Self(Arc::new(Answers { count: AtomicU64::new(0), unresponsive_since: watch::Sender::new(None) }))
    }

    /// The moment since which the agent answers nothing, as it changes.
    pub(super) fn watch(&self) -> watch::Receiver<Option<UnixMillis>> {
        self.0.unresponsive_since.subscribe()
    }

    /// Notes that a request is sent.
    pub(super) fn sent(&self) -> SentRequest {
        SentRequest { at: clock::now(), answers_before: self.0.count.load(Ordering::Relaxed) }
    }

    /// Notes an answer of any status.
    pub(super) fn answered(&self) {
        self.0.count.fetch_add(1, Ordering::Relaxed);
        self.0.unresponsive_since.send_if_modified(|since| since.take().is_some());
    }

    /// Notes that a request timed out. Returns since when the agent is unresponsive; `None` if it answered
    /// another request meanwhile: then only that one was slow.
    pub(super) fn timed_out(&self, request: SentRequest) -> Option<UnixMillis> {
        if self.0.count.load(Ordering::Relaxed) != request.answers_before {
            return None;
        }
        let mut known = request.at;
        self.0.unresponsive_since.send_if_modified(|since| {
            let is_new = since.is_none();
            known = *since.get_or_insert(request.at);
            is_new
        });
        Some(known)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn an_agent_is_unresponsive_from_the_first_unanswered_request_until_an_answer() {
        let liveness = Liveness::new();
        let watched = liveness.watch();
        let slow = liveness.sent();
        liveness.answered();
        assert_eq!(liveness.timed_out(slow), None, "it answered another request meanwhile");
        let first = liveness.sent();
        let second = SentRequest { at: first.at.plus(Duration::from_secs(1)), ..liveness.sent() };
        assert_eq!(liveness.timed_out(first), Some(first.at));
        assert_eq!(liveness.timed_out(second), Some(first.at));
        assert_eq!(*watched.borrow(), Some(first.at));
        liveness.answered();
        assert_eq!(*watched.borrow(), None);
        assert_eq!(liveness.timed_out(second), None);
    }
}
