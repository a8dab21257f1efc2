//! Who reads what background processes write after their command was answered? A drain per pipe, so that
//! `server &` neither blocks on a full pipe nor dies of a broken one.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::unix::pipe;
use tokio::sync::Semaphore;

use hotdesk_base::tasks::Tasks;

/// Pipes drained at once. Past it a pipe is closed and its writers get SIGPIPE at their next write: a client that
/// leaves so many servers behind without redirecting their output has had its warning in the log.
pub const MAX_DRAINS: usize = 256;
/// Bytes thrown away at once; a pipe's capacity.
const CHUNK: usize = 64 * 1024;
/// Reads before a pause: a pipe in packet mode gives a page at a time.
const READS: usize = CHUNK / 4096;
/// Pause after so many reads: lets a writer that never stops have 6 MB/s and costs next to no processor time.
const PAUSE: Duration = Duration::from_millis(10);

/// The drains.
#[derive(Clone, Debug)]
pub struct Leftovers {
    slots: Arc<Semaphore>,
    tasks: Tasks,
}

impl Leftovers {
    /// None yet; drains are tasks of the group.
    pub fn new(tasks: Tasks) -> Self {
        Self { slots: Arc::new(Semaphore::new(MAX_DRAINS)), tasks }
    }

    /// Reads and throws away until the last writer lets go.
    pub fn adopt(&self, pipe: pipe::Receiver) {
        let Ok(slot) = Arc::clone(&self.slots).try_acquire_owned() else {
            tracing::warn!(MAX_DRAINS, "closed the output of a background process: too many are left behind");
            return;
        };
        let stop = self.tasks.stopping();
        let _drain = self.tasks.spawn("output drain", async move {
            tokio::select! {
                () = stop.cancelled() => {}
                () = drain(&pipe) => {}
            }
            drop(slot);
        });
    }
}

async fn drain(pipe: &pipe::Receiver) {
    while pipe.readable().await.is_ok() {
        match throw_away(pipe) {
            Ok(0) => return,
            Ok(_) => {
                for _ in 1..READS {
                    if !matches!(throw_away(pipe), Ok(1..)) {
                        break;
                    }
                }
                tokio::time::sleep(PAUSE).await;
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => return,
        }
    }
}

/// A function of its own, so that the buffer is on the stack and not in every waiting drain.
fn throw_away(pipe: &pipe::Receiver) -> io::Result<usize> {
    pipe.try_read(&mut [0; CHUNK])
}
