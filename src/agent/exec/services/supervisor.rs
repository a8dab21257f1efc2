//! Services under s6 (s6-svscan(8)): a folder of scripts in memory, written at each boot.
//!
//! ```text
//! services/NAME/run           the program
//! services/NAME/finish        the restart policy: exit code 125 keeps it down
//! services/NAME/down-signal   the signal that asks it to end
//! services/NAME/timeout-kill  milliseconds until it is killed
//! services/NAME/log/run       the logger of its output
//! ```

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;

use super::script::{self, guest_path, path_word};
use hotdesk_base::step_error::StepError;
use hotdesk_domain::error::{Error, Result};
use hotdesk_wire::programs::service::{AutostartProgram, ServiceProgram, ServiceStatus, TemplatePrograms};

/// Time for a service to end after its signal, before it is killed.
const KILL_AFTER: Duration = Duration::from_secs(10);
/// Timeout of an action: a stop with its kill, then a start.
const ACTION_TIMEOUT: Duration = Duration::from_secs(20);
/// Folder of the output of services without `log`.
const LOG_FOLDER: &str = "/var/log/hotdesk/services";
/// Bounds of that output: four files of a megabyte each service.
const LOG_BOUNDS: &str = "n3 s1000000";
/// File of a service's folder with its session, which is the process id of its first process (s6-supervise(8)).
const PID_FILE: &str = "session";
/// This program in each computer, where the engine mounts it.
const PROGRAM: &str = "/usr/bin/hotdesk";
/// Exit code of `finish` that keeps a service down (s6-supervise(8)).
const STAY_DOWN: i32 = 125;

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

    /// Writes the scripts of all services. May block.
    pub(super) fn write(&self, programs: &TemplatePrograms) -> Result<(), StepError> {
        fs::create_dir_all(LOG_FOLDER).map_err(StepError::at(LOG_FOLDER))?;
        for service in &programs.services {
            self.write_service(&service.name, service, &programs.secret_env)?;
        }
        for (at, program) in programs.autostart.iter().enumerate() {
            let service = desktop_service(at, program);
            self.write_service(&service.name, &service, &programs.secret_env)?;
        }
        Ok(())
    }

    fn write_service(
        &self,
        name: &str,
        service: &ServiceProgram,
        secret_env: &BTreeMap<String, String>,
    ) -> Result<(), StepError> {
        let folder = self.folder.join(name);
        let failed = || StepError::at(folder.display().to_string());
        let write = |file: &str, text: String, mode: u32| {
            let path = folder.join(file);
            fs::write(&path, text).and_then(|()| fs::set_permissions(&path, fs::Permissions::from_mode(mode)))
        };
        fs::create_dir_all(folder.join("log")).map_err(failed())?;
        write("run", self.run_script(service, secret_env), 0o700).map_err(failed())?;
        write("finish", finish_script(&service.restart), 0o700).map_err(failed())?;
        write("down-signal", format!("{}\n", service.stop_signal), 0o600).map_err(failed())?;
        write("timeout-kill", format!("{}\n", KILL_AFTER.as_millis()), 0o600).map_err(failed())?;
        if service.log.is_none() {
            let log = format!("#!/bin/sh\nexec s6-log {LOG_BOUNDS} T {LOG_FOLDER}/{name}\n");
            write("log/run", log, 0o700).map_err(failed())?;
        } else {
            fs::remove_dir(folder.join("log")).map_err(failed())?;
        }
        Ok(())
    }

    fn run_script(&self, service: &ServiceProgram, secret_env: &BTreeMap<String, String>) -> String {
        let quote = |text: &str| shell_words::quote(text).into_owned();
        let user = quote(&service.user);
        // Root opens the file, and users of the computer may write to its folder.
        let output = match &service.log {
            Some(_) => format!(
                "[ \"${{1-}}\" = logged ] || exec {PROGRAM} append-output {} -- \"$0\" logged",
                quote(&log_file(service))
            ),
            None => "exec 2>&1".to_owned(),
        };
        // The service's own variables take precedence.
        let common = secret_env.iter().filter(|(name, _)| !service.env.contains_key(*name));
        let secrets = common.chain(&service.secret_env);
        let environment = script::environment(script::pairs(&service.env), secrets, &self.secrets_file);
        // bash reads the home folder itself: each further program costs up to 0.1 s under gVisor. s6-setuidgid ends the script
        // when there is no such user, and says so.
        format!(
            "#!/bin/bash\n{output}\nset -e\necho $$ >{PID_FILE}\n\
             export HOME=~{user} USER={user} LOGNAME={user} SHELL=/bin/bash\n\
             [ \"$HOME\" != '~'{user} ] || HOME=/\n{environment}cd -- {}\nexec s6-setuidgid {user} bash -c {}\n",
            service.cwd.as_deref().map_or_else(|| "\"${HOME:-/}\"".to_owned(), path_word),
            quote(&service.run)
        )
    }

    /// Starts s6-svscan, which ends with the computer. A second one in the same folder ends itself.
    pub(super) fn start(&self, environment: &[(String, String)]) -> io::Result<()> {
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
    pub(super) async fn status(&self, name: &str, log: String) -> ServiceStatus {
        let fields = "up,pid,exitcode,signum,updownfor";
        let text = self.tool("s6-svstat", ["-o", fields], name).await.unwrap_or_default();
        parse_status(name, &text, log)
    }

    /// Does something with a service, and waits for it.
    ///
    /// # Errors
    /// `Conflict` when the service is not as requested after [`ACTION_TIMEOUT`], or s6 does not run.
    pub(super) async fn act(&self, name: &str, action: Action) -> Result<()> {
        let timeout = ACTION_TIMEOUT.as_millis().to_string();
        // A restart is both: `s6-svc -r` leaves a service down whose policy does not start it again.
        let steps: &[_] = match action {
            Action::Stop => &[("-wD", "-d")],
            Action::Start => &[("-wu", "-u")],
            Action::Restart => &[("-wD", "-d"), ("-wu", "-u")],
        };
        for (wanted, command) in steps {
            self.tool("s6-svc", [wanted, "-T", &timeout, command], name).await.map_err(|error| {
                Error::conflict(format!("The service {name} did not follow in time; see its log"))
                    .context(error)
            })?;
        }
        Ok(())
    }

    /// Runs a tool of s6 on a service.
    async fn tool(
        &self,
        tool: &str,
        arguments: impl IntoIterator<Item = impl AsRef<OsStr>>,
        name: &str,
    ) -> Result<String, StepError> {
        let mut command = Command::new(tool);
        command.args(arguments).arg(self.folder.join(name)).stdin(Stdio::null()).kill_on_drop(true);
        let output = command.output().await.map_err(StepError::at(tool))?;
        if !output.status.success() {
            let error = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            return Err(StepError::at(tool)(error));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
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
    }
}

/// The file with the output of a service.
pub(super) fn log_file(service: &ServiceProgram) -> String {
    match &service.log {
        Some(path) => guest_path(path).to_string_lossy().into_owned(),
        None => format!("{LOG_FOLDER}/{}/current", service.name),
    }
}

/// The script that s6 runs after the program has ended, with its exit code; above 255 for a signal. It kills what the
/// program left of its process group: the next run may need its ports and locks.
fn finish_script(restart: &str) -> String {
    let policy = match restart {
        "no" => format!("exit {STAY_DOWN}\n"),
        "on-failure" => format!("[ \"$1\" != 0 ] || exit {STAY_DOWN}\n"),
        _ => String::new(),
    };
    format!("#!/bin/bash\nkill -KILL -- \"-$(cat {PID_FILE})\" 2>/dev/null || true\n{policy}exit 0\n")
}

/// Parses the fields of `s6-svstat -o up,pid,exitcode,signum,updownfor`; -1 stands for none. Without them the service
/// counts as stopped: s6 has not read its folder yet.
fn parse_status(name: &str, text: &str, log: String) -> ServiceStatus {
    let mut words = text.split_whitespace();
    let is_up = words.next() == Some("true");
    let mut number = || words.next().and_then(|word| word.parse::<i64>().ok()).filter(|number| *number >= 0);
    let (pid, exit_code, signal, since) = (number(), number(), number(), number());
    let small = |number: Option<i64>| number.and_then(|number| i32::try_from(number).ok());
    ServiceStatus {
        name: name.to_owned(),
        status: if is_up { "running" } else { "stopped" }.to_owned(),
        pid: small(pid),
        exit_code: small(exit_code).filter(|_| signal.is_none()),
        signal: small(signal),
        since_seconds: since.unwrap_or_default().unsigned_abs(),
        log,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_of_s6_are_read() {
        let read = |text: &str| {
            let status = parse_status("web", text, String::new());
            (status.status, status.pid, status.exit_code, status.signal, status.since_seconds)
        };
        assert_eq!(read("true 5679 -1 -1 6\n"), ("running".to_owned(), Some(5679), None, None, 6));
        assert_eq!(read("false -1 3 -1 1\n"), ("stopped".to_owned(), None, Some(3), None, 1));
        assert_eq!(read("false -1 0 9 2\n"), ("stopped".to_owned(), None, None, Some(9), 2));
        assert_eq!(read(""), ("stopped".to_owned(), None, None, None, 0));
    }

    #[test]
    fn texts_of_a_service_are_single_words_of_its_script() {
        let supervisor = Supervisor::new(Path::new("/run/x"), PathBuf::from("/run/x/secrets.env"));
        let service = ServiceProgram {
            cwd: Some("~/a b".to_owned()),
            log: Some("~/x y".to_owned()),
            env: [("A".to_owned(), "$(id)".to_owned())].into(),
            ..desktop_service(0, &AutostartProgram { run: "echo 'a'".to_owned(), delay_ms: 1500 })
        };
        let script = supervisor.run_script(&service, &[("KEY".to_owned(), "API_KEY".to_owned())].into());
        assert_eq!(
            script,
            "#!/bin/bash\n[ \"${1-}\" = logged ] || exec /usr/bin/hotdesk append-output '/root/x y' -- \"$0\" logged\nset -e\necho $$ >session\n\
             export HOME=~root USER=root LOGNAME=root SHELL=/bin/bash\n\
             [ \"$HOME\" != '~'root ] || HOME=/\n\
             hotdesk_0=\"$(unset API_KEY; if [ -r /run/x/secrets.env ]; then . /run/x/secrets.env; fi; printf %s. \"${API_KEY-}\")\"\n\
             export A='$(id)'\nexport KEY=\"${hotdesk_0%.}\"\n\
             cd -- \"$HOME\"/'a b'\nexec s6-setuidgid root bash -c 'sleep 1.5\necho '\\''a'\\'''\n"
        );
    }
}
