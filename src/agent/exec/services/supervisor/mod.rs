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
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use tokio::process::Command;

use super::all_services;
use super::logs::{self, OutputFile, OutputReader};
use super::script::guest_path;
use hotdesk_base::step_error::StepError;
use hotdesk_base::tasks::Tasks;
use hotdesk_wire::programs::service::{AutostartProgram, ServiceProgram, TemplatePrograms};

mod control;
#[cfg(test)]
mod fixture;
mod scripts;
mod status;

pub use control::Action;
use control::open_control;

/// Time for a service to end after its signal, before it is killed.
const KILL_AFTER: Duration = Duration::from_secs(10);
/// File of a service's folder, which keeps it down.
const DOWN_FILE: &str = "down";
/// Folder of the output of services without `log`.
const LOG_FOLDER: &str = "/var/log/hotdesk/services";
/// File of a service's folder with its session, which the run script writes.
const PID_FILE: &str = "session";
/// FIFO of a service's folder.
const OUTPUT: &str = "output";

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
    pub(super) fn begin_logs(
        &self,
        programs: &TemplatePrograms,
        tasks: &Tasks,
    ) -> Result<OutputReader, StepError> {
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
