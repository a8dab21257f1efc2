//! Groups of background tasks. No other module spawns.
//!
//! Every task has a name, a span and the group's cancellation token. A panic is logged with the task's name
//! and does not end the process. [`Tasks::drain`] cancels the token, waits, and returns the names of the
//! tasks that still run.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::Instrument;

/// A group of background tasks that stops as one.
#[derive(Clone, Debug, Default)]
pub struct Tasks {
    tracker: TaskTracker,
    stop: CancellationToken,
    running: Arc<Mutex<BTreeMap<&'static str, usize>>>,
}

impl Tasks {
    /// An empty group.
    pub fn new() -> Self {
        Self::default()
    }

    /// The token that is cancelled when the group stops.
    pub fn stopping(&self) -> CancellationToken {
        self.stop.clone()
    }

    /// Starts a task. The returned handle's value is `None` when the task panicked.
    pub fn spawn<T: Send + 'static>(
        &self,
        name: &'static str,
        future: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<Option<T>> {
        let running = Arc::clone(&self.running);
        *running.lock().unwrap_or_else(PoisonError::into_inner).entry(name).or_default() += 1;
        let guarded = async move {
            let outcome = std::panic::AssertUnwindSafe(future).catch_unwind().await;
            let mut running = running.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(count) = running.get_mut(name) {
                *count -= 1;
                if *count == 0 {
                    running.remove(name);
                }
            }
            match outcome {
                Ok(value) => Some(value),
                Err(_) => {
                    tracing::error!(task = name, "task panicked");
                    None
                }
            }
        };
        self.tracker.spawn(guarded.instrument(tracing::info_span!(parent: None, "task", name)))
    }

    /// Cancels the token and waits at most `timeout`. Returns the names of the tasks that still run, sorted.
    pub async fn drain(&self, timeout: Duration) -> Vec<&'static str> {
        self.stop.cancel();
        self.tracker.close();
        if tokio::time::timeout(timeout, self.tracker.wait()).await.is_ok() {
            return Vec::new();
        }
        self.running.lock().unwrap_or_else(PoisonError::into_inner).keys().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn drain_names_the_late_and_survives_a_panic() {
        let tasks = Tasks::new();
        let panicked = tasks.spawn("fragile", async { panic!("on purpose") });
        assert!(matches!(panicked.await, Ok(None::<()>)));
        let stop = tasks.stopping();
        let _obedient = tasks.spawn("obedient", async move { stop.cancelled().await });
        let _stubborn = tasks.spawn("stubborn", std::future::pending::<()>());
        assert_eq!(tasks.drain(Duration::from_millis(50)).await, ["stubborn"]);
    }
}
