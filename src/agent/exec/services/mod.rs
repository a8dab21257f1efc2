//! Hooks and services of the template that a computer was launched from.
//!
//! ```text
//! begin --> files --> on_first_boot (once for a disk) --> on_every_boot --> services, programs of the desktop, terminals
//!                                                                       --> health checks --> actions
//! ```
//! The controller begins them after a boot, when the computer has its own identity. What was begun is recorded in
//! memory (`template` in the runtime folder), so that an agent that starts again goes on where the last one ended.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use futures_util::{Stream, StreamExt};
use serde_json::{Map, Value, json};
use tokio::sync::{Mutex, broadcast};
use tokio_util::sync::CancellationToken;

use crate::display::desktop::Desktop;
use crate::files::blocking;
use hotdesk_base::tasks::Tasks;
use hotdesk_domain::computer::template::build::PROGRAMS_FILE;
use hotdesk_domain::error::{Error, Result};
use hotdesk_http::feed::Feed;
use hotdesk_wire::agent::{GuestRequestOutcome, GuestRequestQuery, GuestRequests};
use hotdesk_wire::programs::service::{
    ServiceList, ServiceLog, ServiceLogEntry, ServiceProgram, TemplatePrograms,
};
use hotdesk_wire::programs::trigger::{FireTrigger, TriggerList, TriggerStatus};
use hotdesk_wire::template::health::RESTART_COMPUTER;
use hotdesk_wire::template::trigger::{Trigger, TriggerAction};

mod boot;
mod health;
mod hook;
mod logs;
mod metrics;
mod outbox;
mod prestart;
mod runtime_files;
mod screens;
mod script;
mod supervisor;
mod telemetry;
mod terminals;
mod triggers;

use boot::{BEGUN, STARTED};
use health::HealthStates;
use logs::{LogFollowers, OutputReader};
use outbox::Outbox;
pub use screens::TemplateScreens;
pub use supervisor::Action;
use supervisor::{Supervisor, desktop_service, log_file};
use telemetry::Exporter;
use triggers::Triggers;

/// Most bytes of the file of programs: a definition has at most 1 MiB, and its references may grow it to this.
const MAX_PROGRAMS_BYTES: u64 = 16 << 20;
/// Events of the computer that a trigger may not have read yet: they come one in a second at most.
const MAX_COMPUTER_EVENTS: usize = 16;
/// Most bytes of a log in one answer.
const MAX_LOG_BYTES: u64 = 1 << 20;
/// Bytes of a log in an answer by default.
const LOG_BYTES: u64 = 64 << 10;

/// Hooks and services; clones share them.
#[derive(Clone)]
pub struct Services {
    parts: Arc<Parts>,
}

struct Parts {
    /// Folder in memory of what was begun: scripts and results of hooks.
    folder: PathBuf,
    secrets_file: PathBuf,
    /// Folder of files with secrets.
    secret_files: PathBuf,
    supervisor: Supervisor,
    desktop: Arc<dyn Desktop>,
    tasks: Tasks,
    feed: Feed,
    health: HealthStates,
    outbox: Outbox,
    triggers: Triggers,
    followers: LogFollowers,
    /// Set once when this agent begins to write the logs of the services.
    output: OnceLock<OutputReader>,
    /// Events of the computer for triggers.
    computer_events: broadcast::Sender<Map<String, Value>>,
    /// Set once when the agent starts; never without screens.
    screens: OnceLock<Arc<dyn TemplateScreens>>,
    /// Cancelled when the stream that each boot begins is not wanted any more.
    stream_start: CancellationToken,
    /// Set once when telemetry begins.
    exporter: OnceLock<Arc<Exporter>>,
    /// Held while hooks run, so that each runs once at a time.
    running: Mutex<()>,
}

impl Services {
    /// Names the files of a runtime folder. `secrets_file` sets the computer's secrets as shell variables.
    pub fn new(
        runtime_dir: &Path,
        secrets_file: PathBuf,
        desktop: Arc<dyn Desktop>,
        feed: Feed,
        tasks: Tasks,
    ) -> Self {
        let supervisor = Supervisor::new(runtime_dir, secrets_file.clone());
        let parts = Parts {
            folder: runtime_dir.join("template"),
            secrets_file,
            secret_files: runtime_files::folder(runtime_dir),
            supervisor,
            desktop,
            tasks,
            feed,
            health: HealthStates::default(),
            outbox: Outbox::default(),
            triggers: Triggers::default(),
            followers: LogFollowers::default(),
            output: OnceLock::new(),
            computer_events: broadcast::Sender::new(MAX_COMPUTER_EVENTS),
            screens: OnceLock::new(),
            stream_start: CancellationToken::new(),
            exporter: OnceLock::new(),
            running: Mutex::default(),
        };
        Self { parts: Arc::new(parts) }
    }

    /// What the template asks of the service; waits for it.
    ///
    /// # Errors
    /// `Internal` when the file of the programs cannot be read.
    pub async fn requests(&self, query: &GuestRequestQuery) -> Result<GuestRequests> {
        let programs = self.parts.programs().await?;
        let has_webhook = |trigger: &Trigger| {
            trigger.actions.iter().any(|action| matches!(action, TriggerAction::Webhook { .. }))
        };
        let restarts = programs.health.iter().any(|health| health.on_fail == RESTART_COMPUTER);
        if !restarts && !programs.triggers.iter().any(has_webhook) {
            return Ok(GuestRequests { none_expected: true, ..GuestRequests::default() });
        }
        Ok(self.parts.outbox.read(query).await)
    }

    /// Takes the outcome of a request from the service.
    pub fn finish_request(&self, number: u64, outcome: GuestRequestOutcome) {
        self.parts.outbox.finish(number, outcome);
    }

    /// Forgets what waits to leave the computer, and the stream that has not begun, for a computer that continues from the memory
    /// of another one: they are that one's.
    pub fn forget_outgoing(&self) {
        self.parts.outbox.renew();
        // Before a template begins, the memory is that of a computer that was only booted.
        if self.parts.is_done(BEGUN) {
            self.parts.stream_start.cancel();
        }
        if let Some(exporter) = self.parts.exporter.get() {
            exporter.clear();
        }
    }

    /// Cancelled when the stream that each boot begins is not wanted any more.
    pub fn stream_start(&self) -> CancellationToken {
        self.parts.stream_start.clone()
    }

    /// The triggers of the template.
    pub fn triggers(&self) -> TriggerList {
        self.parts.triggers.list()
    }

    /// Runs the actions of a trigger for a person, and returns its state before.
    ///
    /// # Errors
    /// `NotFound` for a trigger that the template does not have; `TooManyRequests` when several such requests wait.
    pub fn fire(&self, name: &str, request: FireTrigger) -> Result<TriggerStatus> {
        self.parts.triggers.fire(name, request.event.unwrap_or_default())
    }

    /// The services and the hooks.
    ///
    /// # Errors
    /// `Internal` when the file of the programs, or the state of a service, cannot be read.
    pub async fn list(&self) -> Result<ServiceList> {
        let programs = self.parts.programs().await?;
        let all = all_services(&programs);
        let services =
            all.iter().map(|service| self.parts.supervisor.status(service)).collect::<Result<_>>()?;
        let health = programs.health.iter().map(|program| self.parts.health.of(&program.app)).collect();
        Ok(ServiceList { services, hooks: self.parts.hook_results(&programs), health })
    }

    /// Starts, stops or restarts a service, and returns all.
    ///
    /// # Errors
    /// `NotFound` for a service that the template does not have; `Conflict` before the services start, and when it does not
    /// follow.
    pub async fn act(&self, name: &str, action: Action) -> Result<ServiceList> {
        let service = self.service(name).await?;
        if !self.parts.is_done(STARTED) {
            return Err(Error::conflict("The services start after the hooks of the boot"));
        }
        self.parts.supervisor.act(&service.name, action).await?;
        self.list().await
    }

    /// The last `bytes` of a service's output, with what it wrote before the request.
    ///
    /// # Errors
    /// `NotFound` for a service that the template does not have; `Invalid` for more than [`MAX_LOG_BYTES`].
    pub async fn log(&self, name: &str, bytes: Option<u64>) -> Result<ServiceLog> {
        let most = bytes.unwrap_or(LOG_BYTES);
        if !(1..=MAX_LOG_BYTES).contains(&most) {
            return Err(Error::invalid(format!("bytes must be 1 to {MAX_LOG_BYTES}")));
        }
        let path = log_file(&self.service(name).await?);
        let output = self.parts.output.get().cloned();
        blocking(move || {
            if let Some(output) = output {
                output.flush();
            }
            match logs::tail(Path::new(&path), most) {
                Ok(log) => Ok(log),
                // It has written nothing yet.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    Ok(ServiceLog { text: String::new(), truncated: false })
                }
                Err(error) => Err(logs::unreadable(Path::new(&path), &error)),
            }
        })
        .await
    }

    /// The lines of the last `bytes` of a service's output, and those that follow until the file is removed or the agent stops.
    ///
    /// # Errors
    /// Those of [`Services::log`], except that `bytes` may be 0; `Unavailable` (`too_many_followers`) when too many clients follow.
    pub async fn follow_log(
        &self,
        name: &str,
        bytes: Option<u64>,
    ) -> Result<impl Stream<Item = Result<ServiceLogEntry>> + Send + use<>> {
        let most = bytes.unwrap_or(LOG_BYTES);
        if most > MAX_LOG_BYTES {
            return Err(Error::invalid(format!("bytes must be 0 to {MAX_LOG_BYTES} with follow")));
        }
        let path = PathBuf::from(log_file(&self.service(name).await?));
        let lines = self.parts.followers.follow(path, most).await?;
        Ok(lines.take_until(self.parts.tasks.stopping().cancelled_owned()))
    }

    async fn service(&self, name: &str) -> Result<ServiceProgram> {
        let programs = self.parts.programs().await?;
        let found = all_services(&programs).into_iter().find(|service| service.name == name);
        found.ok_or_else(|| {
            Error::not_found("This computer has no service of that name; GET services lists them")
        })
    }
}

impl Parts {
    /// The programs of the template; none without a template.
    async fn programs(&self) -> Result<TemplatePrograms> {
        blocking(|| match fs::File::open(PROGRAMS_FILE) {
            Ok(file) => {
                let read = serde_json::from_reader(io::BufReader::new(file.take(MAX_PROGRAMS_BYTES)));
                read.map_err(|error| {
                    Error::failed(format!("{PROGRAMS_FILE} of the computer is damaged: {error}"))
                })
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(TemplatePrograms::default()),
            Err(error) => Err(Error::failed(format!("{PROGRAMS_FILE} cannot be read: {error}"))),
        })
        .await
    }

    /// Tells triggers of an event of the computer.
    fn tell_triggers<const N: usize>(&self, event: &str, more: [(&str, Value); N]) {
        let fields = [("event", json!(event))].into_iter().chain(more);
        // Without triggers nobody receives it.
        let _ = self.computer_events.send(fields.map(|(name, value)| (name.to_owned(), value)).collect());
    }

    /// The assignments before scripts of the template: its variables with secrets.
    fn prelude(&self, programs: &TemplatePrograms) -> String {
        let none = BTreeMap::new();
        script::environment(script::pairs(&none), &programs.secret_env, &self.secrets_file)
    }

    /// Environment of hooks and services: that of a login, and that of the desktop with the template's variables.
    fn environment(&self) -> Vec<(String, String)> {
        let mut all = login_environment();
        match self.desktop.environment(None) {
            Ok(desktop) => all.extend(desktop),
            Err(error) => tracing::warn!(%error, "services start without the environment of the desktop"),
        }
        all
    }
}

/// Environment of a login of root.
fn login_environment() -> Vec<(String, String)> {
    let login = [
        ("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"),
        ("LANG", "C.UTF-8"),
        ("HOME", "/root"),
        ("USER", "root"),
        ("LOGNAME", "root"),
        ("SHELL", "/bin/bash"),
    ];
    login.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// The services, and the programs of the desktop as services.
fn all_services(programs: &TemplatePrograms) -> Vec<ServiceProgram> {
    let desktop = programs.autostart.iter().enumerate().map(|(at, program)| desktop_service(at, program));
    programs.services.iter().cloned().chain(desktop).collect()
}
