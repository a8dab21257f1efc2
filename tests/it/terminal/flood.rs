//! Floods of output: a program that never stops writing is blocked until the client reads, and can be
//! interrupted.

use super::*;

#[tokio::test]
async fn ctrl_c_ends_a_flood_within_a_second() {
    let agent = RunningAgent::headless().await;
    let mut terminal = Terminal::ready(&agent).await;
    terminal.input("yes\r").await;
    let started = Instant::now();
    while started.elapsed() < Duration::from_secs(1) {
        assert_eq!(terminal.read_output().await, None);
    }
    let written = terminal.text.len();
    assert!(written > 1_000_000, "only {written} bytes a second");
    terminal.text.clear();
    let interrupted = Instant::now();
    terminal.input("\u{3}").await;
    terminal.input("echo af''ter\r").await;
    terminal.until("after\r\n").await;
    let took = interrupted.elapsed();
    assert!(took < Duration::from_secs(1), "{took:?}");
}

/// With a client that does not read, the flood blocks, memory does not grow, and typed keys still reach the
/// program.
#[tokio::test]
async fn an_unread_flood_waits_and_keys_still_arrive() {
    let agent = RunningAgent::headless().await;
    let mut terminal = Terminal::ready(&agent).await;
    terminal.input("(trap 'echo hit >hit; exit' INT; echo up >up; yes)\r").await;
    agent.file("up").await;
    let before = agent.resident_kib();
    let until = Instant::now() + Duration::from_secs(4);
    let mut most = before;
    while Instant::now() < until {
        most = most.max(agent.resident_kib());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(most - before < 4 * 1024, "grown by {} KiB", most - before);
    terminal.input("\u{3}").await;
    assert_eq!(agent.file("hit").await, "hit\n");
    // The client can read the blocked output, and the shell continues.
    terminal.input("echo af''ter\r").await;
    terminal.until("after\r\n").await;
}

#[tokio::test]
async fn a_large_output_is_whole() {
    let agent = RunningAgent::headless().await;
    let mut terminal = Terminal::ready(&agent).await;
    let output = terminal.run("seq 300000").await;
    let expected: String = (1..=300_000).map(|number| format!("{number}\r\n")).collect();
    assert!(output == expected, "{} bytes of {}", output.len(), expected.len());
}
