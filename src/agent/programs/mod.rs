//! Launch of detached programs on a screen.
//!
//! Each program leads its own session. It outlives the request and the agent; only the end of its screen ends
//! it.

use std::collections::{HashMap, HashSet};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::process::Child;
use tokio::sync::{Semaphore, watch};
use tokio::time::Instant;
use uuid::Uuid;

use crate::display::desktop::Desktop;
use crate::display::{Displays, Screen};
use crate::exec::child_exit;
use crate::exec::tree;
use hotdesk_base::tasks::Tasks;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::error_code::ErrorCode;
use hotdesk_wire::desktop::window::Window;
use hotdesk_wire::programs::program::{Launch, LaunchResult};

mod launch_matcher;
mod launch_request;

use launch_matcher::LaunchMatcher;
use launch_request::LaunchRequest;

/// Maximum of launched programs that run at a time; a screen is full long before.
const MAX_PROGRAMS: usize = 128;
/// Environment variable that holds the launch id. It attributes a window's process to the launch even when
/// the process has changed its session or lost its parent.
const MARK: &str = "HOTDESK_LAUNCH";
/// Environment variable that holds the screen's mark. It finds the programs to end when the screen ends.
const SCREEN_MARK: &str = "HOTDESK_LAUNCHED_ON";
/// Timeout for a window after the program ended with success. Such a program may have asked a running
/// instance to open the window; on a busy machine that takes less than this.
const HANDOVER_TIMEOUT: Duration = Duration::from_secs(5);
/// First and longest pause between two polls for a window. A program needs at least 50 ms to open one.
const PAUSES: [Duration; 2] = [Duration::from_millis(10), Duration::from_millis(100)];
/// Timeout for the programs of an ended screen to exit.
const END_TIMEOUT: Duration = Duration::from_secs(2);
/// Exit status of a shell that did not find the command.
const NOT_FOUND: i32 = 127;

/// Launcher of programs. Clones share its limits and its state.
#[derive(Clone)]
pub struct Programs {
    displays: Displays,
    desktop: Arc<dyn Desktop>,
    home: PathBuf,
    tasks: Tasks,
    slots: Arc<Semaphore>,
    /// Marks of the screens whose end is awaited, by display number.
    watched: Arc<Mutex<HashMap<u16, String>>>,
}

impl Programs {
    /// Returns a launcher whose programs start in `home`, with the environment of a login and of the session.
    pub fn new(displays: Displays, desktop: Arc<dyn Desktop>, home: PathBuf, tasks: Tasks) -> Self {
        let slots = Arc::new(Semaphore::new(MAX_PROGRAMS));
        Self { displays, desktop, home, tasks, slots, watched: Arc::default() }
    }

    /// Starts a program on a screen and waits for its first window, for at most `wait_seconds` of the
    /// request.
    ///
    /// # Errors
    /// `Invalid` when the request is malformed or there is no such program, folder or command; `NotFound`
    /// when there is no such screen; `Conflict` (`no_browser`) for a URL when no browser is installed;
    /// `Unavailable` (`too_many_commands`) when [`MAX_PROGRAMS`] run already; `Unavailable` when the X server
    /// does not answer. An error after the program has started has the code `outcome_unknown`; no other error
    /// leaves a program behind, except that of a command that bash did not find.
    pub async fn launch(&self, screen: Option<&str>, request: Launch) -> Result<LaunchResult> {
        let timeout = launch_request::window_timeout(request.wait_seconds)?;
        let screen = self.displays.screen(screen)?;
        let environment = self.environment(&screen)?;
        let request = LaunchRequest::parse(request, &self.home, environment)?;
        // This also fails when the screen is down; a program would start and fail later.
        let before: HashSet<String> = screen.windows().await?.into_iter().map(|window| window.id).collect();
        let id = Uuid::new_v4().simple().to_string();
        let (pid, ended) = self.start(&request, &id)?;
        if timeout.is_zero() {
            return Ok(LaunchResult { pid, window: None, exit_code: None });
        }
        let matcher = LaunchMatcher { pid, mark: format!("{MARK}={id}"), names: request.names(), before };
        // The program has started: an error of the screen must not look as if nothing was done.
        let waited = wait_for_window(&screen, &matcher, ended, timeout).await;
        let (window, ended) = waited.map_err(|error| error.code(ErrorCode::OutcomeUnknown))?;
        let exit_code = ended.map(exit_code).filter(|_| window.is_none());
        if request.shell && exit_code == Some(NOT_FOUND) {
            return Err(Error::invalid("bash did not find the command").number("exit_code", NOT_FOUND.into()));
        }
        Ok(LaunchResult { pid, window, exit_code })
    }

    /// Returns the environment of a login, then that of the session with the screen's display, then the
    /// screen's mark.
    fn environment(&self, screen: &Screen) -> Result<Vec<(String, String)>> {
        let variable_or =
            |name: &str, default: &str| std::env::var(name).unwrap_or_else(|_| default.to_owned());
        let user = variable_or("USER", "root");
        let path = variable_or("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
        let home = self.home.to_string_lossy().into_owned();
        let mut all: Vec<(String, String)> = [
            ("HOME", home),
            ("PATH", path),
            ("USER", user.clone()),
            ("LOGNAME", user),
            ("SHELL", String::from("/bin/bash")),
            ("LANG", String::from("C.UTF-8")),
        ]
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect();
        if let Ok(zone) = std::env::var("TZ") {
            all.push((String::from("TZ"), zone));
        }
        all.extend(self.desktop.environment(Some(&screen.id))?);
        all.push((SCREEN_MARK.to_owned(), self.watch(screen)));
        Ok(all)
    }

    /// Starts the program. Returns its process id and a receiver of its exit status.
    fn start(&self, request: &LaunchRequest, id: &str) -> Result<(u32, watch::Receiver<Option<ExitStatus>>)> {
        let Ok(slot) = Arc::clone(&self.slots).try_acquire_owned() else {
            let message =
                format!("{MAX_PROGRAMS} launched programs are running already; close one and try again");
            return Err(Error::unavailable(message).code(ErrorCode::TooManyCommands).retry_after(1));
        };
        let mut child = spawn(request, id)?;
        let pid = child.id().ok_or_else(|| Error::internal("a launched program has no process id"))?;
        let (status_sender, ended) = watch::channel(None);
        let stop = self.tasks.stopping();
        let _reaper = self.tasks.spawn("program", async move {
            tokio::select! {
                status = child_exit::wait(&mut child) => match status {
                    Ok(status) => drop(status_sender.send_replace(Some(status))),
                    Err(error) => tracing::warn!(%error, pid, "cannot reap a launched program"),
                },
                // The program outlives the agent; process 1 reaps it.
                () = stop.cancelled() => {}
            }
            drop(slot);
        });
        Ok((pid, ended))
    }

    /// Ends a screen's programs when the screen ends, also those without a connection to its X server.
    /// Returns the mark of these programs. A later screen of the same display has another mark.
    fn watch(&self, screen: &Screen) -> String {
        let number = screen.display;
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(mark) = watched.get(&number) {
            return mark.clone();
        }
        let mark = format!("{}/{}", screen.display_name(), Uuid::new_v4().simple());
        watched.insert(number, mark.clone());
        let (end, stop, watched) = (screen.ended_token(), self.tasks.stopping(), Arc::clone(&self.watched));
        let marker = Some(format!("{SCREEN_MARK}={mark}"));
        let _watch = self.tasks.spawn("programs of a screen", async move {
            tokio::select! {
                () = end.cancelled() => {}
                () = stop.cancelled() => return,
            }
            watched.lock().unwrap_or_else(PoisonError::into_inner).remove(&number);
            // No process has the parent -1: only the mark selects processes.
            let target = tree::Target { below: -1, session: None, marker };
            let ending = hotdesk_base::tasks::spawn_blocking(move || tree::end(&target, END_TIMEOUT));
            match ending.await {
                Ok(0) => {}
                Ok(left) => tracing::warn!(left, number, "programs of an ended screen have not exited yet"),
                Err(error) => tracing::error!(%error, number, "the task that ends a screen's programs failed; they may still run"),
            }
        });
        mark
    }
}

fn spawn(request: &LaunchRequest, id: &str) -> Result<Child> {
    let program = request.argv.first().map(String::as_str).unwrap_or_default();
    let path = request.environment.iter().rev().find(|(name, _)| name == "PATH");
    let found = launch_request::find_program(program, path.map_or("", |(_, path)| path), &request.directory);
    let found = found.ok_or_else(|| {
        let name = printable(program);
        Error::invalid(format!("There is no program {name}; install it or name another"))
    })?;
    let mut command = std::process::Command::new(&found);
    command.arg0(program).args(request.argv.iter().skip(1)).current_dir(&request.directory);
    command.env_clear().envs(request.environment.iter().map(|(name, value)| (name, value))).env(MARK, id);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // SAFETY: setsid is a system call and nothing else: async-signal-safe, and it allocates nothing.
    #[allow(unsafe_code)]
    unsafe {
        command.pre_exec(|| Ok(nix::unistd::setsid().map(drop)?));
    }
    let spawned = tokio::process::Command::from(command).spawn();
    spawned.map_err(|error| start_error(program, &found, &error))
}

fn start_error(program: &str, found: &Path, error: &std::io::Error) -> Error {
    let why = format!("{} cannot be started: {error}", printable(program));
    // EAGAIN (too many processes) and ENOMEM are no fault of the request: a retry may succeed.
    if [std::io::ErrorKind::WouldBlock, std::io::ErrorKind::OutOfMemory].contains(&error.kind()) {
        return Error::unavailable(why).retry_after(1);
    }
    Error::invalid(why).context(found.display())
}

/// Returns a requested name for an error text, without control characters and with at most 100 characters.
fn printable(name: &str) -> String {
    name.chars().filter(|c| !c.is_control()).take(100).collect()
}

/// Returns the exit code, or 128 + signal as shells report it.
fn exit_code(status: ExitStatus) -> i32 {
    status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(-1)
}

/// Polls for the window of a launch until it opens, can no longer open, or `timeout` passes.
async fn wait_for_window(
    screen: &Screen,
    matcher: &LaunchMatcher,
    mut ended: watch::Receiver<Option<ExitStatus>>,
    timeout: Duration,
) -> Result<(Option<Window>, Option<ExitStatus>)> {
    let mut deadline = Instant::now() + timeout;
    let [mut pause, longest] = PAUSES;
    let mut status = None;
    loop {
        // The status is read before the windows: all windows of an ended program are then in the list.
        let known = *ended.borrow_and_update();
        if let Some(window) = matcher.find_window(screen.windows().await?)
            && let Some(window) = screen.managed_window(&window.id).await?
        {
            return Ok((Some(window), known));
        }
        if status.is_none() && known.is_some() {
            status = known;
            let others_run = matcher.has_running_process().await;
            match known {
                Some(status) if !status.success() && !others_run => return Ok((None, known)),
                Some(_) if !others_run => deadline = deadline.min(Instant::now() + HANDOVER_TIMEOUT),
                Some(_) | None => {}
            }
        }
        let now = Instant::now();
        if now >= deadline {
            return Ok((None, status));
        }
        // The end of the program ends the pause early.
        let this_pause = pause.min(deadline - now);
        if status.is_some() {
            tokio::time::sleep(this_pause).await;
        } else {
            let _ = tokio::time::timeout(this_pause, ended.changed()).await;
        }
        pause = (pause * 3 / 2).min(longest);
    }
}
