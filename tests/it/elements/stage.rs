//! A stage for programs with accessible trees: an agent with a screen, a message bus of its own, GTK programs on it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use hotdesk::base::wait;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::harness::agent::{Answered, Owned, RunningAgent};

/// Longest a test waits for anything.
pub const TIMEOUT: Duration = Duration::from_secs(30);

pub struct Stage {
    pub agent: RunningAgent,
    pub display: String,
    programs: usize,
    folder: TempDir,
    /// The window manager and the bus end after the agent.
    _running: Vec<Owned>,
}

/// A program on the stage.
pub struct Program {
    pub child: Owned,
    pub title: String,
    log: PathBuf,
}

impl Program {
    pub fn pid(&self) -> u32 {
        self.child.0.id()
    }

    pub fn signal(&self, signal: nix::sys::signal::Signal) {
        let pid = nix::unistd::Pid::from_raw(self.pid().cast_signed());
        nix::sys::signal::kill(pid, signal).expect("it lives");
    }

    /// Waits until the program has said so.
    pub async fn said(&self, line: &str) {
        let found = wait::until(TIMEOUT, || {
            let text = std::fs::read_to_string(&self.log).unwrap_or_default();
            let there = text.lines().any(|it| it == line);
            async move { there.then_some(()) }
        });
        let text = || std::fs::read_to_string(&self.log).unwrap_or_default();
        assert!(found.await.is_some(), "{line:?} was not said: {:?}", text());
    }
}

/// Why there can be no stage here, if there cannot.
fn missing() -> Option<&'static str> {
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
    let ran = Command::new("/usr/bin/python3").args(["-c", gtk]).stderr(Stdio::null()).status();
    (!ran.is_ok_and(|status| status.success())).then_some("GTK for Python (gir1.2-gtk-3.0, python3-gi)")
}

impl Stage {
    /// A stage; `None`, and why, where something is not installed.
    pub async fn set() -> Option<Self> {
        if let Some(what) = missing() {
            println!("skipped: {what} is not installed");
            return None;
        }
        let folder = tempfile::tempdir().expect("a folder");
        let session = folder.path().join("session");
        std::fs::create_dir(&session).expect("a folder");
        let bus = format!("unix:path={}", session.join("bus").display());
        let told = format!("DBUS_SESSION_BUS_ADDRESS={bus}\nXDG_RUNTIME_DIR={}\n", session.display());
        std::fs::write(session.join("env"), told).expect("a file");
        let agent = RunningAgent::on_a_free_display(&session).await;
        let listed = wait::until(TIMEOUT, || async {
            let shot = agent.get("/screenshot").await;
            (shot.status == 200).then_some(())
        });
        listed.await.expect("the screen is up");
        let screens = agent.get("/screens").await.body;
        let display = screens["screens"][0]["display"].as_str().expect("a display").to_owned();
        let mut stage = Self { agent, display, programs: 0, folder, _running: Vec::new() };
        let mut daemon = stage.command("dbus-daemon");
        daemon.args(["--session", "--nofork", "--nopidfile", "--nosyslog", "--address"]).arg(&bus);
        stage._running.push(Owned(daemon.spawn().expect("a message bus")));
        let there = wait::until(TIMEOUT, || {
            let there = session.join("bus").exists();
            async move { there.then_some(()) }
        });
        there.await.expect("the bus listens");
        stage._running.push(Owned(stage.command("openbox").spawn().expect("openbox")));
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

    /// Starts the GTK program and waits until its window is in the list.
    pub async fn start(&mut self, title: &str, rows: usize) -> Program {
        self.start_with(title, &[&rows.to_string()]).await
    }

    pub async fn start_with(&mut self, title: &str, more: &[&str]) -> Program {
        self.programs += 1;
        let log = self.folder.path().join(format!("log{}", self.programs));
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/elements/program.py");
        let mut command = self.command("/usr/bin/python3");
        command.arg(script).arg(title).arg(&log).args(more);
        let child = Owned(command.spawn().expect("python"));
        let program = Program { child, title: title.to_owned(), log };
        program.said(&format!("shown {}", program.pid())).await;
        let listed = wait::until(TIMEOUT, || async {
            let listed = self.look(&format!("window={title}&name=Save")).await?;
            (listed["elements"][0]["width"].as_i64() > Some(0)).then_some(())
        });
        assert!(listed.await.is_some(), "{title} is not listed: {}", self.elements("include=all").await);
        program
    }

    /// `GET /elements` with the most time that there is.
    async fn list(&self, query: &str) -> Answered {
        let time = if query.contains("timeout_ms") { "" } else { "timeout_ms=10000&" };
        self.agent.get(&format!("/elements?{time}{query}")).await
    }

    /// What `GET /elements` answers.
    pub async fn elements(&self, query: &str) -> Value {
        let answer = self.list(query).await;
        assert_eq!(answer.status, 200, "{query}: {}", answer.body);
        answer.body
    }

    /// The same for who looks again: `None` where it was refused.
    pub async fn look(&self, query: &str) -> Option<Value> {
        let answer = self.list(query).await;
        (answer.status == 200).then_some(answer.body)
    }

    /// The same once no program is left out for being slow.
    pub async fn whole(&self, query: &str) -> Value {
        let whole = wait::until(TIMEOUT, || async {
            let list = self.look(query).await?;
            (list.get("skipped").is_none() && list["reason"] != "timeout").then_some(list)
        });
        match whole.await {
            Some(list) => list,
            None => panic!("{query}: {}", self.elements(query).await),
        }
    }

    /// The one element of a name.
    pub async fn named(&self, name: &str) -> Value {
        let query = format!("include=all&name={}", name.replace(' ', "%20"));
        let found = wait::until(TIMEOUT, || async {
            let list = self.look(&query).await?;
            let all = list["elements"].as_array()?;
            all.iter().find(|element| element["name"] == name).cloned()
        });
        match found.await {
            Some(found) => found,
            None => panic!("{name} is not in {}", self.elements(&query).await),
        }
    }

    pub async fn id(&self, name: &str) -> String {
        self.named(name).await["id"].as_str().expect("an id").to_owned()
    }

    /// An action on an element.
    pub async fn act(&self, id: &str, action: &str, body: Value) -> Answered {
        self.agent.post(&format!("/elements/{id}/{action}"), body).await
    }

    pub async fn click(&self, id: &str) -> Answered {
        self.act(id, "click", json!({})).await
    }
}

/// Whether an element has a state.
pub fn has(element: &Value, state: &str) -> bool {
    element["states"].as_array().expect("states").contains(&json!(state))
}
