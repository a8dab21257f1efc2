//! Bash commands: their answers, and their complete end at the timeout (T15, docs/security.md).

use std::time::Duration;

use hotdesk::base::wait;
use reqwest::Method;
use serde_json::json;

use crate::harness::agent::{HttpAnswer, RunningAgent, alive, gone};
use crate::harness::sampling::sampled;

/// Timeout in seconds that suffices for a loaded machine to start the processes of a command.
const TIMEOUT_S: f64 = 10.0;
/// Longest delay of an answer after its timeout.
const MAX_DELAY: Duration = Duration::from_secs(1);
/// The same on a loaded machine. A wait for a surviving process takes minutes.
const MAX_DELAY_LOADED: Duration = Duration::from_secs(5);
/// Number of attempts, of which one must meet a bound that a loaded machine may miss.
const TRIES: usize = 3;

/// How long after its timeout of so many seconds a command was answered.
fn delay(answer: &HttpAnswer, timeout: f64) -> Duration {
    let delay = answer.took.checked_sub(Duration::from_secs_f64(timeout)).expect("not before its timeout");
    assert!(delay < MAX_DELAY_LOADED, "took {:?}", answer.took);
    delay
}

#[tokio::test(flavor = "multi_thread")]
async fn output_exit_codes_and_signals_are_told_as_they_are() {
    let agent = RunningAgent::headless().await;
    for (command, output, exit_code) in [
        ("echo hi", "hi\n", 0),
        ("echo out; echo err >&2; echo out", "out\nerr\nout\n", 0),
        ("exit 3", "", 3),
        ("false", "", 1),
        ("kill -TERM $$", "", 143),
        ("kill -9 $$", "", 137),
        ("{ sh -c 'kill -9 $$'; } 2>/dev/null; echo $?", "137\n", 0),
        ("printf '\\xff\\xfea'", "\u{fffd}\u{fffd}a", 0),
        ("cat; echo end", "end\n", 0),
        ("read line; echo \"$? [$line]\"", "1 []\n", 0),
        ("echo ~ = $HOME = $PWD | tr ' ' '\\n' | sort -u | wc -l", "2\n", 0),
        ("echo $LANG $USER; tty", "C.UTF-8 root\nnot a tty\n", 1),
        ("ls /proc/self/fd | wc -l", "4\n", 0),
        ("trap '' TERM HUP INT; kill -TERM 0; kill -HUP 0; echo alive", "alive\n", 0),
        ("exec 1>&- 2>&-; echo unseen", "", 1),
        ("", "", 0),
    ] {
        let answer = agent.bash(command).await;
        assert_eq!(answer.status, 200, "{command}: {:?}", answer.body);
        assert_eq!(answer.body["output"], json!(output), "{command}");
        assert_eq!(answer.body["exit_code"], json!(exit_code), "{command}");
        assert_eq!(answer.body["success"], json!(true), "{command}");
        assert_eq!(answer.body["action"], json!("bash"));
        assert_eq!(answer.body["command"], json!(command));
    }
    let syntax = agent.bash("if then").await.body;
    assert!(syntax["exit_code"] == 2 && syntax["output"].as_str().unwrap().contains("syntax error"));
    let missing = agent.bash("no-such-program-here").await.body;
    assert!(missing["exit_code"] == 127 && missing["output"].as_str().unwrap().contains("not found"));
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_out_of_range_are_refused() {
    let agent = RunningAgent::headless().await;
    for body in [
        json!({}),
        json!({"command": 5}),
        json!({"command": ["ls"]}),
        json!({"command": "a\u{0}b"}),
        json!({"command": "true", "timeout": 0}),
        json!({"command": "true", "timeout": -1}),
        json!({"command": "true", "timeout": 300.1}),
        json!({"command": "true", "timeout": 1e300}),
        json!({"command": "true", "timeout": "5"}),
    ] {
        assert_eq!(agent.post("/bash", body.clone()).await.status, 400, "{body}");
    }
    assert_eq!(agent.bash_for("true", 300.0).await.status, 200);
    assert_eq!(agent.post("/bash", json!({"command": "true", "timeout": null})).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_of_a_megabyte_runs_whole() {
    let agent = RunningAgent::headless().await;
    let text = "x".repeat(1_000_000);
    let answer = agent.bash(&format!("A={text}; echo ${{#A}}; exit 7")).await;
    assert_eq!((&answer.body["output"], &answer.body["exit_code"]), (&json!("1000000\n"), &json!(7)));
}

#[tokio::test(flavor = "multi_thread")]
async fn at_the_time_out_everything_that_was_started_is_dead_within_a_second() {
    let agent = RunningAgent::headless().await;
    let mut quickest = Duration::MAX;
    for _ in 0..TRIES {
        quickest = quickest.min(run_survivors(&agent).await);
        if quickest < MAX_DELAY {
            return;
        }
    }
    panic!("answered {quickest:?} after its timeout at best");
}

/// Runs every kind of process that a command can start into a timeout. Returns the delay of the answer.
async fn run_survivors(agent: &RunningAgent) -> Duration {
    let answer = agent
        .bash_for(
            "rm -f background session group nohup daemon
             echo before
             sleep 1000 & echo $! > background
             setsid sh -c 'echo $$ > session; trap \"\" TERM HUP; sleep 1000' &
             set -m; sh -c 'echo $$ > group; sleep 1000' & set +m
             nohup sh -c 'echo $$ > nohup; sleep 1000' >/dev/null 2>&1 &
             setsid -f setsid -f env -i /bin/sh -c 'echo $$ > daemon; while :; do sleep 1; done' </dev/null >/dev/null 2>&1
             sh -c 'kill -STOP $$' &
             while [ ! -s background -o ! -s session -o ! -s group -o ! -s nohup -o ! -s daemon ]; do sleep 0.05; done
             echo ready; sleep 1000; echo never",
            TIMEOUT_S,
        )
        .await;
    assert_eq!(answer.body["exit_code"], json!(124));
    assert_eq!((&answer.body["timeout"], &answer.body["success"]), (&json!(true), &json!(false)));
    assert!(
        answer.body["output"].as_str().expect("a text").starts_with("before\nready\n"),
        "{:?}",
        answer.body
    );
    for name in ["background", "session", "group", "nohup", "daemon"] {
        let pid = agent.file(name).await;
        assert!(gone(&pid).await, "{name} ({pid}) must end");
    }
    delay(&answer, TIMEOUT_S)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_bomb_is_over_within_a_second_of_its_time_out() {
    let agent = RunningAgent::headless().await;
    // Each process forks again, daemons included. Their short lives limit them to some hundreds, and the file
    // `stop` ends them all if the agent fails to.
    let bomb = "bomb() { [ -e stop -o $1 -gt 8 ] || { (bomb $(($1+1)) &) ; setsid -f bash bomb.sh $(($1+1)) ; sleep 60; } }; bomb $1";
    std::fs::write(agent.home().join("bomb.sh"), bomb).unwrap();
    let stop = agent.home().join("stop");
    let mut quickest = Duration::MAX;
    for _ in 0..TRIES {
        let answer = agent.bash_for("rm -f stop; bash bomb.sh 1", 1.5).await;
        let left = "ps -eo pid=,stat=,args= | grep '[b]omb.sh' | grep -v ' Z'";
        let over = wait::until(MAX_DELAY_LOADED, || async {
            (agent.bash(left).await.body["output"] == "").then_some(())
        })
        .await;
        let survivors = agent.bash(left).await.body["output"].clone();
        std::fs::write(&stop, "").unwrap();
        assert_eq!(answer.body["exit_code"], json!(124));
        assert!(over.is_some(), "{survivors}");
        quickest = quickest.min(delay(&answer, 1.5));
        if quickest < MAX_DELAY {
            return;
        }
    }
    panic!("answered {quickest:?} after its timeout at best");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_keeps_its_ends() {
    let agent = RunningAgent::headless().await;
    let answer = agent.bash("echo first; head -c 1G /dev/zero | tr '\\0' x; echo; echo last").await;
    let output = answer.body["output"].as_str().unwrap();
    let total = 6 + 1024 * 1024 * 1024_u64 + 1 + 5;
    assert_eq!(answer.body["omitted_bytes"], json!(total - 1024 * 1024));
    assert!(output.starts_with("first\nxxx") && output.ends_with("xx\nlast\n"));
    assert!(output.contains("bytes left out") && output.len() < 1024 * 1024 + 100);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_costs_the_agent_less_than_16_mb() {
    let (size, floor) = sampled(("400M", 100_000_000), ("10G", 1_000_000_000));
    let agent = RunningAgent::headless().await;
    agent.bash("head -c 10M /dev/zero | tr '\\0' x").await;
    for (flood, seconds) in [("tr '\\0' x", 90.0), ("cat", 90.0), ("tee /dev/stderr", 20.0)] {
        let before = agent.resident_kib();
        agent.reset_peak();
        let answer = agent.bash_for(&format!("head -c {size} /dev/zero | {flood}"), seconds).await;
        assert_eq!(answer.status, 200);
        let grown = agent.peak_kib().saturating_sub(before);
        let omitted = answer.body["omitted_bytes"].as_u64().unwrap();
        println!("{omitted} bytes through {flood} in {:?}: {grown} KiB", answer.took);
        assert!(grown * 1024 < 16_000_000, "{grown} KiB of growth during a flood through {flood}");
        assert!(omitted > floor, "only {omitted} bytes in {:?}", answer.took);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_that_never_ends_is_cut_at_its_time_out_while_others_are_served() {
    let agent = RunningAgent::headless().await;
    let flood = agent.bash_for("yes", TIMEOUT_S);
    let other = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        agent.bash("echo quick").await
    };
    let (flood, other) = tokio::join!(flood, other);
    assert!(flood.took < Duration::from_secs_f64(TIMEOUT_S) + MAX_DELAY_LOADED, "took {:?}", flood.took);
    assert_eq!(flood.body["exit_code"], json!(124));
    assert!(flood.body["output"].as_str().unwrap().len() > 1024 * 1024);
    assert_eq!(other.body["output"], json!("quick\n"));
    assert!(other.took < MAX_DELAY_LOADED, "took {:?}", other.took);
}

#[tokio::test(flavor = "multi_thread")]
async fn background_processes_live_on_and_delay_nothing() {
    let agent = RunningAgent::headless().await;
    let server =
        "i=0; while [ $i -lt 3000 ]; do echo line $i; i=$((i+1)); done; echo $i > done; exec sleep 1000";
    let answer = agent.bash(&format!("sh -c '{server}' & echo $! > server; echo started")).await;
    assert!(answer.took < MAX_DELAY_LOADED, "took {:?}", answer.took);
    assert_eq!(answer.body["exit_code"], json!(0));
    assert!(answer.body["output"].as_str().unwrap().contains("started\n"));
    // More than a pipe holds is written after the answer: the writer neither blocks nor receives SIGPIPE.
    let loud = "nohup sh -c 'while [ ! -e answered ]; do sleep 0.05; done; head -c 300000 /dev/zero; echo ok > loud' & disown; nohup sleep 1000 > /dev/null 2>&1 & echo $! > quiet";
    let second = agent.bash(loud).await;
    assert!(second.took < MAX_DELAY_LOADED, "took {:?}", second.took);
    std::fs::write(agent.home().join("answered"), "").unwrap();
    assert_eq!(agent.file("loud").await, "ok\n");
    assert_eq!(agent.file("done").await, "3000\n");
    for name in ["server", "quiet"] {
        let pid = agent.file(name).await;
        assert!(alive(&pid), "{name} must survive");
        agent.bash(&format!("kill {pid}")).await;
        assert!(gone(&pid).await);
    }
    // The answer waits 150 ms for the last output of a process substitution. A loaded machine may start it
    // later, so one attempt must meet it.
    let mut outputs = Vec::new();
    for _ in 0..TRIES {
        outputs.push(agent.bash("echo quick > >(sleep 0.01; cat)").await.body["output"].clone());
    }
    assert!(outputs.contains(&json!("quick\n")), "{outputs:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_kills_its_parents_is_still_supervised() {
    let agent = RunningAgent::headless().await;
    let orphan = agent.bash("kill -9 $PPID; sleep 0.2; echo alive; exit 5").await;
    assert_eq!((&orphan.body["output"], &orphan.body["exit_code"]), (&json!("alive\n"), &json!(5)));
    let stuck =
        agent.bash_for("kill -9 $PPID; setsid sleep 1000 & echo $! > one; sleep 1000", TIMEOUT_S).await;
    assert_eq!(stuck.body["exit_code"], json!(124));
    assert!(stuck.took < Duration::from_secs_f64(TIMEOUT_S) + MAX_DELAY_LOADED, "took {:?}", stuck.took);
    assert!(gone(&agent.file("one").await).await);
    // The whole line of processes up to the agent: session and environment mark identify what remains.
    let all = agent
        .bash(
            "shim=$(awk '/^PPid/{print $2}' /proc/$PPID/status)
             sleep 1000 & echo $! > two
             setsid -f sh -c 'echo $$ > three; sleep 1000'
             while [ ! -s three ]; do sleep 0.05; done
             kill -9 $shim $PPID; sleep 1000",
        )
        .await;
    assert_eq!(all.body["exit_code"], json!(137));
    assert!(all.took < 3 * MAX_DELAY_LOADED, "took {:?}", all.took);
    for name in ["two", "three"] {
        assert!(gone(&agent.file(name).await).await, "{name} must end");
    }
    assert_eq!(agent.bash("echo fine").await.body["output"], json!("fine\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_hangs_up_ends_its_command() {
    let agent = RunningAgent::headless().await;
    let body = json!({"command": "setsid sleep 1000 & echo $! > child; echo $$ > shell; sleep 1000"});
    let request = agent.request(Method::POST, "/bash").json(&body).send();
    tokio::select! {
        answer = request => panic!("answered: {answer:?}"),
        _ = agent.file("shell") => {}
    }
    for name in ["child", "shell"] {
        assert!(gone(&agent.file(name).await).await, "{name} must end");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_is_killed_takes_its_commands_along() {
    let agent = RunningAgent::headless().await;
    let body = json!({"command": "setsid sleep 1000 & echo $! > child; echo $$ > shell; sleep 1000"});
    let request = agent.request(Method::POST, "/bash").json(&body).send();
    let killing = async {
        agent.file("shell").await;
        let pid = nix::unistd::Pid::from_raw(agent.pid().cast_signed());
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL).unwrap();
    };
    let (broken, ()) = tokio::join!(request, killing);
    assert!(broken.is_err());
    for name in ["child", "shell"] {
        assert!(gone(&agent.file(name).await).await, "{name} must end");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_run_side_by_side_up_to_a_bound() {
    let agent = RunningAgent::headless().await;
    let held =
        (0..32).map(|number| {
            let agent = &agent;
            async move {
                agent.bash(&format!("echo x > held-{number}; while [ ! -e go ]; do sleep 0.1; done")).await
            }
        });
    let one_more = async {
        for number in 0..32 {
            agent.file(&format!("held-{number}")).await;
        }
        let refused = agent.bash("true").await;
        std::fs::write(agent.home().join("go"), "x").unwrap();
        refused
    };
    let (held, refused) = tokio::join!(futures_util::future::join_all(held), one_more);
    assert_eq!((refused.status, &refused.body["code"]), (503, &json!("too_many_commands")));
    assert!(refused.body["retry_after"].is_number());
    assert!(held.iter().all(|answer| answer.body["exit_code"] == 0));
    assert_eq!(agent.bash("echo again").await.body["output"], json!("again\n"));
}
