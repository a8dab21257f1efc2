//! Queue of builds: those that run or wait for their turn, and the last ones that ended.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio_util::sync::CancellationToken;

use super::build_log::{BuildLog, Phase};
use super::{CANCELLED, INTERRUPTED};
use hotdesk_base::ids::AccountId;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::error_code::ErrorCode;

/// Builds that run at once: each boots computers and works with two CPUs.
const BUILDS_AT_ONCE: usize = 2;
/// Saves that run at once: each copies a disk. They have turns of their own, because a build may take an hour.
const SAVES_AT_ONCE: usize = 2;
/// Most builds of one account that wait or run.
const MAX_BUILDS: usize = 8;
/// Logs of builds in memory, ended ones included; the oldest ended one goes first. Each has at most 1 MiB of lines.
const MAX_LOGS: usize = 32;
/// Seconds after which a refused build may be asked for again.
const RETRY_SECONDS: u32 = 10;

/// A build since the start of the controller.
pub struct RunningBuild {
    /// The account whose template it builds.
    pub account: AccountId,
    /// Digest of the document.
    pub digest: String,
    /// Its log.
    pub log: BuildLog,
    /// Ends it.
    pub cancel: CancellationToken,
    ended: CancellationToken,
    /// Whether it saves a computer: its document is published at its end.
    is_save: bool,
}

impl RunningBuild {
    /// Creates a build of a published document that has not begun.
    pub fn new(account: AccountId, digest: &str) -> Arc<Self> {
        Arc::new(Self::unbegun(account, digest, false))
    }

    /// Creates a save of a computer, under a document that is not published, that has not begun.
    pub fn of_computer(account: AccountId, digest: &str) -> Arc<Self> {
        Arc::new(Self::unbegun(account, digest, true))
    }

    fn unbegun(account: AccountId, digest: &str, is_save: bool) -> Self {
        Self {
            account,
            digest: digest.to_owned(),
            log: BuildLog::default(),
            cancel: CancellationToken::new(),
            ended: CancellationToken::new(),
            is_save,
        }
    }

    fn is_of(&self, account: AccountId, digest: &str) -> bool {
        self.account == account && self.digest == digest
    }

    fn has_ended(&self) -> bool {
        self.ended.is_cancelled()
    }
}

/// Ends a build when it is dropped: waiting requests and readers of the log go on.
pub struct BuildEnd(pub Arc<RunningBuild>);

impl Drop for BuildEnd {
    fn drop(&mut self) {
        self.0.log.end();
        self.0.ended.cancel();
    }
}

/// The builds since the start of the controller, in the order of their begin.
pub struct BuildQueue {
    turns: Semaphore,
    save_turns: Semaphore,
    builds: Mutex<VecDeque<Arc<RunningBuild>>>,
}

impl Default for BuildQueue {
    fn default() -> Self {
        Self {
            turns: Semaphore::new(BUILDS_AT_ONCE),
            save_turns: Semaphore::new(SAVES_AT_ONCE),
            builds: Mutex::default(),
        }
    }
}

impl BuildQueue {
    fn builds(&self) -> MutexGuard<'_, VecDeque<Arc<RunningBuild>>> {
        self.builds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the last build of a document.
    pub fn last(&self, account: AccountId, digest: &str) -> Option<Arc<RunningBuild>> {
        self.builds().iter().rev().find(|build| build.is_of(account, digest)).map(Arc::clone)
    }

    /// Returns the digests of an account's builds that have not ended, without saves.
    pub fn digests(&self, account: AccountId) -> Vec<String> {
        let builds = self.builds();
        let running =
            builds.iter().filter(|build| build.account == account && !build.has_ended() && !build.is_save);
        running.map(|build| build.digest.clone()).collect()
    }

    /// Adds a build to those that run. Returns false when one of the same document runs.
    ///
    /// # Errors
    /// `TooManyRequests` (`too_many_builds`) at [`MAX_BUILDS`].
    pub fn register(&self, build: &Arc<RunningBuild>) -> Result<bool> {
        let mut builds = self.builds();
        let running = || builds.iter().filter(|other| !other.has_ended());
        if running().any(|other| other.is_of(build.account, &build.digest)) {
            return Ok(false);
        }
        if running().filter(|other| other.account == build.account).count() >= MAX_BUILDS {
            let message = format!("{MAX_BUILDS} builds of this account wait or run: wait for one");
            let refused = Error::rate_limited(RETRY_SECONDS).code(ErrorCode::TooManyBuilds);
            return Err(Error { message, ..refused });
        }
        while builds.len() >= MAX_LOGS {
            let Some(oldest) = builds.iter().position(|other| other.has_ended()) else { break };
            builds.remove(oldest);
        }
        builds.push_back(Arc::clone(build));
        Ok(true)
    }

    /// Cancels the build of a document and waits until nothing of it is left. Returns false when none runs.
    pub async fn cancel(&self, account: AccountId, digest: &str) -> bool {
        let running = {
            let builds = self.builds();
            let running = builds.iter().find(|build| build.is_of(account, digest) && !build.has_ended());
            running.map(Arc::clone)
        };
        let Some(build) = running else { return false };
        build.cancel.cancel();
        build.ended.cancelled().await;
        true
    }

    /// Waits for a build's turn: the builds of an account run one after another, so that two never make the same layer and
    /// no account holds up the others. The same holds for saves, which do not wait for builds.
    ///
    /// # Errors
    /// `Conflict` when the build is cancelled or `stopping`, the end of the service, comes first.
    pub async fn turn(
        &self,
        build: &RunningBuild,
        stopping: CancellationToken,
    ) -> Result<SemaphorePermit<'_>> {
        let waiting = async {
            while let Some(earlier) = self.earlier(build) {
                earlier.ended.cancelled().await;
            }
            let turns = if build.is_save { &self.save_turns } else { &self.turns };
            turns.acquire().await.map_err(Error::internal)
        };
        let why = tokio::select! {
            turn = waiting => return turn,
            () = build.cancel.cancelled() => CANCELLED,
            () = stopping.cancelled() => INTERRUPTED,
        };
        build.log.enter(Phase::Cancel);
        Err(Error::conflict(why))
    }

    /// A build of the same account and kind that began earlier and runs.
    fn earlier(&self, build: &RunningBuild) -> Option<Arc<RunningBuild>> {
        let builds = self.builds();
        let before = builds.iter().take_while(|other| !std::ptr::eq(&***other, build));
        let is_alike =
            |other: &&Arc<RunningBuild>| other.account == build.account && other.is_save == build.is_save;
        let mut running = before.filter(|other| is_alike(other) && !other.has_ended());
        running.next().map(Arc::clone)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    #[tokio::test]
    async fn t22_builds_without_an_end_hold_up_no_save_and_each_account_has_one_turn() {
        let (queue, stopping) = (BuildQueue::default(), CancellationToken::new());
        let accounts = [(); 3].map(|()| AccountId::random());
        let registered = |build: Arc<RunningBuild>| {
            assert!(queue.register(&build).unwrap());
            build
        };
        let turn =
            |build: &RunningBuild| queue.turn(build, stopping.clone()).now_or_never().map(Result::unwrap);
        let builds: Vec<_> = ["a", "b"]
            .iter()
            .flat_map(|digest| accounts.map(|account| registered(RunningBuild::new(account, digest))))
            .collect();
        let (first, second) = (turn(&builds[0]), turn(&builds[1]));
        assert!(first.is_some() && second.is_some());
        assert!(builds[2..].iter().all(|build| turn(build).is_none()), "no turn is left");
        drop(second);
        assert!(turn(&builds[3]).is_none(), "an account with a turn waits for its own");
        assert!(turn(&builds[2]).is_some(), "the others have the rest");

        let saves = ["c", "d"].map(|digest| registered(RunningBuild::of_computer(accounts[0], digest)));
        let other = registered(RunningBuild::of_computer(accounts[2], "c"));
        let saving = turn(&saves[0]);
        assert!(saving.is_some() && turn(&saves[1]).is_none() && turn(&other).is_some());
        drop(BuildEnd(Arc::clone(&saves[0])));
        assert!(turn(&saves[1]).is_some());
    }
}
