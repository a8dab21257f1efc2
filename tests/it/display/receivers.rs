//! Real programs that receive typed text and write it to a file.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use hotdesk::base::wait;
use serde_json::json;

use super::fixture::{DisplayFixture, TIMEOUT, installed};
use crate::harness::capability::Capability;
use crate::harness::process::OwnedChild;

/// Longest time for a slow program on a loaded machine to receive the last of its text.
const TEXT_TIMEOUT: Duration = Duration::from_secs(60);

/// The interpreter for Debian's bindings, independent of `PATH`.
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

    /// Whether it can run here. Prints that the test is skipped if not.
    pub fn is_installed(self) -> bool {
        let Some((name, import)) = self.bindings() else { return installed("xterm") };
        let tried =
            Command::new(PYTHON).args(["-c", import]).stderr(Stdio::null()).env_remove("DISPLAY").status();
        let here = tried.is_ok_and(|status| status.success());
        if !here {
            Capability::Toolkits.skip(format_args!("the Python bindings of {name} are not installed"));
        }
        here
    }
}

/// A running program that receives text.
pub struct Receiver {
    _child: OwnedChild,
    folder: tempfile::TempDir,
    kind: Kind,
    /// Number of bytes that were read before.
    read_bytes: usize,
}

impl Receiver {
    /// Starts the program over the whole screen and gives it the focus.
    pub async fn open(fixture: &DisplayFixture, kind: Kind) -> Self {
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
        command.current_dir(folder.path()).env("DISPLAY", fixture.display()).env("LC_ALL", "C.UTF-8");
        // Neither a message bus nor an input method of the machine's user. Without an address Qt would start
        // a bus, which would outlive it.
        command
            .env("DBUS_SESSION_BUS_ADDRESS", "disabled:")
            .env("NO_AT_BRIDGE", "1")
            .env("GTK_IM_MODULE", "gtk-im-context-none")
            .env("QT_IM_MODULE", "none");
        let child = command.stdout(Stdio::null()).stderr(log).spawn().expect("the program");
        let receiver = Self { _child: OwnedChild(child), folder, kind, read_bytes: 0 };
        let ready = receiver.folder.path().join("ready");
        let is_ready = || async {
            // Some programs wait for the focus before they report readiness.
            fixture.ok("POST", "/click", json!({"x": 100, "y": 100})).await;
            ready.exists().then_some(())
        };
        if wait::until(TIMEOUT, is_ready).await.is_none() {
            let log = std::fs::read_to_string(receiver.folder.path().join("log"));
            panic!("{kind:?} did not start: {log:?}");
        }
        fixture.focus_any_window().await;
        receiver
    }

    /// The text in the form in which the program receives it.
    pub fn as_received(&self, text: &str) -> String {
        // A terminal in raw mode gives Return as a carriage return.
        if self.kind == Kind::Terminal { text.replace('\n', "\r") } else { text.to_owned() }
    }

    /// The text since the last call, once it has this many bytes or after a timeout.
    pub async fn text(&mut self, bytes: usize) -> String {
        let file = self.folder.path().join("text");
        let read_bytes = self.read_bytes;
        let complete = || async {
            let text = std::fs::read(&file).ok()?;
            (text.len() >= read_bytes + bytes).then_some(())
        };
        // On a timeout the caller's comparison fails and shows the missing text.
        let _late = wait::until(TEXT_TIMEOUT, complete).await;
        let text = std::fs::read(&file).unwrap_or_default();
        self.read_bytes = text.len();
        String::from_utf8_lossy(text.get(read_bytes..).unwrap_or_default()).into_owned()
    }
}
