//! Background processes: those that `POST /processes` started, and the last ones that ended.
//!
//! Each runs below a shim that stays until all processes it started have ended, so that all of them can be
//! signalled and killed. All of them end with the agent. A process that must outlive the agent is started
//! with `POST /bash` and `&`.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nix::sys::signal::Signal;
use tokio::net::unix::pipe;
use tokio::sync::{Semaphore, oneshot, watch};
use tokio_util::sync::CancellationToken;

mod attachment;
mod control;
mod follow;
mod log;
mod supervisor;

pub use follow::ProcessOutput;

use super::{Commands, Program, bash};
use crate::exec::exec_context::ExecContext;
use crate::exec::shim::launch::ShimState;
use crate::exec::shim::shim_protocol::ProcessExit;
use hotdesk_base::clock;
use hotdesk_base::time::UnixMillis;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::error_code::ErrorCode;
use hotdesk_wire::programs::process::{Process as Record, StartProcess};
use log::{Log, SharedBudget, StreamSelection};

/// Most processes that run at once: each also needs two small helper processes.
pub const MAX_RUNNING: usize = 64;
/// Most processes in the list, running ones included; beyond it the oldest ended process is removed.
pub const MAX_REMEMBERED: usize = 128;
/// Most waiting readers of all processes: each may hold half a megabyte of output in transit.
const MAX_FOLLOWERS: usize = 64;
/// Longest name, in characters.
const MAX_NAME: usize = 128;
/// Most characters of a command in its record.
const MAX_COMMAND_CHARS: usize = 4096;
/// Most bytes of all arguments together; Linux passes at most 128 KiB in one string.
const MAX_ARGUMENTS: usize = 128 * 1024 - 1;
/// How long a program may take to start or to fail.
const START_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a deletion waits for the process to end; its processes are killed long before.
const END_TIMEOUT: Duration = Duration::from_secs(5);

/// The background processes; clones share one table.
#[derive(Clone)]
pub struct Processes(Arc<ProcessTable>);

struct ProcessTable {
    commands: Commands,
    budget: SharedBudget,
    followers: Arc<Semaphore>,
    /// Ordered by their start.
    processes: Mutex<BTreeMap<u64, Arc<BackgroundProcess>>>,
}

/// One background process.
pub struct BackgroundProcess {
    id: String,
    name: Option<String>,
    command: String,
    started_at: UnixMillis,
    /// Shared with all processes.
    followers: Arc<Semaphore>,
    state: Mutex<ProcessState>,
    log: Mutex<Log>,
    /// Incremented whenever the log changes.
    news: watch::Sender<u64>,
    stdin: tokio::sync::Mutex<Stdin>,
    /// Of an attached process: the offset in both streams before which all output was read.
    attached: Option<watch::Sender<u64>>,
    /// Cancelled to end the process.
    stop: CancellationToken,
    /// Cancelled when all its processes have ended.
    gone: CancellationToken,
}

#[derive(Default)]
struct ProcessState {
    shim: ShimState,
    shim_pid: i32,
    ended_at: Option<UnixMillis>,
    stdin: &'static str,
}

enum Stdin {
    None,
    Open(pipe::Sender),
    Closed,
}

impl Processes {
    /// Creates an empty table.
    pub fn new(commands: Commands) -> Self {
        Self(Arc::new(ProcessTable {
            commands,
            budget: SharedBudget::new(log::SHARED_BYTES),
            followers: Arc::new(Semaphore::new(MAX_FOLLOWERS)),
            processes: Mutex::default(),
        }))
    }

    /// Starts a program; on return it runs.
    ///
    /// # Errors
    /// `Invalid` for a bad request or a program that cannot be executed; `Unavailable` at [`MAX_RUNNING`]
    /// processes; `TimedOut` when the start takes too long; those of [`Commands::prepare`]. The process is
    /// not listed then.
    pub async fn start(&self, request: StartProcess) -> Result<Record> {
        let (program, command) = program(&request)?;
        let piped = match request.stdin.as_deref() {
            None | Some("none") => false,
            Some("pipe") => true,
            Some(_) => return Err(refused("stdin must be pipe or none")),
        };
        if request.name.as_ref().is_some_and(|name| name.chars().count() > MAX_NAME) {
            return Err(refused(&format!("name is longer than {MAX_NAME} characters")));
        }
        let context = ExecContext { cwd: request.cwd, env: request.env, screen: request.screen };
        let commands = &self.0.commands;
        let mut prepared = commands.prepare(program, &context)?;
        let attached = request.attached.unwrap_or(false);
        prepared.spec.stay = !attached;
        let (begun, outcome) = oneshot::channel();
        let process = {
            let mut processes = self.lock();
            reserve_entry(&mut processes)?;
            let failed = |error| Error::unavailable("the process could not be started").context(error);
            let started = supervisor::start(&commands.stock, piped, prepared.text.take()).map_err(failed)?;
            let id = loop {
                let id = format!("{:08x}", rand::random::<u32>());
                if processes.values().all(|process| process.id != id) {
                    break id;
                }
            };
            let process = Arc::new(BackgroundProcess {
                id,
                name: request.name,
                command: command.chars().take(MAX_COMMAND_CHARS).collect(),
                started_at: clock::now(),
                followers: Arc::clone(&self.0.followers),
                state: Mutex::new(ProcessState {
                    shim_pid: started.shim_pid(),
                    stdin: if piped { "open" } else { "none" },
                    ..ProcessState::default()
                }),
                log: Mutex::new(Log::new(&self.0.budget)),
                news: watch::Sender::new(0),
                stdin: tokio::sync::Mutex::new(started.stdin()?),
                attached: attached.then(|| watch::Sender::new(0)),
                stop: commands.tasks.stopping().child_token(),
                gone: CancellationToken::new(),
            });
            let number = processes.last_key_value().map_or(0, |(last, _)| last + 1);
            processes.insert(number, Arc::clone(&process));
            let (stock, drains) = (commands.stock.clone(), commands.drains.clone());
            let supervising =
                supervisor::supervise(Arc::clone(&process), started, prepared, begun, stock, drains);
            let _task = commands.tasks.spawn("background process", supervising);
            process
        };
        match tokio::time::timeout(START_TIMEOUT, outcome).await {
            Ok(Ok(Ok(()))) => Ok(process.record()),
            Ok(Ok(Err(error))) => {
                self.forget(&process);
                Err(refused(&format!("the program could not be started: {error}")))
            }
            Ok(Err(_)) => {
                self.forget(&process);
                Err(Error::unavailable("the process could not be started"))
            }
            Err(_) => {
                process.stop.cancel();
                self.forget(&process);
                Err(Error::timed_out("the process did not start in time"))
            }
        }
    }

    /// All processes, oldest first.
    pub fn list(&self) -> Vec<Record> {
        let all: Vec<Arc<BackgroundProcess>> = self.lock().values().cloned().collect();
        all.iter().map(|process| process.record()).collect()
    }

    /// Returns one process.
    ///
    /// # Errors
    /// `NotFound` when no process has that id.
    pub fn find(&self, id: &str) -> Result<Arc<BackgroundProcess>> {
        let found = self.lock().values().find(|process| process.id == id).cloned();
        found.ok_or_else(|| Error::not_found(format!("Process not found: {id}")))
    }

    /// Kills a process with all processes that it started, and removes it from the list.
    ///
    /// # Errors
    /// `NotFound`; `TimedOut` when some of its processes cannot be killed; it is removed from the list all
    /// the same.
    pub async fn delete(&self, id: &str) -> Result<()> {
        let process = self.find(id)?;
        process.stop.cancel();
        let ended = tokio::time::timeout(END_TIMEOUT, process.gone.cancelled()).await;
        self.forget(&process);
        ended.map_err(|_| Error::timed_out(format!("process {id} did not end in time")))
    }

    fn forget(&self, process: &BackgroundProcess) {
        self.lock().retain(|_, other| other.id != process.id);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<BackgroundProcess>>> {
        self.0.processes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Removes the oldest ended process when the list is full; an error at [`MAX_RUNNING`].
fn reserve_entry(processes: &mut BTreeMap<u64, Arc<BackgroundProcess>>) -> Result<()> {
    let running = processes.values().filter(|process| !process.gone.is_cancelled()).count();
    if running >= MAX_RUNNING {
        let message = format!("{MAX_RUNNING} background processes are running already");
        return Err(Error::unavailable(message).code(ErrorCode::TooManyProcesses));
    }
    while processes.len() >= MAX_REMEMBERED {
        let oldest = processes.iter().find(|(_, process)| process.gone.is_cancelled());
        let Some(number) = oldest.map(|(number, _)| *number) else { break };
        processes.remove(&number);
    }
    Ok(())
}

/// Returns the program of a request and the text that shows it.
fn program(request: &StartProcess) -> Result<(Program, String)> {
    match (&request.command, &request.argv) {
        (Some(command), None) => Ok((bash::program(command)?, command.clone())),
        (None, Some(argv)) => {
            let Some((name, args)) = argv.split_first().filter(|(name, _)| !name.is_empty()) else {
                return Err(refused("argv needs a program"));
            };
            if argv.iter().any(|arg| arg.contains('\0')) {
                return Err(refused("argv contains a NUL character"));
            }
            if argv.iter().map(|arg| arg.len() + 1).sum::<usize>() > MAX_ARGUMENTS {
                return Err(refused(&format!("argv is larger than {MAX_ARGUMENTS} bytes")));
            }
            Ok((Program { name: name.clone(), args: args.to_vec(), text: None }, argv.join(" ")))
        }
        (Some(_), Some(_)) | (None, None) => Err(refused("exactly one of command and argv is needed")),
    }
}

fn refused(message: &str) -> Error {
    Error::invalid(message).code(ErrorCode::InvalidRequest)
}

impl BackgroundProcess {
    /// Current state of the process.
    pub fn record(&self) -> Record {
        let (both, out, err) = {
            let log = self.log();
            let end = |selection| log.range(selection).1;
            (
                end(StreamSelection::Both),
                end(StreamSelection::One(crate::exec::output::streams::StdStream::Out)),
                end(StreamSelection::One(crate::exec::output::streams::StdStream::Err)),
            )
        };
        let state = self.state();
        let (status, exit_code, signal) = match state.shim.ended {
            Some(ProcessExit::Status(status)) => ("exited", Some(status), None),
            Some(ProcessExit::Signal(signal)) => ("killed", None, Some(signal)),
            // It killed its own shim, or the agent is stopping: in both cases it was killed.
            None if self.gone.is_cancelled() => ("killed", None, Some(Signal::SIGKILL as i32)),
            None => ("running", None, None),
        };
        Record {
            id: self.id.clone(),
            pid: state.shim.command.unwrap_or(0),
            name: self.name.clone(),
            command: self.command.clone(),
            status: status.to_owned(),
            exit_code,
            signal: signal.map(control::name),
            tree_running: !self.gone.is_cancelled(),
            stdin: state.stdin.to_owned(),
            started_at: self.started_at.iso8601(),
            ended_at: state.ended_at.map(UnixMillis::iso8601),
            output_bytes: both,
            stdout_bytes: out,
            stderr_bytes: err,
            followers: u32::try_from(self.news.receiver_count()).unwrap_or(u32::MAX),
        }
    }

    fn state(&self) -> MutexGuard<'_, ProcessState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the log and wakes its readers.
    fn write(&self, change: impl FnOnce(&mut Log)) {
        change(&mut self.log());
        self.news.send_modify(|count| *count = count.wrapping_add(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_names_a_command_or_a_program() {
        let asked = |command: Option<&str>, argv: Option<&[&str]>| {
            let argv = argv.map(|argv| argv.iter().map(|arg| (*arg).to_owned()).collect());
            program(&StartProcess { command: command.map(str::to_owned), argv, ..StartProcess::default() })
        };
        let (bash, shown) = asked(Some("echo hi"), None).unwrap();
        assert_eq!((bash.name.as_str(), &bash.args[1][..], &shown[..]), ("/bin/bash", "echo hi", "echo hi"));
        let (direct, shown) = asked(None, Some(&["ls", "-l", ""])).unwrap();
        assert_eq!((direct.name.as_str(), direct.args.len(), &shown[..]), ("ls", 2, "ls -l "));
        let long = "x".repeat(MAX_ARGUMENTS);
        let bad: [(Option<&str>, Option<&[&str]>); 7] = [
            (None, None),
            (Some("a"), Some(&["a"])),
            (None, Some(&[])),
            (None, Some(&[""])),
            (None, Some(&["a", "b\0"])),
            (None, Some(&["a", &long])),
            (Some("a\0"), None),
        ];
        for (command, argv) in bad {
            assert!(asked(command, argv).is_err(), "{command:?}");
        }
    }
}
