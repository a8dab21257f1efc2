//! Terminal channel of the agent, used like client programs use it (docs/channels.md).

use std::time::{Duration, Instant};

use futures_util::SinkExt;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;

use crate::harness::agent::RunningAgent;
use crate::harness::socket::{Client, SocketEvent};

mod bounds;
mod end;
mod flood;
mod through;

/// Longest wait for output of a shell.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A terminal's client.
pub struct Terminal {
    client: Client,
    /// Output that was read and not consumed yet.
    text: String,
}

/// A message of the server other than output.
#[derive(Debug, PartialEq)]
enum ServerMessage {
    Other(Value),
    Closed(u16),
}

impl Terminal {
    async fn open(agent: &RunningAgent, query: &str) -> Self {
        Self::at(agent.address(), &format!("/ws/terminal?token={}{query}", agent.token())).await
    }

    pub async fn at(address: &str, path: &str) -> Self {
        let client = Client::open(address, path, &[]).await.expect("the upgrade is accepted");
        Self { client, text: String::new() }
    }

    /// A terminal whose shell shows its prompt.
    async fn ready(agent: &RunningAgent) -> Self {
        let mut terminal = Self::open(agent, "").await;
        terminal.until("# ").await;
        terminal
    }

    async fn send_message(&mut self, message: Value) {
        self.client.0.send(Message::Text(message.to_string().into())).await.expect("an open socket");
    }

    pub async fn input(&mut self, data: &str) {
        self.send_message(json!({ "type": "input", "data": data })).await;
    }

    /// Runs a command line and returns its output. The quotes split the marks, so that the echo of the line
    /// does not contain them.
    async fn run(&mut self, line: &str) -> String {
        self.input(&format!("echo be''gin; {line}; echo do''ne\r")).await;
        self.until("begin\r\n").await;
        let output = self.until("done\r\n").await;
        output.trim_end_matches("done\r\n").to_owned()
    }

    /// Reads output up to and including `mark`.
    pub async fn until(&mut self, mark: &str) -> String {
        // Of a flood only what is new is searched: else the search takes longer than the flood.
        let mut searched = 0;
        loop {
            if let Some(at) = self.text[searched..].find(mark) {
                let rest = self.text.split_off(searched + at + mark.len());
                return std::mem::replace(&mut self.text, rest);
            }
            // A mark may begin at the end of this.
            searched = self.text.len().saturating_sub(mark.len());
            while !self.text.is_char_boundary(searched) {
                searched -= 1;
            }
            let other = tokio::time::timeout(TIMEOUT, self.read_output()).await.expect("output in time");
            assert!(other.is_none(), "{other:?} before {mark:?} in {:?}", self.text);
        }
    }

    /// Reads the next message. Appends output to `text`; returns any other message.
    async fn read_output(&mut self) -> Option<ServerMessage> {
        let text = match self.client.next().await {
            SocketEvent::Text(text) => text,
            SocketEvent::Closed(code, _) => return Some(ServerMessage::Closed(code)),
            other @ (SocketEvent::Binary(_) | SocketEvent::Cut) => panic!("{other:?}"),
        };
        let message: Value = serde_json::from_str(&text).expect("JSON");
        if message["type"] != "output" {
            return Some(ServerMessage::Other(message));
        }
        self.text.push_str(message["data"].as_str().expect("characters"));
        None
    }

    /// The next message that is not output.
    async fn next_message(&mut self) -> ServerMessage {
        loop {
            if let Some(message) = self.read_output().await {
                return message;
            }
        }
    }
}

fn exit(code: i32) -> ServerMessage {
    ServerMessage::Other(json!({ "type": "exit", "code": code }))
}

#[tokio::test]
async fn a_login_shell_lives_on_a_terminal_of_the_asked_size() {
    let agent = RunningAgent::headless().await;
    std::fs::create_dir(agent.home().join("Desktop")).expect("a folder");
    let mut terminal = Terminal::open(&agent, "&cols=200&rows=50").await;
    assert_eq!(terminal.run("stty size").await, "50 200\r\n");
    assert!(terminal.run("tty").await.starts_with("/dev/pts/"));
    assert_eq!(terminal.run("pwd").await, format!("{}\r\n", agent.home().join("Desktop").display()));
    let kind =
        terminal.run("shopt -q login_shell && echo login; [[ $- == *i* ]] && echo interactive; echo $TERM");
    assert_eq!(kind.await, "login\r\ninteractive\r\nxterm-256color\r\n");
    terminal.send_message(json!({ "type": "resize", "cols": 132, "rows": 43 })).await;
    assert_eq!(terminal.run("stty size; echo $COLUMNS").await, "43 132\r\n132\r\n");
    // A foreground program gets the signal of a resize.
    let line = "(trap 'stty size; echo told; exit' WINCH; echo set; while :; do sleep 0.05; done)\r";
    terminal.input(line).await;
    terminal.until("set\r\n").await;
    terminal.send_message(json!({ "type": "resize", "cols": 90, "rows": 30 })).await;
    assert!(terminal.until("told\r\n").await.contains("30 90"));
}

#[tokio::test]
async fn without_a_desktop_folder_it_starts_at_home() {
    let agent = RunningAgent::headless().await;
    let mut terminal = Terminal::ready(&agent).await;
    assert_eq!(terminal.run("pwd; stty size").await, format!("{}\r\n24 80\r\n", agent.home().display()));
}

#[tokio::test]
async fn characters_are_whole_however_they_are_written() {
    let agent = RunningAgent::headless().await;
    let mut terminal = Terminal::ready(&agent).await;
    // 漢 in two parts, with a pause so that the agent reads them separately.
    let output = terminal.run(r"printf 'a\xe6'; sleep 0.3; printf '\xbc\xa2b\xff\n'").await;
    assert_eq!(output, "a漢b\u{fffd}\r\n");
    assert_eq!(terminal.run("echo 'grüße 漢字 😀'").await, "grüße 漢字 😀\r\n");
    // Multi-byte characters at the edges of large chunks.
    let output = terminal.run("for i in $(seq 20000); do printf 漢é😀x; done").await;
    assert_eq!(output, "漢é😀x".repeat(20_000));
}

/// Commands between marks, in Base64, like the MCP server of the hosted service sends them.
#[tokio::test]
async fn commands_run_between_marks() {
    let agent = RunningAgent::headless().await;
    let mut terminal = Terminal::open(&agent, "&cols=200&rows=50").await;
    for (script, expected) in [
        // "echo one\necho two >&2\nexit_code=3\n(exit 3)" and "printf 'x y'".
        ("ZWNobyBvbmUKZWNobyB0d28gPiYyCihleGl0IDMp", "one\r\ntwo\r\n__END_3__"),
        ("cHJpbnRmICd4IHkn", "x y__END_0__"),
    ] {
        let line = format!(
            "printf '__%s__\\n' BEGIN; eval \"$(printf %s {script} | base64 -d)\"; printf '__%s_%s__\\n' END $?\r"
        );
        terminal.input(&line).await;
        terminal.until("__BEGIN__\r\n").await;
        assert!(terminal.until("__\r\n").await.starts_with(expected), "{script}");
        terminal.send_message(json!({ "type": "ping" })).await;
        assert_eq!(terminal.next_message().await, ServerMessage::Other(json!({ "type": "pong" })));
    }
}
