//! Does a computer stay usable whatever its commands do, and come back when its agent or X server is killed?
//! (threats.md T15, T17)

use std::time::Duration;

use hotdesk::base::wait;
use serde_json::json;

use crate::harness::agent::Answered;
use crate::harness::controller::RunningController;

/// The agent's process, seen from a command on its computer.
const AGENT: &str = "$(pgrep -P 1 -f '^hotdesk agent')";
/// The boot screen's X server.
const X_SERVER: &str = "$(pgrep -x Xvnc)";

async fn is_usable(house: &RunningController, id: &str, after: &str) {
    let usable = wait::until(Duration::from_secs(30), || async {
        let ran = house.act(id, "bash", json!({"command": "echo usable"})).await;
        let shot = house.get(&format!("/computers/{id}/screenshot?response_format=base64&scale=0.1")).await;
        let clicked = house.act(id, "click", json!({"x": 1, "y": 1})).await;
        (ran.body["output"] == "usable\n" && shot.status == 200 && clicked.status == 200).then_some(())
    });
    assert!(usable.await.is_some(), "not usable after {after}");
    assert_eq!(house.record(id).await["status"], "running", "after {after}");
}

/// A drag of eight seconds.
async fn long_drag(house: &RunningController, id: &str) -> Answered {
    let body = json!({"start_x": 1, "start_y": 1, "end_x": 500, "end_y": 500, "duration": 8});
    house.act(id, "drag", body).await
}

/// Kills processes of the computer once the pointer has left the start of a drag.
async fn kill_in_mid_drag(house: &RunningController, id: &str, processes: &str) -> Answered {
    let moving = wait::until(Duration::from_secs(7), || async {
        let place = house.bash(id, "DISPLAY=:99 xdotool getmouselocation --shell | head -n1").await;
        place.trim().strip_prefix("X=").and_then(|x| x.parse().ok()).filter(|x| (5..400).contains(x))
    });
    moving.await.expect("the drag moves the pointer");
    house.act(id, "bash", json!({"command": format!("kill -9 {processes}"), "timeout": 5})).await
}

/// Asserts a failure that a client can act on: 503 or 504 in JSON, soon.
fn is_honest(answer: &Answered, what: &str) {
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
    let Some((house, _, id)) = RunningController::with_a_computer().await else { return };
    let id = id.as_str();
    let run = |command: &'static str, seconds: f64| {
        house.act(id, "bash", json!({"command": command, "timeout": seconds}))
    };
    // Forks that leave their group; all of them end at the time-out.
    let forks = run("for i in $(seq 200); do setsid sleep 987 & done; wait", 2.0).await;
    assert_eq!((forks.status, &forks.body["timeout"]), (200, &json!(true)), "{}", forks.body);
    let ended = wait::until(Duration::from_secs(20), || async {
        (house.bash(id, "pgrep -fc 'sleep 98[7]'; true").await == "0\n").then_some(())
    });
    assert!(ended.await.is_some(), "forks outlive the time-out");
    // A daemon does not hold the answer, and lives on.
    let daemon = run("setsid sh -c 'exec sleep 986' & echo begun", 20.0).await;
    assert_eq!((&daemon.body["output"], daemon.took < Duration::from_secs(5)), (&json!("begun\n"), true));
    assert_eq!(house.bash(id, "pgrep -fc 'sleep 98[6]'").await, "1\n");
    // A flood is bounded, whichever way it ends.
    let flood = run("yes flood | head -c 300000000", 30.0).await;
    assert_eq!(flood.status, 200, "{}", flood.body["error"]);
    assert!(flood.body["output"].as_str().unwrap().len() <= 2 * 1024 * 1024);
    assert!(flood.body["omitted_bytes"].as_u64().unwrap() > 100_000_000, "{}", flood.body["omitted_bytes"]);
    let endless = run("cat /dev/urandom", 1.0).await;
    assert_eq!((endless.status, &endless.body["timeout"]), (200, &json!(true)));
    // Nothing to read on standard input.
    let reading = run("cat; read line; echo $?", 10.0).await;
    assert_eq!((&reading.body["output"], reading.took < Duration::from_secs(5)), (&json!("1\n"), true));
    // Whatever it kills, an answer comes.
    for command in
        ["kill -9 $PPID; sleep 1; echo lived", "kill -9 $$", "kill -STOP $PPID; exit 0", "kill -9 0"]
    {
        let killed = run(command, 5.0).await;
        assert!([200, 503].contains(&killed.status), "{command}: {} {}", killed.status, killed.body);
        assert!(killed.took < Duration::from_secs(20), "{command} took {:?}", killed.took);
        is_usable(&house, id, command).await;
    }
    let everything = run("kill -9 -1", 5.0).await;
    assert!([200, 503].contains(&everything.status), "{} {}", everything.status, everything.body);
    is_usable(&house, id, "kill -9 -1").await;
    assert_eq!(house.bash(id, "echo kept > /root/Desktop/note; cat /root/Desktop/note").await, "kept\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_or_x_server_killed_in_mid_request_is_told_and_comes_back() {
    let Some((house, _, id)) = RunningController::with_a_computer().await else { return };
    let id = id.as_str();
    let (dragged, killed) = tokio::join!(long_drag(&house, id), kill_in_mid_drag(&house, id, X_SERVER));
    assert_eq!(killed.status, 200, "{}", killed.body);
    is_honest(&dragged, "a drag whose X server was killed");
    is_usable(&house, id, "the X server's death").await;

    let (dragged, killed) = tokio::join!(long_drag(&house, id), kill_in_mid_drag(&house, id, AGENT));
    assert!([200, 503].contains(&killed.status), "{} {}", killed.status, killed.body);
    is_honest(&dragged, "a drag whose agent was killed");
    is_usable(&house, id, "the agent's death").await;

    // A computer whose agent dies again and again is told of as it is, and comes back when that ends.
    let slow = house.act(
        id,
        "bash",
        json!({"command": format!("sleep 1; kill -9 {AGENT}; sleep 60"), "timeout": 70}),
    );
    is_honest(&slow.await, "a command that killed its agent");
    is_usable(&house, id, "the agent's second death").await;
}
