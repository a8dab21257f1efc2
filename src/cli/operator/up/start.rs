//! Start of a controller and its host helper in the background.

use std::ffi::OsString;
use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io::{Read, Seek, SeekFrom};
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, User, geteuid};
use tokio::io::{AsyncBufReadExt, BufReader};

use super::{Options, missing};
use crate::client::api::Api;
use crate::failure::{Failure, Outcome};
use crate::operator::serve;
use hotdesk_base::secret::Secret;
use hotdesk_controller::config::{Config, Engines};

/// Timeout of the start: a controller checks its store and its computers before it listens.
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// Pause between two looks whether the service answers.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Bytes at the end of the log that are read for the report of a failed start.
const LOG_END: u64 = 4096;
/// Lines of the log in the report.
const LOG_LINES: usize = 5;
/// Mode of the data folder: the controller's user passes it to its store.
const DATA_MODE: u32 = 0o711;
/// Bits of a mode: permissions, sticky, set-user-ID and set-group-ID (chmod(2)).
const MODE_BITS: u32 = 0o7777;
/// Beginning of the line that a controller prints when it answers.
const LISTENING: &str = "listening on ";
/// Unit of the Debian package.
const UNIT: &str = "/lib/systemd/system/hotdesk.service";
/// Folder that exists while systemd runs (sd_booted(3)).
const SYSTEMD: &str = "/run/systemd/system";
/// Folder below which `packaging/dev/deps` puts gVisor's runtime, unless `HOTDESK_CACHE` names another.
const CACHE: &str = "/var/cache/hotdesk";
/// Variable that names the helper's socket to both programs.
const SOCKET_VARIABLE: &str = "HOTDESK_HOST__SOCKET";

/// A controller to start, and its host helper.
pub(super) struct ControllerStart {
    address: SocketAddr,
    data_dir: PathBuf,
    log: PathBuf,
    /// Arguments of both programs.
    arguments: Vec<OsString>,
    /// Variables of both programs, which also inherit those of this one.
    variables: Vec<(&'static str, PathBuf)>,
}

impl ControllerStart {
    /// Checks what the start needs, and makes the data folder and the controller's user.
    pub(super) fn prepare(options: &Options, address: SocketAddr) -> Outcome<Self> {
        let is_own = options.config.is_some() || options.data_dir.is_some();
        if !is_own && Path::new(UNIT).exists() && Path::new(SYSTEMD).exists() {
            return Err("hotdesk is installed as a service of this host and does not run: start it with \
                        `systemctl start hotdesk`"
                .into());
        }
        if !geteuid().is_root() {
            return Err(format!(
                "nothing answers at {address}, and only root can make computers: run `hotdesk up` as root"
            )
            .into());
        }
        let (start, config) = Self::new(options, address)?;
        if !config.container.image.join("rootfs").exists() {
            let image = config.container.image.display();
            eprintln!(
                "There is no guest image in {image}, so no computer can start: run `hotdesk image build`."
            );
        }
        start.make_folder()?;
        start.make_user(&config)?;
        Ok(start)
    }

    /// Reads the settings of the controller, and derives what both programs are given.
    pub(super) fn new(options: &Options, address: SocketAddr) -> Outcome<(Self, Config)> {
        let settings = serve::Options {
            config: options.config.clone(),
            data_dir: options.data_dir.clone(),
            listen: Some(address),
            isolations: options.isolations.clone(),
            image: options.image.clone(),
            stream_allow_private: false,
        };
        let config = settings.load()?;
        let failed = |error| format!("cannot locate the data folder {}: {error}", config.data_dir.display());
        let data_dir = std::path::absolute(&config.data_dir).map_err(failed)?;
        let mut start = Self {
            address,
            log: data_dir.join("hotdesk.log"),
            arguments: vec![
                "--data-dir".into(),
                data_dir.clone().into(),
                "--listen".into(),
                address.to_string().into(),
            ],
            variables: Vec::new(),
            data_dir,
        };
        let files = [("--config", &options.config), ("--image", &options.image)];
        for (name, file) in files.into_iter().filter_map(|(name, file)| Some((name, file.as_ref()?))) {
            start.arguments.extend([OsString::from(name), file.clone().into_os_string()]);
        }
        start.choose_isolations(options, &config);
        if !config.host.is_used() {
            start.variables.push((SOCKET_VARIABLE, start.socket()));
        }
        Ok((start, config))
    }

    /// The helper's socket, unless the settings name another.
    fn socket(&self) -> PathBuf {
        self.data_dir.join("host.sock")
    }

    /// Starts the helper of a controller that runs, if an earlier start left its socket and it has died.
    pub(super) fn replace_helper(&self) -> Outcome<()> {
        let is_own = self.variables.iter().any(|(name, _)| *name == SOCKET_VARIABLE);
        if !is_own || !self.socket().exists() || self.has_helper()? {
            return Ok(());
        }
        eprintln!("Starting its helper ...");
        self.spawn("host", Stdio::null()).map(drop)
    }

    /// Offers isolation `shared` alone on a host without gVisor's runtime, unless somebody chose isolations.
    fn choose_isolations(&mut self, options: &Options, config: &Config) {
        if let Some(isolations) = &options.isolations {
            self.arguments.extend([OsString::from("--isolations"), OsString::from(isolations)]);
            return;
        }
        if config.engines.offered != Engines::default().offered || is_program(&config.engines.runsc) {
            return;
        }
        let cache = std::env::var_os("HOTDESK_CACHE").map_or_else(|| PathBuf::from(CACHE), PathBuf::from);
        let cached = cache.join("runsc/usr/bin/runsc");
        if cached.is_file() {
            self.variables.push(("HOTDESK_ENGINES__RUNSC", cached));
            return;
        }
        eprintln!("There is no runsc: computers share the kernel of this host (isolation shared).");
        self.arguments.extend(["--isolations", "shared"].map(OsString::from));
    }

    fn make_folder(&self) -> Outcome<()> {
        let folder = &self.data_dir;
        open_folder(folder)
            .map_err(|error| format!("cannot make the data folder {}: {error}", folder.display()).into())
    }

    /// Makes the user without privileges as whom the controller runs, if it is missing, and checks that it
    /// reaches its store.
    fn make_user(&self, config: &Config) -> Outcome<()> {
        let name = &config.host.user;
        let is_missing = name.parse::<u32>().is_err() && matches!(User::from_name(name), Ok(None));
        if is_missing {
            let mut add = Command::new("useradd");
            add.args(["--system", "--user-group", "--no-create-home", "--shell", "/usr/sbin/nologin"]);
            add.arg("--home-dir").arg(config.store_dir_of_client()).arg(name).stdout(Stdio::null());
            let ended = add.status().map_err(|error| format!("cannot run useradd: {error}"))?;
            if !ended.success() {
                let hint = "make the user, or name another in HOTDESK_HOST__USER";
                return Err(format!("cannot make the user {name} of the controller: {hint}").into());
            }
        }
        let user = config.host.client()?;
        let mut reach = Command::new("test");
        reach.arg("-x").arg(self.data_dir.join(".")).uid(user.uid).gid(user.gid);
        let reached = reach.status().map_err(|error| format!("cannot run test: {error}"))?;
        if reached.success() {
            return Ok(());
        }
        let folder = self.data_dir.display();
        Err(format!(
            "the controller's user {name} cannot reach {folder}: name a folder below folders that others may \
             enter (--data-dir)"
        )
        .into())
    }

    /// Starts both programs and waits until the controller answers; returns the key of a new data folder,
    /// which `store` has stored.
    pub(super) async fn run(
        &self,
        api: &Api,
        store: impl Fn(&Secret) -> Outcome<()>,
    ) -> Outcome<Option<Secret>> {
        eprintln!("Starting hotdesk at http://{} ...", self.address);
        let helper = if self.has_helper()? { None } else { Some(self.spawn("host", Stdio::null())?) };
        let mut controller = self.spawn("serve", Stdio::piped())?;
        let key = match self.until_ready(&mut controller, api, store).await {
            Ok(key) => key,
            Err(failure) => {
                [Some(&controller), helper.as_ref()].into_iter().flatten().for_each(end);
                return Err(failure);
            }
        };
        let processes = [Some(&controller), helper.as_ref()].into_iter().flatten();
        let processes: Vec<String> = processes.filter_map(|it| Some(it.id()?.to_string())).collect();
        let log = self.log.display();
        eprintln!("Its log is {log}. To stop it: kill {} (computers continue to run)", processes.join(" "));
        Ok(key)
    }

    /// Reads what the controller prints until it listens, and waits until it answers.
    async fn until_ready(
        &self,
        controller: &mut tokio::process::Child,
        api: &Api,
        store: impl Fn(&Secret) -> Outcome<()>,
    ) -> Outcome<Option<Secret>> {
        let output = controller.stdout.take().ok_or("cannot read what hotdesk prints")?;
        let mut lines = BufReader::new(output).lines();
        let listening = async {
            let mut key = None;
            loop {
                let line = lines.next_line().await;
                let line = line.map_err(|error| format!("cannot read what hotdesk prints: {error}"))?;
                let Some(line) = line else { return Err(self.not_started("it ended")) };
                if let Some(text) = line.strip_prefix(serve::KEY_LINE) {
                    let shown = Secret::new(text.trim());
                    // At once: it is not shown again.
                    store(&shown)?;
                    key = Some(shown);
                }
                if line.starts_with(LISTENING) {
                    return Ok(key);
                }
            }
        };
        let listening = tokio::time::timeout(START_TIMEOUT, listening).await;
        let key = listening.map_err(|_| self.not_started("it does not listen yet"))??;
        let deadline = Instant::now() + START_TIMEOUT;
        // A refusal may be that of a service that begins.
        while !matches!(missing(api).await, Ok(None)) {
            if Instant::now() >= deadline {
                return Err(self.not_started("it does not answer"));
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        Ok(key)
    }

    /// Whether a helper of an earlier start holds the lock of the machines.
    fn has_helper(&self) -> Outcome<bool> {
        let lock = self.data_dir.join("host.lock");
        let failed = |error: std::io::Error| format!("cannot read {}: {error}", lock.display());
        let file = match File::open(&lock) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
            opened => opened.map_err(failed)?,
        };
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(_unused) => Ok(false),
            Err((_, Errno::EWOULDBLOCK)) => Ok(true),
            Err((_, error)) => Err(failed(error.into()).into()),
        }
    }

    /// Starts this program in a session of its own, which no terminal ends.
    fn spawn(&self, subcommand: &str, output: Stdio) -> Outcome<tokio::process::Child> {
        let failed = |error: std::io::Error| format!("cannot start `hotdesk {subcommand}`: {error}");
        let log = OpenOptions::new().append(true).create(true).mode(0o600).open(&self.log);
        let log = log.map_err(|error| format!("cannot write the log {}: {error}", self.log.display()))?;
        let program = std::env::current_exe().map_err(failed)?;
        let mut command = tokio::process::Command::new("setsid");
        command.arg(program).arg(subcommand).args(&self.arguments);
        command.envs(self.variables.iter().map(|(name, value)| (*name, value)));
        // Those of the client, among them a key, concern no service.
        for name in ["HOTDESK_API_KEY", "HOTDESK_URL", "HOTDESK_PROFILE"] {
            command.env_remove(name);
        }
        command.stdin(Stdio::null()).stdout(output).stderr(log);
        Ok(command.spawn().map_err(failed)?)
    }

    /// Why the controller does not run, with the end of its log.
    fn not_started(&self, why: &str) -> Failure {
        let end = log_end(&self.log).unwrap_or_default();
        let log = self.log.display();
        format!("hotdesk did not start at {}: {why}; its log {log} ends with:\n{end}", self.address).into()
    }
}

/// Makes a folder with [`DATA_MODE`], or adds that mode to the one of a folder that exists, such as `/tmp`.
fn open_folder(folder: &Path) -> std::io::Result<()> {
    DirBuilder::new().recursive(true).mode(DATA_MODE).create(folder)?;
    // The umask may have narrowed the mode.
    let mode = std::fs::metadata(folder)?.permissions().mode() & MODE_BITS;
    std::fs::set_permissions(folder, Permissions::from_mode(mode | DATA_MODE))
}

/// Asks a process to end.
fn end(process: &tokio::process::Child) {
    let Some(id) = process.id().and_then(|id| i32::try_from(id).ok()) else { return };
    if let Err(error) = kill(Pid::from_raw(id), Signal::SIGTERM)
        && error != Errno::ESRCH
    {
        eprintln!("hotdesk: cannot end the process {id}: {error}");
    }
}

/// The last lines of a log.
fn log_end(log: &Path) -> std::io::Result<String> {
    let mut file = File::open(log)?;
    let size = file.metadata()?.len();
    file.seek(SeekFrom::Start(size.saturating_sub(LOG_END)))?;
    let mut bytes = Vec::new();
    file.take(LOG_END).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().collect();
    Ok(lines[lines.len().saturating_sub(LOG_LINES)..].join("\n"))
}

/// Whether a file, or a program on the path, exists.
fn is_program(name: &str) -> bool {
    if name.contains('/') {
        return Path::new(name).is_file();
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(name).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_exists_loses_no_permission() {
        let home = tempfile::tempdir().unwrap();
        let mode = |folder: &Path| std::fs::metadata(folder).unwrap().permissions().mode() & MODE_BITS;
        let made = home.path().join("new/data");
        open_folder(&made).unwrap();
        assert_eq!(mode(&made), DATA_MODE);
        for (before, after) in [(0o1777, 0o1777), (0o755, 0o755), (0o700, 0o711)] {
            std::fs::set_permissions(&made, Permissions::from_mode(before)).unwrap();
            open_folder(&made).unwrap();
            assert_eq!(mode(&made), after, "{before:o}");
        }
    }

    #[test]
    fn the_end_of_a_log_is_its_last_lines() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let lines: Vec<String> = (0..2000).map(|number| format!("line {number}")).collect();
        std::fs::write(&log, lines.join("\n")).unwrap();
        assert_eq!(log_end(&log).unwrap(), lines[1995..].join("\n"));
        std::fs::write(&log, "one").unwrap();
        assert_eq!(log_end(&log).unwrap(), "one");
        assert!(log_end(&folder.path().join("none")).is_err());
    }
}
