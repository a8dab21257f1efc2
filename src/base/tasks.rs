//! Groups of background tasks, and blocking steps that run at once. No other module spawns tasks.
//!
//! Every task has a name, a span and the group's cancellation token. A panic is logged with the task's name
//! and does not end the process. [`Tasks::drain`] cancels the token, waits, and returns the names of the
//! tasks that still run.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::Instrument;

/// Runs two blocking steps at once, the first on a thread of its own, and returns the outcomes of both. A
/// panic of a step is passed on.
///
/// # Errors
/// The thread could not be started; neither step has run.
pub fn both<A: Send, B>(
    first: impl FnOnce() -> A + Send,
    second: impl FnOnce() -> B,
) -> std::io::Result<(A, B)> {
    std::thread::scope(|scope| {
        let other = std::thread::Builder::new().name("both".to_owned()).spawn_scoped(scope, first)?;
        let second = second();
        match other.join() {
            Ok(first) => Ok((first, second)),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

/// Runs work on a thread where it may block, as [`tokio::task::spawn_blocking`] does.
///
/// Tokio has several KB of code for each type of work. Boxed work with one type of a result shares it.
pub fn spawn_blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    let work: Box<dyn FnOnce() -> T + Send> = Box::new(work);
    tokio::task::spawn_blocking(work)
}

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
        // Tokio has several KB of code for each type of a future. Boxed futures with one type of a result share it.
        let future: Pin<Box<dyn Future<Output = T> + Send>> = Box::pin(future);
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

    #[test]
    fn two_steps_run_at_once() {
        let (to_first, from_second) = std::sync::mpsc::channel();
        let (to_second, from_first) = std::sync::mpsc::channel();
        let timeout = Duration::from_secs(30);
        let met = both(
            move || to_second.send(1).is_ok() && from_second.recv_timeout(timeout) == Ok(2),
            move || to_first.send(2).is_ok() && from_first.recv_timeout(timeout) == Ok(1),
        );
        assert_eq!(met.unwrap(), (true, true));
    }
}
