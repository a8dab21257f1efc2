//! Parts of templates that need a program of the full image or of a registry: terminals, notifications and streams.

use std::time::Duration;

use hotdesk::base::wait;
use reqwest::Method;
use serde_json::json;

use super::builds::{build, launch};
use super::services::{TIMEOUT, until_printed};
use super::triggers::{ran, trigger};
use crate::harness::agent::fetch_json;
use crate::harness::caller::id_of;
use crate::harness::capability::Capability;
use crate::harness::controller::{RunningController, full_image};
use crate::harness::network::TestNetwork;
use crate::harness::rtmp::RtmpServer;
use crate::harness::trusting_image::TrustingImage;
use crate::terminal::Terminal;

/// What apt says when it does not reach its registry.
const UNREACHABLE: [&str; 4] =
    ["Could not resolve", "Temporary failure", "Unable to fetch", "Failed to fetch"];
/// Longest start of a stream: ffmpeg and the handshake, beside other tests.
const STREAM_TIMEOUT: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread")]
async fn terminals_are_sessions_of_tmux_that_outlive_their_programs() {
    let Some(controller) = RunningController::boot_full().await else { return };
    let content = "env: {PLACE: lab}\nterminal:\n  - {name: main, title: Shell, cwd: /opt, run: 'echo \"in $PWD at $PLACE\"'}\n  \
        - {name: other}\n  - {name: busy, run: exec sleep 1000}\n\
        hooks: {on_every_boot: 'tmux ls >/root/before 2>&1 || true'}\n";
    let built = build(&controller, "lab@1.0.0", content).await;
    assert_eq!(built["status"], "ready", "{built}");
    let workspace = controller.workspace("w").await;
    let launched = launch(&controller, &workspace, "one", "lab@1.0.0").await.body;
    let terminal = |name: &str, title: Option<&str>| json!({"name": name, "title": title});
    let declared = json!([terminal("main", Some("Shell")), terminal("other", None), terminal("busy", None)]);
    assert_eq!(launched["instance_details"]["templateTerminals"], declared, "{launched}");
    let id = id_of(&launched);
    let sessions = "tmux ls -F '#{session_name} #{window_name}' 2>/dev/null || true";
    let listed = wait::until(TIMEOUT, || async {
        let listed = controller.bash(&id, sessions).await;
        (listed.lines().count() == 3).then_some(listed)
    });
    let listed = listed.await.expect("three sessions");
    assert!(
        listed.contains("main Shell\n") && listed.contains("busy ") && listed.contains("other "),
        "{listed}"
    );
    let printed = wait::until(TIMEOUT, || async {
        let screen = controller.bash(&id, "tmux capture-pane -p -t main").await;
        screen.contains("in /opt at lab\n").then_some(())
    });
    printed.await.expect("the program has run");
    // Ctrl-C ends the program and not the session.
    let runs = "pgrep -fc '^sleep 1000$' || true";
    until_printed(&controller, &id, runs, "1\n").await;
    controller.bash(&id, "tmux send-keys -t busy C-c").await;
    until_printed(&controller, &id, runs, "0\n").await;
    controller.bash(&id, "tmux send-keys -t busy 'echo go''es on' Enter").await;
    let goes_on = wait::until(TIMEOUT, || async {
        let screen = controller.bash(&id, "tmux capture-pane -p -t busy").await;
        screen.contains("\ngoes on\n").then_some(())
    });
    goes_on.await.expect("a shell goes on");

    // A person attaches through hotdesk's terminal.
    let got = controller.get(&format!("/computers/{id}/vnc-password")).await;
    let password = got.body["password"].as_str().expect("a password").to_owned();
    let path = format!("/desktops/{id}/ws/terminal?token={password}&cols=100&rows=30");
    let mut terminal = Terminal::at(controller.address(), &path).await;
    terminal.input("tmux attach -t main\r").await;
    terminal.until("in /opt at lab").await;
    terminal.input("echo at''tached\r").await;
    terminal.until("attached").await;

    // A session that was closed does not come back with the agent, and is there after the next boot.
    controller.bash(&id, "tmux kill-session -t other").await;
    controller.act(&id, "bash", json!({"command": "kill -9 $(pgrep -P 1 -f '^hotdesk agent')"})).await;
    let again = wait::until(TIMEOUT, || async {
        let ran = controller.post(&format!("/computers/{id}/bash"), json!({ "command": sessions })).await;
        ran.body["output"].as_str().map(ToOwned::to_owned)
    });
    let again = again.await.expect("the agent is back");
    assert!(again.contains("main ") && !again.contains("other "), "{again}");
    for verb in ["stop", "start"] {
        let done = controller.post(&format!("/computers/{id}/{verb}"), json!({})).await;
        assert_eq!(done.status, 200, "{verb}: {}", done.body);
    }
    let listed = wait::until(TIMEOUT, || async {
        let listed = controller.bash(&id, sessions).await;
        (listed.lines().count() == 3).then_some(())
    });
    listed.await.expect("three sessions after another boot");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trigger_shows_a_notification_on_the_desktop() {
    if full_image().is_none() {
        return;
    }
    let image = TrustingImage::link();
    let controller = RunningController::boot_image(&image.path(), "").await;
    let content = "triggers:\n  - {name: full, source: {type: process, process: none}, \
        actions: [{type: notify, title: 'Disk {{ event.disk }} is full', level: error}]}\n  \
        - {name: seen, source: {type: desktop, event: notification}, actions: [{type: log, message: '{{ event.level }}: {{ event.title }}'}]}";
    let built = build(&controller, "lab@1.0.0", content).await;
    let error = built["error"].as_str().unwrap_or_default();
    if UNREACHABLE.iter().any(|sign| error.contains(sign)) {
        Capability::Registries.skip(format_args!("a build cannot download its packages: {error}"));
        return;
    }
    assert_eq!(built["status"], "ready", "{built}");
    let workspace = controller.workspace("w").await;
    let id = id_of(&launch(&controller, &workspace, "one", "lab@1.0.0").await.body);
    trigger(&controller, &id, "full", |entry| entry["status"] == "watching").await;
    let path = format!("/computers/{id}/triggers/full");
    let fired = controller.post(&path, json!({"event": {"disk": "sda"}})).await;
    assert_eq!(fired.status, 200, "{}", fired.body);
    let run = trigger(&controller, &id, "full", ran).await["runs"][0].clone();
    assert_eq!(run["status"], "succeeded", "{run}");
    let window = "DISPLAY=:99 xdotool search --onlyvisible --class dunst | wc -l";
    let shown =
        wait::until(TIMEOUT, || async { (controller.bash(&id, window).await != "0\n").then_some(()) });
    shown.await.expect("the notification is on the screen");
    let seen = trigger(&controller, &id, "seen", ran).await;
    assert_eq!(seen["runs"][0]["event"]["title"], "Disk sda is full", "{seen}");
    assert_eq!(seen["runs"][0]["event"]["level"], "error", "{seen}");
}

/// Waits until the log of a server has a text.
async fn until_logged(server: &RtmpServer, text: &str) {
    let logged = wait::until(STREAM_TIMEOUT, || async { server.log().contains(text).then_some(()) });
    assert!(logged.await.is_some(), "{text} is not in {}", server.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_begins_with_the_computer_and_another_is_started_by_its_name() {
    let Some(controller) = RunningController::boot_full().await else { return };
    let network = TestNetwork::new();
    let Some(server) = RtmpServer::in_network(&network).await else { return };
    let request = controller.request(Method::PUT, "/secrets/STREAM_KEY").json(&json!({"value": "first-key"}));
    assert!(fetch_json(request).await.status < 300);
    let content = format!(
        "secrets: [{{name: stream_key}}]\nstreaming:\n  \
         - {{name: main, url: '{0}', key: {{secret: stream_key}}, autostart: true}}\n  - {{name: second, url: '{0}', key: second-key}}\n",
        server.url("live")
    );
    let built = build(&controller, "lab@1.0.0", &content).await;
    assert_eq!(built["status"], "ready", "{built}");
    let workspace = controller.workspace("w").await;
    let id = id_of(&launch(&controller, &workspace, "one", "lab@1.0.0").await.body);
    let at = |what: &str| format!("/computers/{id}/stream/{what}");
    let streams = wait::until(STREAM_TIMEOUT, || async {
        let status = controller.get(&at("status")).await.body;
        (status["status"] == "streaming").then_some(())
    });
    streams.await.expect("the stream begins by itself");
    until_logged(&server, "name='first-key'").await;
    let twice = controller.post(&at("start"), json!({"connection_name": "second"})).await;
    assert_eq!((twice.status, &twice.body["code"]), (409, &json!("already_streaming")), "{}", twice.body);
    assert_eq!(controller.post(&at("stop"), json!({})).await.status, 200);
    let second = controller.post(&at("start"), json!({"connection_name": "second"})).await;
    assert_eq!((second.status, &second.body["status"]), (200, &json!("streaming")), "{}", second.body);
    until_logged(&server, "name='second-key'").await;
    let unknown = controller.post(&at("start"), json!({"connection_name": "third"})).await;
    assert_eq!(unknown.status, 404, "{}", unknown.body);
}
