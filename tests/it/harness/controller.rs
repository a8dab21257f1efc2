//! A running controller: the real program on port 0 with its data in a temporary folder; dropped, it removes its
//! computers and ends.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use hotdesk::base::wait;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::caller::{Answered, Caller, id_of};
use super::host::{kill, left_of, loop_files, machines_of, names_in};
use super::insist;
use super::process::{Owned, end};
use super::small_disk::SmallDisk;

/// How long a controller may take to say that it listens, on a busy machine.
const START_TIMEOUT: Duration = Duration::from_secs(120);
/// Log lines that a failed test shows.
const SHOWN_LINES: usize = 40;
/// How long a computer may take to be what was asked: an emulated machine's boot beside other work.
const CHANGE_TIMEOUT: Duration = Duration::from_secs(180);

pub struct RunningController {
    child: Owned,
    /// Dropped before the folder that it is mounted in.
    disk: Option<SmallDisk>,
    folder: TempDir,
    caller: Caller,
}

impl std::ops::Deref for RunningController {
    type Target = Caller;

    fn deref(&self) -> &Caller {
        &self.caller
    }
}

/// Why real computers cannot run here, if they cannot; print it and return from the test.
pub fn no_computers_here() -> Option<String> {
    let image = image();
    if !image.join("rootfs").is_dir() {
        return Some(format!("skipped: no guest image at {} (make image-small)", image.display()));
    }
    if !nix::unistd::geteuid().is_root() {
        return Some("skipped: computers need root".to_owned());
    }
    None
}

/// Where `packaging/dev/deps` puts gVisor's runtime.
pub fn runsc() -> String {
    let cache = std::env::var("HOTDESK_CACHE").unwrap_or_else(|_| "/var/cache/hotdesk".to_owned());
    format!("{cache}/runsc/usr/bin/runsc")
}

/// The configuration of a controller whose computers run over gVisor; `None`, with the reason printed, where they cannot.
pub fn gvisor() -> Option<String> {
    let runtime = runsc();
    let missing = (!Path::new(&runtime).exists())
        .then(|| format!("skipped: {runtime} is not there (packaging/dev/deps test)"));
    if let Some(reason) = no_computers_here().or(missing) {
        println!("{reason}");
        return None;
    }
    Some(format!("[container]\nruntime = {runtime:?}\n"))
}

/// The guest image that tests use: `HOTDESK_IMAGE`, else where `make image-small` puts it.
pub fn image() -> PathBuf {
    let chosen = std::env::var_os("HOTDESK_IMAGE").map(PathBuf::from);
    chosen.unwrap_or_else(|| PathBuf::from("/var/cache/hotdesk/images/small"))
}

impl RunningController {
    pub async fn boot() -> Self {
        Self::boot_with("").await
    }

    /// A controller with more lines in its configuration file.
    pub async fn boot_with(configuration: &str) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        Self::boot_in(folder, None, configuration).await
    }

    /// A controller of the full image, with the browser; `None`, and why, where that is not built.
    pub async fn boot_full() -> Option<Self> {
        Self::boot_full_with("").await
    }

    /// As [`Self::boot_full`], with more lines in its configuration file.
    pub async fn boot_full_with(configuration: &str) -> Option<Self> {
        let full = image().with_file_name("full");
        if !full.join("rootfs").is_dir() || no_computers_here().is_some() {
            println!("skipped: no full guest image at {} (make image), or no root", full.display());
            return None;
        }
        let folder = tempfile::tempdir().expect("a temporary folder");
        std::fs::write(folder.path().join("image"), full.as_os_str().as_encoded_bytes()).expect("a note");
        Some(Self::boot_in(folder, None, configuration).await)
    }

    /// A controller whose data folder is a disk of its own.
    pub async fn boot_on_disk(mib: u64) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let disk = SmallDisk::mount(folder.path(), &folder.path().join("data"), mib);
        Self::boot_in(folder, Some(disk), "").await
    }

    async fn boot_in(folder: TempDir, disk: Option<SmallDisk>, configuration: &str) -> Self {
        std::fs::write(folder.path().join("hotdesk.toml"), configuration).expect("a configuration");
        let (child, base, key) = start(folder.path()).await;
        let caller = Caller::new(base, "/api", key.expect("the first start shows a key"));
        Self { child, disk, folder, caller }
    }

    /// A controller with a computer that runs: it, the workspace and the computer; `None`, with the reason printed,
    /// where no computer can run.
    pub async fn with_a_computer() -> Option<(Self, String, String)> {
        if let Some(reason) = no_computers_here() {
            println!("{reason}");
            return None;
        }
        let house = Self::boot().await;
        let workspace = house.workspace("demo").await;
        let id = id_of(&house.computer(&workspace, "one").await);
        Some((house, workspace, id))
    }

    /// Ends the controller in its own way and starts it again on the same data.
    pub async fn restart(&mut self) {
        end(&mut self.child.0);
        self.start_again().await;
    }

    /// `kill -9`; nothing of the controller is left.
    pub fn kill(&mut self) {
        match self.child.0.kill() {
            // Whoever followed it killed it, and has waited for it.
            Err(error) if error.raw_os_error() == Some(nix::libc::ESRCH) => {}
            killed => killed.expect("it lives"),
        }
        self.died();
    }

    /// Takes note of the end of a controller that was killed by its process id.
    pub fn died(&mut self) {
        match self.child.0.wait() {
            // Whoever followed it has waited for it.
            Err(error) if error.raw_os_error() == Some(nix::libc::ECHILD) => {}
            ended => {
                ended.expect("it ends");
            }
        }
    }

    /// The host of a controller on a disk of its own loses its power, and the disk comes back: the controller and its
    /// computers have ended.
    ///
    /// # Errors
    /// Why no power can be cut here; the controller alone has ended then.
    pub async fn lose_power(&mut self) -> Result<(), String> {
        let cut = self.disk.as_ref().expect("a disk of its own").cut_power();
        self.kill();
        cut?;
        let data = std::fs::canonicalize(self.folder.path()).expect("a folder").join("data");
        let back = wait::until(CHANGE_TIMEOUT, || async {
            machines_of(&data).iter().for_each(|id| kill(id));
            self.disk.as_ref().expect("a disk").comes_back().then_some(())
        });
        assert!(back.await.is_some(), "the disk stays in use");
        Ok(())
    }

    /// SIGTERM; the process is the caller's to wait for by [`RunningController::ended`].
    pub fn terminate(&self) {
        let pid = nix::unistd::Pid::from_raw(self.child.0.id().cast_signed());
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).expect("it lives");
    }

    /// Waits for the controller's end; how it ended.
    pub async fn ended(&mut self, patience: Duration) -> std::process::ExitStatus {
        let child = &mut self.child.0;
        let deadline = std::time::Instant::now() + patience;
        loop {
            if let Some(status) = child.try_wait().expect("a child of ours") {
                return status;
            }
            assert!(std::time::Instant::now() < deadline, "the controller lives after {patience:?}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    pub async fn start_again(&mut self) {
        let (child, base, key) = start(self.folder.path()).await;
        assert!(key.is_none(), "a key is shown once only");
        (self.child, self.caller.base) = (child, base);
    }

    /// The folder with its configuration, its data and its log.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// What it has logged since its first start.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).expect("a log")
    }

    pub fn data_dir(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// `http://ADDR:PORT`.
    pub fn base(&self) -> &str {
        &self.base
    }

    pub fn key(&self) -> &str {
        &self.key
    }

    pub fn pid(&self) -> u32 {
        self.child.0.id()
    }

    /// A new workspace's id.
    pub async fn workspace(&self, name: &str) -> String {
        id_of(&self.made("/workspaces", json!({ "name": name })).await)
    }

    /// A new running computer's record.
    pub async fn computer(&self, workspace: &str, name: &str) -> Value {
        self.made("/computers", json!({ "workspace_id": workspace, "name": name })).await
    }

    /// An action on a computer, for example `click`.
    pub async fn act(&self, id: &str, action: &str, body: Value) -> Answered {
        self.post(&format!("/computers/{id}/{action}"), body).await
    }

    /// A computer's record.
    pub async fn record(&self, id: &str) -> Value {
        let got = self.get(&format!("/computers/{id}")).await;
        assert_eq!(got.status, 200, "{}", got.body);
        common(got.body)
    }

    /// The names of the machines that the engine holds.
    pub fn machines(&self) -> Vec<String> {
        names_in(&self.data_dir().join("machines"))
    }

    /// The names of the stored blobs of a kind: `files` or `screenshots`.
    pub fn blobs(&self, kind: &str) -> Vec<String> {
        names_in(&self.data_dir().join("blobs").join(kind))
    }

    /// Where the engine keeps what belongs to a computer.
    pub fn machine(&self, id: &str) -> PathBuf {
        self.data_dir().join("machines").join(id)
    }

    /// Process 1 of a running computer, as the host counts.
    pub fn init_pid(&self, id: &str) -> i32 {
        let path = self.data_dir().join("runtime").join(id).join("state.json");
        let text = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let state: Value = serde_json::from_slice(&text).expect("the runtime's record");
        let pid = state["init_process_pid"].as_i64().expect("a process id");
        i32::try_from(pid).expect("a process id")
    }

    /// Sends bytes as they are and reads the whole answer: for what no HTTP client sends. The bytes must ask for
    /// `Connection: close`.
    pub async fn raw(&self, bytes: &[u8]) -> (u16, String) {
        let mut stream = tokio::net::TcpStream::connect(self.address()).await.expect("a connection");
        stream.write_all(bytes).await.expect("sent");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.expect("an answer");
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok());
        (status.unwrap_or_else(|| panic!("no status in {answer:?}")), answer)
    }

    /// As [`Self::raw`], for a request line and more header lines with the key.
    pub async fn raw_request(&self, line: &str) -> (u16, String) {
        let host = self.address();
        let key = &self.key;
        let head = format!(
            "{line}\r\nHost: {host}\r\nAuthorization: Bearer {key}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
        );
        self.raw(head.as_bytes()).await
    }

    /// Waits until a computer has a status.
    pub async fn until_status(&self, id: &str, status: &str) -> Value {
        let found = wait::until(CHANGE_TIMEOUT, || async {
            let seen = self.get(&format!("/computers/{id}")).await.body;
            (seen["status"] == status).then(|| common(seen))
        });
        let Some(found) = found.await else {
            let seen = self.get(&format!("/computers/{id}")).await.body;
            panic!("computer {id} did not become {status}: {seen}")
        };
        found
    }

    /// What a command prints on a computer.
    pub async fn bash(&self, id: &str, command: &str) -> String {
        let ran = self.post(&format!("/computers/{id}/bash"), json!({ "command": command })).await;
        assert_eq!(ran.status, 200, "{}", ran.body);
        ran.body["output"].as_str().expect("output").to_owned()
    }
}

impl Drop for RunningController {
    fn drop(&mut self) {
        end(&mut self.child.0);
        if std::thread::panicking() {
            let log = std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
            let lines: Vec<&str> = log.lines().collect();
            eprintln!(
                "the controller's last lines:\n{}",
                lines[lines.len().saturating_sub(SHOWN_LINES)..].join("\n")
            );
        }
        purge(&self.data_dir());
        drop(self.disk.take());
    }
}

/// Lets the real program take down the computers of a data folder that no controller uses any more, whatever state a
/// test left them in; the test fails when anything of them is left on the host.
pub fn purge(data: &Path) {
    let machines = names_in(&data.join("machines"));
    let mut purge = Command::new(env!("CARGO_BIN_EXE_hotdesk"));
    without_own_variables(&mut purge);
    // No image, as where somebody removed it first.
    let purged = purge.args(["purge", "--yes", "--image", "/nowhere", "--data-dir"]).arg(data).output();
    let told = |it: &Output| String::from_utf8_lossy(&it.stdout).contains("Removed ");
    let done = purged.as_ref().is_ok_and(|it| it.status.success() && told(it));
    insist(done, || format!("the computers of {} could not be removed: {purged:?}", data.display()));
    let own = format!("{}/", data.display());
    let disk = || loop_files().into_iter().find(|file| file.starts_with(&own));
    let left = machines.iter().find_map(|id| left_of(id)).or_else(disk);
    insist(left.is_none(), || format!("left on the host: {left:?}"));
}

/// `hotdesk serve` on the data in a folder.
pub fn command(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hotdesk"));
    command.args(["serve", "--listen", "127.0.0.1:0", "--config"]).arg(folder.join("hotdesk.toml"));
    command.arg("--data-dir").arg(folder.join("data"));
    let chosen = std::fs::read_to_string(folder.join("image"));
    command.arg("--image").arg(chosen.map_or_else(|_| image(), PathBuf::from));
    without_own_variables(&mut command);
    command
}

/// Takes away the tests' own variables, which hotdesk would take for settings that it does not know.
fn without_own_variables(command: &mut Command) {
    for own in ["HOTDESK_PYTHON", "HOTDESK_PROOF", "HOTDESK_SEED", "HOTDESK_ROUNDS"] {
        command.env_remove(own);
    }
}

async fn start(folder: &Path) -> (Owned, String, Option<String>) {
    let log = std::fs::OpenOptions::new().create(true).append(true).open(folder.join("log")).expect("a log");
    let mut key = None;
    let says = move |line: &str| {
        if let Some(shown) = line.strip_prefix("account key (shown once): ") {
            key = Some(shown.to_owned());
        }
        line.strip_prefix("listening on ").map(|address| (address.to_owned(), key.take()))
    };
    let (child, (base, key)) = Owned::until_it_says(command(folder).stderr(log), START_TIMEOUT, says).await;
    (child, base, key)
}

/// What a get tells of a computer, less what only a get tells.
fn common(mut record: Value) -> Value {
    if let Some(fields) = record.as_object_mut() {
        fields.remove("auto_stop");
        fields.remove("billing");
    }
    record
}
