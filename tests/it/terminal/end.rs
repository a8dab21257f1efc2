//! What is left when a terminal ends? Nothing that was started in it, however it ended.

use super::*;
use crate::harness::agent::{alive, gone};

/// Starts what a hang-up alone would leave running: their ids.
async fn leave_behind(agent: &RunningAgent, terminal: &mut Terminal) -> Vec<String> {
    let line = "setsid sh -c 'echo $$ >a; exec sleep 1001' & nohup sleep 1002 >/dev/null 2>&1 & echo $! >b; \
                (setsid sh -c 'trap \"\" HUP TERM; echo $$ >c; while :; do sleep 1; done' >/dev/null 2>&1 &); \
                sleep 1003 & echo $! >d\r";
    terminal.input(line).await;
    let mut pids = Vec::new();
    for name in ["a", "b", "c", "d"] {
        let pid = agent.file(name).await.trim().to_owned();
        assert!(alive(&pid), "{name} runs");
        pids.push(pid);
    }
    pids
}

async fn all_gone(pids: &[String]) {
    for pid in pids {
        assert!(gone(pid).await, "{pid} lives");
    }
}

#[tokio::test]
async fn the_shell_s_end_is_told_and_takes_all_with_it() {
    let agent = RunningAgent::headless().await;
    let mut terminal = Terminal::ready(&agent).await;
    let left = leave_behind(&agent, &mut terminal).await;
    terminal.input("echo la''st; exit 7\r").await;
    assert_eq!(terminal.other().await, exit(7));
    assert!(terminal.text.contains("last\r\n"), "{:?}", terminal.text);
    assert_eq!(terminal.other().await, Said::Closed(1000));
    all_gone(&left).await;
}

#[tokio::test]
async fn a_client_that_leaves_takes_all_with_it() {
    let agent = RunningAgent::headless().await;
    let mut polite = Terminal::ready(&agent).await;
    let left = leave_behind(&agent, &mut polite).await;
    polite.client.0.close(None).await.expect("it listens");
    all_gone(&left).await;
    for name in ["a", "b", "c", "d"] {
        std::fs::remove_file(agent.home().join(name)).expect("it was written");
    }
    let mut rude = Terminal::ready(&agent).await;
    let left = leave_behind(&agent, &mut rude).await;
    drop(rude);
    all_gone(&left).await;
}

#[tokio::test]
async fn an_agent_that_is_killed_takes_all_with_it() {
    let mut agent = RunningAgent::headless().await;
    let mut terminal = Terminal::ready(&agent).await;
    let left = leave_behind(&agent, &mut terminal).await;
    agent.restart().await;
    all_gone(&left).await;
}

#[tokio::test]
async fn a_shell_that_is_killed_is_told_of() {
    let agent = RunningAgent::headless().await;
    let mut terminal = Terminal::ready(&agent).await;
    terminal.input("kill -9 $$\r").await;
    assert_eq!(terminal.other().await, exit(137));
    assert_eq!(terminal.other().await, Said::Closed(1000));
    // Also when it has killed the helpers above it first: the nurse, then the shim.
    let mut terminal = Terminal::ready(&agent).await;
    terminal.input("sleep 1004 & echo $! >left; kill -9 $(ps -o ppid= -p $PPID) $PPID\r").await;
    assert_eq!(terminal.other().await, exit(137));
    assert_eq!(terminal.other().await, Said::Closed(1000));
    assert!(gone(agent.file("left").await.trim()).await);
}

#[tokio::test]
async fn an_agent_that_stops_says_so() {
    let agent = RunningAgent::headless().await;
    let mut terminal = Terminal::ready(&agent).await;
    let left = leave_behind(&agent, &mut terminal).await;
    let pid = nix::unistd::Pid::from_raw(agent.pid().cast_signed());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).expect("it lives");
    assert_eq!(terminal.other().await, Said::Closed(1001));
    all_gone(&left).await;
}
