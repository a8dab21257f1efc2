//! Timelines of the actions on screens of computers: fetched from the agents, stored, bounded and read.
//!
//! ```text
//! a request that names its actor -> the agent keeps the entry
//! every second while somebody acts, before the computer ends or a snapshot, and when somebody reads:
//!   agent -> checks (fetched) -> pictures as blobs -> store, where the oldest entries make room
//! ```
//! It knows nothing of access: the handlers check it.

mod fetched;

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use uuid::Uuid;

use crate::config::TimelineSettings;
use crate::data_dir::blobs::{BlobStore, PictureKind};
use crate::data_dir::pictures::RecordedPictures;
use fetched::{FetchedEntry, check};
use hotdesk_base::clock;
use hotdesk_base::ids::{AccountId, ComputerId, ComputerRef};
use hotdesk_base::keyed_semaphore::KeyedSemaphore;
use hotdesk_base::tasks::Tasks;
use hotdesk_base::wait;
use hotdesk_domain::desktop::screen::timeline::MAX_PICTURE_BYTES;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::identity::access::actor::Actor;
use hotdesk_domain::limits::MAX_LIST_DURATION;
use hotdesk_guest::Guest;
use hotdesk_store::Store;
use hotdesk_store::fleet::timeline::{
    NewTimelineEntry, TimelineBounds, TimelineCursor, TimelineEntry, TimelineFilter,
};
use hotdesk_store::identity::actor_names::NameReader;
use hotdesk_wire::agent::timeline::GuestTimelineQuery;
use hotdesk_wire::desktop::action::control::ActorName;
use hotdesk_wire::desktop::action::timeline::TimelineActor;

/// Time between two looks at the computers on which somebody acts.
pub const FETCH_INTERVAL: Duration = Duration::from_secs(1);
/// Time after a request of an actor in which a computer's timeline is fetched: the request may be on its way,
/// and the picture after an action takes up to a second.
const ACTIVE: Duration = Duration::from_secs(4);
/// The same while an action is in progress: the longest list, and five minutes for the wait at its end.
const IN_PROGRESS: Duration = MAX_LIST_DURATION.saturating_add(Duration::from_secs(300));
/// Most answers of an agent in one fetch: its memory of 8 MB, in answers of at least a megabyte.
const MAX_PAGES: usize = 9;
/// Time that a fetch may delay the end of a computer or a snapshot; an agent answers in milliseconds, or when
/// the picture after the last action is taken.
const BEFORE_END_TIMEOUT: Duration = Duration::from_secs(2);
/// Time that a reader waits for new entries.
const READ_TIMEOUT: Duration = Duration::from_secs(4);
/// Time that a fetch waits for another one that stores entries of the same computer. Pages take milliseconds,
/// so only a disk that hangs takes longer.
const STORE_TIMEOUT: Duration = Duration::from_secs(10);
/// Time in which the agent waits for actions in progress and for their pictures, in seconds, for a reader and
/// before an end.
const WAIT_SECONDS: u32 = 1;

/// Names of the actors of a page.
pub type ActorNames = BTreeMap<String, String>;

/// The timelines of all computers; cheap to clone.
#[derive(Clone)]
pub struct ActionTimelines {
    store: Store,
    pictures: RecordedPictures,
    tasks: Tasks,
    /// `None` where timelines are off.
    bounds: Option<TimelineBounds>,
    /// Fetches in the background, one for each computer.
    fetching: KeyedSemaphore<ComputerId>,
    /// Fetches that store what they have, one for each computer.
    storing: KeyedSemaphore<ComputerId>,
    /// Computers on which an action was in progress at the last fetch.
    in_progress: Arc<Mutex<HashSet<ComputerId>>>,
}

impl ActionTimelines {
    /// Creates the service.
    pub fn new(store: Store, blobs: BlobStore, tasks: Tasks, settings: &TimelineSettings) -> Self {
        let pictures = RecordedPictures::new(PictureKind::Timeline, store.clone(), blobs);
        Self {
            store,
            pictures,
            tasks,
            bounds: settings.bounds(),
            fetching: KeyedSemaphore::default(),
            storing: KeyedSemaphore::default(),
            in_progress: Arc::default(),
        }
    }

    /// Counts the stored pictures. Call it once, before anything is fetched.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store or the disk fails.
    pub async fn recover(&self) -> Result<()> {
        self.pictures.recover().await
    }

    /// Removes pictures that a crash left without an entry, and takes lost ones from their entries.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store or the disk fails.
    pub async fn sweep(&self) -> Result<()> {
        self.pictures.sweep().await
    }

    /// Fetches from the computers on which somebody acts, each in a task of its own: an agent that does not
    /// answer delays no other.
    pub fn fetch_active(&self, running: Vec<(ComputerId, Guest)>) {
        let now = clock::now();
        let known: HashSet<ComputerId> = running.iter().map(|(id, _)| *id).collect();
        self.in_progress().retain(|computer| known.contains(computer));
        for (computer, guest) in running {
            let age = guest.last_acted().map(|at| now.since(at).unwrap_or_default());
            let limit = if self.in_progress().contains(&computer) { IN_PROGRESS } else { ACTIVE };
            if self.bounds.is_none() || age.is_none_or(|age| age > limit) {
                self.in_progress().remove(&computer);
                continue;
            }
            let Some(permit) = self.fetching.try_acquire(computer, 1) else { continue };
            let timelines = self.clone();
            let _task = self.tasks.spawn("timeline of a computer", async move {
                timelines.try_fetch(computer, &guest, None).await;
                drop(permit);
            });
        }
    }

    /// Fetches before a computer's agent ends or its memory goes back. Also when nobody acted through this
    /// controller: its template may have acted, or somebody through an earlier controller.
    pub async fn fetch_before_end(&self, computer: ComputerId, guest: Option<&Guest>) {
        let Some(guest) = guest else { return };
        let fetched = self.try_fetch(computer, guest, Some(WAIT_SECONDS));
        if tokio::time::timeout(BEFORE_END_TIMEOUT, fetched).await.is_err() {
            tracing::debug!(%computer, "the timeline could not be fetched in time before an end");
        }
    }

    /// Fetches for a reader, who sees actions that have just ended.
    pub async fn fetch_to_read(&self, computer: ComputerId, guest: &Guest) {
        let fetched = self.try_fetch(computer, guest, Some(WAIT_SECONDS));
        if tokio::time::timeout(READ_TIMEOUT, fetched).await.is_err() {
            tracing::debug!(%computer, "the timeline could not be fetched in time for a reader");
        }
    }

    /// Fetches. A failure is logged: an agent may be starting, older, hostile or gone.
    async fn try_fetch(&self, computer: ComputerId, guest: &Guest, wait_seconds: Option<u32>) {
        let Some(bounds) = self.bounds else { return };
        match self.fetch(computer, guest, wait_seconds, bounds).await {
            Ok(true) => {
                self.in_progress().insert(computer);
            }
            Ok(false) => {
                self.in_progress().remove(&computer);
            }
            Err(error) => {
                tracing::debug!(%computer, error = format_args!("{error:#}"), "could not fetch a timeline");
            }
        }
    }

    /// Fetches and stores new entries. Returns whether actions are in progress.
    async fn fetch(
        &self,
        computer: ComputerId,
        guest: &Guest,
        wait_seconds: Option<u32>,
        bounds: TimelineBounds,
    ) -> Result<bool> {
        let mut known = self.store.timeline_cursor(computer).await?;
        let mut in_progress = false;
        for page in 0..MAX_PAGES {
            let query = GuestTimelineQuery {
                series: known.as_ref().map(|known| known.series.clone()),
                after: known.as_ref().map(|known| known.number),
                wait_seconds: wait_seconds.filter(|_| page == 0),
            };
            let mut answer = guest.timeline(&query).await?;
            let after = known.filter(|known| known.series == answer.series).map_or(0, |known| known.number);
            let entries = check(&mut answer, computer, after, clock::now())?;
            in_progress = answer.in_progress > 0;
            let Some(last) = entries.last().map(|entry| entry.number) else { break };
            self.keep(computer, &answer.series, entries, bounds).await?;
            known = Some(TimelineCursor { series: answer.series, number: last });
            if !answer.more {
                break;
            }
        }
        Ok(in_progress)
    }

    /// Stores checked entries and their pictures, except those that another fetch has stored already.
    async fn keep(
        &self,
        computer: ComputerId,
        series: &str,
        mut entries: Vec<FetchedEntry>,
        bounds: TimelineBounds,
    ) -> Result<()> {
        // One at a time: several readers at once would store the same pictures, and older pictures would make
        // room for them.
        let turn = wait::until(STORE_TIMEOUT, || async { self.storing.try_acquire(computer, 1) }).await;
        let _turn = turn.ok_or_else(|| Error::unavailable("Another fetch of the timeline takes too long"))?;
        let stored = self.store.timeline_cursor(computer).await?;
        if let Some(stored) = stored.filter(|stored| stored.series == series) {
            entries.retain(|entry| entry.number > stored.number);
        }
        if entries.is_empty() {
            return Ok(());
        }
        let row = self.store.computer(&ComputerRef::Id(computer)).await?;
        let owner = row.ok_or_else(|| Error::not_found("Desktop not found"))?.owner;
        let mut kept = Vec::with_capacity(entries.len());
        for entry in entries {
            let [before, after] = entry.pictures;
            kept.push(NewTimelineEntry {
                series_number: entry.number,
                at: entry.at,
                by: entry.by,
                screen: entry.screen,
                record: entry.record,
                before: self.keep_picture(owner, before).await?,
                after: self.keep_picture(owner, after).await?,
            });
        }
        let unused = match self.store.add_timeline_entries(computer, series, &kept, bounds).await {
            Ok(unused) => unused,
            Err(error) => {
                let pictures = kept.iter().flat_map(|entry| [entry.before, entry.after]).flatten();
                self.pictures.remove(&pictures.map(|(picture, _)| picture).collect::<Vec<_>>()).await;
                return Err(error);
            }
        };
        self.pictures.remove(&unused).await;
        Ok(())
    }

    async fn keep_picture(&self, owner: AccountId, picture: Option<Vec<u8>>) -> Result<Option<(Uuid, i64)>> {
        match picture {
            Some(bytes) => self.pictures.put(owner, &bytes, MAX_PICTURE_BYTES).await,
            None => Ok(None),
        }
    }

    /// Returns the stored entries of a computer that match a filter.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn list(&self, computer: ComputerId, filter: &TimelineFilter) -> Result<Vec<TimelineEntry>> {
        self.store.timeline(computer, filter).await
    }

    /// Returns a stored entry of a computer by the id in the API.
    ///
    /// # Errors
    /// `NotFound` when there is none; `Unavailable` or `Internal` when the store fails.
    pub async fn find(&self, computer: ComputerId, id: &str) -> Result<TimelineEntry> {
        let unknown = || Error::not_found("Entry not found");
        let number = id.parse().map_err(|_| unknown())?;
        self.store.timeline_entry(computer, number).await?.ok_or_else(unknown)
    }

    /// Reads a picture of an entry; `None` when it is gone.
    ///
    /// # Errors
    /// `Internal` when the disk fails.
    pub async fn picture(&self, picture: Option<Uuid>) -> Result<Option<Vec<u8>>> {
        match picture {
            Some(picture) => self.pictures.read(picture).await,
            None => Ok(None),
        }
    }

    /// Returns the names of the actors of entries that a reader may see, by the text of the actor.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn names(&self, entries: &[TimelineEntry], reader: &NameReader) -> Result<ActorNames> {
        let actors: BTreeMap<String, Actor> =
            entries.iter().filter_map(|entry| entry.by).map(|by| (by.to_string(), by)).collect();
        let mut names = ActorNames::new();
        for (text, actor) in actors {
            if let Some(name) = self.store.actor_name(actor, reader).await? {
                names.insert(text, name);
            }
        }
        Ok(names)
    }

    fn in_progress(&self) -> std::sync::MutexGuard<'_, HashSet<ComputerId>> {
        self.in_progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The actor of an entry in the API.
pub fn named(by: Actor, names: &ActorNames) -> TimelineActor {
    TimelineActor { actor: ActorName::from(by), name: names.get(&by.to_string()).cloned() }
}
