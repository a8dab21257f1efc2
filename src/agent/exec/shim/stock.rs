//! Stock of one shim that is ready for the next command.
//!
//! ```text
//! empty --a command has ended--> its shim gets ready --> stored --take--> empty
//!                                                          | 5 minutes, identity renewed: retired
//! ```
//! A stored shim holds nothing of the commands before it: their processes are gone, and requests never pass
//! through it. It saves the start of three processes, not the start of the program. Nothing is stored before
//! the first command, so that a computer without commands spends no memory.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::launch::{self, Shim};
use hotdesk_base::tasks::Tasks;

/// How long a stored shim waits for a command: longer than the pauses of a program that uses the computer.
/// Its three processes take about 3 MB.
const IDLE_TIMEOUT: Duration = Duration::from_secs(5 * 60);
/// How long a command waits for a shim that gets ready, which takes a millisecond, before it starts one itself.
/// A command before it may have stopped that shim.
const TURN_TIMEOUT: Duration = Duration::from_millis(500);
/// Pause before a shim is started in place of a taken one, so that it does not delay the program that runs in
/// that one.
const REFILL_PAUSE: Duration = Duration::from_millis(300);
/// How long a shim may take to get ready. A busy host in emulation needs seconds.
const READY_TIMEOUT: Duration = Duration::from_secs(30);

/// The stock; clones share it.
#[derive(Clone, Debug)]
pub struct ShimStock {
    state: Arc<Mutex<StockState>>,
    /// Notified when a shim was stored or could not be.
    changed: Arc<Notify>,
    tasks: Tasks,
}

#[derive(Debug, Default)]
struct StockState {
    stored: Option<StoredShim>,
    /// Number of shims that get ready.
    preparing: usize,
    /// Number of [`ShimStock::clear`] calls.
    generation: u64,
}

#[derive(Debug)]
struct StoredShim {
    shim: Shim,
    /// Ends the wait for [`IDLE_TIMEOUT`].
    _waiting: DropGuard,
}

/// A shim in use, and the generation of the stock that it belongs to.
#[derive(Debug)]
pub struct UsedShim {
    /// The shim.
    pub shim: Shim,
    generation: u64,
}

impl ShimStock {
    /// Creates an empty stock; its tasks end with `tasks`.
    pub fn new(tasks: Tasks) -> Self {
        Self { state: Arc::default(), changed: Arc::default(), tasks }
    }

    /// Takes the stored shim, or the one that gets ready, or starts one.
    ///
    /// # Errors
    /// When a process cannot be started.
    pub async fn take_ready(&self) -> io::Result<UsedShim> {
        let stored = async {
            loop {
                let changed = self.changed.notified();
                {
                    let state = self.lock();
                    if state.stored.is_some() || state.preparing == 0 {
                        return;
                    }
                }
                changed.await;
            }
        };
        // After the timeout there is one to take or not.
        let _waited = tokio::time::timeout(TURN_TIMEOUT, stored).await;
        self.take()
    }

    /// Takes the stored shim, or starts one, for a command that does not put it back: another is stored later.
    ///
    /// # Errors
    /// When a process cannot be started.
    pub fn take_for_good(&self) -> io::Result<Shim> {
        let used = self.take()?;
        let stock = self.clone();
        self.spawn(async move {
            tokio::time::sleep(REFILL_PAUSE).await;
            let preparing = PreparationGuard::new(&stock);
            stock.store_new(preparing).await;
        });
        Ok(used.shim)
    }

    /// Takes the stored shim, or starts one.
    ///
    /// # Errors
    /// When a process cannot be started.
    pub fn take(&self) -> io::Result<UsedShim> {
        let (stored, generation) = {
            let mut state = self.lock();
            (state.stored.take(), state.generation)
        };
        let shim = match stored {
            Some(StoredShim { shim, .. }) if shim.is_still_ready() => shim,
            Some(StoredShim { shim, .. }) => {
                // A command has killed it.
                self.retire(shim);
                Shim::launch()?
            }
            None => Shim::launch()?,
        };
        Ok(UsedShim { shim, generation })
    }

    /// Stores a shim whose command has ended as soon as it is ready again, or another in its place.
    pub fn put_back(&self, used: UsedShim) {
        let stock = self.clone();
        let preparing = PreparationGuard::new(self);
        self.spawn(async move { stock.store(used, preparing).await });
    }

    /// Runs a task that ends with the agent.
    fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let stopping = self.tasks.stopping();
        let _task = self.tasks.spawn("idle shim", async move {
            tokio::select! {
                () = work => {}
                () = stopping.cancelled() => {}
            }
        });
    }

    /// Retires the stored shim, and those in use when their commands have ended.
    pub fn clear(&self) {
        let stored = {
            let mut state = self.lock();
            state.generation += 1;
            state.stored.take()
        };
        if let Some(StoredShim { shim, .. }) = stored {
            self.retire(shim);
        }
    }

    async fn store(&self, used: UsedShim, preparing: PreparationGuard) {
        let UsedShim { mut shim, generation } = used;
        if is_ready(&mut shim).await && generation == self.lock().generation {
            return self.keep(shim, generation, preparing).await;
        }
        self.retire(shim);
        self.store_new(preparing).await;
    }

    /// Starts a shim and stores it, unless there is one.
    async fn store_new(&self, preparing: PreparationGuard) {
        let generation = {
            let state = self.lock();
            if state.stored.is_some() {
                return;
            }
            state.generation
        };
        let mut shim = match Shim::launch() {
            Ok(shim) => shim,
            Err(error) => {
                tracing::warn!(%error, "cannot start a shim ahead of the next command");
                return;
            }
        };
        if is_ready(&mut shim).await {
            self.keep(shim, generation, preparing).await;
        } else {
            self.retire(shim);
        }
    }

    /// Stores a ready shim until it is taken or idle for too long. Retires it when there is one already.
    async fn keep(&self, shim: Shim, generation: u64, preparing: PreparationGuard) {
        let waiting = CancellationToken::new();
        let surplus = {
            let mut state = self.lock();
            if state.stored.is_some() || state.generation != generation {
                Some(shim)
            } else {
                state.stored = Some(StoredShim { shim, _waiting: waiting.clone().drop_guard() });
                None
            }
        };
        drop(preparing);
        if let Some(shim) = surplus {
            self.retire(shim);
            return;
        }
        if tokio::time::timeout(IDLE_TIMEOUT, waiting.cancelled()).await.is_err() {
            let stored = {
                let mut state = self.lock();
                // It may have been taken at the last moment, and another stored.
                if waiting.is_cancelled() { None } else { state.stored.take() }
            };
            if let Some(StoredShim { shim, .. }) = stored {
                self.retire(shim);
            }
        }
    }

    fn retire(&self, shim: Shim) {
        let _task = self.tasks.spawn("retired shim", launch::retire(shim));
    }

    fn lock(&self) -> MutexGuard<'_, StockState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A shim that gets ready; commands wait for it until the drop.
struct PreparationGuard(ShimStock);

impl PreparationGuard {
    fn new(stock: &ShimStock) -> Self {
        stock.lock().preparing += 1;
        Self(stock.clone())
    }
}

impl Drop for PreparationGuard {
    fn drop(&mut self) {
        self.0.lock().preparing -= 1;
        self.0.changed.notify_waiters();
    }
}

async fn is_ready(shim: &mut Shim) -> bool {
    tokio::time::timeout(READY_TIMEOUT, shim.ready()).await.unwrap_or(false)
}
