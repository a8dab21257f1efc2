//! What changes on the desktop and among the downloads? inotify tells (by `notify`), a thread of its own makes events
//! of it.
//!
//! ```text
//! inotify -> notify's thread -> queue, when full: "look again" -> Folders: what is news -> Feed
//!                                      every 2 s: are they still the same folders?
//! ```
//! Folders publishes as fast as the feed has room, so a burst waits in the queue, ours and then the kernel's. What falls
//! out of them is found by looking at the folders and comparing.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use notify::event::{AccessKind, AccessMode, EventKind};
use notify::{INotifyWatcher, Watcher as _};
use tokio::sync::{Notify, oneshot};

use super::keep::Watcher;
use hotdesk_domain::event::Kind;
use hotdesk_http::feed::Feed;

mod folder;
mod folders;
mod places;

use folders::Folders;

/// Notices that wait for the thread; past it the folders are looked at instead. About 1 MB.
const QUEUE: usize = 4096;
/// How often it is looked whether the folders are still the ones that are watched: links may lead elsewhere.
const SETTLE_EVERY: Duration = Duration::from_secs(2);

/// Watches the folders.
#[derive(Debug)]
pub(super) struct Files {
    feed: Feed,
    home: PathBuf,
}

impl Files {
    pub(super) fn new(feed: Feed, home: PathBuf) -> Self {
        Self { feed, home }
    }
}

/// Ends the thread when it goes.
struct Stop(Arc<AtomicBool>, SyncSender<notify::Event>);

impl Drop for Stop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
        // A full queue wakes the thread as well.
        let _ = self.1.try_send(notify::Event::new(EventKind::Other));
    }
}

impl Watcher for Files {
    const NAME: &'static str = "files";
    const KINDS: &'static [Kind] = &[Kind::FileChange, Kind::DownloadFinished];

    async fn run(&mut self, begun: &(dyn Fn() + Send + Sync)) -> String {
        let (notices, queue) = sync_channel(QUEUE);
        let (overflowed, stopped) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let _stop = Stop(Arc::clone(&stopped), notices.clone());
        let (end, mut ended) = oneshot::channel();
        let (feed, home, ready) = (self.feed.clone(), self.home.clone(), Arc::new(Notify::new()));
        let their_ready = Arc::clone(&ready);
        let thread = std::thread::Builder::new().name(String::from("file events"));
        let started = thread.spawn(move || {
            let outcome = watcher(notices, Arc::clone(&overflowed)).and_then(|watcher| {
                let mut folders = Folders::new(&home, feed, watcher)?;
                their_ready.notify_one();
                work(&mut folders, &queue, &overflowed, &stopped)
            });
            // Nobody waits any more: the watch was ended.
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

/// A watcher whose notices go to the queue. It never waits: notify's thread also carries out changes of what is
/// watched, which the other end of the queue waits for.
fn watcher(
    notices: SyncSender<notify::Event>,
    overflowed: Arc<AtomicBool>,
) -> notify::Result<INotifyWatcher> {
    let handler = move |notice: notify::Result<notify::Event>| match notice {
        Ok(notice) if notice.need_rescan() => overflowed.store(true, Ordering::Release),
        Ok(notice) if matters(&notice.kind) => {
            if notices.try_send(notice).is_err() {
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

/// Whether a kind of notice is of any concern; most are about files that were opened.
fn matters(kind: &EventKind) -> bool {
    match kind {
        EventKind::Create(_) | EventKind::Remove(_) => true,
        EventKind::Access(AccessKind::Close(AccessMode::Write)) => true,
        EventKind::Modify(change) => !matches!(change, notify::event::ModifyKind::Metadata(_)),
        EventKind::Access(_) | EventKind::Any | EventKind::Other => false,
    }
}

fn work(
    folders: &mut Folders,
    queue: &Receiver<notify::Event>,
    overflowed: &AtomicBool,
    stopped: &AtomicBool,
) -> notify::Result<()> {
    let mut settle_at = Instant::now() + SETTLE_EVERY;
    while !stopped.load(Ordering::Acquire) {
        let until = folders.due().map_or(settle_at, |due| due.min(settle_at));
        match queue.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(notice) => folders.take(&notice)?,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        }
        if overflowed.swap(false, Ordering::AcqRel) {
            // What waits is older than what will be seen now.
            while queue.try_recv().is_ok() {}
            folders.look_again()?;
        }
        folders.tell_due(Instant::now());
        if Instant::now() >= settle_at {
            folders.settle()?;
            settle_at = Instant::now() + SETTLE_EVERY;
        }
    }
    Ok(())
}
