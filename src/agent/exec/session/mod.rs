//! Which Python sessions are there? Processes that keep their variables between the calls of `POST /exec`.
//!
//! One call of a session runs at a time, the next ones wait for a while. A session ends, with everything that it has
//! started, when a call reaches its time-out or its client hangs up, after half an hour without a call, when it is
//! deleted, and with the agent.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio_util::sync::CancellationToken;

mod keeper;

use super::command::End;
use super::launch::Told;
use super::output::Captured;
use super::surroundings::Surroundings;
use super::{Commands, Program};
use hotdesk_base::clock::{iso8601, now_ms};
use hotdesk_domain::error::{Error, Result};
use hotdesk_wire::exec::PythonSession;

/// Sessions at once: an idle interpreter is 10 MB, one with the usual libraries 100.
pub const MAX_SESSIONS: usize = 8;
/// A session without a call for this long is ended.
pub const IDLE: Duration = Duration::from_secs(30 * 60);
/// Calls of one session that may wait for their turn; each holds its code.
const MAX_WAITING: usize = 8;
/// How long a call waits for its turn: less than what a controller adds to a call's own time-out.
const TURN_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a deleted session is waited for; its processes are killed well before.
const END_TIMEOUT: Duration = Duration::from_secs(6);
/// Longest name.
const MAX_NAME: usize = 64;
/// What runs in a session's interpreter.
const RUNNER: &str = include_str!("session.py");

/// The sessions; clones are the same ones.
#[derive(Clone)]
pub struct Sessions(Arc<Room>);

struct Room {
    commands: Commands,
    idle: Duration,
    sessions: Mutex<BTreeMap<String, Arc<Session>>>,
}

/// What is to be run.
pub struct Call {
    /// Python source.
    pub code: String,
    /// What it reads from standard input.
    pub stdin: Option<String>,
    /// When it is killed.
    pub timeout: Duration,
}

/// What came of a call.
pub struct Ran {
    /// What was written since the last call's end.
    pub output: Captured,
    /// How the session ended, if it did.
    pub end: Option<End>,
    /// What the session told of the code's end.
    pub result: String,
    /// Whether this call started the session.
    pub started: bool,
}

struct Job {
    call: Call,
    answer: oneshot::Sender<Ran>,
}

struct Session {
    name: String,
    surroundings: Surroundings,
    jobs: mpsc::Sender<Job>,
    turn: Semaphore,
    queue: Semaphore,
    told: Mutex<Told>,
    used: Mutex<Used>,
    started_at: i64,
    /// Asks it to end.
    stop: CancellationToken,
    /// It has ended, with all that it started.
    gone: CancellationToken,
}

#[derive(Clone, Copy)]
struct Used {
    calls: u64,
    at: i64,
}

impl Sessions {
    /// None yet. Each ends after `idle` without a call.
    pub fn new(commands: Commands, idle: Duration) -> Self {
        Self(Arc::new(Room { commands, idle, sessions: Mutex::default() }))
    }

    /// Runs code in a session, which is started where there is none of that name.
    ///
    /// # Errors
    /// `Invalid` for a name that none can have; `Conflict` when the session has other surroundings, or ended while
    /// the call waited; `Unavailable` when it stays busy or there are too many; else as [`Commands::prepare`].
    pub(super) async fn run(&self, name: &str, surroundings: Surroundings, call: Call) -> Result<Ran> {
        check(name)?;
        let (session, started) = loop {
            let (session, started) = self.find_or_start(name, &surroundings)?;
            if !session.jobs.is_closed() {
                break (session, started);
            }
            // It is on its way out; what comes now begins anew.
            if tokio::time::timeout(END_TIMEOUT, session.gone.cancelled()).await.is_err() {
                return Err(Error::timed_out(format!("session {name} did not end in time")));
            }
        };
        let busy = || {
            Error::unavailable(format!("session {name} is busy with other calls"))
                .code("session_busy")
                .retry_after(1)
        };
        let _place = session.queue.try_acquire().map_err(|_| busy())?;
        let turn = tokio::time::timeout(TURN_TIMEOUT, session.turn.acquire()).await;
        let _turn = turn.map_err(|_| busy())?.map_err(Error::internal)?;
        let over = || {
            let message = format!("session {name} ended while the call waited for its turn");
            Error::conflict(message).code("session_ended")
        };
        let (answer, answered) = oneshot::channel();
        session.jobs.send(Job { call, answer }).await.map_err(|_| over())?;
        let ran = answered.await.map_err(|_| over())?;
        if ran.end == Some(End::Abandoned) {
            return Err(Error::conflict(format!("session {name} was ended")).code("session_ended"));
        }
        Ok(Ran { started, ..ran })
    }

    /// All sessions, by name.
    pub fn list(&self) -> Vec<PythonSession> {
        self.lock().values().map(|session| session.record()).collect()
    }

    /// Ends a session with everything that it started.
    ///
    /// # Errors
    /// `NotFound` when there is none of that name.
    pub async fn delete(&self, name: &str) -> Result<()> {
        let found = self.lock().get(name).cloned();
        let session = found.ok_or_else(|| Error::not_found(format!("Session not found: {name}")))?;
        session.stop.cancel();
        if tokio::time::timeout(END_TIMEOUT, session.gone.cancelled()).await.is_err() {
            return Err(Error::timed_out(format!("session {name} did not end in time")));
        }
        Ok(())
    }

    fn find_or_start(&self, name: &str, surroundings: &Surroundings) -> Result<(Arc<Session>, bool)> {
        let mut sessions = self.lock();
        if let Some(session) = sessions.get(name) {
            if *surroundings != Surroundings::default() && *surroundings != session.surroundings {
                let message = format!("session {name} was started with another cwd, env or screen");
                return Err(Error::conflict(message));
            }
            return Ok((Arc::clone(session), false));
        }
        if sessions.len() >= MAX_SESSIONS {
            let message = format!("there are {MAX_SESSIONS} sessions already: delete one");
            return Err(Error::unavailable(message).code("too_many_sessions"));
        }
        let commands = &self.0.commands;
        let args = ["-u", "-c", RUNNER, "{control}"].map(str::to_owned).to_vec();
        let program = Program { name: String::from("python3"), args, text: None };
        let mut prepared = commands.prepare(program, surroundings)?;
        // So that what it started can be ended with it when it has ended itself.
        prepared.order.stay = true;
        let failed = |error| Error::unavailable("the session could not be started").context(error);
        let started = keeper::start().map_err(failed)?;
        let (jobs, inbox) = mpsc::channel(1);
        let session = Arc::new(Session {
            name: name.to_owned(),
            surroundings: surroundings.clone(),
            jobs,
            turn: Semaphore::new(1),
            queue: Semaphore::new(1 + MAX_WAITING),
            told: Mutex::default(),
            used: Mutex::new(Used { calls: 0, at: now_ms() }),
            started_at: now_ms(),
            stop: commands.tasks.stopping().child_token(),
            gone: CancellationToken::new(),
        });
        sessions.insert(name.to_owned(), Arc::clone(&session));
        let keeping = keeper::keep(self.clone(), Arc::clone(&session), started, prepared, inbox);
        let _keeper = commands.tasks.spawn("python session", keeping);
        Ok((session, true))
    }

    fn forget(&self, session: &Session) {
        self.lock().remove(&session.name);
        session.gone.cancel();
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Session>>> {
        self.0.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Session {
    fn record(&self) -> PythonSession {
        let used = *self.used.lock().unwrap_or_else(PoisonError::into_inner);
        PythonSession {
            name: self.name.clone(),
            pid: self.told().command,
            busy: self.turn.available_permits() == 0,
            calls: used.calls,
            started_at: iso8601(self.started_at),
            used_at: iso8601(used.at),
        }
    }

    fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn touch(&self, calls: u64) {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        *used = Used { calls: used.calls + calls, at: now_ms() };
    }
}

/// Whether a session may be called so: the name is a part of a path.
fn check(name: &str) -> Result<()> {
    let fine = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
    if name.is_empty() || name.len() > MAX_NAME || !name.bytes().all(fine) || [".", ".."].contains(&name) {
        let rule = format!("session must be 1 to {MAX_NAME} letters, digits, _, . or -");
        return Err(Error::invalid(rule).code("INVALID_REQUEST"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn names_are_plain_parts_of_a_path() {
        let longest = "x".repeat(64);
        for good in ["a", "A-1_b.c", "...", &longest] {
            assert!(super::check(good).is_ok(), "{good}");
        }
        for bad in ["", ".", "..", "a/b", "a b", "ä", "a\0", "%2e", &"x".repeat(65)] {
            assert!(super::check(bad).is_err(), "{bad:?}");
        }
    }
}
