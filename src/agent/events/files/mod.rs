//! Watcher of file changes in the desktop and download folders, by inotify (`notify` crate).
//!
//! ```text
//! inotify -> notify's thread -> queue; full: compare -> Folders: changes -> Feed
//!                                      every 2 s: check the folders
//! ```
//! `Folders` publishes at the speed of the feed, so a burst waits in the queue and then in the kernel. Lost
//! notices are found by comparing the folders.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use notify::event::{AccessKind, AccessMode, EventKind as NotifyKind};
use notify::{INotifyWatcher, Watcher as _};
use tokio::sync::{Notify, oneshot};

use super::watcher::Watcher;
use hotdesk_domain::desktop::event::EventKind;
use hotdesk_http::feed::Feed;

mod folder;
mod folders;
mod watched_folders;

use folders::Folders;

/// Most queued notices, about 1 MB; beyond it the folders are compared instead.
const QUEUE: usize = 4096;
/// Interval of checks whether the watched folders are still the same: links may change.
const CHECK_INTERVAL: Duration = Duration::from_secs(2);

/// Watcher of the folders.
#[derive(Debug)]
pub(super) struct FileWatcher {
    feed: Feed,
    home: PathBuf,
}

impl FileWatcher {
    pub(super) fn new(feed: Feed, home: PathBuf) -> Self {
        Self { feed, home }
    }
}

/// A notice of inotify and the time at which it was queued.
type Notice = (Instant, notify::Event);

/// Stops the thread when dropped.
struct StopOnDrop(Arc<AtomicBool>, SyncSender<Notice>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
        // A full queue wakes the thread too.
        let _ = self.1.try_send((Instant::now(), notify::Event::new(NotifyKind::Other)));
    }
}

impl Watcher for FileWatcher {
    const NAME: &'static str = "files";
    const KINDS: &'static [EventKind] = &[EventKind::FileChange, EventKind::DownloadFinished];

    async fn run(&mut self, begun: &(dyn Fn() + Send + Sync)) -> String {
        let (notices, queue) = sync_channel(QUEUE);
        let (overflowed, stopped) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let _stop = StopOnDrop(Arc::clone(&stopped), notices.clone());
        let (end, mut ended) = oneshot::channel();
        let (feed, home, ready) = (self.feed.clone(), self.home.clone(), Arc::new(Notify::new()));
        let their_ready = Arc::clone(&ready);
        let thread = std::thread::Builder::new().name(String::from("file events"));
        let started = thread.spawn(move || {
            let outcome = watcher(notices, Arc::clone(&overflowed)).and_then(|watcher| {
                let mut folders = Folders::new(&home, feed, watcher)?;
                their_ready.notify_one();
                run_loop(&mut folders, &queue, &overflowed, &stopped)
            });
            // The receiver is gone when the watcher was dropped.
            let _ = end.send(outcome.err().map_or_else(String::new, |error| error.to_string()));
        });
        if let Err(error) = started {
            return error.to_string();
        }
        tokio::select! {
            () = ready.notified() => begun(),
            why = &mut ended => return why.unwrap_or_else(|_| String::from("the thread panicked")),
        }
        ended.await.unwrap_or_else(|_| String::from("the thread panicked"))
    }
}

/// Creates an inotify watcher that writes to the queue. It never blocks, because notify's thread also
/// executes watch changes for which the other end of the queue waits.
fn watcher(notices: SyncSender<Notice>, overflowed: Arc<AtomicBool>) -> notify::Result<INotifyWatcher> {
    let handler = move |notice: notify::Result<notify::Event>| match notice {
        Ok(notice) if notice.need_rescan() => overflowed.store(true, Ordering::Release),
        Ok(notice) if matters(&notice.kind) => {
            if notices.try_send((Instant::now(), notice)).is_err() {
                overflowed.store(true, Ordering::Release);
            }
        }
        Ok(_) => {}
        Err(error) => {
            tracing::debug!(%error, "inotify");
            overflowed.store(true, Ordering::Release);
        }
    };
    INotifyWatcher::new(handler, notify::Config::default())
}

/// Whether a notice is relevant; most are about opened files.
fn matters(kind: &NotifyKind) -> bool {
    match kind {
        NotifyKind::Create(_) | NotifyKind::Remove(_) => true,
        NotifyKind::Access(AccessKind::Close(AccessMode::Write)) => true,
        NotifyKind::Modify(change) => !matches!(change, notify::event::ModifyKind::Metadata(_)),
        NotifyKind::Access(_) | NotifyKind::Any | NotifyKind::Other => false,
    }
}

fn run_loop(
    folders: &mut Folders,
    queue: &Receiver<Notice>,
    overflowed: &AtomicBool,
    stopped: &AtomicBool,
) -> notify::Result<()> {
    let mut check_at = Instant::now() + CHECK_INTERVAL;
    while !stopped.load(Ordering::Acquire) {
        let until = folders.due().map_or(check_at, |due| due.min(check_at));
        match queue.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok((queued, notice)) => folders.handle(&notice, queued)?,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        }
        if overflowed.swap(false, Ordering::AcqRel) {
            // The queued notices are older than the comparison.
            while queue.try_recv().is_ok() {}
            folders.rescan()?;
        }
        folders.report_due(Instant::now());
        if Instant::now() >= check_at {
            folders.check()?;
            check_at = Instant::now() + CHECK_INTERVAL;
        }
    }
    Ok(())
}
