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

use super::agent::{Answered, answered, end};

/// How long a controller may take to say that it listens.
const START_PATIENCE: Duration = Duration::from_secs(30);
/// How long a computer may take to be what was asked.
const CHANGE_PATIENCE: Duration = Duration::from_secs(60);

pub struct RunningController {
    child: Child,
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
        std::fs::write(folder.path().join("hotdesk.toml"), configuration).expect("a configuration");
        let client = super::client();
        let (child, base, key) = start(folder.path()).await;
        Self { child, folder, base, key: key.expect("the first start shows a key"), client }
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

    pub async fn start_again(&mut self) {
        let (child, base, key) = start(self.folder.path()).await;
        assert!(key.is_none(), "a key is shown once only");
        (self.child, self.base) = (child, base);
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

    /// Acts with another key from now on.
    pub fn use_key(&mut self, key: &str) {
        key.clone_into(&mut self.key);
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
    }
}

/// `hotdesk serve` on the data in a folder.
pub fn command(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hotdesk"));
    command.args(["serve", "--listen", "127.0.0.1:0", "--config"]).arg(folder.join("hotdesk.toml"));
    command.arg("--data-dir").arg(folder.join("data"));
    command.arg("--image").arg(image());
    command
}

async fn start(folder: &Path) -> (Child, String, Option<String>) {
    let mut child = command(folder).stdout(Stdio::piped()).spawn().expect("the controller starts");
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
    let said = tokio::time::timeout(START_PATIENCE, reading).await.expect("it listens in time").expect("read");
    let (base, key) = said.expect("the controller says where it listens");
    (child, base, key)
}
