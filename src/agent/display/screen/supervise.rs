//! Who keeps a screen alive? One task per screen.
//!
//! ```text
//!            X answers        window manager
//! Starting ------------> ... ----------------> Ready
//!    ^                                           |  X server or its connection ends
//!    +------------- growing pause ---------------+
//! stop: session ended, X server ended -> Ended
//! ```
//! A session that ends while its X server lives is started again alone: the programs on the screen are not its to
//! take down.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::time::MissedTickBehavior;
use x11rb::protocol::xproto::{AtomEnum, ConnectionExt as _};

use super::fault::Outcome;
use super::screen::{Phase, Screen};
use super::seat::{self, Seat, Seated};
use super::session::Running;
use super::xserver::Server;
use hotdesk_base::backoff::Backoff;
use hotdesk_base::tasks::Tasks;
use hotdesk_base::wait;

/// How long an X server may take until it answers; 0.1 s is usual, a loaded host takes seconds.
const X_START_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a window manager may take to announce itself; after that the screen is used without.
const WM_TIMEOUT: Duration = Duration::from_secs(10);
/// First pause before a restart.
const LEAST_PAUSE: Duration = Duration::from_millis(100);
/// Longest pause before a restart: a screen that cannot start costs next to nothing, and is back soon after it can.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// A life this long forgives the short ones before.
const LONG_LIFE: Duration = Duration::from_secs(30);
/// How often an idle screen is looked at: reads what the server told and finds out that it no longer answers.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// What a supervisor works with.
pub(super) struct Supervisor {
    pub(super) screen: Arc<Screen>,
    /// Whether the X server is ours to start.
    pub(super) own: bool,
    pub(super) session: Option<PathBuf>,
    pub(super) session_dir: PathBuf,
    pub(super) runtime_dir: PathBuf,
    pub(super) tasks: Tasks,
}

impl Supervisor {
    /// Keeps the screen until it is asked to stop.
    pub(super) async fn keep(self) {
        let mut backoff = Backoff::new(LEAST_PAUSE, LONGEST_PAUSE, LONG_LIFE);
        while !self.screen.stop.is_cancelled() {
            let began = Instant::now();
            let why = self.live().await;
            self.screen.phase.send_replace(Phase::Starting);
            if self.screen.stop.is_cancelled() {
                break;
            }
            let pause = backoff.after(began.elapsed());
            tracing::warn!(screen = self.screen.id, why, ?pause, "screen is down, starting it again");
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.screen.stop.cancelled() => {}
            }
        }
        self.screen.phase.send_replace(Phase::Ended);
    }

    /// One life of the screen; returns why it ended.
    async fn live(&self) -> String {
        let mut server = None;
        if self.own {
            let size = self.screen.wanted();
            match Server::start(self.screen.display, size, &self.runtime_dir, &self.tasks).await {
                Ok(started) => server = Some(started),
                Err(why) => return why,
            }
        }
        let mut session = None;
        let why = tokio::select! {
            why = self.serve(&mut session) => why,
            why = server_ended(&mut server) => why,
            () = self.screen.stop.cancelled() => String::from("asked to stop"),
        };
        self.screen.phase.send_replace(Phase::Starting);
        if let Some(session) = session {
            session.end().await;
        }
        if let Some(server) = server {
            server.end().await;
        }
        why
    }

    /// Serves for as long as the X server can be connected to; returns why it no longer can.
    async fn serve(&self, session: &mut Option<Running>) -> String {
        loop {
            let mut seated = match self.sit().await {
                Ok(seated) => seated,
                Err(why) => return why,
            };
            if session.is_none() && self.session.is_some() {
                *session = self.start_session().await;
                let announced = wait::until(WM_TIMEOUT, || announced(&seated));
                tokio::select! {
                    announced = announced => if announced.is_none() {
                        tracing::warn!(screen = self.screen.id, "no window manager announced itself");
                    },
                    why = session_ended(session) => tracing::warn!(screen = self.screen.id, why),
                }
            }
            self.screen.phase.send_replace(Phase::Ready(seated.jobs.clone()));
            let why = self.attend(&mut seated, session).await;
            self.screen.phase.send_replace(Phase::Starting);
            tracing::warn!(screen = self.screen.id, why, "connecting to the X server again");
            tokio::time::sleep(LEAST_PAUSE).await;
        }
    }

    /// Connects as soon as the X server answers.
    async fn sit(&self) -> Result<Seated, String> {
        let last = Mutex::new(String::new());
        let seated = wait::until(X_START_TIMEOUT, || async {
            let tried = seat::sit(self.screen.display, Arc::clone(&self.screen.size)).await;
            tried.map_err(|why| *last.lock().unwrap_or_else(PoisonError::into_inner) = why).ok()
        });
        let seated = seated.await;
        seated.ok_or_else(|| last.into_inner().unwrap_or_else(PoisonError::into_inner))
    }

    /// Looks after a ready screen until its connection ends.
    async fn attend(&self, seated: &mut Seated, session: &mut Option<Running>) -> String {
        let mut looks = tokio::time::interval(LOOK_EVERY);
        // A host that stood still is not to be looked after for every second of that.
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut backoff = Backoff::new(LEAST_PAUSE, LONGEST_PAUSE, LONG_LIFE);
        let mut began = Instant::now();
        loop {
            tokio::select! {
                ended = &mut seated.ended => {
                    return ended.unwrap_or_else(|_| String::from("the screen's thread panicked"));
                }
                why = session_ended(session) => {
                    let pause = backoff.after(began.elapsed());
                    tracing::warn!(screen = self.screen.id, why, ?pause, "starting the session again");
                    if let Some(old) = session.take() {
                        old.end().await;
                    }
                    tokio::time::sleep(pause).await;
                    began = Instant::now();
                    *session = self.start_session().await;
                }
                _ = looks.tick() => {
                    // Every piece of work begins with reading what the server told; this one has nothing more to do.
                    let (look, _, _answer) = seat::job(|_, _| Ok(()));
                    // A full queue has work to do anyhow, a closed one is noticed above.
                    let _ = seated.jobs.try_send(look);
                }
            }
        }
    }

    async fn start_session(&self) -> Option<Running> {
        let (screen, folder) = (&self.screen, self.session.as_ref()?);
        let display = screen.display_name();
        let started =
            Running::start(folder, &self.session_dir, &screen.id, &display, screen.default, &self.tasks);
        match started.await {
            Ok(running) => Some(running),
            Err(why) => {
                tracing::error!(screen = screen.id, why);
                None
            }
        }
    }
}

async fn server_ended(server: &mut Option<Server>) -> String {
    match server {
        Some(server) => server.ended().await,
        None => std::future::pending().await,
    }
}

async fn session_ended(session: &mut Option<Running>) -> String {
    match session {
        Some(session) => session.ended().await,
        None => std::future::pending().await,
    }
}

/// Whether a window manager has announced itself and listens; `None` while not.
async fn announced(seated: &Seated) -> Option<()> {
    let (job, begun, answered) =
        seat::job(|seat, _| Ok(seat.has_window_manager()? && seat.manager_listens()?));
    seated.jobs.send(job).await.ok()?;
    begun.await.ok()?;
    matches!(answered.await, Ok(Ok(true))).then_some(())
}

impl Seat {
    /// EWMH: the root names a window, and that window names itself; a manager that died leaves only the former.
    fn has_window_manager(&mut self) -> Outcome<bool> {
        let atom = self.link.intern_atom(false, b"_NET_SUPPORTING_WM_CHECK")?.reply()?.atom;
        let named = |window| -> Outcome<Option<u32>> {
            let property = self.link.get_property(false, window, atom, AtomEnum::WINDOW, 0, 1)?.reply()?;
            Ok(property.value32().and_then(|mut values| values.next()))
        };
        let Some(check) = named(self.root)? else { return Ok(false) };
        Ok(named(check)? == Some(check))
    }
}
