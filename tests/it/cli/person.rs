//! `hotdesk` in a shell: its own home folder and no other environment.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

pub struct Shell {
    home: TempDir,
    variables: Vec<(String, String)>,
}

/// Exit code and output of a command.
#[derive(Debug)]
pub struct CommandResult {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Shell {
    pub fn new() -> Self {
        Self { home: tempfile::tempdir().expect("a home folder"), variables: Vec::new() }
    }

    /// A shell with a server's address and a key in its environment.
    pub fn with_key(url: &str, key: &str) -> Self {
        Self::new().env("HOTDESK_URL", url).env("HOTDESK_API_KEY", key)
    }

    pub fn env(mut self, variable: &str, value: &str) -> Self {
        self.variables.push((variable.to_owned(), value.to_owned()));
        self
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    pub fn home(&self) -> &Path {
        self.home.path()
    }

    pub async fn run(&self, arguments: &[&str]) -> CommandResult {
        self.run_with_input(arguments, "").await
    }

    pub async fn run_with_input(&self, arguments: &[&str], input: &str) -> CommandResult {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hotdesk"));
        command.args(arguments);
        self.finish(command, input).await
    }

    /// Runs a line of bash in which `hotdesk` is on the path.
    pub async fn run_in_bash(&self, line: &str) -> CommandResult {
        let mut command = Command::new("/bin/bash");
        command.args(["-c", line]);
        self.finish(command, "").await
    }

    /// Runs a line of a shell in a terminal of 80 columns in which `typed` is typed. Output and errors come together.
    pub async fn run_in_terminal(&self, line: &str, typed: &str) -> CommandResult {
        let mut command = Command::new("/usr/bin/script");
        command.args(["-qec", &format!("export TERM=xterm; stty cols 80 -echo; {line}"), "/dev/null"]);
        self.finish(command, typed).await
    }

    async fn finish(&self, mut command: Command, input: &str) -> CommandResult {
        let program = Path::new(env!("CARGO_BIN_EXE_hotdesk")).parent().expect("a folder").display();
        command.env_clear().env("HOME", self.home.path()).env("PATH", format!("{program}:/usr/bin:/bin"));
        command.envs(self.variables.clone()).current_dir(self.home.path());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let input = input.to_owned();
        let output = tokio::task::spawn_blocking(move || {
            let mut child = command.spawn().expect("the program starts");
            let mut stdin = child.stdin.take().expect("piped");
            // A command that does not read its input may have ended already.
            drop(stdin.write_all(input.as_bytes()));
            drop(stdin);
            child.wait_with_output().expect("the program ends")
        });
        let output = output.await.expect("the program ran");
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        let code = output.status.code().expect("the program must not end by a signal");
        CommandResult { code, out: text(output.stdout), err: text(output.stderr) }
    }
}

impl CommandResult {
    /// Asserts success; returns the standard output.
    #[track_caller]
    pub fn expect_success(self) -> String {
        assert_eq!(self.code, 0, "{self:?}");
        self.out
    }

    /// Asserts success; returns the JSON on standard output.
    #[track_caller]
    pub fn json(self) -> serde_json::Value {
        let out = self.expect_success();
        serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}"))
    }

    /// Asserts an exit code, an error message that contains every part, and an empty standard output.
    #[track_caller]
    pub fn expect_failure(self, code: i32, parts: &[&str]) {
        assert_eq!(self.code, code, "{self:?}");
        assert_eq!(self.out, "", "{self:?}");
        for part in parts {
            assert!(self.err.contains(part), "{part:?} is missing in: {}", self.err);
        }
    }
}
