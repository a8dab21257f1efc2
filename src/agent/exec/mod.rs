//! How are commands run? Bash and Python, to their end, in sessions and in the background, under one supervision: a
//! shim each, bounded output, deadlines that hold.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use uuid::Uuid;

use super::desktop::Desktop;
use hotdesk_base::tasks::Tasks;
use hotdesk_domain::error::{Error, Result};

pub mod bash;
mod command;
mod handover;
mod launch;
mod leftover;
mod output;
pub mod process;
pub mod python;
pub mod session;
pub mod shim;
mod streams;
mod surroundings;
mod talk;
pub mod terminal;
pub mod tree;

use command::{End, Finished};
use handover::Handed;
use leftover::Leftovers;
use surroundings::Surroundings;
use talk::Order;

/// Commands at once. Each may hold about 12 MB while it is answered (1.5 MiB of output, escaped for JSON; a third of
/// that in the usual case), so all of them stay within what the smallest computer can spare.
pub const MAX_COMMANDS: usize = 32;
/// The name of the mark in every command's environment, by which the remains of a command that killed its own shim
/// are found.
const MARK: &str = "HOTDESK_COMMAND";

/// Runs commands.
#[derive(Clone)]
pub struct Commands {
    slots: Arc<Semaphore>,
    tasks: Tasks,
    leftovers: Leftovers,
    home: PathBuf,
    desktop: Arc<dyn Desktop>,
}

/// What is to be run, before it has its environment.
struct Program {
    name: String,
    args: Vec<String>,
    text: Option<String>,
}

/// A program with its environment and its folder.
struct Prepared {
    order: Order,
    /// The entry of its environment by which its remains are found.
    marker: String,
}

impl Commands {
    /// Commands start in `home`, with a login's environment and that of the session.
    pub fn new(home: PathBuf, desktop: Arc<dyn Desktop>, tasks: Tasks) -> Self {
        let leftovers = Leftovers::new(tasks.clone());
        Self { slots: Arc::new(Semaphore::new(MAX_COMMANDS)), tasks, leftovers, home, desktop }
    }

    /// How many run to their end now.
    pub fn running(&self) -> usize {
        MAX_COMMANDS - self.slots.available_permits()
    }

    /// Runs a program to its end. When the returned future is dropped, as it is when a client hangs up, the program
    /// is killed with all that it started.
    ///
    /// # Errors
    /// `Unavailable` when [`MAX_COMMANDS`] run already or the agent is stopping; else as [`Self::prepare`].
    async fn run(
        &self,
        program: Program,
        surroundings: &Surroundings,
        stdin: Option<String>,
        timeout: Duration,
    ) -> Result<Finished> {
        let Ok(slot) = Arc::clone(&self.slots).try_acquire_owned() else {
            let message = format!("{MAX_COMMANDS} commands are running already");
            return Err(Error::unavailable(message).code("too_many_commands").retry_after(1));
        };
        let Prepared { order, marker } = self.prepare(program, surroundings)?;
        let handed = match &stdin {
            None => Handed::default(),
            Some(text) => Handed::text(text)
                .map_err(|error| Error::unavailable("stdin could not be kept").context(error))?,
        };
        drop(stdin);
        // The command lives in a task of its own: its end must be seen through even when nobody waits any more.
        let abandon = self.tasks.stopping().child_token();
        let _hang_up = abandon.clone().drop_guard();
        let leftovers = self.leftovers.clone();
        let running = self.tasks.spawn("command", async move {
            let finished = command::run(order, handed, marker, timeout, abandon, &leftovers).await;
            drop(slot);
            finished
        });
        let finished = match running.await {
            Ok(Some(Ok(finished))) => finished,
            Ok(Some(Err(error))) => {
                return Err(Error::unavailable("the command could not be started").context(error));
            }
            Ok(None) | Err(_) => return Err(Error::internal("the task of a command broke down")),
        };
        match finished.end {
            End::Abandoned => Err(Error::unavailable("the agent is stopping")),
            End::Itself(_) | End::TimedOut | End::Lost | End::NotStarted(_) => Ok(finished),
        }
    }

    /// Gives a program its folder and its environment.
    ///
    /// # Errors
    /// `Invalid` for surroundings that cannot be, `NotFound` for a screen that is not there, `Conflict` when the home
    /// folder is gone.
    fn prepare(&self, program: Program, surroundings: &Surroundings) -> Result<Prepared> {
        let folder = surroundings.folder(&self.home)?;
        let mut environment = self.environment(surroundings.screen.as_deref())?;
        environment.extend(surroundings.variables()?);
        let id = Uuid::new_v4().simple().to_string();
        let marker = format!("{MARK}={id}");
        environment.push((MARK.to_owned(), id));
        let order = Order {
            program: program.name,
            args: program.args,
            environment,
            directory: folder.to_string_lossy().into_owned(),
            text: program.text,
            terminal: false,
            stay: false,
        };
        Ok(Prepared { order, marker })
    }

    /// What a login has, then what the session adds.
    fn environment(&self, screen: Option<&str>) -> Result<Vec<(String, String)>> {
        let path = std::env::var("PATH")
            .unwrap_or_else(|_| String::from("/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"));
        let user = std::env::var("USER").unwrap_or_else(|_| String::from("root"));
        let mut all: Vec<(String, String)> = [
            ("HOME", self.home.to_string_lossy().into_owned()),
            ("PATH", path),
            ("USER", user.clone()),
            ("LOGNAME", user),
            ("SHELL", bash::SHELL.to_owned()),
            ("LANG", String::from("C.UTF-8")),
            ("TERM", String::from("xterm-256color")),
        ]
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect();
        if let Ok(zone) = std::env::var("TZ") {
            all.push(("TZ".to_owned(), zone));
        }
        all.extend(self.desktop.environment(screen)?);
        Ok(all)
    }
}

/// Reads a time-out in seconds.
///
/// # Errors
/// `Invalid` when it is not a number of the allowed range.
fn timeout(asked: Option<f64>, default: f64, allowed: impl Fn(f64) -> bool, rule: &str) -> Result<Duration> {
    let seconds = asked.unwrap_or(default);
    if !allowed(seconds) {
        return Err(Error::invalid(format!("timeout must be {rule}")).code("INVALID_REQUEST"));
    }
    Duration::try_from_secs_f64(seconds)
        .map_err(|error| Error::invalid("timeout must be a number of seconds").context(error))
}
