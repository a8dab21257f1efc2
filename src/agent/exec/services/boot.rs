//! Boot of the template's programs, in their order. What is begun is marked in the runtime folder.
//!
//! ```text
//! desktop --> prepare (only for a boot snapshot or the pool): supervisors of services that are down
//!             --> services that start before a launch
//!         --> begin --> hooks --> the same supervisors --> the other services up
//! ```

use std::fs;
use std::io::{self, Write};
use std::sync::Arc;

use super::prestart::PRESTARTED;
use super::{Parts, Services, all_services, health, screens, telemetry, triggers};
use crate::files::blocking;
use hotdesk_domain::error::{Error, Result};
use hotdesk_wire::programs::service::{ServiceProgram, TemplatePrograms};

/// Marks that the controller has begun the template's programs. It has the text [`CHECK`] in the check of a build.
pub(super) const BEGUN: &str = "begun";
const CHECK: &str = "check";
/// Marks that the services were started: an agent that starts again starts none that a person has stopped.
pub(super) const STARTED: &str = "services-started";
/// Marks that triggers were told of the boot.
const TOLD: &str = "boot-told";

impl Services {
    /// Goes on with what the controller has begun in this boot, after another agent has ended.
    pub fn recover(&self) {
        if let Ok(text) = fs::read_to_string(self.parts.folder.join(BEGUN)) {
            self.spawn_boot(text == CHECK);
        }
    }

    /// Starts the supervisors of the services, which are down until [`Self::begin`], and waits for them. The
    /// memory of a supervisor holds nothing that another computer must not have. With `prestart` services
    /// that start before a launch start, and this waits until they are up and healthy.
    ///
    /// # Errors
    /// `Internal` when they cannot be started; `Conflict` when one is not there, or not up and healthy, in
    /// time.
    pub async fn prepare(&self, prestart: bool) -> Result<()> {
        let _turn = self.parts.running.lock().await;
        let programs = self.parts.programs().await?;
        if !has_services(&programs) || self.parts.is_done(BEGUN) {
            return Ok(());
        }
        self.parts.start_supervisors(&programs).await?;
        self.parts.supervisor.await_supervisors(&all_services(&programs)).await?;
        if prestart { self.parts.prestart(&programs).await } else { Ok(()) }
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
}

impl Parts {
    /// Runs the hooks, and starts everything else. In a check nothing acts outside of the computer: no collector, server or
    /// receiver hears of it.
    async fn boot(parts: &Arc<Self>, is_check: bool) -> Result<()> {
        let programs = parts.programs().await?;
        let are_started = has_services(&programs) && parts.is_done(STARTED);
        if are_started {
            // Before all that may fail: they wait for a reader of their output.
            parts.begin_logs(&programs)?;
        }
        parts.write_files(&programs).await;
        if !is_check {
            telemetry::begin(parts, programs.telemetry.as_ref());
        }
        parts.run_boot_hooks(&programs).await?;
        if has_services(&programs) {
            parts.start_supervisors(&programs).await?;
            if !are_started {
                parts.begin_logs(&programs)?;
                let services = all_services(&programs).into_iter().filter(|it| !parts.is_prestarted(it));
                parts.supervisor.bring_all_up(&services.collect::<Vec<_>>()).await;
                parts.mark_done(STARTED);
            }
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

    /// Begins to write the logs of all services, unless this agent does. The caller holds the turn of the
    /// hooks.
    pub(super) fn begin_logs(&self, programs: &TemplatePrograms) -> Result<()> {
        // Two readers of one FIFO would tear its lines.
        if self.output.get().is_some() {
            return Ok(());
        }
        let output = self.supervisor.begin_logs(programs, &self.tasks).map_err(Error::internal)?;
        // The turn of the hooks keeps a second one out.
        let _first = self.output.set(output);
        Ok(())
    }

    /// Writes the scripts of the services, and starts their supervisors unless they run.
    async fn start_supervisors(&self, programs: &TemplatePrograms) -> Result<()> {
        let (supervisor, environment) = (self.supervisor.clone(), self.environment());
        let (programs, are_started) = (programs.clone(), self.is_done(STARTED));
        let are_prestarted = self.is_done(PRESTARTED);
        blocking(move || {
            let is_down = |it: &ServiceProgram| !(are_started || it.prestart && are_prestarted);
            supervisor.write(&programs, is_down).map_err(Error::internal)?;
            let started = supervisor.start(&environment);
            started.map_err(|error| Error::failed(format!("s6-svscan cannot be started: {error}")))
        })
        .await
    }

    /// Whether a part of this boot is done, also by an earlier agent.
    pub(super) fn is_done(&self, mark: &str) -> bool {
        self.folder.join(mark).exists()
    }

    /// Marks a part of this boot.
    pub(super) fn mark_done(&self, mark: &str) {
        if let Err(error) = fs::write(self.folder.join(mark), "") {
            tracing::warn!(%error, mark, "a restart of the agent repeats a part of the template's boot");
        }
    }
}

fn has_services(programs: &TemplatePrograms) -> bool {
    !(programs.services.is_empty() && programs.autostart.is_empty())
}
