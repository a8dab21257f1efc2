//! Real causes in a real computer, heard through the controller; an agent that is killed meanwhile.

use std::time::Duration;

use serde_json::{Value, json};

use super::source::{Talk, leave, subscribe};
use crate::harness::controller::RunningController;
use crate::harness::socket::{Came, Client};

async fn connect(house: &RunningController, id: &str) -> Client {
    let got = house.get(&format!("/computers/{id}/vnc-password")).await;
    let password = got.body["password"].as_str().expect("a password");
    let path = format!("/desktops/{id}/ws/events?token={password}");
    Client::open(house.address(), &path, &[]).await.expect("accepted")
}

/// The first event that fits, and the types of those before it.
async fn heard(client: &mut Client, fits: impl Fn(&Value) -> bool) -> Value {
    loop {
        let mut told = client.told().await;
        let event = told["event"].take();
        if fits(&event) {
            return event;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_happens_in_a_computer_is_heard_through_the_controller() {
    let Some((house, _, id)) = RunningController::with_a_computer().await else { return };
    let mut client = connect(&house, &id).await;
    let mut other = connect(&house, &id).await;
    let windows = ["window_open", "window_focus", "window_close", "title_change"];
    subscribe(&mut client, "subscribe", &windows).await;
    subscribe(&mut client, "subscribe", &["clipboard", "file_change", "screen_change", "process_start"])
        .await;
    subscribe(&mut other, "subscribe", &["file_change"]).await;

    // No shell in it, which would give the window another title.
    let argv = ["xterm", "-T", "mine", "-e", "sleep", "1000"];
    let launched = house.act(&id, "launch", json!({"argv": argv, "wait_seconds": 10})).await;
    assert_eq!(launched.status, 200, "{}", launched.body);
    // The session's own windows may be opening still.
    let is_mine = |event: &Value| event["type"] == "window_open" && event["data"]["title"] == "mine";
    let opened = heard(&mut client, is_mine).await;
    assert_eq!(opened["data"]["screen"], "default");
    let window = opened["data"]["window_id"].as_str().expect("an id").to_owned();
    let of_it = |event: &Value, kind: &str| event["type"] == kind && event["data"]["window_id"] == window;
    heard(&mut client, |event| of_it(event, "window_focus")).await;
    house.act(&id, &format!("windows/{window}/close"), json!({})).await;
    heard(&mut client, |event| of_it(event, "window_close")).await;

    let set = house.request(reqwest::Method::PUT, &format!("/computers/{id}/clipboard"));
    let set = set.json(&json!({"text": "told"})).send().await.expect("an answer");
    assert!(set.status().is_success());
    heard(&mut client, |event| event["type"] == "clipboard" && event["data"]["content"] == "told").await;

    house.bash(&id, "touch ~/Desktop/new.txt").await;
    let new = |event: &Value| event["data"]["path"].as_str().is_some_and(|path| path.ends_with("/new.txt"));
    for listener in [&mut client, &mut other] {
        let event = heard(listener, new).await;
        assert_eq!((&event["type"], &event["data"]["action"]), (&json!("file_change"), &json!("created")));
    }

    let size = json!({"width": 1024, "height": 768});
    let resized = house.patch(&format!("/computers/{id}/screens/default"), size).await;
    assert_eq!(resized.status, 200, "{}", resized.body);
    let event = heard(&mut client, |event| event["type"] == "screen_change").await;
    assert_eq!((&event["data"]["width"], &event["data"]["height"]), (&json!(1024), &json!(768)));

    leave(other).await;
    assert_eq!(house.act(&id, "stop", json!({})).await.status, 200);
    loop {
        let came = client.next().await;
        if !matches!(came, Came::Text(_)) {
            return assert_eq!(came, Came::Closed(1001, "computer stopping".into()));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_agent_costs_its_computer_s_clients_nothing_but_time() {
    let Some((house, _, id)) = RunningController::with_a_computer().await else { return };
    let mut client = connect(&house, &id).await;
    subscribe(&mut client, "subscribe", &["file_change"]).await;
    house.bash(&id, "touch ~/Desktop/before").await;
    heard(&mut client, |event| event.to_string().contains("/before")).await;

    let init = house.init_pid(&id);
    let children = std::fs::read_to_string(format!("/proc/{init}/task/{init}/children")).expect("children");
    let is_agent = |pid: &&str| {
        let words = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        words.split('\0').nth(1) == Some("agent")
    };
    let agent: i32 = children.split_whitespace().find(is_agent).expect("an agent").parse().expect("a number");
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(agent), nix::sys::signal::Signal::SIGKILL)
        .expect("killed");

    // What happens before it is back is not told; what happens afterwards is, to a client that did nothing.
    let mut written = 0;
    loop {
        written += 1;
        assert!(written < 300, "nothing was told for a minute");
        // Refused while there is no agent.
        let touch = json!({"command": format!("touch ~/Desktop/after-{written}")});
        let _touched = house.act(&id, "bash", touch).await;
        let after = heard(&mut client, |event| event.to_string().contains("/after-"));
        if tokio::time::timeout(Duration::from_millis(200), after).await.is_ok() {
            break;
        }
    }
    assert_eq!(client.ask(json!({"type": "ping"})).await["type"], "pong");
}
