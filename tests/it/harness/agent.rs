//! A running agent process in a temporary folder; the drop stops it and removes the folder.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use hotdesk::base::wait;
use reqwest::Method;
use serde_json::json;
use tempfile::TempDir;

use super::caller::Caller;
pub use super::caller::{HttpAnswer, fetch_json};
pub use super::client_builder;
pub use super::process::{OwnedChild, alive, end, gone};
use crate::harness::capability::Capability;

/// Longest time until an agent prints its address.
const START_TIMEOUT: Duration = Duration::from_secs(20);

pub struct RunningAgent {
    child: OwnedChild,
    options: Vec<String>,
    folder: TempDir,
    caller: Caller,
}

impl std::ops::Deref for RunningAgent {
    type Target = Caller;

    fn deref(&self) -> &Caller {
        &self.caller
    }
}

impl RunningAgent {
    /// An agent without a display: commands and files only.
    pub async fn headless() -> Self {
        Self::with(&["--display", "none"]).await
    }

    /// An agent with its own X server on a free display. Without an X server, prints the reason and returns
    /// `None`.
    pub async fn with_screen() -> Option<Self> {
        if !["/usr/bin/Xvnc", "/usr/bin/Xvfb"].iter().any(|server| Path::new(server).exists()) {
            Capability::X11.skip("neither Xvnc nor Xvfb is installed");
            return None;
        }
        let display = format!("own:{}", free_display());
        let session_dir = tempfile::tempdir().expect("a temporary folder");
        let session = session_dir.path().to_string_lossy().into_owned();
        let options = ["--display", &display, "--session", "none", "--session-dir", &session];
        Some(Self::with(&[&options[..], &["--resolution", "800x600x24"]].concat()).await)
    }

    /// An agent with its own X server on a free display and the caller's session folder.
    pub async fn on_a_free_display(session_dir: &Path) -> Self {
        let display = format!("own:{}", free_display());
        let session = session_dir.to_string_lossy().into_owned();
        let options = ["--display", &display, "--session", "none", "--session-dir", &session];
        Self::with(&[&options[..], &["--resolution", "800x600x24"]].concat()).await
    }

    pub async fn with(options: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        fs::create_dir(folder.path().join("home")).expect("a home folder");
        let options: Vec<String> = options.iter().map(|&option| option.to_owned()).collect();
        let (child, base) = start(folder.path(), &options).await;
        let caller = Caller::new(base, "", token(folder.path()));
        Self { child, options, folder, caller }
    }

    /// Kills the agent with SIGKILL and starts another on the same folders, like process 1 in a guest.
    pub async fn restart(&mut self) {
        self.child.0.kill().expect("the agent runs");
        self.child.0.wait().expect("the agent ends");
        (self.child, self.caller.base) = start(self.folder.path(), &self.options).await;
        self.caller.key = token(self.folder.path());
    }

    pub fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    pub fn token(&self) -> &str {
        &self.key
    }

    pub fn pid(&self) -> u32 {
        self.child.0.id()
    }

    pub async fn bash(&self, command: &str) -> HttpAnswer {
        self.post("/bash", json!({ "command": command })).await
    }

    pub async fn bash_for(&self, command: &str, seconds: f64) -> HttpAnswer {
        self.post("/bash", json!({ "command": command, "timeout": seconds })).await
    }

    pub async fn exec(&self, code: &str) -> HttpAnswer {
        self.post("/exec", json!({ "code": code })).await
    }

    pub async fn put(&self, name: &str, content: impl Into<reqwest::Body>) -> HttpAnswer {
        fetch_json(self.request(Method::PUT, &format!("/files/desktop/{name}")).body(content)).await
    }

    /// Waits until a file in the home folder is not empty, and returns its content.
    pub async fn file(&self, name: &str) -> String {
        let path = self.home().join(name);
        let found = wait::until(Duration::from_secs(30), || {
            let read = fs::read_to_string(&path).ok().filter(|text| !text.is_empty());
            async move { read }
        });
        found.await.unwrap_or_else(|| panic!("{name} was not written"))
    }

    /// Resident memory of the agent process in KiB.
    pub fn resident_kib(&self) -> u64 {
        self.memory_kib("VmRSS:")
    }

    /// Peak resident memory in KiB since [`Self::reset_peak`].
    pub fn peak_kib(&self) -> u64 {
        self.memory_kib("VmHWM:")
    }

    /// Resets the peak of resident memory (proc_pid_clear_refs(5)).
    pub fn reset_peak(&self) {
        fs::write(format!("/proc/{}/clear_refs", self.pid()), "5").expect("the peak is reset");
    }

    fn memory_kib(&self, field: &str) -> u64 {
        super::process::memory_kib(self.pid(), field)
    }
}

async fn start(folder: &Path, options: &[String]) -> (OwnedChild, String) {
    let mut agent = command(folder);
    agent.args(["--listen", "127.0.0.1:0"]).args(options);
    let address =
        |line: &str| line.strip_prefix("agent listening on ").map(|address| format!("http://{address}"));
    OwnedChild::spawn_until_ready(&mut agent, START_TIMEOUT, address).await
}

/// A free display number. It is random because other tests pick one at the same time, and at least 10,000
/// because real sessions use low numbers.
fn free_display() -> u16 {
    let used = |number: &u16| {
        ["/tmp/.X11-unix/X{}", "/tmp/.X{}-lock"]
            .iter()
            .any(|path| Path::new(&path.replace("{}", &number.to_string())).exists())
    };
    let random = u16::from_le_bytes(uuid::Uuid::new_v4().as_bytes()[..2].try_into().expect("two bytes"));
    (0..20_000)
        .map(|step| 10_000 + (random % 20_000 + step) % 20_000)
        .find(|number| !used(number))
        .expect("a free display")
}

/// The command `hotdesk agent` with its folders below `folder`.
pub fn command(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hotdesk"));
    command.arg("agent");
    command.arg("--runtime-dir").arg(folder.join("run"));
    command.arg("--home").arg(folder.join("home"));
    command
}

/// The token that an agent wrote into its runtime folder.
pub fn token(folder: &Path) -> String {
    fs::read_to_string(folder.join("run/token")).expect("a token").trim().to_owned()
}
