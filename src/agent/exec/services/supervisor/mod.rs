//! Services under s6 (s6-svscan(8)): a folder of scripts in memory, written at each boot.
//!
//! ```text
//! services/NAME/run           the program
//! services/NAME/finish        the restart policy: exit code 125 keeps it down
//! services/NAME/down-signal   the signal that asks it to end
//! services/NAME/timeout-kill  milliseconds until it is killed
//! services/NAME/down          it is down until it is brought up; only before the services of a boot start
//! services/NAME/output        FIFO of its output, which the agent reads
//! services/NAME/session       its session, which is the process id of its first process
//! services/NAME/supervise     state and control of s6-supervise(8)
//! ```

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use nix::errno::Errno;
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use tokio::process::Command;

use super::all_services;
use super::logs::{self, OutputFile};
use super::script::guest_path;
use hotdesk_base::step_error::StepError;
use hotdesk_base::tasks::Tasks;
use hotdesk_domain::error::{Error, Result};
use hotdesk_wire::programs::service::{AutostartProgram, ServiceProgram, ServiceStatus, TemplatePrograms};

mod scripts;
mod status;

use status::ServiceState;

/// Time for a service to end after its signal, before it is killed.
const KILL_AFTER: Duration = Duration::from_secs(10);
/// Timeout of a start or of a stop with its kill.
const ACTION_TIMEOUT: Duration = Duration::from_secs(20);
/// Pause between two looks at the state of a service that starts or stops: the file is in memory.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Timeout for the start of all supervisors. A start takes less than a second, and a caller waits 15 s.
const SUPERVISORS_TIMEOUT: Duration = Duration::from_secs(10);
/// File of a service's folder, which keeps it down.
const DOWN_FILE: &str = "down";
/// Folder of the output of services without `log`.
const LOG_FOLDER: &str = "/var/log/hotdesk/services";
/// File of a service's folder with its session, which the run script writes.
const PID_FILE: &str = "session";
/// FIFO of a service's folder.
const OUTPUT: &str = "output";
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

/// The supervisor of a computer's services.
#[derive(Clone, Debug)]
pub(super) struct Supervisor {
    folder: PathBuf,
    secrets_file: PathBuf,
}

impl Supervisor {
    pub(super) fn new(runtime_dir: &Path, secrets_file: PathBuf) -> Self {
        Self { folder: runtime_dir.join("services"), secrets_file }
    }

    /// Writes the scripts of all services. Supervisors that start afterwards do not start those for which
    /// `is_down` holds. May block.
    pub(super) fn write(
        &self,
        programs: &TemplatePrograms,
        is_down: impl Fn(&ServiceProgram) -> bool,
    ) -> Result<(), StepError> {
        for service in all_services(programs) {
            self.write_service(&service, &programs.secret_env)?;
            if is_down(&service) {
                let file = self.folder.join(&service.name).join(DOWN_FILE);
                fs::write(&file, "").map_err(StepError::at(file.display().to_string()))?;
            }
        }
        Ok(())
    }

    fn write_service(
        &self,
        service: &ServiceProgram,
        secret_env: &BTreeMap<String, String>,
    ) -> Result<(), StepError> {
        let folder = self.folder.join(&service.name);
        let failed = || StepError::at(folder.display().to_string());
        let write = |file: &str, text: String, mode: u32| {
            let path = folder.join(file);
            fs::write(&path, text).and_then(|()| fs::set_permissions(&path, fs::Permissions::from_mode(mode)))
        };
        fs::create_dir_all(&folder).map_err(failed())?;
        let run = scripts::run_script(service, secret_env, &self.secrets_file);
        write("run", run, 0o700).map_err(failed())?;
        write("finish", scripts::finish_script(&service.restart), 0o700).map_err(failed())?;
        write("down-signal", format!("{}\n", service.stop_signal), 0o600).map_err(failed())?;
        write("timeout-kill", format!("{}\n", KILL_AFTER.as_millis()), 0o600).map_err(failed())?;
        match mkfifo(&folder.join(OUTPUT), Mode::S_IRUSR | Mode::S_IWUSR) {
            // What a service writes to while no agent runs.
            Ok(()) | Err(Errno::EEXIST) => Ok(()),
            Err(error) => Err(failed()(io::Error::from(error))),
        }
    }

    /// Begins to write the logs of all services, once for an agent. May block.
    pub(super) fn begin_logs(&self, programs: &TemplatePrograms, tasks: &Tasks) -> Result<(), StepError> {
        let services = all_services(programs);
        let fifos: Vec<_> =
            services.iter().map(|service| self.folder.join(&service.name).join(OUTPUT)).collect();
        let outputs = services.iter().map(output_file);
        logs::begin_output(fifos.iter().map(PathBuf::as_path).zip(outputs), tasks)
            .map_err(StepError::at("the output of services"))
    }

    /// Starts s6-svscan, unless it runs. It ends with the computer.
    pub(super) fn start(&self, environment: &[(String, String)]) -> io::Result<()> {
        if open_control(&self.folder.join(".s6-svscan/control")).is_ok() {
            return Ok(());
        }
        let mut command = std::process::Command::new("s6-svscan");
        command.arg(&self.folder).env_clear().envs(environment.iter().cloned()).current_dir("/");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        // SAFETY: setsid is a system call and nothing else: async-signal-safe, and it allocates nothing.
        #[allow(unsafe_code)]
        unsafe {
            std::os::unix::process::CommandExt::pre_exec(&mut command, || {
                Ok(nix::unistd::setsid().map(drop)?)
            });
        }
        // tokio reaps it in the background when the handle is dropped.
        Command::from(command).spawn().map(drop)
    }

    /// The state of a service.
    ///
    /// # Errors
    /// `Internal` when it cannot be read.
    pub(super) fn status(&self, service: &ServiceProgram) -> Result<ServiceStatus> {
        let state = self.state(&service.name).map_err(|error| {
            Error::failed(format!("The state of the service {} cannot be read: {error}", service.name))
        })?;
        let pid = state.and_then(|state| state.pid());
        // Before its first start s6 counts it as ended with success.
        let has_run = self.folder.join(&service.name).join(PID_FILE).exists();
        let end = state.filter(|_| has_run && pid.is_none()).map(|state| state.end());
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        Ok(ServiceStatus {
            name: service.name.clone(),
            status: if pid.is_some() { "running" } else { "stopped" }.to_owned(),
            pid,
            exit_code: end.and_then(|end| end.code()),
            signal: end.and_then(|end| end.signal()),
            since_seconds: state.map_or(0, |state| state.age(now)),
            log: log_file(service),
        })
    }

    /// The state of a service; `None` while s6 has not read its folder.
    fn state(&self, name: &str) -> io::Result<Option<ServiceState>> {
        match fs::read(self.folder.join(name).join("supervise/status")) {
            Ok(file) => ServiceState::parse(&file).map(Some),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Does something with a service, and waits for it.
    ///
    /// # Errors
    /// `Conflict` when the service is not as requested after [`ACTION_TIMEOUT`], or s6 does not run.
    pub(super) async fn act(&self, name: &str, action: Action) -> Result<()> {
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
    pub(super) async fn await_supervisors(&self, services: &[ServiceProgram]) -> Result<()> {
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
    pub(super) async fn bring_all_up(&self, services: &[ServiceProgram]) {
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
fn open_control(path: &Path) -> io::Result<File> {
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    File::options().write(true).custom_flags(flags).open(path)
}

/// A program of the desktop as a service that runs once.
pub(super) fn desktop_service(at: usize, program: &AutostartProgram) -> ServiceProgram {
    let delay = Duration::from_millis(program.delay_ms);
    let run = match program.delay_ms {
        0 => program.run.clone(),
        _ => format!("sleep {}\n{}", delay.as_secs_f64(), program.run),
    };
    ServiceProgram {
        name: format!("autostart.{at}"),
        run,
        cwd: None,
        user: "root".to_owned(),
        env: BTreeMap::new(),
        secret_env: BTreeMap::new(),
        restart: "no".to_owned(),
        stop_signal: "SIGTERM".to_owned(),
        log: None,
        prestart: program.prestart,
    }
}

/// The file with the output of a service.
pub(super) fn log_file(service: &ServiceProgram) -> String {
    match &service.log {
        Some(path) => guest_path(path).to_string_lossy().into_owned(),
        None => format!("{LOG_FOLDER}/{}/current", service.name),
    }
}

/// Where the output of a service is added.
fn output_file(service: &ServiceProgram) -> OutputFile {
    let path = PathBuf::from(log_file(service));
    if service.log.is_some() { OutputFile::plain(path) } else { OutputFile::rotated(path) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A service whose supervisor the test is.
    struct Fixture {
        supervisor: Supervisor,
        _folder: tempfile::TempDir,
        control: File,
    }

    const NAME: &str = "autostart.0";

    fn program() -> AutostartProgram {
        AutostartProgram { run: "id".to_owned(), delay_ms: 0, prestart: false }
    }

    fn service() -> ServiceProgram {
        desktop_service(0, &program())
    }

    impl Fixture {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let supervisor = Supervisor::new(folder.path(), folder.path().join("secrets.env"));
            supervisor.write_service(&service(), &BTreeMap::new()).unwrap();
            let supervise = supervisor.folder.join(NAME).join("supervise");
            fs::create_dir(&supervise).unwrap();
            let control = supervise.join("control");
            mkfifo(&control, Mode::S_IRUSR | Mode::S_IWUSR).unwrap();
            let control = File::options().read(true).write(true).open(control).unwrap();
            Self { supervisor, _folder: folder, control }
        }

        fn set(&self, changed: u8, pid: u64, wait: u16, flags: u8) {
            let mut bytes = vec![changed; 24];
            bytes.extend(pid.to_be_bytes());
            bytes.extend(wait.to_be_bytes());
            bytes.push(flags);
            let status = self.supervisor.folder.join(NAME).join("supervise/status");
            let draft = status.with_extension("new");
            fs::write(&draft, bytes).unwrap();
            fs::rename(draft, status).unwrap();
        }

        fn command(&mut self) -> u8 {
            let mut command = [0];
            io::Read::read_exact(&mut self.control, &mut command).unwrap();
            command[0]
        }

        fn status(&self) -> (String, Option<i32>, Option<i32>, Option<i32>) {
            let status = self.supervisor.status(&service()).unwrap();
            (status.status, status.pid, status.exit_code, status.signal)
        }
    }

    #[test]
    fn the_state_of_a_service_is_that_of_s6() {
        let fixture = Fixture::new();
        let stopped = || "stopped".to_owned();
        assert_eq!(fixture.status(), (stopped(), None, None, None));
        fixture.set(0, 0, 0, 8);
        assert_eq!(fixture.status(), (stopped(), None, None, None), "it has never run");
        fs::write(fixture.supervisor.folder.join(NAME).join(PID_FILE), "7\n").unwrap();
        for (pid, wait, flags, expected) in [
            (7, 0, 4, ("running".to_owned(), Some(7), None, None)),
            (8, 3 << 8, 6, (stopped(), None, Some(3), None)),
            (0, 9, 8, (stopped(), None, None, Some(9))),
        ] {
            fixture.set(0, pid, wait, flags);
            assert_eq!(fixture.status(), expected);
        }
        fs::write(fixture.supervisor.folder.join(NAME).join("supervise/status"), "damaged").unwrap();
        let error = fixture.supervisor.status(&service()).unwrap_err();
        assert!(error.message.contains("The state of the service autostart.0 cannot be read"), "{error}");
    }

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
