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
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use serde_json::{Map, Value, json};
use tokio::sync::{Mutex, broadcast};
use tokio_util::sync::CancellationToken;

use crate::display::desktop::Desktop;
use crate::files::blocking;
use hotdesk_base::step_error::StepError;
use hotdesk_base::tasks::Tasks;
use hotdesk_domain::computer::template::build::PROGRAMS_FILE;
use hotdesk_domain::computer::template::hook::{AWAITED, EVERY_BOOT, FIRST_BOOT, RESUME};
use hotdesk_domain::error::{Error, Result};
use hotdesk_http::feed::Feed;
use hotdesk_wire::agent::{GuestRequestOutcome, GuestRequestQuery, GuestRequests};
use hotdesk_wire::programs::service::{
    HookStatus, ServiceList, ServiceLog, ServiceProgram, TemplatePrograms,
};
use hotdesk_wire::programs::trigger::{FireTrigger, TriggerList, TriggerStatus};
use hotdesk_wire::template::health::RESTART_COMPUTER;
use hotdesk_wire::template::trigger::{Trigger, TriggerAction};

mod health;
mod hook;
mod logs;
mod metrics;
mod outbox;
mod probe;
mod runtime_files;
mod screens;
mod script;
mod script_run;
mod supervisor;
mod telemetry;
mod terminals;
mod triggers;

use health::HealthStates;
pub use logs::run_with_output;
use outbox::Outbox;
pub use screens::TemplateScreens;
pub use supervisor::Action;
use supervisor::{Supervisor, desktop_service, log_file};
use telemetry::Exporter;
use triggers::Triggers;

/// Hooks of a boot, in their order. The first one runs once for a disk.
const BOOT_HOOKS: [&str; 2] = [FIRST_BOOT, EVERY_BOOT];
/// Marks on the disk that the first boot is over.
const FIRST_BOOT_MARK: &str = "/var/lib/hotdesk/first-boot";
/// Marks that the controller has begun the template's programs. It has the text [`CHECK`] in the check of a build.
const BEGUN: &str = "begun";
const CHECK: &str = "check";
/// Marks that triggers were told of the boot.
const TOLD: &str = "boot-told";
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
            computer_events: broadcast::Sender::new(MAX_COMPUTER_EVENTS),
            screens: OnceLock::new(),
            stream_start: CancellationToken::new(),
            exporter: OnceLock::new(),
            running: Mutex::default(),
        };
        Self { parts: Arc::new(parts) }
    }

    /// Goes on with what the controller has begun in this boot, after another agent has ended.
    pub fn recover(&self) {
        if let Ok(text) = fs::read_to_string(self.parts.folder.join(BEGUN)) {
            self.spawn_boot(text == CHECK);
        }
    }

    /// Begins the hooks of the boot in the background; services start after them. A second call has no effect. A check of a
    /// build begins nothing that acts outside of the computer.
    ///
    /// # Errors
    /// `Internal` when the runtime folder cannot be written.
    pub async fn begin(&self, is_check: bool) -> Result<()> {
        let folder = self.parts.folder.clone();
        let is_new = blocking(move || {
            fs::create_dir_all(&folder).map_err(Error::internal)?;
            match fs::File::create_new(folder.join(BEGUN)) {
                Ok(mut file) => {
                    let text = if is_check { CHECK } else { "" };
                    file.write_all(text.as_bytes()).map(|()| true).map_err(Error::internal)
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
                Err(error) => Err(Error::internal(error)),
            }
        });
        if is_new.await? {
            self.spawn_boot(is_check);
        }
        Ok(())
    }

    /// Runs a hook in the background, if the template has it.
    pub fn begin_hook(&self, name: &'static str) {
        let services = self.clone();
        let work = async move {
            let _turn = services.parts.running.lock().await;
            if name == RESUME {
                services.parts.tell_triggers("resume", []);
            }
            match services.parts.programs().await {
                Ok(programs) => services.parts.run_hook(name, &programs).await,
                Err(error) => tracing::warn!(%error, "could not read the programs of the template"),
            }
        };
        let _task = self.parts.tasks.spawn("hook of the template", work);
    }

    /// Begins a hook that the service waits for, and returns its status; `None` when the template has no such hook.
    ///
    /// # Errors
    /// `NotFound` for another hook; `Internal` when the file of the programs cannot be read.
    pub async fn begin_awaited_hook(&self, name: &str) -> Result<Option<HookStatus>> {
        let name = awaited(name)?;
        let programs = self.parts.programs().await?;
        // Without the folder the template has not begun, and its hooks belong to another life of the disk.
        if !programs.hooks.contains_key(name) || !self.parts.folder.join(BEGUN).exists() {
            return Ok(None);
        }
        let status = hook::begun(name);
        self.parts.record_hook(&status);
        self.begin_hook(name);
        Ok(Some(status))
    }

    /// The status of a hook that the service waits for.
    ///
    /// # Errors
    /// `NotFound` for another hook.
    pub fn awaited_hook(&self, name: &str) -> Result<Option<HookStatus>> {
        Ok(self.parts.hook_result(awaited(name)?))
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

    fn spawn_boot(&self, is_check: bool) {
        let services = self.clone();
        let work = async move {
            let _turn = services.parts.running.lock().await;
            services.parts.end_lost_hooks().await;
            if let Err(error) = Parts::boot(&services.parts, is_check).await {
                tracing::error!(%error, "could not start the services of the template");
            }
        };
        let _task = self.parts.tasks.spawn("services of the template", work);
    }

    /// The services and the hooks.
    ///
    /// # Errors
    /// `Internal` when the file of the programs cannot be read.
    pub async fn list(&self) -> Result<ServiceList> {
        let programs = self.parts.programs().await?;
        let mut services = Vec::new();
        for service in all_services(&programs) {
            services.push(self.parts.supervisor.status(&service.name, log_file(&service)).await);
        }
        let health = programs.health.iter().map(|program| self.parts.health.of(&program.app)).collect();
        Ok(ServiceList { services, hooks: self.parts.hook_results(&programs), health })
    }

    /// Starts, stops or restarts a service, and returns all.
    ///
    /// # Errors
    /// `NotFound` for a service that the template does not have; `Conflict` when it does not follow.
    pub async fn act(&self, name: &str, action: Action) -> Result<ServiceList> {
        let service = self.service(name).await?;
        self.parts.supervisor.act(&service.name, action).await?;
        self.list().await
    }

    /// The last `bytes` of a service's output.
    ///
    /// # Errors
    /// `NotFound` for a service that the template does not have; `Invalid` for more than [`MAX_LOG_BYTES`].
    pub async fn log(&self, name: &str, bytes: Option<u64>) -> Result<ServiceLog> {
        let most = bytes.unwrap_or(LOG_BYTES);
        if !(1..=MAX_LOG_BYTES).contains(&most) {
            return Err(Error::invalid(format!("bytes must be 1 to {MAX_LOG_BYTES}")));
        }
        let path = log_file(&self.service(name).await?);
        blocking(move || match logs::tail(Path::new(&path), most) {
            Ok(log) => Ok(log),
            // It has written nothing yet.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Ok(ServiceLog { text: String::new(), truncated: false })
            }
            Err(error) => Err(Error::failed(format!("{path} cannot be read: {error}"))),
        })
        .await
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

    /// Records that the hooks failed which an earlier agent ran when it ended, so that nobody waits for them.
    async fn end_lost_hooks(&self) {
        for name in AWAITED {
            if let Some(status) = self.hook_result(name).filter(|status| status.status == "running") {
                hook::script_name(name).end_processes().await;
                self.record_hook(&HookStatus { status: "failed".to_owned(), ..status });
            }
        }
    }

    /// Runs the hooks, and starts everything else. In a check nothing acts outside of the computer: no collector, server or
    /// receiver hears of it.
    async fn boot(parts: &Arc<Self>, is_check: bool) -> Result<()> {
        let programs = parts.programs().await?;
        parts.write_files(&programs).await;
        if !is_check {
            telemetry::begin(parts, programs.telemetry.as_ref());
        }
        parts.run_boot_hooks(&programs).await?;
        if !(programs.services.is_empty() && programs.autostart.is_empty()) {
            let (supervisor, environment) = (parts.supervisor.clone(), parts.environment());
            let all = programs.clone();
            blocking(move || {
                supervisor.write(&all).map_err(Error::internal)?;
                let started = supervisor.start(&environment);
                started.map_err(|error| Error::failed(format!("s6-svscan cannot be started: {error}")))
            })
            .await?;
        }
        let prelude = parts.prelude(&programs);
        parts.start_terminals(&programs.terminals, &prelude).await;
        health::begin(parts, &programs.health, &prelude);
        if is_check {
            return Ok(());
        }
        triggers::begin(parts, &programs.triggers, &prelude);
        screens::begin(parts, &programs.streams);
        if !parts.is_done(TOLD) {
            parts.tell_triggers("boot", []);
            parts.mark_done(TOLD);
        }
        Ok(())
    }

    /// Whether a part of this boot is done, also by an earlier agent.
    fn is_done(&self, mark: &str) -> bool {
        self.folder.join(mark).exists()
    }

    fn mark_done(&self, mark: &str) {
        if let Err(error) = fs::write(self.folder.join(mark), "") {
            tracing::warn!(%error, mark, "a restart of the agent repeats a part of the template's boot");
        }
    }

    /// Tells triggers of an event of the computer.
    fn tell_triggers<const N: usize>(&self, event: &str, more: [(&str, Value); N]) {
        let fields = [("event", json!(event))].into_iter().chain(more);
        // Without triggers nobody receives it.
        let _ = self.computer_events.send(fields.map(|(name, value)| (name.to_owned(), value)).collect());
    }

    async fn run_boot_hooks(&self, programs: &TemplatePrograms) -> Result<()> {
        for name in BOOT_HOOKS {
            if name != FIRST_BOOT || !Path::new(FIRST_BOOT_MARK).exists() {
                // Not again after a restart of the agent, unless that ended it half-way.
                let earlier = self.hook_result(name);
                if earlier.as_ref().is_some_and(|result| result.status == "running") {
                    hook::script_name(name).end_processes().await;
                }
                if earlier.is_none_or(|result| result.status == "running") {
                    self.run_hook(name, programs).await;
                }
            }
            if name == FIRST_BOOT {
                mark_first_boot().map_err(Error::internal)?;
            }
        }
        Ok(())
    }

    /// Runs a hook and records its result.
    async fn run_hook(&self, name: &str, programs: &TemplatePrograms) {
        let Some(text) = programs.hooks.get(name) else { return };
        self.record_hook(&hook::begun(name));
        let script = format!("{}{text}\n", self.prelude(programs));
        let status = hook::run(name, &script, &self.environment(), &self.folder).await;
        self.record_hook(&status);
    }

    /// The assignments before scripts of the template: its variables with secrets.
    fn prelude(&self, programs: &TemplatePrograms) -> String {
        let none = BTreeMap::new();
        script::environment(script::pairs(&none), &programs.secret_env, &self.secrets_file)
    }

    fn record_hook(&self, status: &HookStatus) {
        let path = self.result_file(&status.name);
        let draft = path.with_extension("new");
        let written = serde_json::to_vec(status)
            .map_err(io::Error::other)
            .and_then(|text| fs::write(&draft, text))
            .and_then(|()| fs::rename(&draft, &path));
        if let Err(error) = written {
            tracing::warn!(%error, hook = status.name, "could not record the result of a hook");
        }
    }

    fn hook_result(&self, name: &str) -> Option<HookStatus> {
        serde_json::from_slice(&fs::read(self.result_file(name)).ok()?).ok()
    }

    fn hook_results(&self, programs: &TemplatePrograms) -> Vec<HookStatus> {
        programs.hooks.keys().filter_map(|name| self.hook_result(name)).collect()
    }

    fn result_file(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.json"))
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

/// The hook of this name that the service waits for.
fn awaited(name: &str) -> Result<&'static str> {
    let found = AWAITED.into_iter().find(|known| *known == name);
    found.ok_or_else(|| Error::not_found("There is no hook of that name that somebody waits for"))
}

/// The services, and the programs of the desktop as services.
fn all_services(programs: &TemplatePrograms) -> Vec<ServiceProgram> {
    let desktop = programs.autostart.iter().enumerate().map(|(at, program)| desktop_service(at, program));
    programs.services.iter().cloned().chain(desktop).collect()
}

fn mark_first_boot() -> Result<(), StepError> {
    let mark = Path::new(FIRST_BOOT_MARK);
    let failed = StepError::at(FIRST_BOOT_MARK);
    let made = mark.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(mark, ""));
    made.map_err(failed)
}
