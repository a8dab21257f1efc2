//! Control of services: starts and stops, and the wait for their end.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::status::ServiceState;
use super::{DOWN_FILE, Supervisor};
use hotdesk_base::step_error::StepError;
use hotdesk_domain::error::{Error, Result};
use hotdesk_wire::programs::service::ServiceProgram;

/// Timeout of a start or of a stop with its kill.
const ACTION_TIMEOUT: Duration = Duration::from_secs(20);
/// Pause between two looks at the state of a service that starts or stops: the file is in memory.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Timeout for the start of all supervisors. A start takes less than a second, and a caller waits 15 s.
const SUPERVISORS_TIMEOUT: Duration = Duration::from_secs(10);
/// Commands of s6-supervise(8): start a service and keep it up; stop it and keep it down.
const UP: u8 = b'u';
const DOWN: u8 = b'd';

/// What a request does with a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Starts it.
    Start,
    /// Stops it.
    Stop,
    /// Stops and starts it.
    Restart,
}

impl Action {
    /// Parses the word of the API.
    ///
    /// # Errors
    /// `Invalid` for another word.
    pub fn parse(word: &str) -> Result<Self> {
        match word {
            "start" => Ok(Self::Start),
            "stop" => Ok(Self::Stop),
            "restart" => Ok(Self::Restart),
            _ => Err(Error::invalid("action must be start, stop or restart")),
        }
    }
}

impl Supervisor {
    /// Does something with a service, and waits for it.
    ///
    /// # Errors
    /// `Conflict` when the service is not as requested after [`ACTION_TIMEOUT`], or s6 does not run.
    pub(in crate::exec::services) async fn act(&self, name: &str, action: Action) -> Result<()> {
        let done = match action {
            Action::Stop => self.stop(name).await,
            Action::Start => self.bring_up(name).await,
            // Both: `s6-svc -r` leaves a service down whose policy does not start it again.
            Action::Restart => match self.stop(name).await {
                Ok(()) => self.bring_up(name).await,
                Err(error) => Err(error),
            },
        };
        done.map_err(|error| {
            Error::conflict(format!("The service {name} did not follow in time; see its log")).context(error)
        })
    }

    async fn stop(&self, name: &str) -> Result<(), StepError> {
        self.control(name, DOWN)?;
        // s6 has read the command when it does not want the service up any more.
        self.wait(name, |state| state.is_down() && !state.is_wanted_up()).await
    }

    async fn bring_up(&self, name: &str) -> Result<(), StepError> {
        let before = self.state(name).map_err(StepError::at("the state"))?.map(|state| state.changed);
        self.control(name, UP)?;
        // Another time is that of a start, after which it may have ended already.
        self.wait(name, |state| state.pid().is_some() || Some(state.changed) != before).await
    }

    /// Waits until these services have their supervisor.
    ///
    /// # Errors
    /// `Conflict` when one has none after [`SUPERVISORS_TIMEOUT`].
    pub(in crate::exec::services) async fn await_supervisors(
        &self,
        services: &[ServiceProgram],
    ) -> Result<()> {
        let deadline = Instant::now() + SUPERVISORS_TIMEOUT;
        for service in services {
            while let Err(error) = open_control(&self.control_file(&service.name)) {
                if Instant::now() >= deadline {
                    let what = format!("The service {} has no supervisor", service.name);
                    return Err(Error::conflict(what).context(error));
                }
                tokio::time::sleep(POLL_INTERVAL).await;
            }
        }
        Ok(())
    }

    /// Brings these services up, once their supervisors are there. One that has none is left out, with a
    /// warning.
    pub(in crate::exec::services) async fn bring_all_up(&self, services: &[ServiceProgram]) {
        if let Err(error) = self.await_supervisors(services).await {
            tracing::error!(error = format_args!("{error:#}"), "not all services of the template can start");
        }
        for service in services {
            let down = self.folder.join(&service.name).join(DOWN_FILE);
            // A supervisor that starts later or again brings it up itself.
            let removed = fs::remove_file(down).map_err(StepError::at(DOWN_FILE));
            if let Err(error) = removed.and_then(|()| self.control(&service.name, UP)) {
                tracing::warn!(
                    service = service.name,
                    error = format_args!("{error:#}"),
                    "could not start a service of the template"
                );
            }
        }
    }

    fn control_file(&self, name: &str) -> PathBuf {
        self.folder.join(name).join("supervise/control")
    }

    /// Sends a command to the supervisor of a service, as s6-svc(8) does.
    fn control(&self, name: &str, command: u8) -> Result<(), StepError> {
        let opened = open_control(&self.control_file(name));
        opened.and_then(|mut control| control.write_all(&[command])).map_err(StepError::at("s6-supervise"))
    }

    /// Waits for a state of a service.
    async fn wait(&self, name: &str, is_done: impl Fn(&ServiceState) -> bool) -> Result<(), StepError> {
        let deadline = Instant::now() + ACTION_TIMEOUT;
        loop {
            let state = self.state(name).map_err(StepError::at("the state"))?;
            if state.is_some_and(|state| is_done(&state)) {
                return Ok(());
            }
            if Instant::now() >= deadline {
                return Err(StepError::new(format!("its state is {state:?} after {ACTION_TIMEOUT:?}")));
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }
}

/// Opens the FIFO of commands of a program of s6. Fails at once when that does not run.
pub(super) fn open_control(path: &Path) -> io::Result<File> {
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    File::options().write(true).custom_flags(flags).open(path)
}

#[cfg(test)]
mod tests {
    use hotdesk_wire::programs::service::TemplatePrograms;

    use super::super::all_services;
    use super::super::fixture::{Fixture, NAME, program};
    use super::*;

    #[tokio::test]
    async fn a_restart_waits_for_the_end_and_for_a_start_that_may_be_short() {
        let mut fixture = Fixture::new();
        fixture.set(0, 7, 0, 4);
        let supervisor = fixture.supervisor.clone();
        let acting = supervisor.act(NAME, Action::Restart);
        let obey = async {
            tokio::task::spawn_blocking(move || {
                assert_eq!(fixture.command(), DOWN);
                // Down, but the command was not read: it would start again.
                fixture.set(1, 0, 15, 4);
                std::thread::sleep(3 * POLL_INTERVAL);
                fixture.set(1, 0, 15, 8);
                assert_eq!(fixture.command(), UP);
                fixture.set(2, 0, 0, 8);
                fixture
            })
            .await
            .unwrap()
        };
        let (done, fixture) = tokio::join!(acting, obey);
        done.unwrap();
        let Fixture { supervisor, _folder, control } = fixture;
        drop(control);
        let error = supervisor.act(NAME, Action::Stop).await.unwrap_err();
        assert!(error.message.contains("did not follow"), "nobody reads the commands: {error}");
    }

    #[tokio::test]
    async fn services_are_down_until_they_are_brought_up() {
        let mut fixture = Fixture::new();
        let programs = TemplatePrograms { autostart: vec![program()], ..TemplatePrograms::default() };
        let supervisor = fixture.supervisor.clone();
        let down = supervisor.folder.join(NAME).join(DOWN_FILE);
        supervisor.write(&programs, |_| true).unwrap();
        assert!(down.exists());
        let services = all_services(&programs);
        supervisor.await_supervisors(&services).await.unwrap();
        supervisor.bring_all_up(&services).await;
        assert_eq!((fixture.command(), down.exists()), (UP, false));
        // Another agent leaves the services as they are.
        supervisor.write(&programs, |_| false).unwrap();
        assert!(!down.exists());
    }
}
