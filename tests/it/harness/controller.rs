//! A running controller: the real program on port 0 with its data in a temporary folder; dropped, it removes its
//! computers and ends.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use hotdesk::base::wait;
use reqwest::Method;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::agent::{Answered, answered, end};

/// How long a controller may take to say that it listens.
const START_PATIENCE: Duration = Duration::from_secs(30);
/// Log lines that a failed test shows.
const SHOWN_LINES: usize = 40;
/// How long a computer may take to be what was asked.
const CHANGE_PATIENCE: Duration = Duration::from_secs(60);

pub struct RunningController {
    child: Child,
    /// Dropped before the folder that it is mounted in.
    disk: Option<SmallDisk>,
    folder: TempDir,
    base: String,
    key: String,
    client: reqwest::Client,
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
        let full = image().with_file_name("full");
        if !full.join("rootfs").is_dir() || no_computers_here().is_some() {
            println!("skipped: no full guest image at {} (make image), or no root", full.display());
            return None;
        }
        let folder = tempfile::tempdir().expect("a temporary folder");
        std::fs::write(folder.path().join("image"), full.as_os_str().as_encoded_bytes()).expect("a note");
        Some(Self::boot_in(folder, None, "").await)
    }

    /// A controller whose data folder is a disk of its own.
    pub async fn boot_on_disk(mib: u64) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let disk = SmallDisk::mount(folder.path(), &folder.path().join("data"), mib);
        Self::boot_in(folder, Some(disk), "").await
    }

    async fn boot_in(folder: TempDir, disk: Option<SmallDisk>, configuration: &str) -> Self {
        std::fs::write(folder.path().join("hotdesk.toml"), configuration).expect("a configuration");
        let client = super::client();
        let (child, base, key) = start(folder.path()).await;
        Self { child, disk, folder, base, key: key.expect("the first start shows a key"), client }
    }

    /// Ends the controller in its own way and starts it again on the same data.
    pub async fn restart(&mut self) {
        end(&mut self.child);
        self.start_again().await;
    }

    /// `kill -9`; nothing of the controller is left.
    pub fn kill(&mut self) {
        self.child.kill().expect("it lives");
        self.child.wait().expect("it ends");
    }

    /// SIGTERM; the process is the caller's to wait for by [`RunningController::ended`].
    pub fn terminate(&self) {
        let pid = nix::unistd::Pid::from_raw(self.child.id().cast_signed());
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).expect("it lives");
    }

    /// Waits for the controller's end; how it ended.
    pub async fn ended(&mut self, patience: Duration) -> std::process::ExitStatus {
        let child = &mut self.child;
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
        (self.child, self.base) = (child, base);
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
        self.child.id()
    }

    /// A request with the key, to be completed. `path` is below `/api`.
    pub fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        self.bare(method, &format!("/api{path}")).bearer_auth(&self.key)
    }

    /// A request without a key, from the root.
    pub fn bare(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        self.client.request(method, format!("{}{path}", self.base))
    }

    pub async fn get(&self, path: &str) -> Answered {
        answered(self.request(Method::GET, path)).await
    }

    pub async fn post(&self, path: &str, body: Value) -> Answered {
        answered(self.request(Method::POST, path).json(&body)).await
    }

    pub async fn patch(&self, path: &str, body: Value) -> Answered {
        answered(self.request(Method::PATCH, path).json(&body)).await
    }

    pub async fn delete(&self, path: &str) -> Answered {
        answered(self.request(Method::DELETE, path)).await
    }

    /// A new workspace's id.
    pub async fn workspace(&self, name: &str) -> String {
        let made = self.post("/workspaces", json!({ "name": name })).await;
        assert_eq!(made.status, 201, "{}", made.body);
        made.body["id"].as_str().expect("an id").to_owned()
    }

    /// A new running computer's record.
    pub async fn computer(&self, workspace: &str, name: &str) -> Value {
        let made = self.post("/computers", json!({ "workspace_id": workspace, "name": name })).await;
        assert_eq!(made.status, 201, "{}", made.body);
        made.body
    }

    /// An action on a computer, for example `click`.
    pub async fn act(&self, id: &str, action: &str, body: Value) -> Answered {
        self.post(&format!("/computers/{id}/{action}"), body).await
    }

    /// A computer's record.
    pub async fn record(&self, id: &str) -> Value {
        let got = self.get(&format!("/computers/{id}")).await;
        assert_eq!(got.status, 200, "{}", got.body);
        got.body
    }

    /// The names of the machines that the engine holds.
    pub fn machines(&self) -> Vec<String> {
        names(&self.data_dir().join("machines"))
    }

    /// The names of the stored blobs of a kind: `files` or `screenshots`.
    pub fn blobs(&self, kind: &str) -> Vec<String> {
        names(&self.data_dir().join("blobs").join(kind))
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
        let address = self.base.trim_start_matches("http://").to_owned();
        let mut stream = tokio::net::TcpStream::connect(address).await.expect("a connection");
        stream.write_all(bytes).await.expect("sent");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.expect("an answer");
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok());
        (status.unwrap_or_else(|| panic!("no status in {answer:?}")), answer)
    }

    /// As [`Self::raw`], for a request line and more header lines with the key.
    pub async fn raw_request(&self, line: &str) -> (u16, String) {
        let host = self.base.trim_start_matches("http://");
        let key = &self.key;
        let head = format!(
            "{line}\r\nHost: {host}\r\nAuthorization: Bearer {key}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
        );
        self.raw(head.as_bytes()).await
    }

    /// Waits until a computer has a status.
    pub async fn until_status(&self, id: &str, status: &str) -> Value {
        let found = wait::until(CHANGE_PATIENCE, || async {
            let seen = self.get(&format!("/computers/{id}")).await.body;
            (seen["status"] == status).then_some(seen)
        });
        found.await.unwrap_or_else(|| panic!("computer {id} did not become {status}"))
    }

    /// What a command prints on a computer.
    pub async fn bash(&self, id: &str, command: &str) -> String {
        let ran = self.post(&format!("/computers/{id}/bash"), json!({ "command": command })).await;
        assert_eq!(ran.status, 200, "{}", ran.body);
        ran.body["output"].as_str().expect("output").to_owned()
    }
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut names: Vec<String> =
        entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

impl Drop for RunningController {
    fn drop(&mut self) {
        end(&mut self.child);
        // The real program takes its computers down, whatever state the test left them in.
        let cleaned = Command::new(env!("CARGO_BIN_EXE_hotdesk"))
            .args(["purge", "--yes", "--data-dir"])
            .arg(self.data_dir())
            .args(["--image".as_ref(), image().as_os_str()])
            .status();
        if !cleaned.as_ref().is_ok_and(std::process::ExitStatus::success) {
            eprintln!("the computers of {} could not be removed: {cleaned:?}", self.data_dir().display());
        }
        if std::thread::panicking() {
            let log = std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
            let lines: Vec<&str> = log.lines().collect();
            eprintln!(
                "the controller's last lines:\n{}",
                lines[lines.len().saturating_sub(SHOWN_LINES)..].join("\n")
            );
        }
        drop(self.disk.take());
    }
}

/// A small file system of its own, unmounted when dropped.
struct SmallDisk {
    mounted: PathBuf,
}

impl SmallDisk {
    /// A disk file in `folder`, mounted at `at`.
    fn mount(folder: &Path, at: &Path, mib: u64) -> Self {
        let image = folder.join("disk");
        let file = std::fs::File::create_new(&image).expect("a disk file");
        file.set_len(mib << 20).expect("its size");
        std::fs::create_dir(at).expect("a folder to mount on");
        for command in [
            Command::new("mkfs.ext4").args(["-q", "-F", "-m", "0"]).arg(&image),
            Command::new("mount").args(["-o", "loop"]).arg(&image).arg(at),
        ] {
            assert!(command.status().expect("e2fsprogs and mount").success(), "{command:?}");
        }
        Self { mounted: at.to_owned() }
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg(&self.mounted).status();
        if !unmounted.as_ref().is_ok_and(std::process::ExitStatus::success) {
            eprintln!("{} is still mounted: {unmounted:?}", self.mounted.display());
        }
    }
}

/// `hotdesk serve` on the data in a folder.
pub fn command(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hotdesk"));
    command.args(["serve", "--listen", "127.0.0.1:0", "--config"]).arg(folder.join("hotdesk.toml"));
    command.arg("--data-dir").arg(folder.join("data"));
    let chosen = std::fs::read_to_string(folder.join("image"));
    command.arg("--image").arg(chosen.map_or_else(|_| image(), PathBuf::from));
    // The tests' own variable, which the controller would take for a setting that it does not know.
    command.env_remove("HOTDESK_PYTHON");
    command
}

async fn start(folder: &Path) -> (Child, String, Option<String>) {
    let log = std::fs::OpenOptions::new().create(true).append(true).open(folder.join("log")).expect("a log");
    let mut child =
        command(folder).stdout(Stdio::piped()).stderr(log).spawn().expect("the controller starts");
    let output = child.stdout.take().expect("piped");
    let reading = tokio::task::spawn_blocking(move || {
        let mut key = None;
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            if let Some(shown) = line.strip_prefix("account key (shown once): ") {
                key = Some(shown.to_owned());
            }
            if let Some(address) = line.strip_prefix("listening on ") {
                return Some((address.to_owned(), key));
            }
        }
        None
    });
    let said =
        tokio::time::timeout(START_PATIENCE, reading).await.expect("it listens in time").expect("read");
    let (base, key) = said.expect("the controller says where it listens");
    (child, base, key)
}
