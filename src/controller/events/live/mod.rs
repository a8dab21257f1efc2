//! Live records: one socket tells a page of the console what changed (docs/console.md#live-records).
//!
//! ```text
//! store, runners -- notices --> reader, while a page is open: 100 ms, then one read of each changed record
//!                                  |
//! agents: control events --> watch of controls, one per running computer
//!                                  |
//!                               updates --> pages: access, skip what is unchanged
//!                                             ^
//! agents: frames, each second --> watch of a screen in view, shared with MCP; with its picture for pages
//!                                 that show it
//! ```
//! Nothing here reads the store for each page, except for the list at its beginning and after a change of its
//! account's access. Nothing wakes a computer or counts as its use.

mod control;
mod page;
mod reader;

use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::{broadcast, watch};
use tokio_util::sync::CancellationToken;

use self::control::ControlWatches;
use self::page::{Page, View};
use self::reader::ChangeReader;
use super::Events;
use super::screens::ScreenWatches;
use crate::computers::directory::Directory;
use crate::computers::fleet::Fleet;
use crate::web::origin::Origin;
use hotdesk_base::ids::{AccountId, ComputerId, ThreadId, WorkspaceId};
use hotdesk_base::keyed_semaphore::KeyedSemaphore;
use hotdesk_base::tasks::Tasks;
use hotdesk_domain::desktop::channel::{GOING_AWAY, TRY_AGAIN_LATER};
use hotdesk_http::socket::{CloseReason, Receiver, Sender};
use hotdesk_store::Store;
use hotdesk_store::fleet::computers::Computer;
use hotdesk_wire::desktop::action::control::ScreenControl;

/// Most pages of one account: a person has some tabs and devices, and each page makes the controller filter
/// every change.
const MAX_PAGES: usize = 32;
/// Updates that wait for a page. One that reads so slowly that more wait is given the whole list again.
const MAX_WAITING: usize = 1024;

/// What all pages are told, before access is checked.
#[derive(Clone, Debug)]
enum LiveUpdate {
    /// A computer as it was after a change; `None` when it is deleted.
    Computer(ComputerId, Option<Arc<Computer>>),
    /// Name or owner of a workspace changed.
    Workspace(WorkspaceId),
    /// An account reaches other computers, or all of its computers changed.
    Account(AccountId),
    /// Every computer may have changed.
    EveryComputer,
    /// Control of a screen.
    Control(ComputerId, Arc<ScreenControl>),
    /// A run of a thread began or ended.
    Thread(ThreadId, ComputerId, &'static str),
}

/// Live records for all pages of the console.
pub struct LiveRecords {
    store: Store,
    directory: Directory,
    fleet: Fleet,
    tasks: Tasks,
    screens: ScreenWatches,
    controls: ControlWatches,
    updates: broadcast::Sender<LiveUpdate>,
    reader: Mutex<Weak<ChangeReader>>,
    pages: KeyedSemaphore<AccountId>,
}

impl LiveRecords {
    /// Creates the service without pages.
    pub fn new(
        store: Store,
        directory: Directory,
        fleet: Fleet,
        tasks: Tasks,
        events: Events,
        screens: ScreenWatches,
    ) -> Self {
        let updates = broadcast::Sender::new(MAX_WAITING);
        let controls = ControlWatches::new(events, fleet.clone(), tasks.clone(), updates.clone());
        let (reader, pages) = (Mutex::default(), KeyedSemaphore::default());
        Self { store, directory, fleet, tasks, screens, controls, updates, reader, pages }
    }

    /// Serves a page of a signed-in person until it leaves or the service stops. Returns how to close the
    /// socket.
    pub async fn serve(
        &self,
        account: AccountId,
        origin: Origin,
        sender: Sender,
        receiver: Receiver,
    ) -> CloseReason {
        let Some(_permit) = self.pages.try_acquire(account, MAX_PAGES) else {
            return CloseReason::new(TRY_AGAIN_LATER, "too many pages of this account");
        };
        let (view, views) = watch::channel(View::default());
        let stopping = self.tasks.stopping();
        tokio::select! {
            () = stopping.cancelled() => CloseReason::new(GOING_AWAY, "server shutting down"),
            closing = page::read(receiver, view) => closing,
            closing = Page::new(self, account, origin, &sender).run(views) => closing,
        }
    }

    /// Returns the reader of changes, and starts it if no page has it. It ends with the last page.
    fn reader(&self) -> Arc<ChangeReader> {
        let mut current = self.reader.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(reader) = current.upgrade() {
            return reader;
        }
        let (ended, stopping) = (CancellationToken::new(), self.tasks.stopping());
        // Watched before this returns, so that a page that lists its computers next misses nothing.
        let reading = reader::run(self.store.clone(), self.store.changes.watch(), self.updates.clone());
        let left = ended.clone();
        let _task = self.tasks.spawn("live records", async move {
            tokio::select! {
                () = left.cancelled() => {}
                () = stopping.cancelled() => {}
                never = reading => match never {},
            }
        });
        let reader = Arc::new(ChangeReader::new(ended.drop_guard()));
        *current = Arc::downgrade(&reader);
        reader
    }
}
