//! Which programs run in the background? Those that `POST /processes` started, and the last ones that ended.
//!
//! Each runs below a shim that stays until everything that it started has ended, so that all of it can be signalled
//! and killed. All of them end with the agent, however that goes: what shall outlive it is a matter of `bash` and `&`.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nix::sys::signal::Signal;
use tokio::net::unix::pipe;
use tokio::sync::{Semaphore, oneshot, watch};
use tokio_util::sync::CancellationToken;

mod follow;
mod keeper;
mod log;
mod steer;

pub use follow::Output;

use super::launch::Told;
use super::surroundings::Surroundings;
use super::talk::How;
use super::{Commands, Program, bash};
use hotdesk_base::clock::{iso8601, now_ms};
use hotdesk_domain::error::{Error, Result};
use hotdesk_wire::process::{Process as Record, StartProcess};
use log::{Log, Room, Which};

/// Processes whose trees run at once: each costs two small helpers beside its own.
pub const MAX_RUNNING: usize = 64;
/// Processes remembered, running ones included; past it the oldest that has ended is forgotten.
pub const MAX_REMEMBERED: usize = 128;
/// Readers that follow at once, of all processes: each may hold half a megabyte on its way out.
const MAX_FOLLOWERS: usize = 64;
/// Longest name, in characters.
const MAX_NAME: usize = 128;
/// Characters of a command that its record shows.
const SHOWN: usize = 4096;
/// Bytes of all arguments together; Linux passes 128 KiB in one string.
const MAX_ARGUMENTS: usize = 128 * 1024 - 1;
/// How long a program may take to start or fail.
const START_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a deleted process is waited for; its tree is killed well before.
const END_TIMEOUT: Duration = Duration::from_secs(5);

/// The background processes; clones are the same ones.
#[derive(Clone)]
pub struct Processes(Arc<Table>);

struct Table {
    commands: Commands,
    room: Room,
    followers: Arc<Semaphore>,
    /// By the order in which they were started.
    processes: Mutex<BTreeMap<u64, Arc<Process>>>,
}

/// One background process.
pub struct Process {
    id: String,
    name: Option<String>,
    command: String,
    started_at: i64,
    /// Its own followers are a part of the table's.
    followers: Arc<Semaphore>,
    state: Mutex<State>,
    log: Mutex<Log>,
    /// Counts up whenever something came to the log.
    news: watch::Sender<u64>,
    stdin: tokio::sync::Mutex<Stdin>,
    /// Asks it to end.
    stop: CancellationToken,
    /// Its tree has ended.
    gone: CancellationToken,
}

#[derive(Default)]
struct State {
    told: Told,
    shim: i32,
    ended_at: Option<i64>,
    stdin: &'static str,
}

enum Stdin {
    None,
    Open(pipe::Sender),
    Closed,
}

impl Processes {
    /// None yet.
    pub fn new(commands: Commands) -> Self {
        Self(Arc::new(Table {
            commands,
            room: Room::new(log::COMMON),
            followers: Arc::new(Semaphore::new(MAX_FOLLOWERS)),
            processes: Mutex::default(),
        }))
    }

    /// Starts a program; on return it runs.
    ///
    /// # Errors
    /// `Invalid` for a request that makes no sense or a program that is not there; `Unavailable` at the bounds; else
    /// as [`Commands::prepare`].
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
        let surroundings = Surroundings { cwd: request.cwd, env: request.env, screen: request.screen };
        let commands = &self.0.commands;
        let mut prepared = commands.prepare(program, &surroundings)?;
        prepared.order.stay = true;
        let (begun, outcome) = oneshot::channel();
        let process = {
            let mut processes = self.lock();
            make_room(&mut processes)?;
            let failed = |error| Error::unavailable("the process could not be started").context(error);
            let started = keeper::start(piped).map_err(failed)?;
            let id = loop {
                let id = format!("{:08x}", rand::random::<u32>());
                if processes.values().all(|process| process.id != id) {
                    break id;
                }
            };
            let process = Arc::new(Process {
                id,
                name: request.name,
                command: command.chars().take(SHOWN).collect(),
                started_at: now_ms(),
                followers: Arc::clone(&self.0.followers),
                state: Mutex::new(State {
                    shim: started.shim(),
                    stdin: if piped { "open" } else { "none" },
                    ..State::default()
                }),
                log: Mutex::new(Log::new(&self.0.room)),
                news: watch::Sender::new(0),
                stdin: tokio::sync::Mutex::new(started.stdin()?),
                stop: commands.tasks.stopping().child_token(),
                gone: CancellationToken::new(),
            });
            let number = processes.last_key_value().map_or(0, |(last, _)| last + 1);
            processes.insert(number, Arc::clone(&process));
            let keeping = keeper::keep(Arc::clone(&process), started, prepared, begun);
            let _keeper = commands.tasks.spawn("background process", keeping);
            process
        };
        match tokio::time::timeout(START_TIMEOUT, outcome).await {
            Ok(Ok(Ok(()))) => Ok(process.record()),
            Ok(Ok(Err(why))) => {
                self.forget(&process);
                Err(refused(&format!("the program could not be started: {why}")))
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
        let all: Vec<Arc<Process>> = self.lock().values().cloned().collect();
        all.iter().map(|process| process.record()).collect()
    }

    /// One process.
    ///
    /// # Errors
    /// `NotFound` for an id that none has.
    pub fn find(&self, id: &str) -> Result<Arc<Process>> {
        let found = self.lock().values().find(|process| process.id == id).cloned();
        found.ok_or_else(|| Error::not_found(format!("Process not found: {id}")))
    }

    /// Kills a process with everything that it started, and forgets it.
    ///
    /// # Errors
    /// `NotFound`; `TimedOut` when something of it cannot be killed.
    pub async fn delete(&self, id: &str) -> Result<()> {
        let process = self.find(id)?;
        process.stop.cancel();
        let ended = tokio::time::timeout(END_TIMEOUT, process.gone.cancelled()).await;
        self.forget(&process);
        ended.map_err(|_| Error::timed_out(format!("process {id} did not end in time")))
    }

    fn forget(&self, process: &Process) {
        self.lock().retain(|_, kept| kept.id != process.id);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Process>>> {
        self.0.processes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Refuses one too many, or forgets the oldest that has ended.
fn make_room(processes: &mut BTreeMap<u64, Arc<Process>>) -> Result<()> {
    let running = processes.values().filter(|process| !process.gone.is_cancelled()).count();
    if running >= MAX_RUNNING {
        let message = format!("{MAX_RUNNING} background processes are running already");
        return Err(Error::unavailable(message).code("too_many_processes"));
    }
    while processes.len() >= MAX_REMEMBERED {
        let oldest = processes.iter().find(|(_, process)| process.gone.is_cancelled());
        let Some(number) = oldest.map(|(number, _)| *number) else { break };
        processes.remove(&number);
    }
    Ok(())
}

/// What a request wants to run, and how it is shown.
fn program(request: &StartProcess) -> Result<(Program, String)> {
    match (&request.command, &request.argv) {
        (Some(command), None) => Ok((bash::program(command)?, command.clone())),
        (None, Some(argv)) => {
            let Some((name, args)) = argv.split_first().filter(|(name, _)| !name.is_empty()) else {
                return Err(refused("argv needs a program"));
            };
            if argv.iter().any(|arg| arg.contains('\0')) {
                return Err(refused("argv holds a NUL character"));
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
    Error::invalid(message).code("INVALID_REQUEST")
}

impl Process {
    /// How it is.
    pub fn record(&self) -> Record {
        let (both, out, err) = {
            let log = self.log();
            let end = |which| log.range(which).1;
            (
                end(Which::Both),
                end(Which::One(super::streams::Stream::Out)),
                end(Which::One(super::streams::Stream::Err)),
            )
        };
        let state = self.state();
        let (status, exit_code, signal) = match state.told.ended {
            Some(How::Status(status)) => ("exited", Some(status), None),
            Some(How::Signal(signal)) => ("killed", None, Some(signal)),
            // It killed its own shim, or its agent is stopping: either way it was killed.
            None if self.gone.is_cancelled() => ("killed", None, Some(Signal::SIGKILL as i32)),
            None => ("running", None, None),
        };
        Record {
            id: self.id.clone(),
            pid: state.told.command.unwrap_or(0),
            name: self.name.clone(),
            command: self.command.clone(),
            status: status.to_owned(),
            exit_code,
            signal: signal.map(steer::name),
            tree_running: !self.gone.is_cancelled(),
            stdin: state.stdin.to_owned(),
            started_at: iso8601(self.started_at),
            ended_at: state.ended_at.map(iso8601),
            output_bytes: both,
            stdout_bytes: out,
            stderr_bytes: err,
            followers: u32::try_from(self.news.receiver_count()).unwrap_or(u32::MAX),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the log and tells who follows it.
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
