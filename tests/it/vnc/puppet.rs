//! Control of a Python script by lines of JSON: one per command and one per answer.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

use crate::clients::python;
use crate::harness::capability::Capability;

pub struct PythonDriver {
    child: Child,
    commands: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl PythonDriver {
    /// Starts a script of `tests/python`. Without a Python environment, prints the reason and returns `None`.
    pub fn start(script: &str, arguments: &[&str]) -> Option<Self> {
        let python = python()?;
        let mut command = Command::new(python);
        command.arg(format!("{}/tests/python/{script}", env!("CARGO_MANIFEST_DIR"))).args(arguments);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("Python");
        let answers = BufReader::new(child.stdout.take().expect("a piped output"));
        Some(Self { commands: child.stdin.take(), child, answers })
    }

    /// A headless Chromium. Without Chromium, prints the reason and returns `None`.
    pub fn chromium() -> Option<Self> {
        if !Path::new("/usr/bin/chromium").exists() {
            Capability::Browser.skip("Chromium is not installed (make deps-test)");
            return None;
        }
        Self::start("browser.py", &[])
    }

    /// Sends a command and returns its result or its error.
    pub fn command(&mut self, command: &Value) -> Result<Value, Value> {
        tokio::task::block_in_place(|| {
            let commands = self.commands.as_mut().expect("a running script");
            writeln!(commands, "{command}").and_then(|()| commands.flush()).expect("an open pipe");
            let mut line = String::new();
            self.answers.read_line(&mut line).expect("an answer");
            let mut answer: Value =
                serde_json::from_str(&line).unwrap_or_else(|_| panic!("{command}: {line:?}"));
            if answer["error"].is_null() { Ok(answer["ok"].take()) } else { Err(answer) }
        })
    }

    /// [`Self::command`] for commands that must succeed.
    #[track_caller]
    pub fn run(&mut self, what: &str, mut fields: Value) -> Value {
        fields["do"] = json!(what);
        self.command(&fields).unwrap_or_else(|error| panic!("{fields}: {error}"))
    }
}

impl Drop for PythonDriver {
    fn drop(&mut self) {
        // The script ends at the end of its input.
        drop(self.commands.take());
        let _status = self.child.wait();
    }
}
