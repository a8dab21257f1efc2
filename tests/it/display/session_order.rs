//! Order in which the session script starts programs, which are stand-ins here: it needs no X server for
//! that.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use hotdesk::base::wait;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

const SESSION: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/xsession/session");
const TIMEOUT: Duration = Duration::from_secs(30);
/// Programs of the system that the script uses.
const TOOLS: [&str; 9] = ["bash", "sh", "dirname", "mkdir", "install", "rm", "mv", "mkfifo", "sleep"];
/// Programs that end before any program of the screen starts. They are slow, so that an order by chance is no
/// order.
const FIRST: [&str; 3] = ["xsetroot", "xset", "xrdb"];
/// openbox: tells of its start and of the environment file, and manages windows later.
const OPENBOX: &str = "[ ! -s \"$HOTDESK_SESSION_DIR/env\" ] || note env; note openbox; sleep 0.3; \
    note managed; while [ $# -gt 0 ]; do if [ \"$1\" = --startup ]; then eval \"$2\"; fi; shift; done; \
    exec sleep 1000";

struct Session {
    child: Child,
    folder: TempDir,
}

/// Writes a program that may call `note`, which appends a word to the file of events.
fn stand_in(folder: &Path, name: &str, script: &str) {
    let path = folder.join("bin").join(name);
    let text = format!("#!/bin/sh\nnote() {{ echo \"$1\" >>'{}/events'; }}\n{script}\n", folder.display());
    fs::write(&path, text).expect("a program");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("its mode");
}

impl Session {
    /// Starts a session of stand-ins without the programs in `missing`.
    fn start(kind: &str, missing: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let bin = folder.path().join("bin");
        fs::create_dir(&bin).expect("a folder");
        for tool in TOOLS.iter().filter(|tool| !missing.contains(tool)) {
            let at = ["/usr/bin", "/bin"].map(|system| Path::new(system).join(tool));
            let at: PathBuf = at.into_iter().find(|path| path.exists()).expect("a program of the system");
            symlink(at, bin.join(tool)).expect("a link");
        }
        for name in FIRST {
            stand_in(folder.path(), name, &format!("sleep 0.2; note {name}"));
        }
        stand_in(folder.path(), "openbox", OPENBOX);
        for name in ["tint2", "pcmanfm"] {
            stand_in(folder.path(), name, &format!("note {name}; exec sleep 1000"));
        }
        let session_dir = folder.path().join("session");
        fs::create_dir(&session_dir).expect("a folder");
        let child = Command::new(SESSION)
            .arg(kind)
            .env_clear()
            .env("PATH", &bin)
            .env("DISPLAY", ":7")
            .env("HOTDESK_SESSION_DIR", &session_dir)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .expect("a session");
        Self { child, folder }
    }

    fn events(&self) -> Vec<String> {
        let text = fs::read_to_string(self.folder.path().join("events")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// Waits until all of these events have happened, and returns all.
    async fn until(&self, wanted: &[&str]) -> Vec<String> {
        let happened = wait::until(TIMEOUT, || async {
            let events = self.events();
            wanted.iter().all(|event| events.iter().any(|it| it == event)).then_some(events)
        });
        happened.await.unwrap_or_else(|| panic!("{:?}", self.events()))
    }

    fn file(&self, name: &str) -> String {
        fs::read_to_string(self.folder.path().join("session").join(name)).unwrap_or_default()
    }

    /// Ends it with SIGTERM, and asserts that its programs have ended too.
    async fn end(mut self) {
        let pid = Pid::from_raw(self.child.id().cast_signed());
        kill(pid, Signal::SIGTERM).expect("it runs");
        let status = wait::until(TIMEOUT, || {
            let ended = self.child.try_wait().expect("a child");
            async move { ended }
        });
        let status = status.await;
        assert!(status.is_some_and(|status| status.success()), "{status:?}");
        let gone = wait::until(TIMEOUT, || async { (!has_processes(pid.as_raw())).then_some(()) });
        assert!(gone.await.is_some(), "programs of the session still run");
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // Its group is gone with it; its id may be another's by then.
        if let Ok(None) = self.child.try_wait() {
            let _gone = kill(Pid::from_raw(-self.child.id().cast_signed()), Signal::SIGKILL);
            let _reaped = self.child.wait();
        }
    }
}

/// Whether a process group has processes, without zombies: the host's process 1 reaps those in its own time.
fn has_processes(group: i32) -> bool {
    let stat = |entry: fs::DirEntry| fs::read_to_string(entry.path().join("stat")).ok();
    fs::read_dir("/proc").expect("processes").flatten().filter_map(stat).any(|stat| {
        // The name is in parentheses; the state, the parent and the group follow (proc_pid_stat(5)).
        let fields = stat.rsplit_once(") ").map_or("", |(_, fields)| fields);
        let fields: Vec<&str> = fields.split(' ').collect();
        fields.first() != Some(&"Z") && fields.get(2).and_then(|group| group.parse().ok()) == Some(group)
    })
}

fn position(events: &[String], event: &str) -> usize {
    events.iter().position(|it| it == event).unwrap_or_else(|| panic!("no {event} in {events:?}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn windows_come_after_the_window_manager_and_it_after_the_look_of_the_screen() {
    let session = Session::start("default", &[]);
    let events = session.until(&["tint2", "pcmanfm"]).await;
    for first in FIRST.iter().chain(&["env"]) {
        assert!(position(&events, first) < position(&events, "openbox"), "{first}: {events:?}");
    }
    for window in ["tint2", "pcmanfm"] {
        assert!(position(&events, "managed") < position(&events, window), "{window}: {events:?}");
    }
    assert_eq!(session.file("windows"), "dock desktop\n");
    assert!(session.file("env").contains("DBUS_SESSION_BUS_ADDRESS=unix:path="), "{}", session.file("env"));
    let mode = fs::metadata(session.folder.path().join("session/desktop")).expect("a folder").permissions();
    assert_eq!(mode.mode() & 0o007, 0, "others have no access");
    session.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bare_screen_has_a_window_manager_alone() {
    let session = Session::start("bare", &[]);
    let events = session.until(&["managed"]).await;
    assert_eq!(events.len(), FIRST.len() + 2, "{events:?}");
    assert_eq!((session.file("windows"), session.file("env")), (String::new(), String::new()));
    session.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_program_keeps_nothing_else_from_starting() {
    let session = Session::start("default", &["mkfifo"]);
    session.until(&["managed", "tint2", "pcmanfm"]).await;
    session.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_ends_while_it_waits_for_the_window_manager() {
    let session = Session::start("default", &[]);
    session.until(&["openbox"]).await;
    session.end().await;
}
