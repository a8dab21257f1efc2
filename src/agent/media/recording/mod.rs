//! Recordings: videos of screens with timelines of the actions on them, made on request.
//!
//! ```text
//! start -> recording -> stopped  (on request, at a limit, with its screen or its agent)
//!                    -> failed   (its encoder ended by itself, or the agent was killed)
//! ```
//! While a recording runs, only its supervisor task ends it (`supervisor`). `Actions` calls
//! [`Recordings::timeline`] for every action; without a running recording that is a lookup in an empty map.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

mod encoder;
pub mod retention;
pub mod store;
mod supervisor;
pub mod timeline;

use crate::display::desktop::Desktop;
use crate::display::{Displays, Screen};
use crate::files::blocking;
use crate::files::paths::Parents;
use crate::files::read::OpenFile;
use crate::media::ffmpeg;
use crate::media::timeline::Timelines;
use encoder::{RecordingEncoder, VideoFormat};
use hotdesk_base::clock;
use hotdesk_base::tasks::Tasks;
use hotdesk_base::time::UnixMillis;
use hotdesk_domain::error::{Error, Kind, Result};
use hotdesk_domain::error_code::ErrorCode;
use hotdesk_wire::desktop::recording::{Recording, StartRecording};
use retention::{RetentionLimits, StoredRecording};
use store::{RecordingFile, RecordingStore};
use timeline::Timeline;

/// Default pictures per second: pointer and typing are easy to follow.
const DEFAULT_FPS: u32 = 10;
/// Allowed values.
const FPS: std::ops::RangeInclusive<u32> = 1..=30;
/// Default length in seconds.
const DEFAULT_SECONDS: u32 = 600;
/// Allowed values.
const SECONDS: std::ops::RangeInclusive<u32> = 1..=3600;
/// How long a recording may take to end on request: the encoder's timeout and that of the last pictures.
const END_TIMEOUT: Duration = Duration::from_secs(10);

/// Dependencies of the recordings.
#[derive(Clone)]
pub struct RecordingSetup {
    /// Home folder, which contains the folder of recordings.
    pub home: PathBuf,
    /// The screens.
    pub displays: Displays,
    /// Environment with which the encoder reaches the screens.
    pub desktop: Arc<dyn Desktop>,
    /// Timelines of the screens, whose entries the recordings contain.
    pub timelines: Timelines,
    /// Task group.
    pub tasks: Tasks,
    /// Limits.
    pub limits: RetentionLimits,
    /// Encoder program, looked up in `PATH`.
    pub encoder: PathBuf,
}

/// The recordings. Clones share one state.
#[derive(Clone)]
pub struct Recordings(Arc<RecordingsState>);

impl std::fmt::Debug for Recordings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recordings").finish_non_exhaustive()
    }
}

struct RecordingsState {
    setup: RecordingSetup,
    table: Mutex<RecordingTable>,
}

#[derive(Default)]
struct RecordingTable {
    /// Oldest first.
    recordings: Vec<Arc<RecordingState>>,
    /// Timelines by screen id; `None` while a recording starts or has no timeline.
    running: BTreeMap<String, Option<Arc<Timeline>>>,
}

/// One recording.
struct RecordingState {
    record: Mutex<Recording>,
    /// Start time, while it runs.
    began: Mutex<Option<Instant>>,
    /// Cancelled to end it.
    stop: CancellationToken,
    /// Cancelled when it has ended and its record says so.
    gone: CancellationToken,
}

/// Reservation of a screen for a recording, released on drop unless committed.
struct ScreenReservation<'a> {
    shared: &'a RecordingsState,
    screen: String,
    committed: bool,
}

impl Drop for ScreenReservation<'_> {
    fn drop(&mut self) {
        if !self.committed {
            self.shared.lock().running.remove(&self.screen);
        }
    }
}

impl Recordings {
    /// Reads the recordings of earlier agents and marks those that ran as failed. Creates no folder before
    /// the first recording.
    pub fn open(setup: RecordingSetup) -> Self {
        let recordings = match read_earlier(&setup) {
            Ok(recordings) => recordings,
            Err(error) => {
                tracing::warn!(
                    error = format_args!("{error:#}"),
                    "cannot read the recordings of an earlier agent; they are not listed"
                );
                Vec::new()
            }
        };
        let table = Mutex::new(RecordingTable { recordings, running: BTreeMap::new() });
        Self(Arc::new(RecordingsState { setup, table }))
    }

    /// Starts a recording; on return the encoder has taken the first picture.
    ///
    /// # Errors
    /// `Invalid` for a number out of range; `NotFound` for an unknown screen; `Conflict` (`no_encoder`,
    /// `already_recording`); `Unavailable` (`disk_full`, `recordings_full`, `encoder_failed`). No recording
    /// is listed then.
    pub async fn start(&self, request: StartRecording) -> Result<Recording> {
        let shared = Arc::clone(&self.0);
        // In its own task: a client that disconnects does not leave a half-started recording.
        let started = self.0.setup.tasks.spawn("recording start", async move { shared.start(request).await });
        let started = started
            .await
            .map_err(|error| Error::internal(format!("the task that starts a recording failed: {error}")))?;
        started.unwrap_or_else(|| Err(Error::internal("the start of a recording panicked")))
    }

    /// All recordings, oldest first.
    pub fn list(&self) -> Vec<Recording> {
        let all: Vec<Arc<RecordingState>> = self.0.lock().recordings.clone();
        all.iter().map(|recording| recording.record()).collect()
    }

    /// Ids of the screens that are being recorded.
    pub fn active_screens(&self) -> Vec<String> {
        self.0.lock().running.keys().cloned().collect()
    }

    /// One recording.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn find(&self, id: &str) -> Result<Recording> {
        Ok(self.0.find(id)?.record())
    }

    /// Ends a recording; no effect on one that has ended.
    ///
    /// # Errors
    /// `NotFound`; `TimedOut` when it does not end in time.
    pub async fn stop(&self, id: &str) -> Result<Recording> {
        let recording = self.0.find(id)?;
        recording.end().await?;
        Ok(recording.record())
    }

    /// Ends and removes a recording.
    ///
    /// # Errors
    /// `NotFound`; `TimedOut` when it does not end in time.
    pub async fn delete(&self, id: &str) -> Result<()> {
        let recording = self.0.find(id)?;
        recording.end().await?;
        let (shared, id) = (Arc::clone(&self.0), id.to_owned());
        blocking(move || shared.remove(&id)).await
    }

    /// Opens a file of a recording, as far as it is written.
    ///
    /// # Errors
    /// `NotFound`, also for the timeline of a recording without one.
    pub async fn content(&self, id: &str, part: RecordingFile) -> Result<OpenFile> {
        self.0.find(id)?;
        let (shared, id) = (Arc::clone(&self.0), id.to_owned());
        blocking(move || {
            let found = RecordingStore::open(&shared.setup.home, Parents::Required)?.content(&id, part)?;
            found.ok_or_else(|| match part {
                RecordingFile::Video => Error::not_found(format!("Recording {id} has no video any more")),
                RecordingFile::Timeline => Error::not_found(format!("Recording {id} has no timeline")),
            })
        })
        .await
    }

    /// Returns the timeline of a screen's running recording, if there is one.
    pub fn timeline(&self, screen: &Screen) -> Option<Arc<Timeline>> {
        let table = self.0.lock();
        if table.running.is_empty() {
            return None;
        }
        table.running.get(&screen.id)?.clone()
    }
}

/// Reads the recordings of earlier agents.
fn read_earlier(setup: &RecordingSetup) -> Result<Vec<Arc<RecordingState>>> {
    let store = match RecordingStore::open(&setup.home, Parents::Required) {
        Err(error) if error.kind == Kind::NotFound => return Ok(Vec::new()),
        opened => opened?,
    };
    let mut all = Vec::new();
    for mut record in store.records()? {
        if record.status == supervisor::RECORDING {
            let started = UnixMillis::parse_iso8601(&record.started_at).unwrap_or(UnixMillis::EPOCH);
            let ended = store.written_at(&record.id)?.unwrap_or(started).max(started);
            record.ended_at = Some(ended.iso8601());
            record.seconds = ended.since(started).unwrap_or_default().as_millis() as f64 / 1000.0;
            supervisor::FAILED.clone_into(&mut record.status);
            record.reason = Some(String::from("agent_restarted"));
            store.write_record(&record)?;
        }
        // Programs in the computer can change the record; the size comes from the file system.
        record.size_bytes = store.size(&record.id)?;
        all.push(Arc::new(RecordingState::ended(record)));
    }
    Ok(all)
}

impl RecordingsState {
    async fn start(self: Arc<Self>, request: StartRecording) -> Result<Recording> {
        let setup = &self.setup;
        let fps = within(request.fps.unwrap_or(DEFAULT_FPS), FPS, "fps")?;
        let max_length = within(request.max_seconds.unwrap_or(DEFAULT_SECONDS), SECONDS, "max_seconds")?;
        let screen = setup.displays.screen(request.screen.as_deref())?;
        let program = ffmpeg::find(&setup.encoder)?;
        // Fails when the screen is not running.
        screen.moment().await?;
        let mut reservation = self.reserve_screen(&screen)?;
        let environment = ffmpeg::environment(setup.desktop.as_ref(), &setup.home, &screen)?;
        let shared = Arc::clone(&self);
        let (store, id, video) = blocking(move || shared.create_video()).await?;
        let size = screen.size();
        let format = VideoFormat { width: size.width, height: size.height, fps };
        let started =
            RecordingEncoder::start(&program, environment, &screen, format, video, &setup.tasks).await;
        let encoder = match started {
            Ok(encoder) => encoder,
            Err(error) => {
                blocking(move || store.remove(&id)).await?;
                return Err(error);
            }
        };
        let began = Instant::now();
        let (width, height) = format.even();
        let timeline = request.timeline.unwrap_or(true);
        let record = Recording {
            id: id.clone(),
            screen: screen.id.clone(),
            status: String::from(supervisor::RECORDING),
            started_at: clock::now().iso8601(),
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
        let (store, file) = blocking(move || {
            let begun = store.write_record(&noted).and_then(|()| {
                if timeline { store.create(&noted.id, RecordingFile::Timeline).map(Some) } else { Ok(None) }
            });
            match begun {
                Ok(file) => Ok((store, file)),
                Err(error) => {
                    store.remove(&noted.id)?;
                    Err(error)
                }
            }
        })
        .await?;
        let recording = Arc::new(RecordingState::running(record, began));
        let timeline_task = file.map(|file| Timeline::start(file, began, &setup.tasks));
        {
            let mut table = self.lock();
            table
                .running
                .insert(screen.id.clone(), timeline_task.as_ref().map(|(timeline, _)| Arc::clone(timeline)));
            table.recordings.push(Arc::clone(&recording));
        }
        reservation.committed = true;
        let answer = recording.record();
        let max_length = Duration::from_secs(max_length.into());
        let supervisor = supervisor::RecordingSupervisor {
            shared: Arc::clone(&self),
            recording,
            screen,
            store: Arc::new(store),
            max_length,
        };
        let _task = setup.tasks.spawn("recording", supervisor.run(encoder, timeline_task));
        Ok(answer)
    }

    fn reserve_screen(&self, screen: &Screen) -> Result<ScreenReservation<'_>> {
        let mut table = self.lock();
        if table.running.contains_key(&screen.id) {
            let message = format!("Screen {} is being recorded already", screen.id);
            return Err(Error::conflict(message).code(ErrorCode::AlreadyRecording));
        }
        table.running.insert(screen.id.clone(), None);
        Ok(ScreenReservation { shared: self, screen: screen.id.clone(), committed: false })
    }

    /// Reserves space for one more recording and creates its video file.
    fn create_video(&self) -> Result<(RecordingStore, String, std::fs::File)> {
        let store = RecordingStore::open(&self.setup.home, Parents::Create)?;
        if !self.free_space(1)? {
            let message = "The running recordings use the whole space for recordings; stop one first";
            return Err(Error::unavailable(message).code(ErrorCode::RecordingsFull));
        }
        if store.free()? < self.setup.limits.min_free {
            return Err(disk_full());
        }
        let id = loop {
            let id = store::new_id();
            if self.find(&id).is_err() {
                break id;
            }
        };
        let video = store.create(&id, RecordingFile::Video)?;
        Ok((store, id, video))
    }

    /// Removes the oldest ended recordings until `coming` more fit; returns whether the limits hold then.
    fn free_space(&self, coming: usize) -> Result<bool> {
        let all: Vec<Recording> = self.lock().recordings.iter().map(|recording| recording.record()).collect();
        let share = |record: &Recording| StoredRecording {
            bytes: record.size_bytes,
            running: record.status == supervisor::RECORDING,
        };
        let shares: Vec<StoredRecording> = all.iter().map(share).collect();
        let (gone, fits) = retention::to_remove(&shares, self.setup.limits, coming);
        for record in gone.into_iter().filter_map(|at| all.get(at)) {
            tracing::info!(id = record.id, "removed an old recording to free space");
            self.remove(&record.id)?;
        }
        Ok(fits)
    }

    fn remove(&self, id: &str) -> Result<()> {
        RecordingStore::open(&self.setup.home, Parents::Required)?.remove(id)?;
        self.lock().recordings.retain(|recording| recording.id() != id);
        Ok(())
    }

    fn find(&self, id: &str) -> Result<Arc<RecordingState>> {
        let found = self.lock().recordings.iter().find(|recording| recording.id() == id).cloned();
        found.ok_or_else(|| Error::not_found("No such recording"))
    }

    fn lock(&self) -> MutexGuard<'_, RecordingTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RecordingState {
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

    /// Current record.
    fn record(&self) -> Recording {
        let mut record = self.lock().clone();
        if let Some(began) = *self.began.lock().unwrap_or_else(PoisonError::into_inner) {
            record.seconds = rounded(began.elapsed());
        }
        record
    }

    /// Changes the record.
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

/// Seconds, rounded to milliseconds.
fn rounded(time: Duration) -> f64 {
    (time.as_secs_f64() * 1000.0).round() / 1000.0
}

fn within(value: u32, range: std::ops::RangeInclusive<u32>, name: &str) -> Result<u32> {
    let message = || format!("{name} must be {} to {}", range.start(), range.end());
    if range.contains(&value) { Ok(value) } else { Err(Error::invalid(message())) }
}

/// Error for a full disk.
fn disk_full() -> Error {
    Error::unavailable("The computer's disk is too full to record").code(ErrorCode::DiskFull)
}
