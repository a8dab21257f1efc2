//! RTMP streams of an agent's screen and sound, and their end.
//!
//! Uses a real agent, a real sound server and nginx; ffprobe and ffmpeg read the result.

use std::io::Write as _;
use std::net::{Ipv4Addr, TcpListener};
use std::process::{Command, Stdio};

use hotdesk::base::wait;
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use super::fixture::{TIMEOUT, installed, processes_of};
use super::window::Window;
use crate::harness::agent::{HttpAnswer, RunningAgent, gone};
use crate::harness::process::OwnedChild;
use crate::harness::rtmp::{RtmpServer, colours, loudness, probe, tone};

/// A key with characters that are special in URLs and in the arguments of the encoder.
const KEY: &str = "hunter2secret?token=#correct=horse&x=1";

/// Starts an agent with a screen of 800 by 600.
async fn start_agent(session: &std::path::Path) -> Option<(RunningAgent, String)> {
    if !installed("ffmpeg") || !installed("Xvnc") {
        return None;
    }
    let agent = RunningAgent::on_a_free_display(session).await;
    let ready = wait::until(TIMEOUT, || async {
        let screens = agent.get("/screens").await;
        (agent.get("/screenshot").await.status == 200).then_some(screens.body)
    });
    let display =
        ready.await.expect("a screen")["screens"][0]["display"].as_str().expect("a display").to_owned();
    Some((agent, display))
}

async fn start(agent: &RunningAgent, url: &str) -> HttpAnswer {
    agent.post("/stream/start", json!({"url": url, "key": KEY, "allow_private": true})).await
}

async fn until(agent: &RunningAgent, status: &str) -> Value {
    let found = wait::until(TIMEOUT, || async {
        Some(agent.get("/stream/status").await.body).filter(|state| state["status"] == status)
    });
    found.await.unwrap_or_else(|| panic!("the stream must become {status}"))
}

fn is_red([r, g, b]: &[u8; 3]) -> bool {
    *r > 180 && *g < 70 && *b < 70
}

fn is_blue([r, g, b]: &[u8; 3]) -> bool {
    *b > 180 && *g < 70 && *r < 70
}

/// Starts a sound server with a speaker of the session's name, and announces it in the session's folder.
async fn start_sound_server(session: &std::path::Path) -> Option<(OwnedChild, String)> {
    if !installed("pulseaudio") || !installed("pacat") {
        return None;
    }
    let socket = session.join("native");
    let mut server = Command::new("pulseaudio");
    server.args(["-n", "--daemonize=no", "--use-pid-file=no", "--exit-idle-time=-1", "--log-level=error"]);
    server.args(["-L", "module-null-sink sink_name=hotdesk_speaker rate=48000 channels=2", "-L"]);
    server.arg(format!(
        "module-native-protocol-unix auth-anonymous=1 auth-cookie={0}/cookie socket={0}/native",
        session.display()
    ));
    server.envs([("HOME", session), ("PULSE_RUNTIME_PATH", session), ("PULSE_STATE_PATH", session)]);
    let server = OwnedChild(server.stdin(Stdio::null()).spawn().expect("pulseaudio"));
    let started = wait::until(TIMEOUT, || async { socket.exists().then_some(()) });
    started.await.expect("a sound server");
    let address = format!("unix:{}", socket.display());
    let environment = format!("PULSE_SERVER={address}\nPULSE_COOKIE={}/cookie\n", session.display());
    std::fs::write(session.join("env"), environment).expect("the session's environment");
    Some((server, address))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_shows_the_screen_and_sounds_what_is_played() {
    let session = tempfile::tempdir().expect("a folder");
    let Some((speaker, sound_server)) = start_sound_server(session.path()).await else { return };
    let Some(server) = RtmpServer::here().await else { return };
    let Some((agent, display)) = start_agent(session.path()).await else { return };
    assert_eq!(agent.get("/stream/status").await.body, json!({"status": "idle"}));
    let window = Window::open(&display, 0, 0, 800, 600, 0xff_00_00);
    let started = start(&agent, &server.url("live/instance")).await;
    assert_eq!(started.status, 200, "{}", started.body);
    let state = until(&agent, "streaming").await;
    assert_eq!((&state["pid"], &state["sound"]), (&started.body["pid"], &json!(true)), "{state}");
    assert!(state["start_time"].is_string() && state["screen"] == "default", "{state}");
    // The server receives the key; no process argument or log contains it.
    assert!(
        server.log().contains("name='hunter2secret' args='token=#correct=horse&x=1'"),
        "{}",
        server.log()
    );
    let pid = started.body["pid"].as_u64().expect("a process");
    let all = processes_of(&display);
    assert!(all.contains(&u32::try_from(pid).expect("an id")));
    for pid in all {
        for part in ["cmdline", "environ"] {
            let text = std::fs::read(format!("/proc/{pid}/{part}")).unwrap_or_default();
            let text = String::from_utf8_lossy(&text);
            assert!(!text.contains("hunter2") && !text.contains("instance"), "{part} of {pid}: {text}");
        }
    }
    let twice = start(&agent, &server.url("live")).await;
    assert_eq!((twice.status, &twice.body["code"]), (409, &json!("already_streaming")));

    let mut player = Command::new("pacat");
    player.args(["--playback", "--raw", "--format=s16le", "--rate=48000", "--channels=1"]);
    player.args(["--device=hotdesk_speaker", "--server", &sound_server]).stdin(Stdio::piped());
    let mut player = OwnedChild(player.spawn().expect("pacat"));
    let mut input = player.0.stdin.take().expect("piped");
    let player_thread = tokio::task::spawn_blocking(move || {
        input.write_all(&tone(440.0, 2.0)).expect("the player reads");
        drop(input);
        player.0.wait().expect("the player ends");
    });
    player_thread.await.expect("no panic");
    window.fill(0, 0, 800, 600, 0x00_00_ff);
    let file = server.received(1).await;
    let blue = wait::until(TIMEOUT, || async {
        colours(&file, "200:200:500:300").last().is_some_and(is_blue).then_some(())
    });
    blue.await.expect("the change of the screen must arrive");
    let stopped = agent.post("/stream/stop", Value::Null).await;
    assert_eq!((stopped.status, &stopped.body), (200, &json!({"success": true})));
    assert!(gone(&pid.to_string()).await, "the encoder must end");
    assert_eq!(agent.get("/stream/status").await.body, json!({"status": "idle"}));
    assert_eq!(
        agent.post("/stream/stop", Value::Null).await.status,
        200,
        "stopping without a stream succeeds"
    );

    assert_eq!(probe(&file), (vec!["aac".to_owned(), "h264".to_owned()], 800, 600));
    let colours = colours(&file, "200:200:500:300");
    assert!(colours.first().is_some_and(is_red) && colours.last().is_some_and(is_blue), "{colours:?}");
    assert!(colours.len() > 60 && colours.iter().all(|colour| is_red(colour) || is_blue(colour)));
    let (tone_level, other) = (loudness(&file, 440.0), loudness(&file, 1234.0));
    assert!(tone_level > 0.4 && other < 0.05, "440 Hz at {tone_level:.3}, 1234 Hz at {other:.3}");

    // Without its sound server a stream continues in silence.
    assert_eq!(start(&agent, &server.url("live")).await.status, 200);
    drop(speaker);
    let silent = wait::until(TIMEOUT, || async {
        let state = until(&agent, "streaming").await;
        (state["sound"] == false).then_some(())
    });
    silent.await.expect("another encoder, without sound");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_is_ended_while_it_starts_and_when_its_server_takes_nothing() {
    let session = tempfile::tempdir().expect("a folder");
    let Some(server) = RtmpServer::here().await else { return };
    let Some((agent, display)) = start_agent(session.path()).await else { return };
    let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a listener");
    let port = silent.local_addr().expect("an address").port();
    let url = format!("rtmp://127.0.0.1:{port}/live");
    let stop = async {
        // Keep the connection open: the encoder treats a closed one as a refusal.
        let accepted = tokio::task::spawn_blocking(move || silent.accept().expect("a connection"));
        let _held = accepted.await.expect("no panic");
        assert_eq!(agent.get("/stream/status").await.body, json!({"status": "idle"}));
        agent.post("/stream/stop", Value::Null).await.status
    };
    let (started, stopped) = tokio::join!(start(&agent, &url), stop);
    assert_eq!((started.status, &started.body["code"], stopped), (409, &json!("stream_stopped"), 200));

    let window = Window::open(&display, 0, 0, 800, 600, 0xff_00_00);
    assert_eq!(start(&agent, &server.url("live")).await.status, 200);
    signal(server.pid(), Signal::SIGSTOP);
    // Changing content fills the buffers between the two.
    let mut colour = 1_u32;
    let ended = wait::until(3 * TIMEOUT, || {
        for tile in 0..300_i16 {
            colour = colour.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            window.fill(tile % 20 * 40, tile / 20 * 40, 40, 40, colour >> 8);
        }
        async { Some(agent.get("/stream/status").await.body).filter(|state| state["status"] != "streaming") }
    });
    let ended = ended.await.expect("the stream must end");
    assert_eq!(
        (&ended["status"], &ended["reason"]),
        (&json!("terminated"), &json!("server_stalled")),
        "{ended}"
    );
    signal(server.pid(), Signal::SIGCONT);
    drop(window);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_is_refused_or_ends_says_why() {
    let session = tempfile::tempdir().expect("a folder");
    let Some(mut server) = RtmpServer::here().await else { return };
    let Some((agent, _)) = start_agent(session.path()).await else { return };
    let url = server.url("live");
    let ask = async |body: Value| {
        let refused = agent.post("/stream/start", body).await;
        let text = refused.body.to_string();
        assert!(!text.contains("hunter2") && !text.contains("correct"), "{text}");
        assert_eq!(agent.get("/stream/status").await.body, json!({"status": "idle"}));
        (refused.status, refused.body["code"].as_str().unwrap_or_default().to_owned())
    };
    let failure = |status: u16, code: &str| (status, code.to_owned());
    assert_eq!(ask(json!({"url": url, "key": KEY})).await, failure(400, "private_address"));
    let named = format!("rtmp://localhost:{}/live", server.port);
    assert_eq!(ask(json!({"url": named, "key": KEY})).await, failure(400, "private_address"));
    assert_eq!(ask(json!({"url": "http://h/x", "key": KEY})).await, failure(400, "INVALID_REQUEST"));
    assert_eq!(ask(json!({"url": url, "key": "hunter2 x"})).await, failure(400, "INVALID_REQUEST"));
    let allowed =
        |url: &str, screen: &str| json!({"url": url, "key": KEY, "allow_private": true, "screen": screen});
    assert_eq!(ask(allowed(&url, "screen-100")).await.0, 404);
    // A server that refuses, one that does not listen, and one that never answers.
    assert_eq!(ask(allowed(&server.url("closed"), "default")).await, failure(503, "stream_refused"));
    let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a listener");
    let port = silent.local_addr().expect("an address").port();
    assert_eq!(
        ask(allowed(&format!("rtmp://127.0.0.1:{port}/x"), "default")).await,
        failure(503, "stream_refused")
    );
    drop(silent);
    assert_eq!(
        ask(allowed(&format!("rtmp://127.0.0.1:{port}/x"), "default")).await,
        failure(503, "stream_refused")
    );
    // A server with an unknown certificate.
    assert_eq!(
        ask(allowed(&url.replace("rtmp:", "rtmps:"), "default")).await,
        failure(503, "stream_refused")
    );

    // The host resolves its own name. Without a sound server the stream has silence.
    assert_eq!(start(&agent, &named).await.status, 200);
    assert_eq!(until(&agent, "streaming").await["sound"], false);
    let file = server.received(1).await;
    server.received(file.metadata().expect("facts").len() + 5_000).await;
    server.kill();
    let state = until(&agent, "terminated").await;
    assert_eq!(state["reason"], "server_gone", "{state}");
    assert!(state["detail"].as_str().is_some_and(|detail| !detail.contains("hunter2")), "{state}");
    assert!(state["start_time"].is_string() && state["pid"].is_null(), "{state}");
    assert_eq!(probe(&file).0, ["aac", "h264"]);
    assert_eq!(start(&agent, &url).await.body["code"], "stream_refused");
    assert_eq!(agent.get("/stream/status").await.body, json!({"status": "idle"}));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_outlives_its_screen_s_size_and_server_and_not_its_encoder_or_agent() {
    let session = tempfile::tempdir().expect("a folder");
    let Some(server) = RtmpServer::here().await else { return };
    let Some((mut agent, display)) = start_agent(session.path()).await else { return };
    let url = server.url("live");
    let pid = async |agent: &RunningAgent, before: u64| {
        let other = wait::until(TIMEOUT, || async {
            let state = agent.get("/stream/status").await.body;
            assert_eq!(state["status"], "streaming", "{state}");
            state["pid"].as_u64().filter(|pid| *pid != before)
        });
        other.await.expect("another encoder")
    };
    assert_eq!(start(&agent, &url).await.status, 200);
    let first = pid(&agent, 0).await;
    recorded(&server, 1).await;
    assert_eq!(agent.patch("/screens/default", json!({"width": 640, "height": 362})).await.status, 200);
    let second = pid(&agent, first).await;
    recorded(&server, 2).await;
    let xserver = processes_of(&display).into_iter().find(|pid| {
        std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.starts_with("Xvnc"))
    });
    signal(xserver.expect("an X server"), Signal::SIGKILL);
    let third = pid(&agent, second).await;
    recorded(&server, 3).await;
    signal(u32::try_from(third).expect("an id"), Signal::SIGKILL);
    assert_eq!(until(&agent, "terminated").await["reason"], "encoder_ended");
    assert_eq!(agent.post("/stream/stop", Value::Null).await.status, 200);
    assert_eq!(agent.get("/stream/status").await.body, json!({"status": "idle"}));
    assert_eq!(start(&agent, &url).await.status, 200);
    let last = pid(&agent, third).await;
    recorded(&server, 4).await;
    agent.restart().await;
    assert!(gone(&last.to_string()).await, "the encoder must end with its agent");
    assert_eq!(agent.get("/stream/status").await.body, json!({"status": "idle"}));
    let sizes: Vec<(u64, u64)> =
        server.recorded().iter().map(|file| probe(file)).map(|(_, width, height)| (width, height)).collect();
    assert_eq!(sizes, [(800, 600), (640, 362), (640, 362), (640, 362)]);
}

/// Waits until the server has pictures of this many streams.
async fn recorded(server: &RtmpServer, streams: usize) {
    let found = wait::until(TIMEOUT, || async {
        let last = server.recorded().into_iter().nth(streams - 1)?;
        last.metadata().is_ok_and(|facts| facts.len() > 5_000).then_some(())
    });
    found.await.unwrap_or_else(|| panic!("stream {streams} is not recorded: {}", server.log()));
}

fn signal(pid: u32, signal: Signal) {
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid.cast_signed()), signal).expect("the process runs");
}
