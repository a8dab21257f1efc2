//! Fence between controllers: calls of an earlier controller end before those of the next one begin on the same machine.
//!
//! A controller that dies leaves its calls to the helper, which run to their end. Without the fence, the next controller
//! could observe a machine as stopped while the start that its predecessor asked for is about to complete. Calls of the
//! predecessor that have not begun by then are refused.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use uuid::Uuid;

use hotdesk_base::ids::ComputerId;

/// The calls that run, and the controller whose calls may begin.
#[derive(Debug, Default)]
pub(super) struct SessionFence {
    state: Mutex<FenceState>,
    ended: Notify,
}

#[derive(Debug, Default)]
struct FenceState {
    /// The latest controller; `None` until one calls.
    latest: Option<Uuid>,
    running: Vec<RunningCall>,
}

/// The outcome of an attempt to enter.
enum Entry {
    Entered,
    /// A call of an earlier controller runs on one of the machines.
    Busy,
    /// A later controller has begun.
    Late,
}

#[derive(Clone, Debug, PartialEq)]
struct RunningCall {
    session: Uuid,
    machines: Vec<ComputerId>,
}

/// A call that runs, until it is dropped.
#[derive(Debug)]
pub(super) struct CallGuard<'a> {
    fence: &'a SessionFence,
    call: RunningCall,
}

impl SessionFence {
    /// Begins the session of a controller. No call of an earlier one begins from now on.
    pub(super) fn begin(&self, session: Uuid) {
        self.lock().latest = Some(session);
        self.ended.notify_waiters();
    }

    /// Waits until no call of another session runs on any of these machines, and enters the call; `None` when a later
    /// session has begun.
    pub(super) async fn enter(&self, session: Uuid, machines: Vec<ComputerId>) -> Option<CallGuard<'_>> {
        let call = RunningCall { session, machines };
        loop {
            let ended = self.ended.notified();
            tokio::pin!(ended);
            // Registered before the look, so that no end in between is missed.
            ended.as_mut().enable();
            match self.try_enter(&call) {
                Entry::Entered => return Some(CallGuard { fence: self, call }),
                Entry::Late => return None,
                Entry::Busy => ended.await,
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, FenceState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn try_enter(&self, call: &RunningCall) -> Entry {
        let mut state = self.lock();
        if *state.latest.get_or_insert(call.session) != call.session {
            return Entry::Late;
        }
        let conflicts = |other: &RunningCall| {
            other.session != call.session && other.machines.iter().any(|id| call.machines.contains(id))
        };
        if state.running.iter().any(conflicts) {
            return Entry::Busy;
        }
        state.running.push(call.clone());
        Entry::Entered
    }
}

impl Drop for CallGuard<'_> {
    fn drop(&mut self) {
        let mut state = self.fence.lock();
        if let Some(at) = state.running.iter().position(|call| *call == self.call) {
            state.running.swap_remove(at);
        }
        drop(state);
        self.fence.ended.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn the_next_session_waits_on_the_same_machine_only() {
        let (fence, one, two) = (SessionFence::default(), ComputerId::random(), ComputerId::random());
        let (before, after) = (Uuid::new_v4(), Uuid::new_v4());
        let first = fence.enter(before, vec![one]).await.unwrap();
        let same = fence.enter(before, vec![one]).await.unwrap();
        fence.begin(after);
        drop(fence.enter(after, vec![two]).await.unwrap());
        drop(fence.enter(after, Vec::new()).await.unwrap());
        let mut waiting = Box::pin(fence.enter(after, vec![two, one]));
        assert!((&mut waiting).now_or_never().is_none());
        drop(first);
        assert!((&mut waiting).now_or_never().is_none(), "another call of that session still runs");
        drop(same);
        drop(waiting.await.unwrap());
        assert!(fence.lock().running.is_empty());
    }

    #[tokio::test]
    async fn a_call_that_has_not_begun_ends_with_its_session() {
        let (fence, one) = (SessionFence::default(), ComputerId::random());
        let (before, after, last) = (Uuid::new_v4(), Uuid::new_v4(), Uuid::new_v4());
        let first = fence.enter(before, vec![one]).await.unwrap();
        fence.begin(after);
        assert!(fence.enter(before, vec![one]).await.is_none());
        let mut waiting = Box::pin(fence.enter(after, vec![one]));
        assert!((&mut waiting).now_or_never().is_none());
        fence.begin(last);
        assert!(waiting.await.is_none(), "it waited when the next controller began");
        drop(first);
        assert!(fence.enter(last, vec![one]).await.is_some());
    }
}
