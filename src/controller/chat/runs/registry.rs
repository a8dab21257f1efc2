//! Runs in progress: one for each screen and for each thread.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hotdesk_base::ids::{ComputerId, ThreadId};
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::error_code::ErrorCode;

/// A screen of a computer.
type Screen = (ComputerId, String);

/// Runs in progress by their screen; cheap to clone. A run that has no thread yet has `None`.
#[derive(Clone, Debug, Default)]
pub struct ActiveRuns(Arc<Mutex<HashMap<Screen, Option<ThreadId>>>>);

/// A run's claim to its screen and its thread; dropping it releases both.
#[derive(Debug)]
pub struct Claim {
    runs: ActiveRuns,
    screen: Screen,
}

impl ActiveRuns {
    /// Claims a screen, and the thread that the run continues.
    ///
    /// # Errors
    /// `Conflict` (`run_in_progress`) when a run works on the screen or continues the thread. The error has the id of
    /// the running thread, if that exists already.
    pub fn claim(&self, computer: ComputerId, screen: &str, thread: Option<ThreadId>) -> Result<Claim> {
        let mut runs = self.runs();
        let screen = (computer, screen.to_owned());
        if let Some(running) = runs.get(&screen) {
            return Err(busy("A run works on this screen", *running));
        }
        if thread.is_some() && runs.values().any(|running| *running == thread) {
            return Err(busy("A run continues this thread", thread));
        }
        runs.insert(screen.clone(), thread);
        Ok(Claim { runs: self.clone(), screen })
    }

    /// Whether a run works on a thread.
    pub fn has(&self, thread: ThreadId) -> bool {
        self.runs().values().any(|running| *running == Some(thread))
    }

    fn runs(&self) -> MutexGuard<'_, HashMap<Screen, Option<ThreadId>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Claim {
    /// Names the thread of the run.
    pub fn set_thread(&self, thread: ThreadId) {
        self.runs.runs().insert(self.screen.clone(), Some(thread));
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.runs.runs().remove(&self.screen);
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

    #[test]
    fn a_screen_and_a_thread_have_one_run() {
        let (runs, computer, thread) = (ActiveRuns::default(), ComputerId::random(), ThreadId::random());
        let first = runs.claim(computer, "default", None).unwrap();
        let refused = runs.claim(computer, "default", None).unwrap_err();
        assert_eq!((refused.code, refused.fields.len()), (Some(ErrorCode::RunInProgress), 0));
        assert!(!runs.has(thread));
        first.set_thread(thread);
        assert!(runs.has(thread));
        let named = vec![("thread_id", Field::Text(thread.to_string()))];
        assert_eq!(runs.claim(computer, "default", None).unwrap_err().fields, named);
        assert_eq!(runs.claim(computer, "screen-100", Some(thread)).unwrap_err().fields, named);
        let other = runs.claim(computer, "screen-100", None).unwrap();
        let elsewhere = runs.claim(ComputerId::random(), "default", Some(ThreadId::random())).unwrap();
        drop((first, other, elsewhere));
        assert!(runs.claim(computer, "default", Some(thread)).is_ok());
        assert!(runs.runs().is_empty(), "the claim of the line above has ended");
    }
}
