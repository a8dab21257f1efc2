//! On what grounds does a request go on? Its credential, and that its sender belongs to each workspace where it was let in.
//!
//! Where that is turns out in the handler, so it is noted through a task-local ([`note`]). A keyed request is carried out by a task
//! of its own (`controller::idempotent`), which nothing cancels: where that is let in is not noted.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::future::{BoxFuture, FutureExt, select_all};
use tokio::sync::Notify;

use hotdesk_base::living::Hold;
use hotdesk_domain::access::Credential;
use hotdesk_domain::error::{Error, Result};
use hotdesk_store::members::Belonging;

tokio::task_local! {
    /// Where this task's request was let in.
    static ADMISSIONS: Admissions;
}

/// The workspaces of others that a request was let in to; cheap to clone.
#[derive(Clone, Debug, Default)]
struct Admissions(Arc<Noted>);

#[derive(Debug, Default)]
struct Noted {
    holds: Mutex<Vec<Hold<Belonging>>>,
    /// One more was noted.
    another: Notify,
}

/// What a request goes on under.
#[derive(Debug)]
pub struct Grounds {
    credential: Option<Hold<Credential>>,
    admissions: Admissions,
}

/// Notes where this task's request was let in as somebody who belongs there.
pub fn note(hold: Hold<Belonging>) {
    // What is no request ends by itself.
    let _ = ADMISSIONS.try_with(|admissions| admissions.add(hold));
}

/// Does work for as long as its sender belongs where it is let in meanwhile: for what is no request of its own, a tool's call.
///
/// # Errors
/// Those of the work; `Forbidden` when the sender does not belong there any more.
pub async fn belonging<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    let grounds = Grounds::of(None);
    tokio::select! {
        biased;
        done = grounds.noting(work) => done,
        error = grounds.lost() => Err(error),
    }
}

impl Grounds {
    /// Those of a request with this credential, which was not let in anywhere yet.
    pub fn of(credential: Option<Hold<Credential>>) -> Self {
        Self { credential, admissions: Admissions::default() }
    }

    /// Does work that notes where its sender is let in.
    pub async fn noting<F: Future>(&self, work: F) -> F::Output {
        ADMISSIONS.scope(self.admissions.clone(), work).await
    }

    /// Whether nothing can end it: it shows no credential, and is let in nowhere.
    pub fn are_none(&self) -> bool {
        self.credential.is_none() && self.admissions.holds().is_empty()
    }

    /// What to say of what has ended.
    pub fn refusal(&self) -> Option<Error> {
        if self.credential.as_ref().is_some_and(Hold::has_ended) {
            return Some(Error::unauthenticated("Invalid API key: it ended while this request went on"));
        }
        let lost = self.admissions.holds().iter().any(Hold::has_ended);
        lost.then(|| Error::forbidden("Access denied: it was taken back while this request went on"))
    }

    /// Waits until one of them has ended; what to say of it.
    pub async fn lost(&self) -> Error {
        loop {
            if let Some(refusal) = self.refusal() {
                return refusal;
            }
            let mut any: Vec<BoxFuture<'_, ()>> = vec![self.admissions.0.another.notified().boxed()];
            any.extend(self.credential.iter().map(|hold| hold.ended().boxed()));
            any.extend(self.admissions.holds().iter().map(|hold| hold.ended().boxed()));
            select_all(any).await;
        }
    }
}

impl Admissions {
    fn holds(&self) -> MutexGuard<'_, Vec<Hold<Belonging>>> {
        self.0.holds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, hold: Hold<Belonging>) {
        let mut holds = self.holds();
        // Handlers ask more than once about the same workspace.
        if !holds.iter().any(|held| held.is_same(&hold)) {
            holds.push(hold);
            self.0.another.notify_one();
        }
    }
}
