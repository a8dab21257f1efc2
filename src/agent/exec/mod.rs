//! Execution of commands: bash and Python, to their end, in sessions and in the background.
//!
//! Each runs below a shim, with bounded output and a timeout.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use uuid::Uuid;

use crate::display::desktop::Desktop;
use hotdesk_base::tasks::Tasks;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::error_code::ErrorCode;

pub mod bash;
pub(crate) mod child_exit;
mod command;
mod exec_context;
mod output;
pub mod process;
pub mod python;
pub mod services;
pub mod session;
pub mod shim;
pub mod terminal;
pub mod tree;

use command::{CommandEnd, CommandResult};
use exec_context::ExecContext;
use output::drain::OutputDrains;
use shim::descriptors;
use shim::shim_protocol::CommandSpec;
use shim::stock::ShimStock;

/// Most commands at once. Each may hold about 12 MB while it is answered (1.5 MiB of output, escaped for
/// JSON; usually a third of that), so all of them fit in the smallest computer.
pub const MAX_COMMANDS: usize = 32;
/// Variable in every command's environment. It identifies the processes of a command that killed its own
/// shim.
const MARKER_VARIABLE: &str = "HOTDESK_COMMAND";

/// Runner of commands.
#[derive(Clone)]
pub struct Commands {
    slots: Arc<Semaphore>,
    tasks: Tasks,
    drains: OutputDrains,
    stock: ShimStock,
    home: PathBuf,
    desktop: Arc<dyn Desktop>,
}

/// Program of a request, without environment.
struct Program {
    name: String,
    args: Vec<String>,
    text: Option<String>,
}

/// Command with its environment and working folder.
struct PreparedCommand {
    spec: CommandSpec,
    /// Environment entry that identifies its processes.
    marker: String,
    /// Text of any length that the program reads from its `{text}`.
    text: Option<String>,
}

impl Commands {
    /// Commands start in `home`, with a login's environment and that of the desktop session.
    pub fn new(home: PathBuf, desktop: Arc<dyn Desktop>, tasks: Tasks) -> Self {
        let (drains, stock) = (OutputDrains::new(tasks.clone()), ShimStock::new(tasks.clone()));
        Self { slots: Arc::new(Semaphore::new(MAX_COMMANDS)), tasks, drains, stock, home, desktop }
    }

    /// Ends the processes that wait for the next command. A computer with another identity makes new ones.
    pub fn clear_stock(&self) {
        self.stock.clear();
    }

    /// Number of commands that run now, without sessions, background processes and terminals.
    pub fn running(&self) -> usize {
        MAX_COMMANDS - self.slots.available_permits()
    }

    /// Runs a program to its end. When the returned future is dropped (the client disconnects), the program
    /// is killed with all its processes.
    ///
    /// # Errors
    /// `Unavailable` when [`MAX_COMMANDS`] run already (`too_many_commands`), the program's processes cannot
    /// be started, or the agent is stopping; those of [`Self::prepare`].
    async fn run(
        &self,
        program: Program,
        context: &ExecContext,
        stdin: Option<String>,
        timeout: Duration,
    ) -> Result<CommandResult> {
        let Ok(slot) = Arc::clone(&self.slots).try_acquire_owned() else {
            let message = format!("{MAX_COMMANDS} commands are running already");
            return Err(Error::unavailable(message).code(ErrorCode::TooManyCommands).retry_after(1));
        };
        let prepared = self.prepare(program, context)?;
        let stdin = stdin
            .map(|text| descriptors::memory_file(&text))
            .transpose()
            .map_err(|error| Error::unavailable("stdin could not be stored").context(error))?;
        // The command runs in its own task: it must be ended properly also when the client has disconnected.
        let abandon = self.tasks.stopping().child_token();
        let _hang_up = abandon.clone().drop_guard();
        let (stock, drains) = (self.stock.clone(), self.drains.clone());
        let running = self.tasks.spawn("command", async move {
            let finished = command::run(prepared, stdin, timeout, abandon, &stock, &drains).await;
            drop(slot);
            finished
        });
        let finished = match running.await {
            Ok(Some(Ok(finished))) => finished,
            Ok(Some(Err(error))) => {
                return Err(Error::unavailable("the command could not be started").context(error));
            }
            Ok(None) | Err(_) => return Err(Error::internal("the task of a command failed")),
        };
        match finished.end {
            CommandEnd::Abandoned => Err(Error::unavailable("the agent is stopping")),
            CommandEnd::Exited(_) | CommandEnd::TimedOut | CommandEnd::Lost | CommandEnd::NotStarted(_) => {
                Ok(finished)
            }
        }
    }

    /// Adds the working folder and the environment to a program.
    ///
    /// # Errors
    /// `Invalid` for a bad folder or variable; `NotFound` for an unknown screen; `Conflict` when the home
    /// folder does not exist.
    fn prepare(&self, program: Program, context: &ExecContext) -> Result<PreparedCommand> {
        let folder = context.folder(&self.home)?;
        let mut environment = self.environment(context.screen.as_deref())?;
        environment.extend(context.variables()?);
        let id = Uuid::new_v4().simple().to_string();
        let marker = format!("{MARKER_VARIABLE}={id}");
        environment.push((MARKER_VARIABLE.to_owned(), id));
        let spec = CommandSpec {
            program: program.name,
            args: program.args,
            environment,
            directory: folder.to_string_lossy().into_owned(),
            terminal: false,
            stay: false,
        };
        Ok(PreparedCommand { spec, marker, text: program.text })
    }

    /// The environment of a login, then that of the desktop session.
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

/// Reads a timeout in seconds.
///
/// # Errors
/// `Invalid` when it is out of range.
fn timeout(
    requested: Option<f64>,
    default: f64,
    allowed: impl Fn(f64) -> bool,
    rule: &str,
) -> Result<Duration> {
    let seconds = requested.unwrap_or(default);
    if !allowed(seconds) {
        return Err(Error::invalid(format!("timeout must be {rule}")).code(ErrorCode::InvalidRequest));
    }
    Duration::try_from_secs_f64(seconds)
        .map_err(|error| Error::invalid("timeout must be a number of seconds").context(error))
}
