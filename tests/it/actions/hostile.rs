//! Recovery of a computer from hostile commands and from a killed agent or X server.
//!
//! T15 and T17 (docs/security.md).

use std::time::{Duration, Instant};

use hotdesk::base::wait;
use serde_json::json;

use crate::harness::agent::HttpAnswer;
use crate::harness::controller::RunningController;

/// Pid of the agent, as an expression for a command on its computer.
const AGENT: &str = "$(pgrep -P 1 -f '^hotdesk agent')";
/// Pid of the boot screen's X server.
const X_SERVER: &str = "$(pgrep -x Xvnc)";

async fn check_usable(controller: &RunningController, id: &str, after: &str) {
    let became_usable = wait::until(Duration::from_secs(30), || async {
        let output = controller.act(id, "bash", json!({"command": "echo usable"})).await;
        let shot =
            controller.get(&format!("/computers/{id}/screenshot?response_format=base64&scale=0.1")).await;
        let clicked = controller.act(id, "click", json!({"x": 1, "y": 1})).await;
        (output.body["output"] == "usable\n" && shot.status == 200 && clicked.status == 200).then_some(())
    });
    assert!(became_usable.await.is_some(), "the computer must be usable after {after}");
    assert_eq!(controller.record(id).await["status"], "running", "after {after}");
}

/// Kills processes of the computer after the pointer has left the start of a drag. The drag is longer than a busy
/// machine needs for that. Answers of the drag, with the time since the kill, and of the kill.
async fn kill_during_drag(
    controller: &RunningController,
    id: &str,
    processes: &str,
) -> (HttpAnswer, HttpAnswer) {
    let body = json!({"start_x": 1, "start_y": 1, "end_x": 500, "end_y": 500, "duration": 25});
    let drag = async { (controller.act(id, "drag", body).await, Instant::now()) };
    let kill = async {
        let moving = wait::until(Duration::from_secs(20), || async {
            let place = controller.bash(id, "DISPLAY=:99 xdotool getmouselocation --shell | head -n1").await;
            place.trim().strip_prefix("X=").and_then(|x| x.parse().ok()).filter(|x| (5..400).contains(x))
        });
        moving.await.expect("the drag moves the pointer");
        let begun = Instant::now();
        let body = json!({"command": format!("kill -9 {processes}"), "timeout": 5});
        (controller.act(id, "bash", body).await, begun)
    };
    let ((mut dragged, ended), (killed, begun)) = tokio::join!(drag, kill);
    dragged.took = ended.saturating_duration_since(begun);
    (dragged, killed)
}

/// Asserts a failure that a client can handle: 503 or 504 in JSON, within a short time.
fn check_unavailable(answer: &HttpAnswer, what: &str) {
    assert!([503, 504].contains(&answer.status), "{what}: {} {}", answer.status, answer.body);
    assert!(
        answer.body["error"].is_string() && answer.body["request_id"].is_string(),
        "{what}: {}",
        answer.body
    );
    assert!(answer.took < Duration::from_secs(15), "{what} took {:?}", answer.took);
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_that_misbehave_leave_the_computer_usable() {
    let Some((controller, _, id)) = RunningController::with_a_computer().await else { return };
    let id = id.as_str();
    let run = |command: &'static str, seconds: f64| {
        controller.act(id, "bash", json!({"command": command, "timeout": seconds}))
    };
    // Forks that leave their process group; all of them end at the timeout.
    let forks = run("for i in $(seq 200); do setsid sleep 987 & done; wait", 2.0).await;
    assert_eq!((forks.status, &forks.body["timeout"]), (200, &json!(true)), "{}", forks.body);
    let ended = wait::until(Duration::from_secs(20), || async {
        (controller.bash(id, "pgrep -fc 'sleep 98[7]'; true").await == "0\n").then_some(())
    });
    assert!(ended.await.is_some(), "forks must not outlive the timeout");
    // A daemon does not delay the answer and is not killed.
    let daemon = run("setsid sh -c 'exec sleep 986' & echo begun", 20.0).await;
    assert_eq!((&daemon.body["output"], &daemon.body["timeout"]), (&json!("begun\n"), &json!(false)));
    assert_eq!(controller.bash(id, "pgrep -fc 'sleep 98[6]'").await, "1\n");
    // The output of a flood is bounded, whether the command or its timeout ends it.
    let flood = run("yes flood | head -c 300000000", 30.0).await;
    assert_eq!(flood.status, 200, "{}", flood.body["error"]);
    assert!(flood.body["output"].as_str().unwrap().len() <= 2 * 1024 * 1024);
    assert!(flood.body["omitted_bytes"].as_u64().unwrap() > 100_000_000, "{}", flood.body["omitted_bytes"]);
    let endless = run("cat /dev/urandom", 1.0).await;
    assert_eq!((endless.status, &endless.body["timeout"]), (200, &json!(true)));
    // Standard input is empty.
    let reading = run("cat; read line; echo $?", 10.0).await;
    assert_eq!((&reading.body["output"], &reading.body["timeout"]), (&json!("1\n"), &json!(false)));
    // The controller answers whatever process the command kills.
    for command in
        ["kill -9 $PPID; sleep 1; echo lived", "kill -9 $$", "kill -STOP $PPID; exit 0", "kill -9 0"]
    {
        let killed = run(command, 5.0).await;
        assert!([200, 503].contains(&killed.status), "{command}: {} {}", killed.status, killed.body);
        assert!(killed.took < Duration::from_secs(20), "{command} took {:?}", killed.took);
        check_usable(&controller, id, command).await;
    }
    let everything = run("kill -9 -1", 5.0).await;
    assert!([200, 503].contains(&everything.status), "{} {}", everything.status, everything.body);
    check_usable(&controller, id, "kill -9 -1").await;
    assert_eq!(controller.bash(id, "echo kept > /root/Desktop/note; cat /root/Desktop/note").await, "kept\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_or_x_server_killed_in_mid_request_is_told_and_comes_back() {
    let Some((controller, _, id)) = RunningController::with_a_computer().await else { return };
    let id = id.as_str();
    let (dragged, killed) = kill_during_drag(&controller, id, X_SERVER).await;
    assert_eq!(killed.status, 200, "{}", killed.body);
    check_unavailable(&dragged, "a drag whose X server was killed");
    check_usable(&controller, id, "the X server's death").await;

    let (dragged, killed) = kill_during_drag(&controller, id, AGENT).await;
    assert!([200, 503].contains(&killed.status), "{} {}", killed.status, killed.body);
    check_unavailable(&dragged, "a drag whose agent was killed");
    check_usable(&controller, id, "the agent's death").await;

    // Repeated deaths of the agent are reported, and the computer recovers when they end.
    let slow = controller.act(
        id,
        "bash",
        json!({"command": format!("sleep 1; kill -9 {AGENT}; sleep 60"), "timeout": 70}),
    );
    check_unavailable(&slow.await, "a command that killed its agent");
    check_usable(&controller, id, "the agent's second death").await;
}
