//! Events of a real computer through the controller, including an agent restart.

use std::time::Duration;

use serde_json::{Value, json};

use super::source::{JsonMessages, close_normally, subscribe};
use crate::harness::controller::RunningController;
use crate::harness::socket::{Client, SocketEvent};

async fn connect(controller: &RunningController, id: &str) -> Client {
    let answer = controller.get(&format!("/computers/{id}/vnc-password")).await;
    let password = answer.body["password"].as_str().expect("a password");
    let path = format!("/desktops/{id}/ws/events?token={password}");
    Client::open(controller.address(), &path, &[]).await.expect("accepted")
}

/// Waits for the first matching event.
async fn wait_for_event(client: &mut Client, matches_event: impl Fn(&Value) -> bool) -> Value {
    loop {
        let mut event = client.next_json().await;
        let event = event["event"].take();
        if matches_event(&event) {
            return event;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_happens_in_a_computer_is_heard_through_the_controller() {
    let Some((controller, _, id)) = RunningController::with_a_computer().await else { return };
    let mut client = connect(&controller, &id).await;
    let mut other = connect(&controller, &id).await;
    let windows = ["window_open", "window_focus", "window_close", "title_change"];
    subscribe(&mut client, "subscribe", &windows).await;
    subscribe(&mut client, "subscribe", &["clipboard", "file_change", "screen_change", "process_start"])
        .await;
    subscribe(&mut other, "subscribe", &["file_change"]).await;

    // Without a shell, which would change the window's title.
    let argv = ["xterm", "-T", "mine", "-e", "sleep", "1000"];
    let launched = controller.act(&id, "launch", json!({"argv": argv, "wait_seconds": 10})).await;
    assert_eq!(launched.status, 200, "{}", launched.body);
    // The session's own windows may still be opening.
    let is_own_window = |event: &Value| event["type"] == "window_open" && event["data"]["title"] == "mine";
    let opened = wait_for_event(&mut client, is_own_window).await;
    assert_eq!(opened["data"]["screen"], "default");
    let window = opened["data"]["window_id"].as_str().expect("an id").to_owned();
    let of_window = |event: &Value, kind: &str| event["type"] == kind && event["data"]["window_id"] == window;
    wait_for_event(&mut client, |event| of_window(event, "window_focus")).await;
    controller.act(&id, &format!("windows/{window}/close"), json!({})).await;
    wait_for_event(&mut client, |event| of_window(event, "window_close")).await;

    let set = controller.request(reqwest::Method::PUT, &format!("/computers/{id}/clipboard"));
    let set = set.json(&json!({"text": "told"})).send().await.expect("an answer");
    assert!(set.status().is_success());
    wait_for_event(&mut client, |event| event["type"] == "clipboard" && event["data"]["content"] == "told")
        .await;

    controller.bash(&id, "touch ~/Desktop/new.txt").await;
    let new = |event: &Value| event["data"]["path"].as_str().is_some_and(|path| path.ends_with("/new.txt"));
    for listener in [&mut client, &mut other] {
        let event = wait_for_event(listener, new).await;
        assert_eq!((&event["type"], &event["data"]["action"]), (&json!("file_change"), &json!("created")));
    }

    let size = json!({"width": 1024, "height": 768});
    let resized = controller.patch(&format!("/computers/{id}/screens/default"), size).await;
    assert_eq!(resized.status, 200, "{}", resized.body);
    let event = wait_for_event(&mut client, |event| event["type"] == "screen_change").await;
    assert_eq!((&event["data"]["width"], &event["data"]["height"]), (&json!(1024), &json!(768)));

    close_normally(other).await;
    assert_eq!(controller.act(&id, "stop", json!({})).await.status, 200);
    loop {
        let received = client.next().await;
        if !matches!(received, SocketEvent::Text(_)) {
            return assert_eq!(received, SocketEvent::Closed(1001, "computer stopping".into()));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_agent_costs_its_computer_s_clients_nothing_but_time() {
    let Some((controller, _, id)) = RunningController::with_a_computer().await else { return };
    let mut client = connect(&controller, &id).await;
    subscribe(&mut client, "subscribe", &["file_change"]).await;
    controller.bash(&id, "touch ~/Desktop/before").await;
    wait_for_event(&mut client, |event| event.to_string().contains("/before")).await;

    let init = controller.init_pid(&id);
    let children = std::fs::read_to_string(format!("/proc/{init}/task/{init}/children")).expect("children");
    let is_agent = |pid: &&str| {
        let words = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        words.split('\0').nth(1) == Some("agent")
    };
    let agent: i32 = children.split_whitespace().find(is_agent).expect("an agent").parse().expect("a number");
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(agent), nix::sys::signal::Signal::SIGKILL)
        .expect("killed");

    // Events before the agent's restart are lost; later ones reach a client that did nothing.
    let mut written = 0;
    loop {
        written += 1;
        assert!(written < 300, "an event must arrive within a minute");
        // Fails while there is no agent.
        let touch = json!({"command": format!("touch ~/Desktop/after-{written}")});
        let _touched = controller.act(&id, "bash", touch).await;
        let after = wait_for_event(&mut client, |event| event.to_string().contains("/after-"));
        if tokio::time::timeout(Duration::from_millis(200), after).await.is_ok() {
            break;
        }
    }
    assert_eq!(client.request_json(json!({"type": "ping"})).await["type"], "pong");
}
