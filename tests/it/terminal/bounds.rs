//! What is refused, and what stays open all the same?

use super::{TIMEOUT, Said, Terminal, exit};
use crate::harness::agent::RunningAgent;
use futures_util::SinkExt;
use hotdesk::agent::exec::terminal::MAX_TERMINALS;
use serde_json::json;
use tokio_tungstenite::tungstenite::Message;

fn is_error(said: &Said) -> bool {
    matches!(said, Said::Other(message) if message["type"] == "error" && message["message"].is_string())
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
        terminal.say(bad.clone()).await;
        assert!(is_error(&terminal.other().await), "{bad}");
    }
    for raw in [Message::Text("{".into()), Message::Binary(vec![0, 255].into())] {
        terminal.client.0.send(raw).await.expect("it listens");
        assert!(is_error(&terminal.other().await));
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
        assert!(is_error(&terminal.other().await), "{query}");
        assert_eq!(terminal.other().await, Said::Closed(code), "{query}");
    }
    std::fs::remove_dir(agent.home()).expect("it is empty");
    let mut terminal = Terminal::open(&agent, "").await;
    assert!(is_error(&terminal.other().await));
    assert_eq!(terminal.other().await, Said::Closed(4500));
}

#[tokio::test]
async fn there_are_only_so_many_at_once() {
    let agent = RunningAgent::headless().await;
    let mut open = Vec::new();
    for _ in 0..MAX_TERMINALS {
        open.push(Terminal::ready(&agent).await);
    }
    let mut late = Terminal::open(&agent, "").await;
    assert!(is_error(&late.other().await));
    assert_eq!(late.other().await, Said::Closed(4500));
    let mut first = open.remove(0);
    first.input("exit\r").await;
    assert_eq!(first.other().await, exit(0));
    assert_eq!(first.other().await, Said::Closed(1000));
    let mut next = Terminal::ready(&agent).await;
    assert_eq!(next.run("echo $((6 * 7))").await, "42\r\n");
}

/// A large paste reaches its program whole: the terminal's own buffer has 4 KB, and what the program writes back has to
/// be read meanwhile.
#[tokio::test]
async fn a_megabyte_is_pasted() {
    let agent = RunningAgent::headless().await;
    let mut terminal = Terminal::ready(&agent).await;
    let line = format!("{}\r", "0123456789".repeat(10));
    let pasted = line.repeat(10_000);
    // Once a command runs, the shell has given the terminal back its own way with carriage returns.
    terminal.input("echo go''ing; cat >pasted; wc -c <pasted; md5sum <pasted; echo do''ne\r").await;
    terminal.until("going\r\n").await;
    terminal.input(&pasted).await;
    terminal.input("\u{4}").await;
    terminal.until("done\r\n").await;
    let kept = std::fs::read_to_string(agent.home().join("pasted")).expect("it was written");
    assert!(kept == pasted.replace('\r', "\n"), "{} bytes arrived", kept.len());
}

/// What is typed ahead of a program that does not read is bounded, and what is dropped is told.
#[tokio::test]
async fn a_program_that_does_not_read_is_not_typed_ahead_of_without_end() {
    let agent = RunningAgent::headless().await;
    let mut terminal = Terminal::ready(&agent).await;
    terminal.input("stty raw -echo; echo qui''et; exec sleep 1000\r").await;
    terminal.until("quiet").await;
    let before = agent.resident_kib();
    let megabyte = "x".repeat(1_000_000);
    let told = tokio::time::timeout(TIMEOUT, async {
        for _ in 0..20 {
            terminal.input(&megabyte).await;
        }
        terminal.other().await
    });
    assert!(is_error(&told.await.expect("it is told")));
    let grown = agent.resident_kib().saturating_sub(before);
    assert!(grown < 24 * 1024, "{grown} KiB");
}
