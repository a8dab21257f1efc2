//! End of a terminal: none of its programs remains, however it ends.

use super::*;
use crate::harness::agent::{alive, gone};

/// Starts programs that survive a hang-up, and returns their ids.
async fn start_survivors(agent: &RunningAgent, terminal: &mut Terminal) -> Vec<String> {
    let line = "setsid sh -c 'echo $$ >a; exec sleep 1001' & nohup sleep 1002 >/dev/null 2>&1 & echo $! >b; \
                (setsid sh -c 'trap \"\" HUP TERM; echo $$ >c; while :; do sleep 1; done' >/dev/null 2>&1 &); \
                sleep 1003 & echo $! >d\r";
    terminal.input(line).await;
    let mut pids = Vec::new();
    for name in ["a", "b", "c", "d"] {
        let pid = agent.file(name).await.trim().to_owned();
        assert!(alive(&pid), "{name} must run");
        pids.push(pid);
    }
    pids
}

async fn assert_all_gone(pids: &[String]) {
    for pid in pids {
        assert!(gone(pid).await, "{pid} still runs");
    }
}

#[tokio::test]
async fn the_shell_s_end_is_told_and_takes_all_with_it() {
    let agent = RunningAgent::headless().await;
    let mut terminal = Terminal::ready(&agent).await;
    let survivors = start_survivors(&agent, &mut terminal).await;
    terminal.input("echo la''st; exit 7\r").await;
    assert_eq!(terminal.next_message().await, exit(7));
    assert!(terminal.text.contains("last\r\n"), "{:?}", terminal.text);
    assert_eq!(terminal.next_message().await, ServerMessage::Closed(1000));
    assert_all_gone(&survivors).await;
}

#[tokio::test]
async fn a_client_that_leaves_takes_all_with_it() {
    let agent = RunningAgent::headless().await;
    let mut closing = Terminal::ready(&agent).await;
    let survivors = start_survivors(&agent, &mut closing).await;
    closing.client.0.close(None).await.expect("an open socket");
    assert_all_gone(&survivors).await;
    for name in ["a", "b", "c", "d"] {
        std::fs::remove_file(agent.home().join(name)).expect("a file");
    }
    let mut dropped = Terminal::ready(&agent).await;
    let survivors = start_survivors(&agent, &mut dropped).await;
    drop(dropped);
    assert_all_gone(&survivors).await;
}

#[tokio::test]
async fn an_agent_that_is_killed_takes_all_with_it() {
    let mut agent = RunningAgent::headless().await;
    let mut terminal = Terminal::ready(&agent).await;
    let survivors = start_survivors(&agent, &mut terminal).await;
    agent.restart().await;
    assert_all_gone(&survivors).await;
}

#[tokio::test]
async fn a_shell_that_is_killed_is_told_of() {
    let agent = RunningAgent::headless().await;
    let mut terminal = Terminal::ready(&agent).await;
    terminal.input("kill -9 $$\r").await;
    assert_eq!(terminal.next_message().await, exit(137));
    assert_eq!(terminal.next_message().await, ServerMessage::Closed(1000));
    // Also when the shell has killed its parent processes first: the nurse, then the shim.
    let mut terminal = Terminal::ready(&agent).await;
    terminal.input("sleep 1004 & echo $! >left; kill -9 $(ps -o ppid= -p $PPID) $PPID\r").await;
    assert_eq!(terminal.next_message().await, exit(137));
    assert_eq!(terminal.next_message().await, ServerMessage::Closed(1000));
    assert!(gone(agent.file("left").await.trim()).await);
}

#[tokio::test]
async fn an_agent_that_stops_says_so() {
    let agent = RunningAgent::headless().await;
    let mut terminal = Terminal::ready(&agent).await;
    let survivors = start_survivors(&agent, &mut terminal).await;
    let pid = nix::unistd::Pid::from_raw(agent.pid().cast_signed());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).expect("the agent runs");
    assert_eq!(terminal.next_message().await, ServerMessage::Closed(1001));
    assert_all_gone(&survivors).await;
}
