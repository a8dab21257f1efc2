//! Which real programs receive typed text here? Each writes what it received to a file.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use hotdesk::base::wait;
use serde_json::json;

use super::desk::{Desk, TIMEOUT, installed};
use crate::harness::process::Owned;

/// A slow program on a loaded machine may take this long over the last of its text.
const TEXT_TIMEOUT: Duration = Duration::from_secs(60);

/// The interpreter that Debian's bindings are for, whatever else is on the `PATH`.
const PYTHON: &str = "/usr/bin/python3";

/// A kind of program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// xterm with a shell that reads raw bytes.
    Terminal,
    /// A GTK 3 text view.
    Gtk,
    /// A Qt 5 text field.
    Qt,
}

impl Kind {
    fn bindings(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Terminal => None,
            Self::Gtk => {
                Some(("gtk", "import gi; gi.require_version('Gtk', '3.0'); from gi.repository import Gtk"))
            }
            Self::Qt => Some(("qt", "import PyQt5.QtWidgets")),
        }
    }

    /// Whether it can run here; a missing one is a printed skip.
    pub fn is_here(self) -> bool {
        let Some((name, import)) = self.bindings() else { return installed("xterm") };
        let tried =
            Command::new(PYTHON).args(["-c", import]).stderr(Stdio::null()).env_remove("DISPLAY").status();
        let here = tried.is_ok_and(|status| status.success());
        if !here {
            println!("skipped: the Python bindings of {name} are not installed");
        }
        here
    }
}

/// A running program that receives.
pub struct Receiver {
    _child: Owned,
    folder: tempfile::TempDir,
    kind: Kind,
    /// Bytes that were looked at before.
    seen: usize,
}

impl Receiver {
    /// Starts it over the whole screen, and gives it the keyboard.
    pub async fn open(desk: &Desk, kind: Kind) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mut command = match kind.bindings() {
            None => {
                let mut command = Command::new("xterm");
                command.args(["-u8", "-geometry", "80x24+0+0", "-e", "sh", "-c"]);
                command.arg("stty raw -echo; : > ready; exec cat > text");
                command
            }
            Some((name, _)) => {
                let script: PathBuf =
                    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/display/receiver.py");
                let mut command = Command::new(PYTHON);
                command.arg(script).arg(name);
                command
            }
        };
        let log = std::fs::File::create(folder.path().join("log")).expect("a log");
        command.current_dir(folder.path()).env("DISPLAY", desk.display()).env("LC_ALL", "C.UTF-8");
        // Neither a message bus nor an input method of the machine's user
        // (without an address Qt would start a bus, which would outlive it).
        command
            .env("DBUS_SESSION_BUS_ADDRESS", "disabled:")
            .env("NO_AT_BRIDGE", "1")
            .env("GTK_IM_MODULE", "gtk-im-context-none")
            .env("QT_IM_MODULE", "none");
        let child = command.stdout(Stdio::null()).stderr(log).spawn().expect("the program");
        let receiver = Self { _child: Owned(child), folder, kind, seen: 0 };
        let ready = receiver.folder.path().join("ready");
        let is_ready = || async {
            // What waits for its window to have the keyboard before it says so.
            desk.ok("POST", "/click", json!({"x": 100, "y": 100})).await;
            ready.exists().then_some(())
        };
        if wait::until(TIMEOUT, is_ready).await.is_none() {
            let log = std::fs::read_to_string(receiver.folder.path().join("log"));
            panic!("{kind:?} did not start: {log:?}");
        }
        desk.give_a_window_the_focus().await;
        receiver
    }

    /// What a text looks like to this program.
    pub fn expects(&self, text: &str) -> String {
        // A terminal in raw mode gives Return as a carriage return.
        if self.kind == Kind::Terminal { text.replace('\n', "\r") } else { text.to_owned() }
    }

    /// What was received since the last look, once it is that many bytes or has not grown for long.
    pub async fn text(&mut self, bytes: usize) -> String {
        let file = self.folder.path().join("text");
        let seen = self.seen;
        let whole = || async {
            let text = std::fs::read(&file).ok()?;
            (text.len() >= seen + bytes).then_some(())
        };
        // What never comes whole is told by the comparison.
        let _late = wait::until(TEXT_TIMEOUT, whole).await;
        let text = std::fs::read(&file).unwrap_or_default();
        self.seen = text.len();
        String::from_utf8_lossy(text.get(seen..).unwrap_or_default()).into_owned()
    }
}
