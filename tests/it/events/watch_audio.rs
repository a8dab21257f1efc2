//! Audio events: start and stop of playback, across restarts of the sound server.

use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use hotdesk::base::wait;
use hotdesk::domain::desktop::event::EventKind;
use nix::sys::signal::Signal;
use nix::unistd::Pid;
use pulseaudio::protocol::stream::StreamFlags;
use pulseaudio::protocol::{ChannelMap, DEFAULT_SINK, PlaybackStreamParams, SampleFormat, SampleSpec};
use pulseaudio::{AsPlaybackSource, Client, PlaybackStream};
use serde_json::json;

use super::watch::WatchListener;
use crate::display::fixture::{TIMEOUT, installed};

/// A process that ends with the test.
pub struct ChildProcess(Child);

impl ChildProcess {
    fn signal(&self, signal: Signal) {
        nix::sys::signal::kill(Pid::from_raw(self.0.id().cast_signed()), signal).expect("a signal");
    }

    pub fn end(mut self) {
        self.signal(Signal::SIGTERM);
        self.0.wait().expect("an end");
    }
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a sound server like the session does.
pub async fn start_server(folder: &Path) -> ChildProcess {
    let pulse = folder.join("pulse");
    std::fs::create_dir_all(&pulse).expect("a folder");
    let (socket, cookie) = (pulse.join("native"), pulse.join("cookie"));
    let child = Command::new("pulseaudio")
        .env("PULSE_RUNTIME_PATH", &pulse)
        .env("PULSE_STATE_PATH", &pulse)
        .env("HOME", folder)
        .env_remove("PULSE_SERVER")
        .args(["-n", "--daemonize=no", "--use-pid-file=no", "--exit-idle-time=-1", "--realtime=no"])
        .args(["--high-priority=no", "--disallow-exit", "--log-level=error", "-L", "module-null-sink"])
        .arg("-L")
        .arg(format!(
            "module-native-protocol-unix auth-anonymous=1 auth-cookie={} socket={}",
            cookie.display(),
            socket.display()
        ))
        .stderr(Stdio::null())
        .spawn()
        .expect("pulseaudio");
    let env = format!("PULSE_SERVER=unix:{}\nPULSE_COOKIE={}\n", socket.display(), cookie.display());
    std::fs::write(folder.join("env"), env).expect("the session's environment");
    let listens = || async { UnixStream::connect(&socket).ok().map(|_| ()) };
    wait::until(TIMEOUT, listens).await.expect("the sound server must listen");
    ChildProcess(child)
}

/// Plays silence until it is dropped.
pub fn start_playback(folder: &Path) -> ChildProcess {
    let child = Command::new("pacat")
        .env("PULSE_SERVER", format!("unix:{}", folder.join("pulse/native").display()))
        .env("HOME", folder)
        .args(["--playback", "--raw", "--latency-msec=20", "/dev/zero"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("pacat");
    ChildProcess(child)
}

/// A stream that is ready but paused.
async fn paused_stream(folder: &Path) -> PlaybackStream {
    let socket = UnixStream::connect(folder.join("pulse/native")).expect("the sound server");
    let client = Client::new_unix(c"player", socket, Some(vec![0_u8; 256])).expect("a client");
    let params = PlaybackStreamParams {
        sample_spec: SampleSpec { format: SampleFormat::S16Le, channels: 1, sample_rate: 48_000 },
        channel_map: ChannelMap::mono(),
        sink_name: Some(DEFAULT_SINK.to_owned()),
        flags: StreamFlags { start_corked: true, ..StreamFlags::default() },
        ..PlaybackStreamParams::default()
    };
    let silence = |piece: &mut [u8]| {
        piece.fill(0);
        piece.len()
    };
    client.create_playback_stream(params, silence.as_playback_source()).await.expect("a stream")
}

#[tokio::test]
async fn streams_are_told_as_they_begin_pause_go_on_and_end() {
    if !installed("pulseaudio") || !installed("pacat") {
        return;
    }
    let home = tempfile::tempdir().expect("a folder");
    let folder = home.path().join("session");
    let sound = start_server(&folder).await;
    let before = start_playback(&folder);
    // A query during playback must not cause an event.
    let plays = || async {
        let mut list = Command::new("pactl");
        list.env("PULSE_SERVER", format!("unix:{}", folder.join("pulse/native").display()));
        list.env("HOME", &folder).args(["list", "short", "sink-inputs"]);
        (!list.output().expect("pactl").stdout.is_empty()).then_some(())
    };
    wait::until(TIMEOUT, plays).await.expect("playback must begin");
    let listener =
        WatchListener::start(None, home.path(), &[EventKind::AudioStreamStart, EventKind::AudioStreamStop])
            .await;
    listener.expect_none().await;
    let one = start_playback(&folder);
    listener.expect("audio_stream_start", json!({})).await;
    let two = start_playback(&folder);
    listener.expect("audio_stream_start", json!({})).await;
    one.end();
    listener.expect("audio_stream_stop", json!({})).await;
    drop(two);
    listener.expect("audio_stream_stop", json!({})).await;
    let paused_stream = paused_stream(&folder).await;
    listener.expect_none().await;
    for _ in 0..2 {
        let began = Instant::now();
        paused_stream.uncork().await.expect("played");
        listener.expect("audio_stream_start", json!({})).await;
        let started = began.elapsed();
        paused_stream.cork().await.expect("paused");
        listener.expect("audio_stream_stop", json!({})).await;
        println!("audio_stream_start: {started:?}");
    }
    paused_stream.delete().await.expect("ended");
    listener.expect_none().await;

    sound.end();
    listener.expect("audio_stream_stop", json!({})).await;
    drop(before);
    let _sound = start_server(&folder).await;
    // The watcher may still wait before it reconnects. Playback that starts then counts as new.
    let _again = start_playback(&folder);
    listener.expect("audio_stream_start", json!({})).await;
    listener.expect_none().await;
    listener.end().await;
}
