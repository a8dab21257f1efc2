//! How are programs started on a screen? Detached: each leads a session of its own and lives on whatever becomes of the
//! request, and of the agent. Only the end of its screen ends it.

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

use super::desktop::Desktop;
use super::display::{Displays, Screen};
use super::exec::tree;
use super::reaped;
use hotdesk_base::tasks::Tasks;
use hotdesk_domain::error::{Error, Result};
use hotdesk_wire::program::{Launch, Launched};
use hotdesk_wire::window::Window;

mod order;
mod sight;

use order::Order;
use sight::Sight;

/// Programs that were launched and run; a screen is full long before.
const MAX_PROGRAMS: usize = 128;
/// The name of the mark in every program's environment: the launch's id. By it a window's process is known as the
/// launch's, whatever sessions and parents lie between.
const MARK: &str = "HOTDESK_LAUNCH";
/// The name of the mark that says on which screen, so that the programs of a screen end with it.
const SCREEN_MARK: &str = "HOTDESK_LAUNCHED_ON";
/// A program that ended well may have asked one that runs already to open the window; that takes it no longer, also on a busy
/// machine.
const HANDOVER_TIMEOUT: Duration = Duration::from_secs(5);
/// First and longest pause between two looks for a window: a program takes 50 ms at least.
const PAUSES: [Duration; 2] = [Duration::from_millis(10), Duration::from_millis(100)];
/// How long what is left of a screen's programs may take to die.
const END_TIMEOUT: Duration = Duration::from_secs(2);
/// Status of a shell that did not find the command.
const NOT_FOUND: i32 = 127;

/// Starts programs.
#[derive(Clone)]
pub struct Programs {
    displays: Displays,
    desktop: Arc<dyn Desktop>,
    home: PathBuf,
    tasks: Tasks,
    slots: Arc<Semaphore>,
    /// The marks of the screens whose end is waited for, by display.
    watched: Arc<Mutex<HashMap<u16, String>>>,
}

impl Programs {
    /// Programs start in `home`, with a login's environment and that of the session.
    pub fn new(displays: Displays, desktop: Arc<dyn Desktop>, home: PathBuf, tasks: Tasks) -> Self {
        let slots = Arc::new(Semaphore::new(MAX_PROGRAMS));
        Self { displays, desktop, home, tasks, slots, watched: Arc::default() }
    }

    /// Starts a program on a screen and waits for its first window.
    ///
    /// # Errors
    /// `Invalid` when there is no such program or folder; `Conflict` with code `no_browser` for a URL where none is
    /// installed; `Unavailable` when [`MAX_PROGRAMS`] run already, or the screen cannot be asked now.
    pub async fn launch(&self, screen: Option<&str>, request: Launch) -> Result<Launched> {
        let wait = order::wait(request.wait_seconds)?;
        let screen = self.displays.screen(screen)?;
        let environment = self.environment(&screen)?;
        let order = Order::parse(request, &self.home, environment)?;
        // Also tells whether the screen is up, which a program would only find out by failing.
        let before: HashSet<String> = screen.windows().await?.into_iter().map(|window| window.id).collect();
        let id = Uuid::new_v4().simple().to_string();
        let (pid, ended) = self.start(&order, &id)?;
        if wait.is_zero() {
            return Ok(Launched { pid, window: None, exit_code: None });
        }
        let sight = Sight { pid, mark: format!("{MARK}={id}"), names: order.names(), before };
        // It was started: nobody may take a screen that goes away now for "nothing was done".
        let waited = wait_for_window(&screen, &sight, ended, wait).await;
        let (window, ended) = waited.map_err(|error| error.code("outcome_unknown"))?;
        let exit_code = ended.map(code).filter(|_| window.is_none());
        if order.shell && exit_code == Some(NOT_FOUND) {
            return Err(Error::invalid("bash did not find the command").number("exit_code", NOT_FOUND.into()));
        }
        Ok(Launched { pid, window, exit_code })
    }

    /// What a login has, then what the session adds, with the screen's display.
    fn environment(&self, screen: &Screen) -> Result<Vec<(String, String)>> {
        let or = |name: &str, default: &str| std::env::var(name).unwrap_or_else(|_| default.to_owned());
        let user = or("USER", "root");
        let path = or("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
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

    /// Starts the program. What is returned besides its id becomes its status when it ends.
    fn start(&self, order: &Order, id: &str) -> Result<(u32, watch::Receiver<Option<ExitStatus>>)> {
        let Ok(slot) = Arc::clone(&self.slots).try_acquire_owned() else {
            let message = format!("{MAX_PROGRAMS} launched programs are running already");
            return Err(Error::unavailable(message).code("too_many_commands").retry_after(1));
        };
        let mut child = spawn(order, id)?;
        let pid = child.id().ok_or_else(|| Error::internal("a program without an id"))?;
        let (tell, ended) = watch::channel(None);
        let stop = self.tasks.stopping();
        let _reaper = self.tasks.spawn("program", async move {
            tokio::select! {
                status = reaped::ended(&mut child) => match status {
                    Ok(status) => drop(tell.send_replace(Some(status))),
                    Err(error) => tracing::warn!(%error, pid, "could not reap a program"),
                },
                // It lives on; process 1 reaps it.
                () = stop.cancelled() => {}
            }
            drop(slot);
        });
        Ok((pid, ended))
    }

    /// Sees to it that a screen's programs end with it, also those that never spoke to its X server. Returns the mark
    /// that they are known by; a later screen of the same display has another.
    fn watch(&self, screen: &Screen) -> String {
        let number = screen.display;
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(mark) = watched.get(&number) {
            return mark.clone();
        }
        let mark = format!("{}/{}", screen.display_name(), Uuid::new_v4().simple());
        watched.insert(number, mark.clone());
        let (end, stop, watched) = (screen.end(), self.tasks.stopping(), Arc::clone(&self.watched));
        let marker = Some(format!("{SCREEN_MARK}={mark}"));
        let _watch = self.tasks.spawn("programs of a screen", async move {
            tokio::select! {
                () = end.cancelled() => {}
                () = stop.cancelled() => return,
            }
            watched.lock().unwrap_or_else(PoisonError::into_inner).remove(&number);
            // -1 is nobody's parent: only the mark counts.
            let target = tree::Target { below: -1, session: None, marker };
            let ending = tokio::task::spawn_blocking(move || tree::end(&target, END_TIMEOUT));
            match ending.await {
                Ok(0) => {}
                Ok(left) => tracing::warn!(left, number, "programs of a screen are still dying"),
                Err(error) => tracing::error!(%error, number, "ending a screen's programs failed"),
            }
        });
        mark
    }
}

fn spawn(order: &Order, id: &str) -> Result<Child> {
    let program = order.argv.first().map(String::as_str).unwrap_or_default();
    let path = order.environment.iter().rev().find(|(name, _)| name == "PATH");
    let found = order::find(program, path.map_or("", |(_, path)| path), &order.directory);
    let found = found.ok_or_else(|| Error::invalid(format!("There is no program {}", shown(program))))?;
    let mut command = std::process::Command::new(&found);
    command.arg0(program).args(order.argv.iter().skip(1)).current_dir(&order.directory);
    command.env_clear().envs(order.environment.iter().map(|(name, value)| (name, value))).env(MARK, id);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // SAFETY: setsid is a system call and nothing else: async-signal-safe, and it allocates nothing.
    #[allow(unsafe_code)]
    unsafe {
        command.pre_exec(|| Ok(nix::unistd::setsid().map(drop)?));
    }
    let spawned = tokio::process::Command::from(command).spawn();
    spawned.map_err(|error| not_started(program, &found, &error))
}

fn not_started(program: &str, found: &Path, error: &std::io::Error) -> Error {
    let why = format!("{} could not be started: {error}", shown(program));
    // Too little memory or too many processes is no fault of the request.
    if [std::io::ErrorKind::WouldBlock, std::io::ErrorKind::OutOfMemory].contains(&error.kind()) {
        return Error::unavailable(why).retry_after(1);
    }
    Error::invalid(why).context(found.display())
}

/// A name from a request for an error's text.
fn shown(name: &str) -> String {
    name.chars().filter(|c| !c.is_control()).take(100).collect()
}

/// 128 + signal where a signal ended it, as shells have it.
fn code(status: ExitStatus) -> i32 {
    status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(-1)
}

/// Looks for the window of a launch until it is there, cannot come any more, or time is up.
async fn wait_for_window(
    screen: &Screen,
    sight: &Sight,
    mut ended: watch::Receiver<Option<ExitStatus>>,
    wait: Duration,
) -> Result<(Option<Window>, Option<ExitStatus>)> {
    let mut until = Instant::now() + wait;
    let [mut pause, longest] = PAUSES;
    let mut status = None;
    loop {
        // A status that was known before the look: what it left behind is then complete.
        let known = *ended.borrow_and_update();
        if let Some(window) = sight.find(screen.windows().await?) {
            return Ok((Some(window), known));
        }
        if status.is_none() && known.is_some() {
            status = known;
            let others_live = sight.lives().await;
            match known {
                Some(status) if !status.success() && !others_live => return Ok((None, known)),
                Some(_) if !others_live => until = until.min(Instant::now() + HANDOVER_TIMEOUT),
                Some(_) | None => {}
            }
        }
        let now = Instant::now();
        if now >= until {
            return Ok((None, status));
        }
        // Its end is news as well.
        let rest = pause.min(until - now);
        if status.is_some() {
            tokio::time::sleep(rest).await;
        } else {
            let _ = tokio::time::timeout(rest, ended.changed()).await;
        }
        pause = (pause * 3 / 2).min(longest);
    }
}
