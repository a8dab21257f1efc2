//! Supervisor of a screen: one task that starts and restarts it.
//!
//! ```text
//!            X answers        window manager, first windows
//! Starting ------------> ... -------------------------------> Ready
//!    ^                                                          |  X server or its connection ends
//!    +--------------------- growing pause ----------------------+
//! stop: session ended, X server ended -> Ended
//! ```
//! A session that ends while its X server runs is restarted alone, so that the programs on the screen
//! survive.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::time::MissedTickBehavior;
use x11rb::protocol::xproto::{AtomEnum, ConnectionExt as _};

use super::session::{RunningSession, initial_windows};
use super::x11_worker::{self, WorkerHandle, X11Worker};
use super::xserver::XServerProcess;
use super::{Phase, Screen};
use crate::display::fault::{Fault, Outcome};
use crate::display::link;
use hotdesk_base::backoff::Backoff;
use hotdesk_base::tasks::Tasks;
use hotdesk_base::wait;

/// Timeout of an X server's start; 0.1 s is usual, a loaded host takes seconds.
const X_START_TIMEOUT: Duration = Duration::from_secs(10);
/// Time in which such a server makes the path of its socket. One without it may still have the abstract name:
/// somebody removed the path, or it could not be made.
const SOCKET_TIMEOUT: Duration = Duration::from_secs(1);
/// Timeout of the window manager's announcement; after it the screen is used without one.
const WM_TIMEOUT: Duration = Duration::from_secs(10);
/// Timeout of the session's first windows after that. They take 0.3 s in a container and seconds in an
/// emulated machine.
const DESKTOP_TIMEOUT: Duration = Duration::from_secs(10);
/// First pause before a restart.
const MIN_PAUSE: Duration = Duration::from_millis(100);
/// Longest pause before a restart: a broken screen costs little then, and is back soon after it can start.
const MAX_PAUSE: Duration = Duration::from_secs(5);
/// A run of this length resets the pause.
const STABLE_AFTER: Duration = Duration::from_secs(30);
/// Interval of the probe of an idle screen, which reads pending X events and notices a silent server.
const PROBE_INTERVAL: Duration = Duration::from_secs(1);

/// The supervisor's inputs.
pub(in crate::display) struct ScreenSupervisor {
    pub(in crate::display) screen: Arc<Screen>,
    /// Whether the agent starts the X server.
    pub(in crate::display) own: bool,
    pub(in crate::display) session: Option<PathBuf>,
    pub(in crate::display) session_dir: PathBuf,
    pub(in crate::display) runtime_dir: PathBuf,
    pub(in crate::display) tasks: Tasks,
}

impl ScreenSupervisor {
    /// Runs the screen until it is stopped.
    pub(in crate::display) async fn run(self) {
        let mut backoff = Backoff::new(MIN_PAUSE, MAX_PAUSE, STABLE_AFTER);
        while !self.screen.stop.is_cancelled() {
            let began = Instant::now();
            let why = self.run_once().await;
            self.screen.phase.send_replace(Phase::Starting);
            if self.screen.stop.is_cancelled() {
                break;
            }
            let pause = backoff.after(began.elapsed());
            tracing::warn!(screen = self.screen.id, why, ?pause, "screen is down, restarting it");
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.screen.stop.cancelled() => {}
            }
        }
        self.screen.phase.send_replace(Phase::Ended);
    }

    /// Runs the X server and the session once; returns why they ended.
    async fn run_once(&self) -> String {
        let mut server = None;
        if self.own {
            let size = self.screen.wanted();
            match XServerProcess::start(self.screen.display, size, &self.runtime_dir, &self.tasks).await {
                Ok(started) => server = Some(started),
                Err(error) => return error.into(),
            }
        }
        let mut session = None;
        let why = tokio::select! {
            why = self.serve(&mut session) => why,
            why = server_ended(&mut server) => why,
            () = self.screen.stop.cancelled() => String::from("the screen is being ended"),
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

    /// Serves jobs while connections to the X server succeed; returns why the last one failed.
    async fn serve(&self, session: &mut Option<RunningSession>) -> String {
        loop {
            let mut handle = match self.connect().await {
                Ok(handle) => handle,
                Err(fault) => return format!("{fault:#}"),
            };
            if session.is_none() && self.session.is_some() {
                *session = self.start_session().await;
                tokio::select! {
                    () = self.wait_until_drawn(&handle) => {}
                    why = session_ended(session) => tracing::warn!(screen = self.screen.id, why, "the session ended while it started"),
                }
            }
            self.screen.phase.send_replace(Phase::Ready(handle.jobs.clone()));
            let why = self.watch_ready(&mut handle, session).await;
            self.screen.phase.send_replace(Phase::Starting);
            tracing::warn!(screen = self.screen.id, why, "lost the X connection, reconnecting");
            tokio::time::sleep(MIN_PAUSE).await;
        }
    }

    /// Waits for the window manager and for the windows that the session shows first. After a timeout the
    /// screen is used without them.
    async fn wait_until_drawn(&self, handle: &WorkerHandle) {
        let screen = &self.screen.id;
        if wait::until(WM_TIMEOUT, || announced(handle)).await.is_none() {
            tracing::warn!(
                screen,
                "no window manager announced itself in time; using the screen without one"
            );
            return;
        }
        // A further screen shows only what is started on it.
        if self.screen.default && !shown(handle, initial_windows(&self.session_dir)).await {
            tracing::warn!(
                screen,
                "the session did not draw its desktop in time; using the screen without it"
            );
        }
    }

    /// Waits until the X server accepts a connection.
    async fn connect(&self) -> Outcome<WorkerHandle> {
        let (last, began) = (Mutex::new(Fault::Silent), Instant::now());
        let handle = wait::until(X_START_TIMEOUT, || async {
            // An attempt takes a thread of its own, beside a server that starts.
            let may_start = self.own && began.elapsed() < SOCKET_TIMEOUT;
            if may_start && !link::socket_path(self.screen.display).exists() {
                return None;
            }
            let tried = x11_worker::start(self.screen.display, Arc::clone(&self.screen.size)).await;
            tried.map_err(|fault| *last.lock().unwrap_or_else(PoisonError::into_inner) = fault).ok()
        });
        let handle = handle.await;
        handle.ok_or_else(|| last.into_inner().unwrap_or_else(PoisonError::into_inner))
    }

    /// Watches a ready screen until its connection ends.
    async fn watch_ready(&self, handle: &mut WorkerHandle, session: &mut Option<RunningSession>) -> String {
        let mut probes = tokio::time::interval(PROBE_INTERVAL);
        // After a pause of the host, one probe is enough.
        probes.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut backoff = Backoff::new(MIN_PAUSE, MAX_PAUSE, STABLE_AFTER);
        let mut began = Instant::now();
        loop {
            tokio::select! {
                ended = &mut handle.ended => {
                    return ended.unwrap_or_else(|_| String::from("the screen's thread panicked"));
                }
                why = session_ended(session) => {
                    let pause = backoff.after(began.elapsed());
                    tracing::warn!(screen = self.screen.id, why, ?pause, "the session ended, restarting it");
                    if let Some(old) = session.take() {
                        old.end().await;
                    }
                    tokio::time::sleep(pause).await;
                    began = Instant::now();
                    *session = self.start_session().await;
                }
                _ = probes.tick() => {
                    // Every job begins by reading pending X events; this one does nothing else.
                    let (probe, _, _answer) = x11_worker::job(|_, _| Ok(()));
                    // A full queue reads the events anyway; a closed one ends the loop above.
                    let _ = handle.jobs.try_send(probe);
                }
            }
        }
    }

    async fn start_session(&self) -> Option<RunningSession> {
        let (screen, folder) = (&self.screen, self.session.as_ref()?);
        let display = screen.display_name();
        let started = RunningSession::start(
            folder,
            &self.session_dir,
            &screen.id,
            &display,
            screen.default,
            &self.tasks,
        );
        match started.await {
            Ok(running) => Some(running),
            Err(error) => {
                tracing::error!(
                    screen = screen.id,
                    why = format!("{error:#}"),
                    "could not start the session"
                );
                None
            }
        }
    }
}

async fn server_ended(server: &mut Option<XServerProcess>) -> String {
    match server {
        Some(server) => server.ended().await,
        None => std::future::pending().await,
    }
}

async fn session_ended(session: &mut Option<RunningSession>) -> String {
    match session {
        Some(session) => session.ended().await,
        None => std::future::pending().await,
    }
}

/// Whether a window manager announced itself and answers; `None` if not.
async fn announced(handle: &WorkerHandle) -> Option<()> {
    let (job, _start, answered) =
        x11_worker::job(|worker, _| Ok(worker.has_window_manager()? && worker.window_manager_responds()?));
    handle.jobs.send(job).await.ok()?;
    matches!(answered.await, Ok(Ok(true))).then_some(())
}

/// Waits until the screen shows windows of these kinds; false when it does not within [`DESKTOP_TIMEOUT`].
async fn shown(handle: &WorkerHandle, kinds: String) -> bool {
    let (job, _start, answered) =
        x11_worker::job(move |worker, cancelled| worker.wait_for_windows(&kinds, DESKTOP_TIMEOUT, cancelled));
    handle.jobs.send(job).await.is_ok() && matches!(answered.await, Ok(Ok(true)))
}

impl X11Worker {
    /// EWMH: the root window names a window, and that window names itself. A dead window manager leaves only
    /// the former.
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
