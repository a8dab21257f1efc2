//! Leases of a request: its credential, and its sender's membership in each workspace that it uses.
//!
//! A handler finds out which workspaces it uses, so it adds them through a task-local ([`note`]). A request
//! with an idempotency key runs in its own task (`crate::api::idempotency`) and cannot be cancelled, so its
//! memberships are not recorded.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::future::{BoxFuture, FutureExt, select_all};
use tokio::sync::Notify;

use hotdesk_base::revocation_registry::Lease;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::identity::access::Credential;
use hotdesk_store::identity::members::Membership;

tokio::task_local! {
    /// Memberships that this task's request used.
    static MEMBERSHIPS: Memberships;
}

/// Memberships that a request used; cheap to clone.
#[derive(Clone, Debug, Default)]
struct Memberships(Arc<MembershipState>);

#[derive(Debug, Default)]
struct MembershipState {
    holds: Mutex<Vec<Lease<Membership>>>,
    /// Notified when one is added.
    added: Notify,
}

/// Leases that a request depends on.
#[derive(Debug)]
pub struct RequestLease {
    credential: Option<Lease<Credential>>,
    memberships: Memberships,
}

/// Records that this task's request depends on a membership.
pub fn note(hold: Lease<Membership>) {
    // Tasks that are not requests need no lease.
    let _ = MEMBERSHIPS.try_with(|memberships| memberships.add(hold));
}

/// Runs work while its sender's memberships hold. It is for work that is not a request itself, such as a tool
/// call.
///
/// # Errors
/// The errors of the work; `Forbidden` when a membership ends meanwhile.
pub async fn belonging<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    let lease = RequestLease::of(None);
    tokio::select! {
        biased;
        done = lease.recording(work) => done,
        error = lease.lost() => Err(error),
    }
}

impl RequestLease {
    /// Creates the leases of a request that has used no workspace yet.
    pub fn of(credential: Option<Lease<Credential>>) -> Self {
        Self { credential, memberships: Memberships::default() }
    }

    /// Runs work that records memberships in this lease.
    pub async fn recording<F: Future>(&self, work: F) -> F::Output {
        MEMBERSHIPS.scope(self.memberships.clone(), work).await
    }

    /// Whether nothing can end the request: it has no credential and used no workspace of others.
    pub fn is_empty(&self) -> bool {
        self.credential.is_none() && self.memberships.holds().is_empty()
    }

    /// Returns the error of a lease that has ended.
    pub fn refusal(&self) -> Option<Error> {
        if self.credential.as_ref().is_some_and(Lease::is_revoked) {
            return Some(Error::unauthenticated("Invalid API key: it ended while this request went on"));
        }
        let lost = self.memberships.holds().iter().any(Lease::is_revoked);
        lost.then(|| Error::forbidden("Access denied: it was taken back while this request went on"))
    }

    /// Waits until a lease ends and returns its error.
    pub async fn lost(&self) -> Error {
        loop {
            if let Some(refusal) = self.refusal() {
                return refusal;
            }
            let mut any: Vec<BoxFuture<'_, ()>> = vec![self.memberships.0.added.notified().boxed()];
            any.extend(self.credential.iter().map(|hold| hold.revoked().boxed()));
            any.extend(self.memberships.holds().iter().map(|hold| hold.revoked().boxed()));
            select_all(any).await;
        }
    }
}

impl Memberships {
    fn holds(&self) -> MutexGuard<'_, Vec<Lease<Membership>>> {
        self.0.holds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, hold: Lease<Membership>) {
        let mut holds = self.holds();
        // Handlers check the same workspace more than once.
        if !holds.iter().any(|held| held.is_same(&hold)) {
            holds.push(hold);
            self.0.added.notify_one();
        }
    }
}
