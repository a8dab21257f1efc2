//! Somebody at a shell: runs `hotdesk` with a home folder of their own and nothing else from the environment.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

pub struct Person {
    home: TempDir,
    variables: Vec<(String, String)>,
}

/// How a command ended.
#[derive(Debug)]
pub struct Ended {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Person {
    pub fn new() -> Self {
        Self { home: tempfile::tempdir().expect("a home folder"), variables: Vec::new() }
    }

    /// With a server and a key in the environment.
    pub fn knowing(url: &str, key: &str) -> Self {
        Self::new().with("HOTDESK_URL", url).with("HOTDESK_API_KEY", key)
    }

    pub fn with(mut self, variable: &str, value: &str) -> Self {
        self.variables.push((variable.to_owned(), value.to_owned()));
        self
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    pub fn home(&self) -> &Path {
        self.home.path()
    }

    pub async fn runs(&self, arguments: &[&str]) -> Ended {
        self.runs_with_input(arguments, "").await
    }

    pub async fn runs_with_input(&self, arguments: &[&str], input: &str) -> Ended {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hotdesk"));
        command.args(arguments);
        self.finish(command, input).await
    }

    /// Runs a line of bash in which `hotdesk` is on the path.
    pub async fn runs_in_bash(&self, line: &str) -> Ended {
        let mut command = Command::new("/bin/bash");
        command.args(["-c", line]);
        self.finish(command, "").await
    }

    async fn finish(&self, mut command: Command, input: &str) -> Ended {
        let program = Path::new(env!("CARGO_BIN_EXE_hotdesk")).parent().expect("a folder").display();
        command.env_clear().env("HOME", self.home.path()).env("PATH", format!("{program}:/usr/bin:/bin"));
        command.envs(self.variables.clone()).current_dir(self.home.path());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let input = input.to_owned();
        let ended = tokio::task::spawn_blocking(move || {
            let mut child = command.spawn().expect("it starts");
            let mut stdin = child.stdin.take().expect("piped");
            // A command that does not read its input may be gone already.
            drop(stdin.write_all(input.as_bytes()));
            drop(stdin);
            child.wait_with_output().expect("it ends")
        });
        let ended = ended.await.expect("it ran");
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        let code = ended.status.code().expect("no signal ended it");
        Ended { code, out: text(ended.stdout), err: text(ended.stderr) }
    }
}

impl Ended {
    /// It succeeded; gives what it printed.
    #[track_caller]
    pub fn well(self) -> String {
        assert_eq!(self.code, 0, "{self:?}");
        self.out
    }

    /// It succeeded; gives the JSON that it printed.
    #[track_caller]
    pub fn json(self) -> serde_json::Value {
        let out = self.well();
        serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}"))
    }

    /// It ended with a code and a sentence on standard error that holds every part, and printed nothing else.
    #[track_caller]
    pub fn badly(self, code: i32, parts: &[&str]) {
        assert_eq!(self.code, code, "{self:?}");
        assert_eq!(self.out, "", "{self:?}");
        for part in parts {
            assert!(self.err.contains(part), "{part:?} is not told: {}", self.err);
        }
    }
}
