//! Which recordings are there? Videos of screens with timelines of what was done on them, made only when asked for.
//!
//! ```text
//! start -> recording -> stopped  (asked, at a limit, with its screen or its agent)
//!                    -> failed   (its encoder ended by itself, or the agent was killed)
//! ```
//! A recording has a keeper task while it goes on (`keeper`), which alone ends it. `Acting` asks [`Recordings::timeline`]
//! at every action; while nothing records that is a look at an empty map.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

mod encoder;
mod keeper;
pub mod room;
pub mod shelf;
pub mod timeline;
mod words;

use super::desktop::Desktop;
use super::display::{Displays, Screen};
use super::ffmpeg;
use super::files::blocking;
use super::files::paths::Parents;
use super::files::read::Content;
use encoder::{Encoder, Shape};
use hotdesk_base::clock::{iso8601, now_ms};
use hotdesk_base::tasks::Tasks;
use hotdesk_domain::error::{Error, Kind, Result};
use hotdesk_wire::recording::{Recording, StartRecording};
use room::{Limits, Share};
use shelf::{Part, Shelf};
use timeline::Timeline;

/// Pictures per second when none are asked for: pointers and typing can be followed.
const DEFAULT_FPS: u32 = 10;
/// What may be asked for.
const FPS: std::ops::RangeInclusive<u32> = 1..=30;
/// Seconds when none are asked for.
const DEFAULT_SECONDS: u32 = 600;
/// What may be asked for.
const SECONDS: std::ops::RangeInclusive<u32> = 1..=3600;
/// How long a recording may take to end when it is asked to: its encoder's time and its last pictures'.
const END_TIMEOUT: Duration = Duration::from_secs(10);

/// What recordings stand on.
#[derive(Clone)]
pub struct Setup {
    /// The home folder, below which they are kept.
    pub home: PathBuf,
    /// The screens.
    pub displays: Displays,
    /// How the encoder reaches them.
    pub desktop: Arc<dyn Desktop>,
    /// What carries them out.
    pub tasks: Tasks,
    /// What bounds them.
    pub limits: Limits,
    /// The encoder's program, looked for on `PATH`.
    pub encoder: PathBuf,
}

/// The recordings. Clones are the same.
#[derive(Clone)]
pub struct Recordings(Arc<Room>);

impl std::fmt::Debug for Recordings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recordings").finish_non_exhaustive()
    }
}

struct Room {
    setup: Setup,
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    /// Oldest first.
    kept: Vec<Arc<Kept>>,
    /// By screen; `None` while one is being started.
    running: BTreeMap<String, Option<Arc<Timeline>>>,
}

/// One recording.
struct Kept {
    record: Mutex<Recording>,
    /// When it began, while it goes on.
    began: Mutex<Option<Instant>>,
    /// Asks it to end.
    stop: CancellationToken,
    /// It has ended, and its record says so.
    gone: CancellationToken,
}

/// A screen's place among those that are recorded, given up unless it is kept.
struct Place<'a> {
    room: &'a Room,
    screen: String,
    kept: bool,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if !self.kept {
            self.room.lock().running.remove(&self.screen);
        }
    }
}

impl Recordings {
    /// Finds the recordings of earlier agents; those that ended with their agent are told so. Nothing is made before
    /// something is recorded.
    pub fn open(setup: Setup) -> Self {
        let kept = match earlier(&setup) {
            Ok(kept) => kept,
            Err(error) => {
                tracing::warn!(%error, "earlier recordings cannot be read");
                Vec::new()
            }
        };
        let table = Mutex::new(Table { kept, running: BTreeMap::new() });
        Self(Arc::new(Room { setup, table }))
    }

    /// Begins to record a screen; on return its first picture was taken.
    ///
    /// # Errors
    /// `Invalid` out of range; `NotFound` for the screen; `Conflict` with the code `no_encoder` or `already_recording`;
    /// `Unavailable` (`disk_full`, `recordings_full`, `encoder_failed`).
    pub async fn start(&self, request: StartRecording) -> Result<Recording> {
        let room = Arc::clone(&self.0);
        // A client that hangs up does not leave half a recording.
        let started = self.0.setup.tasks.spawn("recording start", async move { room.start(request).await });
        let started = started.await.map_err(|error| Error::internal(format!("a recording: {error}")))?;
        started.unwrap_or_else(|| Err(Error::internal("the start of a recording panicked")))
    }

    /// All recordings, oldest first.
    pub fn list(&self) -> Vec<Recording> {
        let all: Vec<Arc<Kept>> = self.0.lock().kept.clone();
        all.iter().map(|kept| kept.record()).collect()
    }

    /// The screens that are recorded now.
    pub fn under_way(&self) -> Vec<String> {
        self.0.lock().running.keys().cloned().collect()
    }

    /// One recording.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn find(&self, id: &str) -> Result<Recording> {
        Ok(self.0.find(id)?.record())
    }

    /// Ends a recording; one that has ended stays as it is.
    ///
    /// # Errors
    /// `NotFound`; `TimedOut`.
    pub async fn stop(&self, id: &str) -> Result<Recording> {
        let kept = self.0.find(id)?;
        kept.end().await?;
        Ok(kept.record())
    }

    /// Ends and removes a recording.
    ///
    /// # Errors
    /// `NotFound`; `TimedOut`.
    pub async fn delete(&self, id: &str) -> Result<()> {
        let kept = self.0.find(id)?;
        kept.end().await?;
        let (room, id) = (Arc::clone(&self.0), id.to_owned());
        blocking(move || room.remove(&id)).await
    }

    /// A file of a recording, as far as it is written.
    ///
    /// # Errors
    /// `NotFound`, also for a timeline that was not asked for.
    pub async fn content(&self, id: &str, part: Part) -> Result<Content> {
        self.0.find(id)?;
        let (room, id) = (Arc::clone(&self.0), id.to_owned());
        blocking(move || {
            let found = Shelf::open(&room.setup.home, Parents::Needed)?.content(&id, part)?;
            found.ok_or_else(|| match part {
                Part::Video => Error::not_found(format!("Recording {id} has no video any more")),
                Part::Timeline => Error::not_found(format!("Recording {id} has no timeline")),
            })
        })
        .await
    }

    /// Where what is done on a screen is to be noted; mostly nowhere.
    pub fn timeline(&self, screen: &Screen) -> Option<Arc<Timeline>> {
        let table = self.0.lock();
        if table.running.is_empty() {
            return None;
        }
        table.running.get(&screen.id)?.clone()
    }
}

/// What earlier agents left.
fn earlier(setup: &Setup) -> Result<Vec<Arc<Kept>>> {
    let shelf = match Shelf::open(&setup.home, Parents::Needed) {
        Err(error) if error.kind == Kind::NotFound => return Ok(Vec::new()),
        opened => opened?,
    };
    let mut all = Vec::new();
    for mut record in shelf.records()? {
        if record.status == keeper::RECORDING {
            let started_ms = keeper::stamp(&record.started_at);
            let ended_ms = shelf.written_ms(&record.id)?.unwrap_or(started_ms).max(started_ms);
            record.ended_at = Some(iso8601(ended_ms));
            record.seconds = (ended_ms - started_ms) as f64 / 1000.0;
            keeper::FAILED.clone_into(&mut record.status);
            record.reason = Some(String::from("agent_restarted"));
            shelf.note(&record)?;
        }
        // The record may have been written by anybody in the computer; the disk tells the truth.
        record.size_bytes = shelf.size(&record.id)?;
        all.push(Arc::new(Kept::ended(record)));
    }
    Ok(all)
}

impl Room {
    async fn start(self: Arc<Self>, request: StartRecording) -> Result<Recording> {
        let setup = &self.setup;
        let fps = within(request.fps.unwrap_or(DEFAULT_FPS), FPS, "fps")?;
        let most = within(request.max_seconds.unwrap_or(DEFAULT_SECONDS), SECONDS, "max_seconds")?;
        let screen = setup.displays.screen(request.screen.as_deref())?;
        let program = ffmpeg::find(&setup.encoder)?;
        // One that is not up says so.
        screen.moment().await?;
        let mut place = self.take_place(&screen)?;
        let environment = ffmpeg::environment(setup.desktop.as_ref(), &setup.home, &screen)?;
        let room = Arc::clone(&self);
        let (shelf, id, video) = blocking(move || room.make_place()).await?;
        let size = screen.size();
        let shape = Shape { width: size.width, height: size.height, fps };
        let started = Encoder::start(&program, environment, &screen, shape, video, &setup.tasks).await;
        let encoder = match started {
            Ok(encoder) => encoder,
            Err(error) => {
                blocking(move || shelf.remove(&id)).await?;
                return Err(error);
            }
        };
        let began = Instant::now();
        let (width, height) = shape.even();
        let timeline = request.timeline.unwrap_or(true);
        let record = Recording {
            id: id.clone(),
            screen: screen.id.clone(),
            status: String::from(keeper::RECORDING),
            started_at: iso8601(now_ms()),
            ended_at: None,
            seconds: 0.0,
            size_bytes: 0,
            width,
            height,
            fps,
            timeline,
            reason: None,
        };
        let noted = record.clone();
        let (shelf, file) = blocking(move || {
            let begun = shelf.note(&noted).and_then(|()| {
                if timeline { shelf.create(&noted.id, Part::Timeline).map(Some) } else { Ok(None) }
            });
            match begun {
                Ok(file) => Ok((shelf, file)),
                Err(error) => {
                    shelf.remove(&noted.id)?;
                    Err(error)
                }
            }
        })
        .await?;
        let kept = Arc::new(Kept::running(record, began));
        let lines = file.map(|file| Timeline::start(file, Arc::clone(&screen), began, &setup.tasks));
        {
            let mut table = self.lock();
            table.running.insert(screen.id.clone(), lines.as_ref().map(|(lines, _)| Arc::clone(lines)));
            table.kept.push(Arc::clone(&kept));
        }
        place.kept = true;
        let answer = kept.record();
        let most = Duration::from_secs(most.into());
        let keeper = keeper::Keeper { room: Arc::clone(&self), kept, screen, shelf: Arc::new(shelf), most };
        let _keeper = setup.tasks.spawn("recording", keeper.keep(encoder, lines));
        Ok(answer)
    }

    fn take_place(&self, screen: &Screen) -> Result<Place<'_>> {
        let mut table = self.lock();
        if table.running.contains_key(&screen.id) {
            let message = format!("Screen {} is being recorded already", screen.id);
            return Err(Error::conflict(message).code("already_recording"));
        }
        table.running.insert(screen.id.clone(), None);
        Ok(Place { room: self, screen: screen.id.clone(), kept: false })
    }

    /// Makes room for one more, and its file.
    fn make_place(&self) -> Result<(Shelf, String, std::fs::File)> {
        let shelf = Shelf::open(&self.setup.home, Parents::Made)?;
        if !self.make_room(1)? {
            let message = "The recordings that go on fill what recordings may take";
            return Err(Error::unavailable(message).code("recordings_full"));
        }
        if shelf.free()? < self.setup.limits.least_free {
            return Err(disk_full());
        }
        let id = loop {
            let id = shelf::fresh_id();
            if self.find(&id).is_err() {
                break id;
            }
        };
        let video = shelf.create(&id, Part::Video)?;
        Ok((shelf, id, video))
    }

    /// Removes what is too much; whether the rest keeps to the limits.
    fn make_room(&self, coming: usize) -> Result<bool> {
        let all: Vec<Recording> = self.lock().kept.iter().map(|kept| kept.record()).collect();
        let share = |record: &Recording| Share {
            bytes: record.size_bytes,
            running: record.status == keeper::RECORDING,
        };
        let shares: Vec<Share> = all.iter().map(share).collect();
        let (gone, fits) = room::too_much(&shares, self.setup.limits, coming);
        for record in gone.into_iter().filter_map(|at| all.get(at)) {
            tracing::info!(id = record.id, "a recording is removed to make room");
            self.remove(&record.id)?;
        }
        Ok(fits)
    }

    fn remove(&self, id: &str) -> Result<()> {
        Shelf::open(&self.setup.home, Parents::Needed)?.remove(id)?;
        self.lock().kept.retain(|kept| kept.id() != id);
        Ok(())
    }

    fn find(&self, id: &str) -> Result<Arc<Kept>> {
        let found = self.lock().kept.iter().find(|kept| kept.id() == id).cloned();
        found.ok_or_else(|| Error::not_found("No such recording"))
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn running(record: Recording, began: Instant) -> Self {
        Self {
            record: Mutex::new(record),
            began: Mutex::new(Some(began)),
            stop: CancellationToken::new(),
            gone: CancellationToken::new(),
        }
    }

    fn ended(record: Recording) -> Self {
        let gone = CancellationToken::new();
        gone.cancel();
        let (record, began) = (Mutex::new(record), Mutex::new(None));
        Self { record, began, stop: CancellationToken::new(), gone }
    }

    fn id(&self) -> String {
        self.lock().id.clone()
    }

    /// Its record now.
    fn record(&self) -> Recording {
        let mut record = self.lock().clone();
        if let Some(began) = *self.began.lock().unwrap_or_else(PoisonError::into_inner) {
            record.seconds = rounded(began.elapsed());
        }
        record
    }

    /// Changes its record.
    fn change(&self, change: impl FnOnce(&mut Recording)) {
        change(&mut self.lock());
    }

    async fn end(&self) -> Result<()> {
        self.stop.cancel();
        let ended = tokio::time::timeout(END_TIMEOUT, self.gone.cancelled()).await;
        ended.map_err(|_| Error::timed_out("The recording did not end in time"))
    }

    fn lock(&self) -> MutexGuard<'_, Recording> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Seconds with milliseconds.
fn rounded(time: Duration) -> f64 {
    (time.as_secs_f64() * 1000.0).round() / 1000.0
}

fn within(value: u32, range: std::ops::RangeInclusive<u32>, name: &str) -> Result<u32> {
    let message = || format!("{name} must be {} to {}", range.start(), range.end());
    if range.contains(&value) { Ok(value) } else { Err(Error::invalid(message())) }
}

/// No room for recordings on the computer's disk.
fn disk_full() -> Error {
    Error::unavailable("The computer's disk is too full to record").code("disk_full")
}
