//! Limits of terminals: malformed messages, refused terminals, and large input.

use super::{ServerMessage, TIMEOUT, Terminal, exit};
use crate::harness::agent::RunningAgent;
use futures_util::SinkExt;
use hotdesk::agent::exec::terminal::MAX_TERMINALS;
use serde_json::json;
use tokio_tungstenite::tungstenite::Message;

fn is_error(message: &ServerMessage) -> bool {
    matches!(message, ServerMessage::Other(message) if message["type"] == "error" && message["message"].is_string())
}

#[tokio::test]
async fn what_is_not_understood_is_told_and_closes_nothing() {
    let agent = RunningAgent::headless().await;
    let mut terminal = Terminal::ready(&agent).await;
    for bad in [
        json!("words"),
        json!({}),
        json!({ "type": "nonsense" }),
        json!({ "type": "input" }),
        json!({ "type": "input", "data": 5 }),
        json!({ "type": "resize", "cols": 0, "rows": 24 }),
        json!({ "type": "resize", "cols": 80, "rows": 1001 }),
        json!({ "type": "resize", "cols": -1, "rows": 24 }),
        json!({ "type": "resize", "cols": 80 }),
    ] {
        terminal.send_message(bad.clone()).await;
        assert!(is_error(&terminal.next_message().await), "{bad}");
    }
    for raw in [Message::Text("{".into()), Message::Binary(vec![0, 255].into())] {
        terminal.client.0.send(raw).await.expect("an open socket");
        assert!(is_error(&terminal.next_message().await));
    }
    assert_eq!(terminal.run("stty size").await, "24 80\r\n");
}

#[tokio::test]
async fn a_terminal_that_cannot_be_says_why_and_closes() {
    let agent = RunningAgent::headless().await;
    for (query, code) in [
        ("&cols=0", 4500),
        ("&rows=1001", 4500),
        ("&cols=wide", 4500),
        ("&cols=", 4500),
        ("&screen=nowhere", 4404),
    ] {
        let mut terminal = Terminal::open(&agent, query).await;
        assert!(is_error(&terminal.next_message().await), "{query}");
        assert_eq!(terminal.next_message().await, ServerMessage::Closed(code), "{query}");
    }
    std::fs::remove_dir(agent.home()).expect("an empty folder");
    let mut terminal = Terminal::open(&agent, "").await;
    assert!(is_error(&terminal.next_message().await));
    assert_eq!(terminal.next_message().await, ServerMessage::Closed(4500));
}

#[tokio::test]
async fn there_are_only_so_many_at_once() {
    let agent = RunningAgent::headless().await;
    let mut open = Vec::new();
    for _ in 0..MAX_TERMINALS {
        open.push(Terminal::ready(&agent).await);
    }
    let mut late = Terminal::open(&agent, "").await;
    assert!(is_error(&late.next_message().await));
    assert_eq!(late.next_message().await, ServerMessage::Closed(4500));
    let mut first = open.remove(0);
    first.input("exit\r").await;
    assert_eq!(first.next_message().await, exit(0));
    assert_eq!(first.next_message().await, ServerMessage::Closed(1000));
    let mut next = Terminal::ready(&agent).await;
    assert_eq!(next.run("echo $((6 * 7))").await, "42\r\n");
}

/// A large paste reaches its program completely. The terminal's buffer has 4 KB, and the agent must read the
/// program's output meanwhile.
#[tokio::test]
async fn a_megabyte_is_pasted() {
    let agent = RunningAgent::headless().await;
    let mut terminal = Terminal::ready(&agent).await;
    let line = format!("{}\r", "0123456789".repeat(10));
    let pasted = line.repeat(10_000);
    // While a command runs, the shell has restored the terminal's handling of carriage returns.
    terminal.input("echo go''ing; cat >pasted; wc -c <pasted; md5sum <pasted; echo do''ne\r").await;
    terminal.until("going\r\n").await;
    terminal.input(&pasted).await;
    terminal.input("\u{4}").await;
    terminal.until("done\r\n").await;
    let received = std::fs::read_to_string(agent.home().join("pasted")).expect("a file");
    assert!(received == pasted.replace('\r', "\n"), "{} bytes received", received.len());
}

/// Input for a program that does not read is limited, and the client gets an error when input is dropped.
#[tokio::test]
async fn a_program_that_does_not_read_is_not_typed_ahead_of_without_end() {
    let agent = RunningAgent::headless().await;
    let mut terminal = Terminal::ready(&agent).await;
    terminal.input("stty raw -echo; echo qui''et; exec sleep 1000\r").await;
    terminal.until("quiet").await;
    let before = agent.resident_kib();
    let megabyte = "x".repeat(1_000_000);
    let error = tokio::time::timeout(TIMEOUT, async {
        for _ in 0..20 {
            terminal.input(&megabyte).await;
        }
        terminal.next_message().await
    });
    assert!(is_error(&error.await.expect("an error message")));
    let grown = agent.resident_kib().saturating_sub(before);
    assert!(grown < 24 * 1024, "{grown} KiB");
}
