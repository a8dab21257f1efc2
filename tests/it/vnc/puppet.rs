//! How does a test lead a Python program? A line of JSON for each order and each answer.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

use crate::clients::python;

pub struct Puppet {
    child: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Puppet {
    /// Starts a script of `tests/python`; `None`, and why, where there is no environment for it.
    pub fn start(script: &str, arguments: &[&str]) -> Option<Self> {
        let Some(python) = python() else {
            println!("skipped: no Python environment (make deps-test)");
            return None;
        };
        let mut command = Command::new(python);
        command.arg(format!("{}/tests/python/{script}", env!("CARGO_MANIFEST_DIR"))).args(arguments);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("Python");
        let answers = BufReader::new(child.stdout.take().expect("its output"));
        Some(Self { orders: child.stdin.take(), child, answers })
    }

    /// A headless Chromium, or why there is none.
    pub fn chromium() -> Option<Self> {
        if !Path::new("/usr/bin/chromium").exists() {
            println!("skipped: Chromium is not installed (make deps-test)");
            return None;
        }
        Self::start("browser.py", &[])
    }

    /// Gives an order; what it answered, or its error.
    pub fn order(&mut self, order: &Value) -> Result<Value, Value> {
        tokio::task::block_in_place(|| {
            let orders = self.orders.as_mut().expect("it listens");
            writeln!(orders, "{order}").and_then(|()| orders.flush()).expect("it reads");
            let mut line = String::new();
            self.answers.read_line(&mut line).expect("an answer");
            let mut answer: Value =
                serde_json::from_str(&line).unwrap_or_else(|_| panic!("{order}: {line:?}"));
            if answer["error"].is_null() { Ok(answer["ok"].take()) } else { Err(answer) }
        })
    }

    /// As [`Self::order`], where nothing may fail.
    #[track_caller]
    pub fn does(&mut self, what: &str, mut fields: Value) -> Value {
        fields["do"] = json!(what);
        self.order(&fields).unwrap_or_else(|error| panic!("{fields}: {error}"))
    }
}

impl Drop for Puppet {
    fn drop(&mut self) {
        // At the end of its input it ends.
        drop(self.orders.take());
        let _status = self.child.wait();
    }
}
