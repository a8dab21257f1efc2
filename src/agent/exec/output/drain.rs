//! Drains for the output of background processes whose command was answered.
//!
//! Without them `server &` would block on a full pipe or die of a broken one.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::unix::pipe;
use tokio::sync::Semaphore;

use hotdesk_base::tasks::Tasks;

/// Most pipes that are drained at once. Beyond it a pipe is closed and its writers get SIGPIPE; a warning is
/// logged.
pub const MAX_DRAINS: usize = 256;
/// Bytes discarded at once: the capacity of a pipe.
const CHUNK: usize = 64 * 1024;
/// Reads before a pause: a pipe in packet mode returns one page at a time.
const READS: usize = CHUNK / 4096;
/// Pause after so many reads: limits an endless writer to 6 MB/s and so the processor time.
const PAUSE: Duration = Duration::from_millis(10);

/// The drains of all commands.
#[derive(Clone, Debug)]
pub struct OutputDrains {
    slots: Arc<Semaphore>,
    tasks: Tasks,
}

impl OutputDrains {
    /// Creates an empty set; drains run as tasks of `tasks`.
    pub fn new(tasks: Tasks) -> Self {
        Self { slots: Arc::new(Semaphore::new(MAX_DRAINS)), tasks }
    }

    /// Reads and discards until the last writer closes the pipe.
    pub fn drain(&self, pipe: pipe::Receiver) {
        let Ok(slot) = Arc::clone(&self.slots).try_acquire_owned() else {
            tracing::warn!(
                MAX_DRAINS,
                "too many background processes with open output: closed the output of one; redirect it to a file"
            );
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
        match discard(pipe) {
            Ok(0) => return,
            Ok(_) => {
                for _ in 1..READS {
                    if !matches!(discard(pipe), Ok(1..)) {
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

/// Its own function, so that the buffer is on the stack and not in every waiting task.
fn discard(pipe: &pipe::Receiver) -> io::Result<usize> {
    pipe.try_read(&mut [0; CHUNK])
}
