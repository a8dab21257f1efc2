//! A running agent: the real program in a temporary folder, stopped and cleaned up when dropped.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use hotdesk::base::wait;
use reqwest::Method;
use serde_json::{Value, json};
use tempfile::TempDir;

/// How long an agent may take to say that it listens.
const START_PATIENCE: Duration = Duration::from_secs(20);

/// What an agent answered.
#[derive(Debug)]
pub struct Answered {
    pub status: u16,
    pub body: Value,
    pub took: Duration,
}

/// A process that does not outlive its owner, however the test ends.
pub struct Owned(pub Child);

impl Drop for Owned {
    fn drop(&mut self) {
        end(&mut self.0);
    }
}

pub struct RunningAgent {
    child: Owned,
    folder: TempDir,
    base: String,
    token: String,
    client: reqwest::Client,
}

impl RunningAgent {
    /// An agent for commands and files only.
    pub async fn headless() -> Self {
        Self::with(&["--display", "none"]).await
    }

    /// An agent with a bare screen of its own on a free display; `None`, and why, where no X server is installed.
    pub async fn with_a_screen() -> Option<Self> {
        if !["/usr/bin/Xvnc", "/usr/bin/Xvfb"].iter().any(|server| Path::new(server).exists()) {
            println!("skipped: neither Xvnc nor Xvfb is installed");
            return None;
        }
        let display = format!("own:{}", free_display());
        let session_dir = tempfile::tempdir().expect("a temporary folder");
        let session = session_dir.path().to_string_lossy().into_owned();
        let options = ["--display", &display, "--session", "none", "--session-dir", &session];
        Some(Self::with(&[&options[..], &["--resolution", "800x600x24"]].concat()).await)
    }

    /// An agent with a bare screen on a free display, whose session is the caller's.
    pub async fn on_a_free_display(session_dir: &Path) -> Self {
        let display = format!("own:{}", free_display());
        let session = session_dir.to_string_lossy().into_owned();
        let options = ["--display", &display, "--session", "none", "--session-dir", &session];
        Self::with(&[&options[..], &["--resolution", "800x600x24"]].concat()).await
    }

    pub async fn with(options: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        fs::create_dir(folder.path().join("home")).expect("a home folder");
        let child = command(folder.path())
            .args(["--listen", "127.0.0.1:0"])
            .args(options)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the agent starts");
        let mut child = Owned(child);
        let output = child.0.stdout.take().expect("piped");
        let reading = tokio::task::spawn_blocking(move || {
            let mut lines = BufReader::new(output).lines().map_while(Result::ok);
            lines.find_map(|line| line.strip_prefix("agent listening on ").map(str::to_owned))
        });
        let address = tokio::time::timeout(START_PATIENCE, reading).await.expect("it listens in time");
        let base = format!("http://{}", address.expect("read").expect("an address"));
        let token = token(folder.path());
        Self { child, folder, base, token, client: client_builder().build().expect("a client") }
    }

    pub fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    pub fn token(&self) -> &str {
        &self.token
    }

    /// `ADDR:PORT`.
    pub fn address(&self) -> &str {
        self.base.trim_start_matches("http://")
    }

    pub fn pid(&self) -> u32 {
        self.child.0.id()
    }

    /// A request with the token, to be completed.
    pub fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        self.bare(method, path).bearer_auth(&self.token)
    }

    /// A request without the token.
    pub fn bare(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        self.client.request(method, format!("{}{path}", self.base))
    }

    pub async fn get(&self, path: &str) -> Answered {
        answered(self.request(Method::GET, path)).await
    }

    pub async fn post(&self, path: &str, body: Value) -> Answered {
        answered(self.request(Method::POST, path).json(&body)).await
    }

    pub async fn bash(&self, command: &str) -> Answered {
        self.post("/bash", json!({ "command": command })).await
    }

    pub async fn bash_for(&self, command: &str, seconds: f64) -> Answered {
        self.post("/bash", json!({ "command": command, "timeout": seconds })).await
    }

    pub async fn exec(&self, code: &str) -> Answered {
        self.post("/exec", json!({ "code": code })).await
    }

    pub async fn put(&self, name: &str, content: impl Into<reqwest::Body>) -> Answered {
        answered(self.request(Method::PUT, &format!("/files/desktop/{name}")).body(content)).await
    }

    /// What a file in the home folder holds, once there is something in it.
    pub async fn file(&self, name: &str) -> String {
        let path = self.home().join(name);
        let found = wait::until(Duration::from_secs(10), || {
            let read = fs::read_to_string(&path).ok().filter(|text| !text.is_empty());
            async move { read }
        });
        found.await.unwrap_or_else(|| panic!("{name} was not written"))
    }

    /// Resident memory of the agent's process in KiB.
    pub fn resident_kib(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid())).expect("the agent lives");
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("VmRSS");
        line.split_whitespace().nth(1).expect("a number").parse().expect("a number")
    }
}

/// A builder of HTTP clients. reqwest here is built without a default TLS provider and insists on one.
pub fn client_builder() -> reqwest::ClientBuilder {
    let _installed_already = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder()
}

/// A display number that nobody uses, far from those of people and picked at random, since other tests pick too.
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
        .expect("a free one")
}

/// `hotdesk agent` with its folders below `folder`.
pub fn command(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hotdesk"));
    command.arg("agent");
    command.arg("--runtime-dir").arg(folder.join("run"));
    command.arg("--home").arg(folder.join("home"));
    command
}

/// The token that an agent made for itself.
pub fn token(folder: &Path) -> String {
    fs::read_to_string(folder.join("run/token")).expect("a token").trim().to_owned()
}

pub async fn answered(request: reqwest::RequestBuilder) -> Answered {
    let started = Instant::now();
    let response = request.send().await.expect("an answer");
    let status = response.status().as_u16();
    let bytes = response.bytes().await.expect("a body");
    let body = serde_json::from_slice(&bytes)
        .unwrap_or_else(|error| panic!("{error} in {:?}", String::from_utf8_lossy(&bytes)));
    Answered { status, body, took: started.elapsed() }
}

/// Asks a process to end and waits; kills it when it does not.
pub fn end(child: &mut Child) {
    let pid = nix::unistd::Pid::from_raw(child.id().cast_signed());
    let _gone = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM);
    let until = Instant::now() + Duration::from_secs(12);
    while matches!(child.try_wait(), Ok(None)) {
        if Instant::now() > until {
            eprintln!("process {pid} ignored SIGTERM");
            let _killed = child.kill();
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Whether a process is alive (a zombie is not).
pub fn alive(pid: &str) -> bool {
    let pid = pid.trim();
    fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| !stat.rsplit(')').next().unwrap_or_default().starts_with(" Z"))
}

/// Waits until a process is gone.
pub async fn gone(pid: &str) -> bool {
    wait::until(Duration::from_secs(5), || async { (!alive(pid)).then_some(()) }).await.is_some()
}
