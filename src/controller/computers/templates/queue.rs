//! Queue of builds: those that run or wait for their turn, and the last ones that ended.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio_util::sync::CancellationToken;

use super::build_log::BuildLog;
use super::{CANCELLED, INTERRUPTED};
use hotdesk_base::ids::AccountId;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::error_code::ErrorCode;

/// Builds that run at once: each boots computers and works with two CPUs.
const BUILDS_AT_ONCE: usize = 2;
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
    builds: Mutex<VecDeque<Arc<RunningBuild>>>,
}

impl Default for BuildQueue {
    fn default() -> Self {
        Self { turns: Semaphore::new(BUILDS_AT_ONCE), builds: Mutex::default() }
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
    /// no account holds up the others.
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
            self.turns.acquire().await.map_err(Error::internal)
        };
        tokio::select! {
            turn = waiting => turn,
            () = build.cancel.cancelled() => Err(Error::conflict(CANCELLED)),
            () = stopping.cancelled() => Err(Error::conflict(INTERRUPTED)),
        }
    }

    /// A build of the same account that began earlier and runs.
    fn earlier(&self, build: &RunningBuild) -> Option<Arc<RunningBuild>> {
        let builds = self.builds();
        let before = builds.iter().take_while(|other| !std::ptr::eq(&***other, build));
        let mut running = before.filter(|other| other.account == build.account && !other.has_ended());
        running.next().map(Arc::clone)
    }
}
