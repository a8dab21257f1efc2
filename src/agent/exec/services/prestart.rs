//! Services that start before a launch: for a boot snapshot, from whose memory computers continue them
//! (docs/templates.md#prestart).

use std::fs;
use std::time::Duration;

use tokio::time::Instant;

use super::{Parts, all_services, health};
use hotdesk_domain::computer::prepared::services::{PRESTART_TIMEOUT, ServiceProgress, ServiceState};
use hotdesk_domain::error::{Error, Result};
use hotdesk_wire::programs::service::{ServiceProgram, TemplatePrograms};

/// Marks that these services were started: a boot that begins afterwards leaves them as they are.
pub(super) const PRESTARTED: &str = "services-prestarted";
/// Pause between two looks at the services: their states are files in memory.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

impl Parts {
    /// Whether a service was started before the boot began.
    pub(super) fn is_prestarted(&self, service: &ServiceProgram) -> bool {
        service.prestart && self.is_done(PRESTARTED)
    }

    /// Starts the services with `prestart`, whose supervisors run, and waits until they are up and healthy.
    /// Nothing else of the template begins: terminals, triggers, telemetry, streams and health checks with
    /// actions begin with the launch.
    ///
    /// # Errors
    /// `Conflict` when they are not up and healthy after [`PRESTART_TIMEOUT`], or never will be; `Internal`
    /// when their start cannot be recorded.
    pub(super) async fn prestart(&self, programs: &TemplatePrograms) -> Result<()> {
        let services: Vec<ServiceProgram> =
            all_services(programs).into_iter().filter(|service| service.prestart).collect();
        if services.is_empty() {
            return Ok(());
        }
        self.begin_logs(programs)?;
        let deadline = Instant::now() + PRESTART_TIMEOUT;
        if !self.is_done(PRESTARTED) {
            self.supervisor.bring_all_up(&services).await;
            // Without the mark a launch would start programs of the desktop again that have ended.
            let mark = self.folder.join(PRESTARTED);
            let marked = fs::create_dir_all(&self.folder).and_then(|()| fs::write(mark, ""));
            marked.map_err(Error::internal)?;
        }
        // A program with a delay counts as running while it waits.
        let delays = programs.autostart.iter().filter(|program| program.prestart).map(|it| it.delay_ms);
        let delay = Duration::from_millis(delays.max().unwrap_or_default());
        tokio::time::sleep(delay.min(PRESTART_TIMEOUT)).await;
        self.await_up(&services, deadline).await?;
        let prelude = self.prelude(programs);
        for program in programs.health.iter().filter(|program| program.prestart) {
            health::until_healthy(self, program, &prelude, deadline).await?;
        }
        // One that ended while the others were waited for would be down in every computer.
        self.await_up(&services, deadline).await
    }

    /// Waits until services are up.
    async fn await_up(&self, services: &[ServiceProgram], deadline: Instant) -> Result<()> {
        for service in services {
            loop {
                let status = self.supervisor.status(service)?;
                let state = ServiceState {
                    running_seconds: status.pid.map(|_| status.since_seconds),
                    exit_code: status.exit_code,
                    signal: status.signal,
                    restart: &service.restart,
                };
                let failed =
                    |why: &str| Error::conflict(format!("The service {} is not up: {why}", service.name));
                match state.progress() {
                    ServiceProgress::Up => break,
                    ServiceProgress::NotYet(why) if Instant::now() >= deadline => return Err(failed(&why)),
                    ServiceProgress::NotYet(_) => tokio::time::sleep(POLL_INTERVAL).await,
                    ServiceProgress::Never(why) => return Err(failed(&why)),
                }
            }
        }
        Ok(())
    }
}
