//! `GET /activity`: the work that keeps a computer awake, and its end.

use std::time::{Duration, Instant};

use futures_util::{SinkExt, StreamExt, stream};
use hotdesk::base::wait;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;

use crate::display::fixture::installed;
use crate::events::watch_audio;
use crate::harness::agent::{RunningAgent, fetch_json};
use crate::harness::capability::Capability;
use crate::harness::socket::Client;
use reqwest::Method;

const TIMEOUT: Duration = Duration::from_secs(20);

/// Kinds of the current work.
fn kinds(activity: &Value) -> Vec<&str> {
    let holders = activity["held_by"].as_array().expect("a list");
    holders.iter().map(|hold| hold["kind"].as_str().expect("a kind")).collect()
}

async fn get_activity(agent: &RunningAgent) -> Value {
    let activity = agent.get("/activity").await;
    assert_eq!(activity.status, 200, "{}", activity.body);
    activity.body
}

/// Waits until exactly this work is listed.
async fn until(agent: &RunningAgent, expected: &[&str]) -> Value {
    let found = wait::until(TIMEOUT, || async {
        let activity = get_activity(agent).await;
        (kinds(&activity) == expected).then_some(activity)
    });
    match found.await {
        Some(activity) => activity,
        None => panic!("not {expected:?}: {}", get_activity(agent).await),
    }
}

fn idle(activity: &Value) -> u64 {
    activity["idle_ms"].as_u64().expect("milliseconds")
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_asked_for_is_at_work_until_its_end() {
    let agent = RunningAgent::headless().await;
    assert_eq!(kinds(&until(&agent, &[]).await), Vec::<&str>::new());

    let check = async {
        let activity = until(&agent, &["command"]).await;
        assert_eq!(activity["held_by"][0]["detail"], "1 command running");
        agent.bash("touch go").await;
    };
    let (output, ()) = tokio::join!(agent.bash("while [ ! -e go ]; do sleep 0.05; done"), check);
    assert_eq!(output.body["exit_code"], 0);
    until(&agent, &[]).await;

    // A session counts while it runs code, not while it waits.
    let code = |code: &str| json!({"code": code, "session": "one", "timeout": 60});
    agent.post("/exec", code("import os, time")).await;
    until(&agent, &[]).await;
    let slow = agent.post("/exec", code("while not os.path.exists('on'): time.sleep(0.05)"));
    let check = async {
        let activity = until(&agent, &["command"]).await;
        assert_eq!(activity["held_by"][0]["detail"], "Python session one runs");
        std::fs::write(agent.home().join("on"), "").expect("written");
    };
    tokio::join!(slow, check);
    until(&agent, &[]).await;

    let mut ids = Vec::new();
    for number in 0..20 {
        let order =
            json!({"argv": ["sleep", "1000"], "name": format!("server {number}\n{}", "x".repeat(100))});
        ids.push(agent.create("/processes", order).await["id"].as_str().expect("an id").to_owned());
    }
    let activity = get_activity(&agent).await;
    assert_eq!(kinds(&activity), ["process"; 16], "bounded");
    let detail = activity["held_by"][0]["detail"].as_str().expect("a detail");
    assert!(detail.starts_with("server 0 x") && detail.ends_with("x runs") && detail.len() < 100, "{detail}");
    for id in ids {
        assert_eq!(agent.delete(&format!("/processes/{id}")).await.status, 200);
    }
    until(&agent, &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_terminal_holds_while_it_runs_something_and_typing_is_input() {
    let agent = RunningAgent::headless().await;
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert!(idle(&get_activity(&agent).await) >= 1500);
    let path = format!("/ws/terminal?token={}", agent.token());
    let mut terminal = Client::open(agent.address(), &path, &[]).await.expect("accepted");
    let line = |text: &str| Message::Text(json!({"type": "input", "data": text}).to_string().into());
    terminal.0.send(line("sleep 1000\r")).await.expect("sent");
    // The programs that a login shell starts for itself come first.
    let asleep = wait::until(TIMEOUT, || async {
        (get_activity(&agent).await["held_by"] == json!([{"kind": "terminal", "detail": "bash runs sleep"}]))
            .then_some(())
    });
    asleep.await.expect("the terminal must run sleep");
    // Stopped by ^Z the program does not count; continued in the background it does.
    let before = Instant::now();
    terminal.0.send(line("\u{1a}")).await.expect("sent");
    until(&agent, &[]).await;
    let typed = Duration::from_millis(idle(&get_activity(&agent).await));
    assert!(typed <= before.elapsed(), "typing must reset the idle time: {typed:?}");
    terminal.0.send(line("bg\r")).await.expect("sent");
    until(&agent, &["terminal"]).await;
    terminal.0.close(None).await.expect("closed");
    while terminal.0.next().await.is_some() {}
    until(&agent, &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn transfers_hold_in_both_directions() {
    let agent = RunningAgent::headless().await;
    let (chunk, chunks) = tokio::sync::mpsc::channel::<Result<Vec<u8>, std::io::Error>>(1);
    let body = stream::unfold(chunks, |mut chunks| async { Some((chunks.recv().await?, chunks)) });
    let upload = agent.put("slow.bin", reqwest::Body::wrap_stream(body));
    let check = async {
        chunk.send(Ok(vec![1; 1000])).await.expect("sent");
        let activity = until(&agent, &["transfer"]).await;
        assert_eq!(activity["held_by"][0]["detail"], "1 transfer");
        drop(chunk);
    };
    let (put, ()) = tokio::join!(upload, check);
    assert_eq!(put.status, 200, "{}", put.body);
    until(&agent, &[]).await;

    // More than socket and pipe buffers hold, so that an unread download stays open.
    let path = agent.home().join("large.bin");
    std::fs::File::create(&path).and_then(|file| file.set_len(1 << 30)).expect("a large file");
    let reading =
        agent.request(Method::GET, "/files/content?path=large.bin").send().await.expect("an answer");
    until(&agent, &["transfer"]).await;
    drop(reading);
    until(&agent, &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn input_on_a_screen_ends_its_idleness_and_viewers_and_recordings_hold() {
    let Some(agent) = RunningAgent::with_screen().await else { return };
    let ready =
        wait::until(TIMEOUT, || async { (agent.get("/health").await.body["status"] == "ok").then_some(()) });
    ready.await.expect("the screen must become ready");
    // More than the tolerance after the click.
    let idle_for = wait::until(TIMEOUT, || async {
        Some(idle(&until(&agent, &[]).await)).filter(|since| *since >= 3_000)
    });
    idle_for.await.expect("the idle time must grow");
    let before = Instant::now();
    assert_eq!(agent.post("/click", json!({"x": 10, "y": 10})).await.status, 200);
    let after = Duration::from_millis(idle(&get_activity(&agent).await));
    let since = before.elapsed();
    // The X server has a clock of its own.
    assert!(after < since + Duration::from_secs(1), "{after:?} idle {since:?} after a click");

    if std::path::Path::new("/usr/bin/Xvnc").exists() {
        let path = format!("/ws/websockify?token={}", agent.token());
        let mut viewer = Client::open(agent.address(), &path, &[]).await.expect("accepted");
        viewer.next().await;
        let activity = until(&agent, &["viewer"]).await;
        assert_eq!(activity["held_by"][0]["detail"], "1 viewer connected");
        drop(viewer);
        until(&agent, &[]).await;
    } else {
        Capability::X11.skip("no Xvnc, so no viewer");
    }

    let recording = agent.post("/recordings", json!({})).await;
    if recording.body["code"] == "no_encoder" {
        return Capability::Rtmp.skip("no ffmpeg, so no recording");
    }
    assert_eq!(recording.status, 201, "{}", recording.body);
    let activity = until(&agent, &["recording"]).await;
    assert_eq!(activity["held_by"][0]["detail"], "screen default is recorded");
    let id = recording.body["id"].as_str().expect("an id");
    assert_eq!(fetch_json(agent.request(Method::POST, &format!("/recordings/{id}/stop"))).await.status, 200);
    until(&agent, &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sound_holds_while_it_plays_and_somebody_listens() {
    if !["pulseaudio", "pacat", "Xvnc"].into_iter().all(installed) {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let server = watch_audio::start_server(folder.path()).await;
    let agent = RunningAgent::on_a_free_display(folder.path()).await;
    let playing = watch_audio::start_playback(folder.path());
    tokio::time::sleep(Duration::from_millis(500)).await;
    until(&agent, &[]).await;
    let path = format!("/ws/audio?token={}", agent.token());
    let mut listener = Client::open(agent.address(), &path, &[]).await.expect("accepted");
    listener.next().await;
    let activity = until(&agent, &["audio"]).await;
    assert_eq!(activity["held_by"][0]["detail"], "sound plays for 1 listener");
    playing.end();
    until(&agent, &[]).await;
    let again = watch_audio::start_playback(folder.path());
    until(&agent, &["audio"]).await;
    drop(listener);
    until(&agent, &[]).await;
    again.end();
    // A sound server that has ended plays nothing.
    server.end();
    until(&agent, &[]).await;
}
