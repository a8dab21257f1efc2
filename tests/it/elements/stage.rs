//! Fixture for accessible programs: an agent with a screen, its own message bus, and GTK programs.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use hotdesk::base::wait;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::harness::agent::{HttpAnswer, OwnedChild, RunningAgent};
use crate::harness::capability::Capability;

/// Longest wait of a test.
pub const TIMEOUT: Duration = Duration::from_secs(30);

pub struct Stage {
    pub agent: RunningAgent,
    pub display: String,
    programs: usize,
    folder: TempDir,
    /// Window manager and message bus, which end after the agent.
    _running: Vec<OwnedChild>,
}

/// A running GTK program.
pub struct Program {
    pub child: OwnedChild,
    pub title: String,
    log: PathBuf,
}

impl Program {
    pub fn pid(&self) -> u32 {
        self.child.0.id()
    }

    pub fn signal(&self, signal: nix::sys::signal::Signal) {
        let pid = nix::unistd::Pid::from_raw(self.pid().cast_signed());
        nix::sys::signal::kill(pid, signal).expect("the program runs");
    }

    /// Waits until the program has printed a line.
    pub async fn wait_for_line(&self, line: &str) {
        let found = wait::until(TIMEOUT, || {
            let text = std::fs::read_to_string(&self.log).unwrap_or_default();
            let file = text.lines().any(|it| it == line);
            async move { file.then_some(()) }
        });
        let text = || std::fs::read_to_string(&self.log).unwrap_or_default();
        assert!(found.await.is_some(), "{line:?} must be printed: {:?}", text());
    }
}

/// A required program that is not installed.
fn missing_program() -> Option<&'static str> {
    let needed = [
        ("an X server", ["/usr/bin/Xvnc", "/usr/bin/Xvfb"]),
        ("openbox", ["/usr/bin/openbox"; 2]),
        ("dbus-daemon", ["/usr/bin/dbus-daemon"; 2]),
        ("at-spi2-core", ["/usr/libexec/at-spi-bus-launcher", "/usr/lib/at-spi2-core/at-spi-bus-launcher"]),
    ];
    let lacks = needed.iter().find(|(_, paths)| !paths.iter().any(|path| Path::new(path).exists()));
    if let Some((what, _)) = lacks {
        return Some(what);
    }
    let gtk = "import gi; gi.require_version('Gtk', '3.0')";
    let check = Command::new("/usr/bin/python3").args(["-c", gtk]).stderr(Stdio::null()).status();
    (!check.is_ok_and(|status| status.success())).then_some("GTK for Python (gir1.2-gtk-3.0, python3-gi)")
}

impl Stage {
    /// Starts the fixture. Prints why and returns `None` if something is not installed.
    pub async fn boot() -> Option<Self> {
        if let Some(what) = missing_program() {
            Capability::Toolkits.skip(format_args!("{what} is not installed"));
            return None;
        }
        let folder = tempfile::tempdir().expect("a folder");
        let session = folder.path().join("session");
        std::fs::create_dir(&session).expect("a folder");
        let bus = format!("unix:path={}", session.join("bus").display());
        let log = format!("DBUS_SESSION_BUS_ADDRESS={bus}\nXDG_RUNTIME_DIR={}\n", session.display());
        std::fs::write(session.join("env"), log).expect("a file");
        let agent = RunningAgent::on_a_free_display(&session).await;
        let listed = wait::until(TIMEOUT, || async {
            let shot = agent.get("/screenshot").await;
            (shot.status == 200).then_some(())
        });
        listed.await.expect("the screen must become ready");
        let screens = agent.get("/screens").await.body;
        let display = screens["screens"][0]["display"].as_str().expect("a display").to_owned();
        let mut stage = Self { agent, display, programs: 0, folder, _running: Vec::new() };
        let mut daemon = stage.command("dbus-daemon");
        daemon.args(["--session", "--nofork", "--nopidfile", "--nosyslog", "--address"]).arg(&bus);
        stage._running.push(OwnedChild(daemon.spawn().expect("a message bus")));
        let file = wait::until(TIMEOUT, || {
            let file = session.join("bus").exists();
            async move { file.then_some(()) }
        });
        file.await.expect("the bus must listen");
        stage._running.push(OwnedChild(stage.command("openbox").spawn().expect("openbox")));
        Some(stage)
    }

    fn command(&self, program: &str) -> Command {
        let session = self.folder.path().join("session");
        let mut command = Command::new(program);
        command
            .env("DISPLAY", &self.display)
            .env("HOME", self.folder.path())
            .env("XDG_RUNTIME_DIR", &session)
            .env("DBUS_SESSION_BUS_ADDRESS", format!("unix:path={}", session.join("bus").display()))
            .env("GTK_MODULES", "gail:atk-bridge")
            .env("LANG", "C.UTF-8")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command
    }

    /// Starts the GTK program and waits until its window is listed.
    pub async fn start(&mut self, title: &str, rows: usize) -> Program {
        self.start_with(title, &[&rows.to_string()]).await
    }

    pub async fn start_with(&mut self, title: &str, more: &[&str]) -> Program {
        self.programs += 1;
        let log = self.folder.path().join(format!("log{}", self.programs));
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/elements/program.py");
        let mut command = self.command("/usr/bin/python3");
        command.arg(script).arg(title).arg(&log).args(more);
        let child = OwnedChild(command.spawn().expect("python"));
        let program = Program { child, title: title.to_owned(), log };
        program.wait_for_line(&format!("shown {}", program.pid())).await;
        let listed = wait::until(TIMEOUT, || async {
            let listed = self.try_elements(&format!("window={title}&name=Save")).await?;
            (listed["elements"][0]["width"].as_i64() > Some(0)).then_some(())
        });
        assert!(listed.await.is_some(), "{title} must be listed: {}", self.elements("include=all").await);
        program
    }

    /// `GET /elements` with the longest timeout.
    async fn list(&self, query: &str) -> HttpAnswer {
        let time = if query.contains("timeout_ms") { "" } else { "timeout_ms=10000&" };
        self.agent.get(&format!("/elements?{time}{query}")).await
    }

    /// Elements for a query; the request must succeed.
    pub async fn elements(&self, query: &str) -> Value {
        let answer = self.list(query).await;
        assert_eq!(answer.status, 200, "{query}: {}", answer.body);
        answer.body
    }

    /// Like [`Self::elements`], for callers that retry: `None` on an error.
    pub async fn try_elements(&self, query: &str) -> Option<Value> {
        let answer = self.list(query).await;
        (answer.status == 200).then_some(answer.body)
    }

    /// Like [`Self::elements`], repeated until no program is left out as slow.
    pub async fn whole(&self, query: &str) -> Value {
        let whole = wait::until(TIMEOUT, || async {
            let list = self.try_elements(query).await?;
            (list.get("skipped").is_none() && list["reason"] != "timeout").then_some(list)
        });
        match whole.await {
            Some(list) => list,
            None => panic!("{query}: {}", self.elements(query).await),
        }
    }

    /// The element with a name.
    pub async fn named(&self, name: &str) -> Value {
        let query = format!("include=all&name={}", name.replace(' ', "%20"));
        let found = wait::until(TIMEOUT, || async {
            let list = self.try_elements(&query).await?;
            let all = list["elements"].as_array()?;
            all.iter().find(|element| element["name"] == name).cloned()
        });
        match found.await {
            Some(found) => found,
            None => panic!("{name} must be in {}", self.elements(&query).await),
        }
    }

    pub async fn id(&self, name: &str) -> String {
        self.named(name).await["id"].as_str().expect("an id").to_owned()
    }

    /// Performs an action on an element.
    pub async fn act(&self, id: &str, action: &str, body: Value) -> HttpAnswer {
        self.agent.post(&format!("/elements/{id}/{action}"), body).await
    }

    pub async fn click(&self, id: &str) -> HttpAnswer {
        self.act(id, "click", json!({})).await
    }
}

/// Whether an element has a state.
pub fn has(element: &Value, state: &str) -> bool {
    element["states"].as_array().expect("states").contains(&json!(state))
}
