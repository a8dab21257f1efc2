//! Processes that are made before the next command comes: each command still gets a fresh process.

use std::fs;
use std::time::Duration;

use hotdesk::base::wait;
use reqwest::Method;
use serde_json::json;

use crate::harness::agent::{RunningAgent, alive, gone};

/// Prints the process id of the command's shim, its grandparent.
pub(super) const SHIM: &str = "awk '/^PPid/{print $2}' /proc/$PPID/status";
/// Longest time until a shim is ready for the next command on a busy machine.
const READY_TIMEOUT: Duration = Duration::from_secs(30);

/// A process below the agent, as read from `/proc`.
struct Entry {
    pid: String,
    parent: String,
}

fn entries() -> Vec<Entry> {
    let parse = |pid: String| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let parent = stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.to_owned();
        Some(Entry { pid, parent })
    };
    let names = fs::read_dir("/proc").expect("processes").flatten();
    names.filter_map(|entry| entry.file_name().into_string().ok()).filter_map(parse).collect()
}

/// The shims below an agent that wait for a command: process ids of shim, waiter and command process.
fn idle_shims(agent: &RunningAgent) -> Vec<[String; 3]> {
    let all = entries();
    let only_child = |of: &str| {
        let mut children = all.iter().filter(|entry| entry.parent == of);
        children.next().filter(|_| children.next().is_none()).map(|entry| entry.pid.clone())
    };
    // The three processes are forks of one program; a command has executed another one.
    let is_shim = |pid: &str| {
        let line = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        alive(pid) && line.contains("exec-shim")
    };
    let agent = agent.pid().to_string();
    let chain = |entry: &Entry| {
        let waiter = only_child(&entry.pid)?;
        let command = only_child(&waiter)?;
        let pids = [entry.pid.clone(), waiter, command];
        pids.iter().all(|pid| is_shim(pid)).then_some(pids)
    };
    all.iter().filter(|entry| entry.parent == agent).filter_map(chain).collect()
}

/// Waits until exactly one shim waits for the next command.
async fn stored(agent: &RunningAgent) -> [String; 3] {
    let found = wait::until(READY_TIMEOUT, || async {
        let mut idle = idle_shims(agent);
        (idle.len() == 1).then(|| idle.remove(0))
    });
    found.await.expect("a shim is ready")
}

async fn output(agent: &RunningAgent, command: &str) -> String {
    let answer = agent.bash(command).await;
    assert_eq!(answer.status, 200, "{:?}", answer.body);
    answer.body["output"].as_str().expect("a text").trim().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_a_command_reaches_the_next_one() {
    let agent = RunningAgent::headless().await;
    let state = "env | grep -v ^HOTDESK_COMMAND= | sort; pwd; umask; ulimit -a; shopt; set -o; trap; alias; \
                 declare -F; jobs; echo $0 $- $BASH_SUBSHELL $# ${BASH_SOURCE[@]} $SHLVL $_ $((SECONDS < 60)); \
                 ls -l /proc/self/fd | wc -l; cat /proc/self/oom_score_adj; tty; ps -o pgid=,sid= -p $$ | awk -v p=$$ '{print $1==p, $2==p}'; \
                 grep -E 'Sig(Ign|Blk|Cgt)|Seccomp:|NoNewPrivs|CapEff' /proc/self/status";
    let first = output(&agent, state).await;
    let [shim, ..] = stored(&agent).await;
    assert_eq!(output(&agent, SHIM).await, shim);
    assert_eq!(stored(&agent).await[0], shim);
    let change = "cd /; export LEAK=1 PATH=/leak:$PATH; leak() { :; }; export -f leak; umask 077; ulimit -n 99; \
                  ulimit -c 0; set -eu; shopt -s extglob; trap 'echo trapped' EXIT; alias leak=true; renice -n 5 $$ >/dev/null; \
                  exec 9</dev/null; trap '' TERM";
    let changed = agent.bash(change).await;
    assert_eq!(changed.body["exit_code"], json!(0), "{:?}", changed.body);
    assert_eq!(stored(&agent).await[0], shim, "the shim of a command that leaves nothing is used again");
    assert_eq!(output(&agent, state).await, first);
    let marks =
        [output(&agent, "echo $HOTDESK_COMMAND").await, output(&agent, "echo $HOTDESK_COMMAND").await];
    assert!(!marks[0].is_empty() && marks[0] != marks[1], "{marks:?}");
    let pids = [output(&agent, "echo $$").await, output(&agent, "echo $$").await];
    assert_ne!(pids[0], pids[1]);
    // A failed and a killed command leave their shim clean, too.
    for (command, exit_code) in [("exit 3", 3), ("kill -9 $$", 137), ("kill -RTMIN $$", 162)] {
        assert_eq!(agent.bash(command).await.body["exit_code"], json!(exit_code), "{command}");
        assert_eq!(stored(&agent).await[0], shim, "{command}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn choices_of_a_request_hold_for_its_command_only() {
    let agent = RunningAgent::headless().await;
    let plain = "echo [$WORD] $PWD; cat";
    let home = agent.home().to_string_lossy().into_owned();
    for _ in 0..2 {
        let body =
            json!({"command": plain, "cwd": "/", "env": {"WORD": "a b"}, "stdin": "typed\n", "timeout": 60});
        let answer = agent.post("/bash", body).await;
        assert_eq!(answer.body["output"], json!("[a b] /\ntyped\n"));
        stored(&agent).await;
        assert_eq!(output(&agent, plain).await, format!("[] {home}"));
        stored(&agent).await;
        assert_eq!(
            agent.exec("import sys; print(sys.argv, __name__)").await.body["output"],
            json!("['<exec>'] __main__\n")
        );
    }
    // A home folder that was replaced meanwhile.
    stored(&agent).await;
    fs::rename(agent.home(), agent.home().with_extension("old")).unwrap();
    fs::create_dir(agent.home()).unwrap();
    assert_eq!(output(&agent, "echo new > file; cat file; pwd").await, format!("new\n{home}"));
    assert!(agent.home().join("file").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_leaves_processes_ends_its_shim_and_not_them() {
    let agent = RunningAgent::headless().await;
    let first = output(&agent, &format!("{SHIM}; setsid sleep 1000 >/dev/null 2>&1 & echo $! > left")).await;
    let left = agent.file("left").await;
    assert!(gone(&first).await);
    let next = stored(&agent).await;
    assert_ne!(next[0], first);
    assert_eq!(output(&agent, SHIM).await, next[0]);
    assert!(alive(&left));
    agent.bash(&format!("kill {left}")).await;
    assert!(gone(&left).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn processes_that_were_killed_while_they_waited_are_replaced() {
    let agent = RunningAgent::headless().await;
    agent.bash("true").await;
    for which in 0..3 {
        let pids = stored(&agent).await;
        // By another program than a command, which would use them.
        let pid = nix::unistd::Pid::from_raw(pids[which].parse().unwrap());
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL).unwrap();
        // A signal takes effect later; until then the command would go to the processes that are about to end.
        assert!(gone(&pids[which]).await && gone(&pids[0]).await, "the shim must end too ({which})");
        assert_eq!(output(&agent, "echo fine").await, "fine");
        for pid in &pids {
            assert!(gone(pid).await, "the others must end with the next command ({which})");
        }
        assert_ne!(stored(&agent).await[0], pids[0]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_shim_waits_whatever_ran_before_and_none_without_a_command() {
    let agent = RunningAgent::headless().await;
    assert_eq!(agent.request(Method::GET, "/health").send().await.unwrap().status(), 200);
    assert!(idle_shims(&agent).is_empty());
    let commands = (0..12).map(|number| {
        let agent = &agent;
        async move { output(agent, &format!("sleep 0.2; echo {number}")).await }
    });
    let answers = futures_util::future::join_all(commands).await;
    assert_eq!(answers, (0..12).map(|number| number.to_string()).collect::<Vec<_>>());
    stored(&agent).await;
    let children = || entries().iter().filter(|entry| entry.parent == agent.pid().to_string()).count();
    let surplus = wait::until(READY_TIMEOUT, || async { (children() == 1).then_some(()) });
    assert!(surplus.await.is_some(), "{} children of the agent", children());
    // A time-out ends a shim; another takes its place with the next command.
    let old = stored(&agent).await;
    assert_eq!(agent.bash_for("sleep 1000", 1.0).await.body["exit_code"], json!(124));
    assert!(gone(&old[0]).await);
    assert_eq!(output(&agent, "echo fine").await, "fine");
    assert_ne!(stored(&agent).await[0], old[0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_script_and_a_missing_program_use_the_stock_like_others() {
    let agent = RunningAgent::headless().await;
    agent.bash("true").await;
    stored(&agent).await;
    let text = "x".repeat(1_000_000);
    assert_eq!(output(&agent, &format!("A={text}; echo ${{#A}}")).await, "1000000");
    stored(&agent).await;
    let missing = agent.post("/processes", json!({"argv": ["/no/such/program"]})).await;
    assert_eq!(missing.status, 400, "{:?}", missing.body);
    assert_eq!(output(&agent, "echo fine").await, "fine");
    stored(&agent).await;
    let started = agent.post("/processes", json!({"command": "sleep 1000"})).await;
    assert_eq!(started.status, 201, "{:?}", started.body);
    assert_eq!(output(&agent, "echo fine").await, "fine");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_shim_outlives_its_agent() {
    let mut agent = RunningAgent::headless().await;
    agent.bash("true").await;
    let killed = stored(&agent).await;
    agent.restart().await;
    for pid in &killed {
        assert!(gone(pid).await, "the agent was killed");
    }
    agent.bash("true").await;
    let stopped = stored(&agent).await;
    drop(agent);
    for pid in &stopped {
        assert!(gone(pid).await, "the agent was stopped");
    }
}
