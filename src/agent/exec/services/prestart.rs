//! Services that start before a launch: for a boot snapshot, from whose memory computers continue them
//! (docs/templates.md#prestart).

use std::fs;
use std::time::Duration;

use tokio::time::Instant;

use super::{Parts, all_services, health};
use hotdesk_domain::computer::prepared::services::{
    MAX_PRESTART_DELAY, PRESTART_TIMEOUT, ServiceProgress, ServiceRun, UP_SECONDS,
};
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
    /// `Conflict` when they are not up and healthy after [`PRESTART_TIMEOUT`], or never will be, and for a
    /// delay above [`MAX_PRESTART_DELAY`]; `Internal` when their start cannot be recorded.
    pub(super) async fn prestart(&self, programs: &TemplatePrograms) -> Result<()> {
        let services: Vec<ServiceProgram> =
            all_services(programs).into_iter().filter(|service| service.prestart).collect();
        if services.is_empty() {
            return Ok(());
        }
        let delays = programs.autostart.iter().filter(|program| program.prestart).map(|it| it.delay_ms);
        let delay = Duration::from_millis(delays.max().unwrap_or_default());
        if delay > MAX_PRESTART_DELAY {
            return Err(Error::conflict(
                "A program of autostart has too long a delay for a start before launches",
            ));
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
        // A program with a delay counts as running while it waits, and must be up for a time after it.
        if !delay.is_zero() {
            tokio::time::sleep(delay + Duration::from_secs(UP_SECONDS)).await;
        }
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
                let state = ServiceRun {
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

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{self, Read};
    use std::os::unix::fs::OpenOptionsExt;
    use std::path::PathBuf;
    use std::sync::Arc;

    use nix::sys::stat::Mode;

    use super::*;
    use crate::display::desktop::Headless;
    use crate::exec::services::Services;
    use hotdesk_base::tasks::Tasks;
    use hotdesk_http::feed::Feed;
    use hotdesk_wire::programs::service::HealthProgram;
    use hotdesk_wire::template::health::HealthProbe;

    /// Services whose supervisor the test is.
    struct Fixture {
        runtime: tempfile::TempDir,
        services: Services,
        control: File,
    }

    impl Fixture {
        fn new(programs: &TemplatePrograms) -> Self {
            let runtime = tempfile::tempdir().unwrap();
            let secrets = runtime.path().join("secrets.env");
            let (feed, tasks) = (Feed::new(), Tasks::new());
            let services = Services::new(runtime.path(), secrets, Arc::new(Headless), feed, tasks);
            services.parts.supervisor.write(programs, |_| true).unwrap();
            let supervise = runtime.path().join("services/early/supervise");
            fs::create_dir(&supervise).unwrap();
            let fifo = supervise.join("control");
            nix::unistd::mkfifo(&fifo, Mode::S_IRUSR | Mode::S_IWUSR).unwrap();
            let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
            let control = File::options().read(true).write(true).custom_flags(flags).open(fifo).unwrap();
            Self { runtime, services, control }
        }

        fn of(&self, name: &str) -> PathBuf {
            self.runtime.path().join("services").join(name)
        }

        /// Makes the state of the service `early` that of one which runs since 1970, or has ended with a code.
        fn set(&self, exit_code: Option<u8>) {
            let mut bytes = vec![0; 24];
            bytes.extend(u64::from(exit_code.is_none()).to_be_bytes());
            bytes.extend([exit_code.unwrap_or_default(), 0, 4]);
            fs::write(self.of("early").join("supervise/status"), bytes).unwrap();
            fs::write(self.of("early").join("session"), "1\n").unwrap();
        }

        /// Commands that the supervisor has received.
        fn commands(&mut self) -> Vec<u8> {
            let mut commands = Vec::new();
            match self.control.read_to_end(&mut commands) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => commands,
                other => panic!("{other:?}"),
            }
        }
    }

    fn program(name: &str, prestart: bool) -> ServiceProgram {
        ServiceProgram {
            name: name.to_owned(),
            run: "id".to_owned(),
            cwd: None,
            user: "root".to_owned(),
            env: Default::default(),
            secret_env: Default::default(),
            restart: "no".to_owned(),
            stop_signal: "SIGTERM".to_owned(),
            log: Some("/dev/null".to_owned()),
            prestart,
        }
    }

    #[tokio::test]
    async fn services_with_prestart_start_once_and_others_stay_down() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let health = |app: &str, prestart, port| HealthProgram {
            app: app.to_owned(),
            probe: HealthProbe::Tcp { port },
            every_ms: 1000,
            timeout_ms: 1000,
            retries: 3,
            on_fail: "restart_vm".to_owned(),
            prestart,
        };
        let programs = TemplatePrograms {
            services: vec![program("early", true), program("late", false)],
            // The port of the application that starts later is nobody's.
            health: vec![
                health("web", true, listener.local_addr().unwrap().port()),
                health("late", false, 1),
            ],
            ..TemplatePrograms::default()
        };
        let mut fixture = Fixture::new(&programs);
        fixture.set(None);
        let services = fixture.services.clone();
        services.parts.prestart(&programs).await.unwrap();
        assert_eq!(fixture.commands(), b"u");
        let is_down = |name: &str| fixture.of(name).join("down").exists();
        assert_eq!((is_down("early"), is_down("late")), (false, true));
        let started = programs.services.iter().map(|service| services.parts.is_prestarted(service));
        assert_eq!(started.collect::<Vec<_>>(), [true, false]);
        // It is not started again, but must still be up.
        services.parts.prestart(&programs).await.unwrap();
        assert_eq!(fixture.commands(), b"");
        fixture.set(Some(3));
        let error = services.parts.prestart(&programs).await.unwrap_err();
        assert_eq!(error.message, "The service early is not up: it ended with exit code 3");
    }
}
