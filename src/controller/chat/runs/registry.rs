//! Runs in progress: one for each screen and for each thread.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;

use hotdesk_base::ids::{ComputerId, ThreadId};
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::error_code::ErrorCode;
use hotdesk_wire::chat::completion::RunProgress;

/// A screen of a computer.
type Screen = (ComputerId, String);

/// Runs in progress by their screen; cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct ActiveRuns(Arc<Mutex<HashMap<Screen, ActiveRun>>>);

/// A run in progress.
#[derive(Debug)]
struct ActiveRun {
    /// Its thread, once it has one.
    thread: Option<ThreadId>,
    /// Ends the run.
    cancel: CancellationToken,
    /// Cancelled when the run has ended.
    ended: CancellationToken,
    /// What it waits for.
    waiting: Option<RunProgress>,
}

/// A run's claim to its screen and its thread; dropping it releases both.
#[derive(Debug)]
pub struct Claim {
    runs: ActiveRuns,
    screen: Screen,
}

impl ActiveRuns {
    /// Claims a screen, and the thread that the run continues. `cancel` ends the run.
    ///
    /// # Errors
    /// `Conflict` (`run_in_progress`) when a run works on the screen or continues the thread. The error has the id of
    /// the running thread, if that exists already.
    pub fn claim(
        &self,
        computer: ComputerId,
        screen: &str,
        thread: Option<ThreadId>,
        cancel: &CancellationToken,
    ) -> Result<Claim> {
        let mut runs = self.runs();
        let screen = (computer, screen.to_owned());
        if let Some(running) = runs.get(&screen) {
            return Err(busy("A run works on this screen", running.thread));
        }
        if thread.is_some() && runs.values().any(|running| running.thread == thread) {
            return Err(busy("A run continues this thread", thread));
        }
        let ended = CancellationToken::new();
        runs.insert(screen.clone(), ActiveRun { thread, cancel: cancel.clone(), ended, waiting: None });
        Ok(Claim { runs: self.clone(), screen })
    }

    /// Whether a run works on a thread.
    pub fn has(&self, thread: ThreadId) -> bool {
        self.runs().values().any(|running| running.thread == Some(thread))
    }

    /// Ends the run of a thread. Returns the token that is cancelled when it has ended; `None` without a run.
    pub fn stop(&self, thread: ThreadId) -> Option<CancellationToken> {
        let runs = self.runs();
        let running = runs.values().find(|running| running.thread == Some(thread))?;
        running.cancel.cancel();
        Some(running.ended.clone())
    }

    /// What the run of a thread waits for; `None` when it does not wait.
    pub fn waiting(&self, thread: ThreadId) -> Option<RunProgress> {
        self.runs().values().find(|running| running.thread == Some(thread))?.waiting.clone()
    }

    /// Notes what the run of a thread waits for.
    pub fn set_waiting(&self, thread: ThreadId, waiting: Option<RunProgress>) {
        if let Some(running) = self.runs().values_mut().find(|running| running.thread == Some(thread)) {
            running.waiting = waiting;
        }
    }

    fn runs(&self) -> MutexGuard<'_, HashMap<Screen, ActiveRun>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Claim {
    /// Names the thread of the run.
    pub fn set_thread(&self, thread: ThreadId) {
        if let Some(running) = self.runs.runs().get_mut(&self.screen) {
            running.thread = Some(thread);
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let ended = self.runs.runs().remove(&self.screen);
        if let Some(ActiveRun { ended, .. }) = ended {
            ended.cancel();
        }
    }
}

fn busy(what: &str, running: Option<ThreadId>) -> Error {
    let error = match running {
        Some(thread) => {
            Error::conflict(format!("{what} already: thread {thread}. Wait for its end or end it first"))
                .text("thread_id", thread.to_string())
        }
        None => Error::conflict(format!("{what} already. Wait for its end")),
    };
    error.code(ErrorCode::RunInProgress)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hotdesk_domain::error::Field;

    fn claim(
        runs: &ActiveRuns,
        computer: ComputerId,
        screen: &str,
        thread: Option<ThreadId>,
    ) -> Result<Claim> {
        runs.claim(computer, screen, thread, &CancellationToken::new())
    }

    #[test]
    fn a_screen_and_a_thread_have_one_run() {
        let (runs, computer, thread) = (ActiveRuns::default(), ComputerId::random(), ThreadId::random());
        let first = claim(&runs, computer, "default", None).unwrap();
        let refused = claim(&runs, computer, "default", None).unwrap_err();
        assert_eq!((refused.code, refused.fields.len()), (Some(ErrorCode::RunInProgress), 0));
        assert!(!runs.has(thread));
        first.set_thread(thread);
        assert!(runs.has(thread));
        let named = vec![("thread_id", Field::Text(thread.to_string()))];
        assert_eq!(claim(&runs, computer, "default", None).unwrap_err().fields, named);
        assert_eq!(claim(&runs, computer, "screen-100", Some(thread)).unwrap_err().fields, named);
        let other = claim(&runs, computer, "screen-100", None).unwrap();
        let elsewhere = claim(&runs, ComputerId::random(), "default", Some(ThreadId::random())).unwrap();
        drop((first, other, elsewhere));
        assert!(claim(&runs, computer, "default", Some(thread)).is_ok());
        assert!(runs.runs().is_empty(), "the claim of the line above has ended");
    }

    #[test]
    fn a_run_is_stopped_by_its_thread_and_says_what_it_waits_for() {
        let (runs, thread, cancel) = (ActiveRuns::default(), ThreadId::random(), CancellationToken::new());
        assert!(runs.stop(thread).is_none() && runs.waiting(thread).is_none());
        let claimed = runs.claim(ComputerId::random(), "default", Some(thread), &cancel).unwrap();
        let progress = RunProgress { waiting_for: Some("help".to_owned()), ..RunProgress::default() };
        runs.set_waiting(thread, Some(progress.clone()));
        assert_eq!(runs.waiting(thread), Some(progress));
        runs.set_waiting(thread, None);
        assert_eq!(runs.waiting(thread), None);
        let ended = runs.stop(thread).unwrap();
        assert!(cancel.is_cancelled() && !ended.is_cancelled());
        drop(claimed);
        assert!(ended.is_cancelled() && runs.stop(thread).is_none());
    }
}
