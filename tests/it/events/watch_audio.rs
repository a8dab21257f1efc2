//! Is it told when something begins and ceases to play, across restarts of the sound server?

use std::path::Path;
use std::process::{Child, Command, Stdio};

use hotdesk::base::wait;
use hotdesk::domain::event::Kind;
use nix::sys::signal::Signal;
use nix::unistd::Pid;
use serde_json::json;

use super::watch::Hearing;
use crate::display::desk::{PATIENCE, installed};

/// A process that ends with the test.
struct Running(Child);

impl Running {
    fn signal(&self, signal: Signal) {
        nix::sys::signal::kill(Pid::from_raw(self.0.id().cast_signed()), signal).expect("a signal");
    }

    fn end(mut self) {
        self.signal(Signal::SIGTERM);
        self.0.wait().expect("an end");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A sound server as the session starts it.
async fn server(folder: &Path) -> Running {
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
    let listens = || async { std::os::unix::net::UnixStream::connect(&socket).ok().map(|_| ()) };
    wait::until(PATIENCE, listens).await.expect("the sound server listens");
    Running(child)
}

/// Plays silence for ever.
fn play(folder: &Path) -> Running {
    let child = Command::new("pacat")
        .env("PULSE_SERVER", format!("unix:{}", folder.join("pulse/native").display()))
        .env("HOME", folder)
        .args(["--playback", "--raw", "--latency-msec=20", "/dev/zero"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("pacat");
    Running(child)
}

#[tokio::test]
async fn streams_are_told_as_they_begin_pause_go_on_and_end() {
    if !installed("pulseaudio") || !installed("pacat") {
        return;
    }
    let home = tempfile::tempdir().expect("a folder");
    let folder = home.path().join("session");
    let sound = server(&folder).await;
    let before = play(&folder);
    let hearing = {
        // It is not known when the first stream plays; whoever asks then hears nothing of it.
        let early = Hearing::begin(None, home.path(), &[Kind::AudioStreamStart]).await;
        let playing = tokio::time::timeout(std::time::Duration::from_secs(2), early.next()).await;
        if let Ok(told) = playing {
            assert_eq!(told, ("audio_stream_start".into(), json!({})));
        }
        early.end().await;
        Hearing::begin(None, home.path(), &[Kind::AudioStreamStart, Kind::AudioStreamStop]).await
    };
    hearing.quiet().await;
    let one = play(&folder);
    hearing.expect("audio_stream_start", json!({})).await;
    let two = play(&folder);
    hearing.expect("audio_stream_start", json!({})).await;
    // pacat pauses its stream, and lets it go on.
    one.signal(Signal::SIGUSR1);
    hearing.expect("audio_stream_stop", json!({})).await;
    one.signal(Signal::SIGUSR2);
    hearing.expect("audio_stream_start", json!({})).await;
    one.end();
    hearing.expect("audio_stream_stop", json!({})).await;
    drop(two);
    hearing.expect("audio_stream_stop", json!({})).await;
    hearing.quiet().await;

    sound.end();
    hearing.expect("audio_stream_stop", json!({})).await;
    drop(before);
    let _sound = server(&folder).await;
    // The watcher may still pause before it connects again; what plays then is new to it.
    let _again = play(&folder);
    hearing.expect("audio_stream_start", json!({})).await;
    hearing.quiet().await;
    hearing.end().await;
}
