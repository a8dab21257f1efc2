//! Python sessions: processes that keep their variables between calls of `POST /exec`.
//!
//! A session executes one call at a time; further calls wait for a limited time. A session ends with all its
//! processes when a call times out or its client disconnects, after half an hour without a call, when it is
//! deleted, and with the agent.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio_util::sync::CancellationToken;

mod supervisor;

use super::command::CommandEnd;
use super::{Commands, Program};
use crate::exec::exec_context::ExecContext;
use crate::exec::output::CapturedOutput;
use crate::exec::shim::launch::ShimState;
use hotdesk_base::clock;
use hotdesk_base::time::UnixMillis;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::error_code::ErrorCode;
use hotdesk_wire::programs::exec::PythonSession;

/// Most sessions: an idle interpreter takes 10 MB, one with the usual libraries 100 MB.
pub const MAX_SESSIONS: usize = 8;
/// Default idle time after which a session ends.
pub const IDLE: Duration = Duration::from_secs(30 * 60);
/// Most calls of one session that wait; each holds its code.
const MAX_WAITING: usize = 8;
/// How long a call waits for its turn: less than the controller adds to a call's own timeout.
const TURN_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a deletion waits for the session to end; its processes are killed long before.
const END_TIMEOUT: Duration = Duration::from_secs(6);
/// Longest name in characters.
const MAX_NAME: usize = 64;
/// Script of a session's interpreter.
const RUNNER: &str = include_str!("session.py");

/// The sessions; clones share one table.
#[derive(Clone)]
pub struct Sessions(Arc<SessionTable>);

struct SessionTable {
    commands: Commands,
    idle: Duration,
    sessions: Mutex<BTreeMap<String, Arc<Session>>>,
}

/// A call of a session.
pub struct Call {
    /// Python source.
    pub code: String,
    /// Its standard input.
    pub stdin: Option<String>,
    /// Time after which it is killed.
    pub timeout: Duration,
}

/// Result of a call.
pub struct CallResult {
    /// Output since the end of the previous call.
    pub output: CapturedOutput,
    /// How the session ended, if it ended.
    pub end: Option<CommandEnd>,
    /// The session's report of the call's failure; empty without one, and when the session ended.
    pub result: String,
    /// Whether this call started the session.
    pub started: bool,
}

struct QueuedCall {
    call: Call,
    answer: oneshot::Sender<CallResult>,
}

struct Session {
    name: String,
    context: ExecContext,
    jobs: mpsc::Sender<QueuedCall>,
    turn: Semaphore,
    queue: Semaphore,
    shim: Mutex<ShimState>,
    used: Mutex<Usage>,
    started_at: UnixMillis,
    /// Cancelled to end the session.
    stop: CancellationToken,
    /// Cancelled when all its processes have ended.
    gone: CancellationToken,
}

#[derive(Clone, Copy)]
struct Usage {
    calls: u64,
    at: UnixMillis,
}

impl Sessions {
    /// Creates an empty table. A session ends after `idle` without a call.
    pub fn new(commands: Commands, idle: Duration) -> Self {
        Self(Arc::new(SessionTable { commands, idle, sessions: Mutex::default() }))
    }

    /// Runs code in a session; starts the session when there is none of that name.
    ///
    /// # Errors
    /// `Invalid` for a bad name; `Conflict` when the session has another `cwd`, `env` or `screen`, or ended
    /// while the call waited (`session_ended`); `Unavailable` when it stays busy (`session_busy`) or there
    /// are too many sessions; those of [`Commands::prepare`].
    pub(super) async fn run(&self, name: &str, context: ExecContext, call: Call) -> Result<CallResult> {
        check(name)?;
        let (session, started) = loop {
            let (session, started) = self.find_or_start(name, &context)?;
            if !session.jobs.is_closed() {
                break (session, started);
            }
            // The session is ending; the call starts a new one afterwards.
            if tokio::time::timeout(END_TIMEOUT, session.gone.cancelled()).await.is_err() {
                return Err(Error::timed_out(format!("session {name} did not end in time")));
            }
        };
        let busy = || {
            Error::unavailable(format!("session {name} is busy with other calls"))
                .code(ErrorCode::SessionBusy)
                .retry_after(1)
        };
        let _queued = session.queue.try_acquire().map_err(|_| busy())?;
        let turn = tokio::time::timeout(TURN_TIMEOUT, session.turn.acquire()).await;
        let _turn = turn.map_err(|_| busy())?.map_err(Error::internal)?;
        let over = || {
            let message = format!("session {name} ended while the call waited for its turn");
            Error::conflict(message).code(ErrorCode::SessionEnded)
        };
        let (answer, answered) = oneshot::channel();
        session.jobs.send(QueuedCall { call, answer }).await.map_err(|_| over())?;
        let ran = answered.await.map_err(|_| over())?;
        if ran.end == Some(CommandEnd::Abandoned) {
            return Err(Error::conflict(format!("session {name} was ended")).code(ErrorCode::SessionEnded));
        }
        Ok(CallResult { started, ..ran })
    }

    /// All sessions, sorted by name.
    pub fn list(&self) -> Vec<PythonSession> {
        self.lock().values().map(|session| session.record()).collect()
    }

    /// Ends a session with all its processes.
    ///
    /// # Errors
    /// `NotFound` when there is none of that name; `TimedOut` when some of its processes cannot be killed.
    pub async fn delete(&self, name: &str) -> Result<()> {
        let found = self.lock().get(name).cloned();
        let session = found.ok_or_else(|| Error::not_found(format!("Session not found: {name}")))?;
        session.stop.cancel();
        if tokio::time::timeout(END_TIMEOUT, session.gone.cancelled()).await.is_err() {
            return Err(Error::timed_out(format!("session {name} did not end in time")));
        }
        Ok(())
    }

    fn find_or_start(&self, name: &str, context: &ExecContext) -> Result<(Arc<Session>, bool)> {
        let mut sessions = self.lock();
        if let Some(session) = sessions.get(name) {
            if *context != ExecContext::default() && *context != session.context {
                let message = format!("session {name} was started with another cwd, env or screen");
                return Err(Error::conflict(message));
            }
            return Ok((Arc::clone(session), false));
        }
        if sessions.len() >= MAX_SESSIONS {
            let message = format!("there are {MAX_SESSIONS} sessions already: delete one");
            return Err(Error::unavailable(message).code(ErrorCode::TooManySessions));
        }
        let commands = &self.0.commands;
        let args = ["-u", "-c", RUNNER, "{control}"].map(str::to_owned).to_vec();
        let program = Program { name: String::from("python3"), args, text: None };
        let mut prepared = commands.prepare(program, context)?;
        // The shim then ends all remaining processes after the interpreter has ended.
        prepared.spec.stay = true;
        let failed = |error| Error::unavailable("the session could not be started").context(error);
        let started = supervisor::start(&commands.stock).map_err(failed)?;
        let (jobs, inbox) = mpsc::channel(1);
        let session = Arc::new(Session {
            name: name.to_owned(),
            context: context.clone(),
            jobs,
            turn: Semaphore::new(1),
            queue: Semaphore::new(1 + MAX_WAITING),
            shim: Mutex::default(),
            used: Mutex::new(Usage { calls: 0, at: clock::now() }),
            started_at: clock::now(),
            stop: commands.tasks.stopping().child_token(),
            gone: CancellationToken::new(),
        });
        sessions.insert(name.to_owned(), Arc::clone(&session));
        let supervising = supervisor::supervise(self.clone(), Arc::clone(&session), started, prepared, inbox);
        let _task = commands.tasks.spawn("python session", supervising);
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
            pid: self.shim().command,
            busy: self.turn.available_permits() == 0,
            calls: used.calls,
            started_at: self.started_at.iso8601(),
            used_at: used.at.iso8601(),
        }
    }

    fn shim(&self) -> MutexGuard<'_, ShimState> {
        self.shim.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn touch(&self, calls: u64) {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        *used = Usage { calls: used.calls + calls, at: clock::now() };
    }
}

/// Checks a session's name, which is a part of a path.
fn check(name: &str) -> Result<()> {
    let fine = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
    if name.is_empty() || name.len() > MAX_NAME || !name.bytes().all(fine) || [".", ".."].contains(&name) {
        let rule = format!("session must be 1 to {MAX_NAME} letters, digits, _, . or -");
        return Err(Error::invalid(rule).code(ErrorCode::InvalidRequest));
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
