//! Audio channel: sound of a computer, complete and in real time (docs/channels.md).

use std::f64::consts::{PI, TAU};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use futures_util::SinkExt;
use hotdesk::agent::media::audio::MAX_LISTENERS;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;
use tokio_util::sync::CancellationToken;

use crate::harness::agent::RunningAgent;
use crate::harness::capability::Capability;
use crate::harness::controller::RunningController;
use crate::harness::socket::{Client, SocketEvent};

/// Frequency of the test tone in Hz and its duration in seconds.
const TONE: f64 = 440.0;
const SECONDS: usize = 2;

/// A client of the audio channel and the sound that it has received.
struct Listener {
    client: Client,
    rate: usize,
    channels: usize,
    received: Vec<u8>,
    started: Instant,
}

impl Listener {
    async fn open(address: &str, path: &str, rate: usize, channels: usize) -> Self {
        let path = format!("{path}&sample_rate={rate}&channels={channels}");
        let mut client = Client::open(address, &path, &[]).await.expect("the upgrade is accepted");
        let started = json!({ "type": "started", "sample_rate": rate, "channels": channels });
        assert_eq!(message(client.next().await), started);
        Self { client, rate, channels, received: Vec::new(), started: Instant::now() }
    }

    /// Reads the next sound frame, which is always 20 ms long.
    async fn read_frame(&mut self) {
        let SocketEvent::Binary(frame) = self.client.next().await else { panic!("no frame") };
        assert_eq!(frame.len(), self.rate / 50 * self.channels * 2);
        self.received.extend(frame);
    }

    /// Reads frames for a duration.
    async fn read_for(&mut self, duration: Duration) {
        let until = Instant::now() + duration;
        while Instant::now() < until {
            self.read_frame().await;
        }
    }

    /// Reads frames until `work` is complete and the sound that is still in transit has been received.
    async fn read_during(&mut self, work: impl Future<Output = ()>) {
        let mut work = std::pin::pin!(work);
        loop {
            tokio::select! {
                () = self.read_frame() => {}
                () = &mut work => break,
            }
        }
        self.read_for(Duration::from_millis(500)).await;
    }

    /// Asserts that the received sound is as long as the elapsed time, within the jitter of a busy machine.
    fn check_timing(&self) {
        let received = self.received.len() as f64 / (self.rate * self.channels * 2) as f64;
        let elapsed = self.started.elapsed().as_secs_f64();
        assert!((received - elapsed).abs() < 0.75, "{received} s of sound in {elapsed} s");
    }

    /// Samples of the first channel.
    fn samples(&self) -> Vec<i16> {
        let every = self.channels * 2;
        self.received.chunks_exact(every).map(|sample| i16::from_le_bytes([sample[0], sample[1]])).collect()
    }

    /// Asserts that the tone was received whole: silence before and after, correct length and pitch, and no
    /// sample lost or duplicated in between.
    fn check_tone(&self, folder: &Path) {
        let samples = self.samples();
        let is_loud = |sample: &i16| sample.unsigned_abs() > 100;
        let first = samples.iter().position(is_loud).expect("the tone must be audible");
        let last = samples.iter().rposition(is_loud).expect("the tone must be audible");
        assert!(first > self.rate / 5, "silence before: {first} samples");
        let seconds = (last - first) as f64 / self.rate as f64;
        // PulseAudio drops 20 ms of what paplay plays: its own parec receives as much less.
        assert!((seconds - SECONDS as f64).abs() < 0.05, "{seconds} s of sound");
        // Exclude both edges, where a resampler rings.
        let tone = &samples[first + self.rate / 20..last - self.rate / 20];
        // 22 periods of the tone.
        let part = self.rate / 20;
        let mut before = None;
        for (number, samples) in tone.chunks_exact(part).enumerate() {
            let phase = phase(samples, number * part, self.rate);
            if let Some(before) = before.replace(phase) {
                let jump = (phase - before + PI).rem_euclid(TAU) - PI;
                // One lost sample at 48 kHz shifts the phase by 0.058; in the middle of a part, both
                // neighbours show half of it.
                assert!(jump.abs() < 0.02, "the phase jumps by {jump} in part {number}");
            }
        }
        let pitch = self.pitch(tone, folder);
        assert!((pitch - TONE).abs() <= 2.0, "{pitch} Hz");
    }

    /// Pitch of the tone in Hz as sox measures it.
    fn pitch(&self, tone: &[i16], folder: &Path) -> f64 {
        let raw = folder.join("heard.raw");
        std::fs::write(&raw, tone.iter().flat_map(|sample| sample.to_le_bytes()).collect::<Vec<u8>>())
            .expect("written");
        let mut sox = Command::new("sox");
        sox.args(["-t", "raw", "-e", "signed", "-b", "16", "-c", "1", "-r", &self.rate.to_string()]);
        // sox derives the pitch from the differences between samples, which low rates flatten.
        let ran = sox.arg(&raw).args(["-n", "rate", "96000", "stat"]).output().expect("sox runs");
        let said = String::from_utf8_lossy(&ran.stderr).into_owned();
        let line = said.lines().find(|line| line.starts_with("Rough")).unwrap_or_else(|| panic!("{said}"));
        line.split_whitespace().last().and_then(|pitch| pitch.parse().ok()).expect("a number")
    }
}

/// Phase of the tone in some samples, counted from sample `at`.
fn phase(samples: &[i16], at: usize, rate: usize) -> f64 {
    let (mut cosine, mut sine) = (0.0, 0.0);
    for (number, sample) in samples.iter().enumerate() {
        let angle = TAU * TONE * (at + number) as f64 / rate as f64;
        cosine += f64::from(*sample) * angle.cos();
        sine += f64::from(*sample) * angle.sin();
    }
    f64::atan2(sine, cosine)
}

fn message(came: SocketEvent) -> Value {
    let SocketEvent::Text(text) = came else { panic!("{came:?}") };
    serde_json::from_str(&text).expect("JSON")
}

async fn send(client: &mut Client, message: Value) {
    client.0.send(Message::Text(message.to_string().into())).await.expect("the socket is open");
}

/// The next message that is not sound.
async fn next_message(client: &mut Client) -> SocketEvent {
    loop {
        match client.next().await {
            SocketEvent::Binary(_) => {}
            other @ (SocketEvent::Text(_) | SocketEvent::Closed(..) | SocketEvent::Cut) => return other,
        }
    }
}

fn sox_missing() -> bool {
    let missing = Command::new("sox").arg("--version").output().is_err();
    if missing {
        Capability::Audio.skip("sox is not installed");
    }
    missing
}

/// A full computer whose sound server runs and that has the tone as a file: its controller, its id, and the
/// path of its audio channel.
async fn computer_with_a_tone(folder: &Path) -> Option<(RunningController, String, String)> {
    let (controller, _, id) = RunningController::with_a_computer().await?;
    let tone = folder.join("tone.wav");
    let mut sox = Command::new("sox");
    sox.args(["-n", "-r", "48000", "-b", "16", "-c", "1"]).arg(&tone);
    sox.args(["synth", &SECONDS.to_string(), "sine", &TONE.to_string(), "vol", "0.5"]);
    assert!(sox.status().expect("sox runs").success());
    let tone = BASE64_STANDARD.encode(std::fs::read(tone).expect("sox wrote the tone"));
    run(&controller, &id, "base64 -d >/root/tone.wav; until pactl info; do sleep 0.1; done", &tone).await;
    let got = controller.get(&format!("/computers/{id}/vnc-password")).await;
    let password = got.body["password"].as_str().expect("a password");
    let path = format!("/desktops/{id}/ws/audio?token={password}");
    Some((controller, id, path))
}

async fn run(controller: &RunningController, id: &str, command: &str, stdin: &str) {
    let ran = controller
        .post(&format!("/computers/{id}/bash"), json!({ "command": command, "stdin": stdin }))
        .await;
    assert_eq!(ran.body["exit_code"], 0, "{}", ran.body);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tone_is_heard_by_several_listeners_whole_and_in_pitch() {
    if sox_missing() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let Some((controller, id, path)) = computer_with_a_tone(folder.path()).await else { return };
    let mut usual = Listener::open(controller.address(), &path, 24_000, 1).await;
    let mut stereo = Listener::open(controller.address(), &path, 48_000, 2).await;
    let mut mono = Listener::open(controller.address(), &path, 8_000, 1).await;
    // A client that never reads does not delay the others.
    let _not_reading = Listener::open(controller.address(), &path, 48_000, 2).await;
    let over = CancellationToken::new();
    let play = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        run(&controller, &id, "paplay /root/tone.wav", "").await;
        over.cancel();
    };
    let [first, second, third] = [over.cancelled(), over.cancelled(), over.cancelled()];
    tokio::join!(usual.read_during(first), stereo.read_during(second), mono.read_during(third), play);
    for listener in [&usual, &stereo, &mono] {
        listener.check_timing();
        listener.check_tone(folder.path());
    }

    let client = &mut usual.client;
    send(client, json!({ "type": "ping" })).await;
    assert_eq!(message(next_message(client).await), json!({ "type": "pong" }));
    for bad in [json!("words"), json!({ "type": "start" }), json!(5)] {
        send(client, bad).await;
        assert_eq!(message(next_message(client).await)["type"], "error");
    }
    client.0.send(Message::Binary(vec![1, 2].into())).await.expect("the socket is open");
    assert_eq!(message(next_message(client).await)["type"], "error");
    send(client, json!({ "type": "ping" })).await;
    send(client, json!({ "type": "stop" })).await;
    assert_eq!(message(next_message(client).await), json!({ "type": "pong" }));
    assert_eq!(next_message(client).await, SocketEvent::Closed(1000, String::new()));
    // The other clients receive sound until the computer stops.
    stereo.read_for(Duration::from_millis(200)).await;
    assert_eq!(controller.act(&id, "stop", json!({})).await.status, 200);
    let SocketEvent::Closed(1001, _) = next_message(&mut stereo.client).await else {
        panic!("expected close code 1001")
    };
}

#[tokio::test(flavor = "multi_thread")]
async fn started_is_the_first_that_a_hasty_listener_is_told() {
    let Some((controller, _, id)) = RunningController::with_a_computer().await else { return };
    let got = controller.get(&format!("/computers/{id}/vnc-password")).await;
    let password = got.body["password"].as_str().expect("a password");
    let path = format!("/desktops/{id}/ws/audio?token={password}");
    let mut client = Client::open(controller.address(), &path, &[]).await.expect("accepted");
    send(&mut client, json!({ "type": "ping" })).await;
    send(&mut client, json!({ "type": "nonsense" })).await;
    assert_eq!(message(client.next().await)["type"], "started");
    assert_eq!(message(next_message(&mut client).await), json!({ "type": "pong" }));
    assert_eq!(message(next_message(&mut client).await)["type"], "error");
    // The agent does not wait for a client that closes before its start.
    client = Client::open(controller.address(), &path, &[]).await.expect("accepted");
    send(&mut client, json!({ "type": "stop" })).await;
    assert_eq!(client.closed().await, 1000);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_speaker_that_stands_still_or_starts_again_is_silence_in_time() {
    if sox_missing() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let Some((controller, id, path)) = computer_with_a_tone(folder.path()).await else { return };
    let mut listener = Listener::open(controller.address(), &path, 24_000, 1).await;
    let disturb = async {
        run(&controller, &id, "pactl suspend-sink @DEFAULT_SINK@ 1", "").await;
        tokio::time::sleep(Duration::from_secs(2)).await;
        run(&controller, &id, "pactl suspend-sink @DEFAULT_SINK@ 0; pkill -9 -x pulseaudio", "").await;
        run(&controller, &id, "sleep 0.2; until pactl info; do sleep 0.1; done", "").await;
        // The recorder of the audio channel is connected again.
        run(&controller, &id, "until pactl list short source-outputs | grep -q .; do sleep 0.1; done", "")
            .await;
    };
    listener.read_during(disturb).await;
    listener.check_timing();
    assert!(listener.samples().iter().all(|sample| *sample == 0));
    let play = run(&controller, &id, "sleep 0.5; paplay /root/tone.wav", "");
    listener.read_during(play).await;
    listener.check_tone(folder.path());
}

#[tokio::test]
async fn what_cannot_be_heard_says_why_and_closes() {
    let agent = RunningAgent::headless().await;
    for query in [
        "",
        "&sample_rate=7999",
        "&sample_rate=48001",
        "&sample_rate=fast",
        "&channels=0",
        "&channels=3",
        "&channels=",
    ] {
        let path = format!("/ws/audio?token={}{query}", agent.token());
        let mut client = Client::open(agent.address(), &path, &[]).await.expect("accepted");
        let said = message(client.next().await);
        assert_eq!(said["type"], "error", "{query}");
        assert!(matches!(client.next().await, SocketEvent::Closed(4500, _)), "{query}");
    }
}

/// A sound server that accepts and never answers ends in an error, and the number of clients that wait for it
/// is limited.
#[tokio::test]
async fn a_sound_server_that_does_not_come_is_told_of() {
    let session = tempfile::tempdir().expect("a temporary folder");
    let socket = session.path().join("native");
    std::fs::write(session.path().join("env"), format!("PULSE_SERVER=unix:{}\n", socket.display()))
        .expect("written");
    if RunningAgent::with_screen().await.is_none() {
        return;
    }
    let agent = RunningAgent::on_a_free_display(session.path()).await;
    let path = format!("/ws/audio?token={}", agent.token());
    let mute = std::os::unix::net::UnixListener::bind(&socket).expect("a socket");
    let mut clients = Vec::new();
    for _ in 0..=MAX_LISTENERS {
        clients.push(Client::open(agent.address(), &path, &[]).await.expect("accepted"));
    }
    // The client beyond the limit receives its error at once, the others after the timeout.
    let mut too_many = 0;
    for mut client in clients {
        let said = message(client.next().await);
        assert_eq!(said["type"], "error");
        too_many += usize::from(said["message"].as_str().expect("why").contains("listeners"));
        assert!(matches!(client.next().await, SocketEvent::Closed(4500, _)));
    }
    assert_eq!(too_many, 1);
    drop(mute);
}
