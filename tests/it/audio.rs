//! Is what a computer plays heard, whole and in time? (wire.md 10.5)

use std::f64::consts::{PI, TAU};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use futures_util::SinkExt;
use hotdesk::agent::audio::MAX_LISTENERS;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;
use tokio_util::sync::CancellationToken;

use crate::harness::agent::RunningAgent;
use crate::harness::controller::RunningController;
use crate::harness::socket::{Came, Client};

/// The tone, in cycles a second, and how many seconds it sounds.
const TONE: f64 = 440.0;
const SECONDS: usize = 2;

/// A listener, and what it has heard.
struct Listener {
    client: Client,
    rate: usize,
    channels: usize,
    heard: Vec<u8>,
    since: Instant,
}

impl Listener {
    async fn open(address: &str, path: &str, rate: usize, channels: usize) -> Self {
        let path = format!("{path}&sample_rate={rate}&channels={channels}");
        let mut client = Client::open(address, &path, &[]).await.expect("the upgrade is accepted");
        let started = json!({ "type": "started", "sample_rate": rate, "channels": channels });
        assert_eq!(message(client.next().await), started);
        Self { client, rate, channels, heard: Vec::new(), since: Instant::now() }
    }

    /// Hears the next frame, which is always 20 ms.
    async fn hear(&mut self) {
        let Came::Binary(frame) = self.client.next().await else { panic!("no frame") };
        assert_eq!(frame.len(), self.rate / 50 * self.channels * 2);
        self.heard.extend(frame);
    }

    /// Hears on for a while.
    async fn hear_for(&mut self, while_: Duration) {
        let until = Instant::now() + while_;
        while Instant::now() < until {
            self.hear().await;
        }
    }

    /// Hears on until something is over and what is still on its way has come.
    async fn hear_through(&mut self, something: impl Future<Output = ()>) {
        let mut something = std::pin::pin!(something);
        loop {
            tokio::select! {
                () = self.hear() => {}
                () = &mut something => break,
            }
        }
        self.hear_for(Duration::from_millis(500)).await;
    }

    /// As many seconds of sound as have gone by, give or take what a busy machine holds up.
    fn is_in_time(&self) {
        let heard = self.heard.len() as f64 / (self.rate * self.channels * 2) as f64;
        let gone = self.since.elapsed().as_secs_f64();
        assert!((heard - gone).abs() < 0.75, "{heard} s of sound in {gone} s");
    }

    /// The samples of the first channel.
    fn samples(&self) -> Vec<i16> {
        let every = self.channels * 2;
        self.heard.chunks_exact(every).map(|sample| i16::from_le_bytes([sample[0], sample[1]])).collect()
    }

    /// The tone that it heard must be whole: silence before and after, the right length and pitch, and not a sample lost
    /// or doubled in between.
    fn heard_the_tone(&self, folder: &Path) {
        let samples = self.samples();
        let loud = |sample: &i16| sample.unsigned_abs() > 100;
        let first = samples.iter().position(loud).expect("something is heard");
        let last = samples.iter().rposition(loud).expect("something is heard");
        assert!(first > self.rate / 5, "silence before: {first} samples");
        let seconds = (last - first) as f64 / self.rate as f64;
        // PulseAudio itself swallows 20 ms of what paplay plays: its own parec hears as much less.
        assert!((seconds - SECONDS as f64).abs() < 0.05, "{seconds} s of sound");
        // Away from both edges, where a resampler rings.
        let tone = &samples[first + self.rate / 20..last - self.rate / 20];
        // 22 turns of the tone.
        let part = self.rate / 20;
        let mut before = None;
        for (number, samples) in tone.chunks_exact(part).enumerate() {
            let phase = phase(samples, number * part, self.rate);
            if let Some(before) = before.replace(phase) {
                let turned = (phase - before + PI).rem_euclid(TAU) - PI;
                // One sample at 48 kHz is 0.058; lost in the middle of a part it shows by half on either side.
                assert!(turned.abs() < 0.02, "the phase jumps by {turned} in part {number}");
            }
        }
        let pitch = self.pitch(tone, folder);
        assert!((pitch - TONE).abs() <= 2.0, "{pitch} Hz");
    }

    /// The pitch as sox finds it.
    fn pitch(&self, tone: &[i16], folder: &Path) -> f64 {
        let raw = folder.join("heard.raw");
        std::fs::write(&raw, tone.iter().flat_map(|sample| sample.to_le_bytes()).collect::<Vec<u8>>())
            .expect("written");
        let mut sox = Command::new("sox");
        sox.args(["-t", "raw", "-e", "signed", "-b", "16", "-c", "1", "-r", &self.rate.to_string()]);
        // It takes the pitch from the steps between samples, which low rates flatten.
        let ran = sox.arg(&raw).args(["-n", "rate", "96000", "stat"]).output().expect("sox runs");
        let said = String::from_utf8_lossy(&ran.stderr).into_owned();
        let line = said.lines().find(|line| line.starts_with("Rough")).unwrap_or_else(|| panic!("{said}"));
        line.split_whitespace().last().and_then(|pitch| pitch.parse().ok()).expect("a number")
    }
}

/// The phase of the tone in some samples, counted from sample `at`.
fn phase(samples: &[i16], at: usize, rate: usize) -> f64 {
    let (mut cosine, mut sine) = (0.0, 0.0);
    for (number, sample) in samples.iter().enumerate() {
        let angle = TAU * TONE * (at + number) as f64 / rate as f64;
        cosine += f64::from(*sample) * angle.cos();
        sine += f64::from(*sample) * angle.sin();
    }
    f64::atan2(sine, cosine)
}

fn message(came: Came) -> Value {
    let Came::Text(text) = came else { panic!("{came:?}") };
    serde_json::from_str(&text).expect("JSON")
}

async fn say(client: &mut Client, message: Value) {
    client.0.send(Message::Text(message.to_string().into())).await.expect("it listens");
}

/// The next message beside the sound.
async fn told(client: &mut Client) -> Came {
    loop {
        match client.next().await {
            Came::Binary(_) => {}
            other @ (Came::Text(_) | Came::Closed(..) | Came::Cut) => return other,
        }
    }
}

fn no_sox() -> bool {
    let missing = Command::new("sox").arg("--version").output().is_err();
    if missing {
        println!("skipped: sox is not installed");
    }
    missing
}

/// A computer whose speaker is up and that holds the tone: its controller, its id, and the path of its sound.
async fn computer_with_a_tone(folder: &Path) -> Option<(RunningController, String, String)> {
    let (house, _, id) = RunningController::with_a_computer().await?;
    let tone = folder.join("tone.wav");
    let mut sox = Command::new("sox");
    sox.args(["-n", "-r", "48000", "-b", "16", "-c", "1"]).arg(&tone);
    sox.args(["synth", &SECONDS.to_string(), "sine", &TONE.to_string(), "vol", "0.5"]);
    assert!(sox.status().expect("sox runs").success());
    let tone = BASE64_STANDARD.encode(std::fs::read(tone).expect("it was made"));
    run(&house, &id, "base64 -d >/root/tone.wav; until pactl info; do sleep 0.1; done", &tone).await;
    let got = house.get(&format!("/computers/{id}/vnc-password")).await;
    let password = got.body["password"].as_str().expect("a password");
    let path = format!("/desktops/{id}/ws/audio?token={password}");
    Some((house, id, path))
}

async fn run(house: &RunningController, id: &str, command: &str, stdin: &str) {
    let ran =
        house.post(&format!("/computers/{id}/bash"), json!({ "command": command, "stdin": stdin })).await;
    assert_eq!(ran.body["exit_code"], 0, "{}", ran.body);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tone_is_heard_by_several_listeners_whole_and_in_pitch() {
    if no_sox() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let Some((house, id, path)) = computer_with_a_tone(folder.path()).await else { return };
    let mut usual = Listener::open(house.address(), &path, 24_000, 1).await;
    let mut rich = Listener::open(house.address(), &path, 48_000, 2).await;
    let mut poor = Listener::open(house.address(), &path, 8_000, 1).await;
    // It never reads, and holds up nobody.
    let _deaf = Listener::open(house.address(), &path, 48_000, 2).await;
    let over = CancellationToken::new();
    let play = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        run(&house, &id, "paplay /root/tone.wav", "").await;
        over.cancel();
    };
    let [first, second, third] = [over.cancelled(), over.cancelled(), over.cancelled()];
    tokio::join!(usual.hear_through(first), rich.hear_through(second), poor.hear_through(third), play);
    for listener in [&usual, &rich, &poor] {
        listener.is_in_time();
        listener.heard_the_tone(folder.path());
    }

    let client = &mut usual.client;
    say(client, json!({ "type": "ping" })).await;
    assert_eq!(message(told(client).await), json!({ "type": "pong" }));
    for bad in [json!("words"), json!({ "type": "start" }), json!(5)] {
        say(client, bad).await;
        assert_eq!(message(told(client).await)["type"], "error");
    }
    client.0.send(Message::Binary(vec![1, 2].into())).await.expect("it listens");
    assert_eq!(message(told(client).await)["type"], "error");
    say(client, json!({ "type": "ping" })).await;
    say(client, json!({ "type": "stop" })).await;
    assert_eq!(message(told(client).await), json!({ "type": "pong" }));
    assert_eq!(told(client).await, Came::Closed(1000, String::new()));
    // The others hear on, until the computer stops.
    rich.hear_for(Duration::from_millis(200)).await;
    assert_eq!(house.act(&id, "stop", json!({})).await.status, 200);
    let Came::Closed(1001, _) = told(&mut rich.client).await else { panic!("another end") };
}

#[tokio::test(flavor = "multi_thread")]
async fn started_is_the_first_that_a_hasty_listener_is_told() {
    let Some((house, _, id)) = RunningController::with_a_computer().await else { return };
    let got = house.get(&format!("/computers/{id}/vnc-password")).await;
    let password = got.body["password"].as_str().expect("a password");
    let path = format!("/desktops/{id}/ws/audio?token={password}");
    let mut client = Client::open(house.address(), &path, &[]).await.expect("accepted");
    say(&mut client, json!({ "type": "ping" })).await;
    say(&mut client, json!({ "type": "nonsense" })).await;
    assert_eq!(message(client.next().await)["type"], "started");
    assert_eq!(message(told(&mut client).await), json!({ "type": "pong" }));
    assert_eq!(message(told(&mut client).await)["type"], "error");
    // One that stops before it has begun is not waited for.
    client = Client::open(house.address(), &path, &[]).await.expect("accepted");
    say(&mut client, json!({ "type": "stop" })).await;
    assert_eq!(client.closed().await, 1000);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_speaker_that_stands_still_or_starts_again_is_silence_in_time() {
    if no_sox() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let Some((house, id, path)) = computer_with_a_tone(folder.path()).await else { return };
    let mut listener = Listener::open(house.address(), &path, 24_000, 1).await;
    let disturb = async {
        run(&house, &id, "pactl suspend-sink @DEFAULT_SINK@ 1", "").await;
        tokio::time::sleep(Duration::from_secs(2)).await;
        run(&house, &id, "pactl suspend-sink @DEFAULT_SINK@ 0; pkill -9 -x pulseaudio", "").await;
        run(&house, &id, "sleep 0.2; until pactl info; do sleep 0.1; done", "").await;
        // The listener is there again.
        run(&house, &id, "until pactl list short source-outputs | grep -q .; do sleep 0.1; done", "").await;
    };
    listener.hear_through(disturb).await;
    listener.is_in_time();
    assert!(listener.samples().iter().all(|sample| *sample == 0));
    let play = run(&house, &id, "sleep 0.5; paplay /root/tone.wav", "");
    listener.hear_through(play).await;
    listener.heard_the_tone(folder.path());
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
        assert!(matches!(client.next().await, Came::Closed(4500, _)), "{query}");
    }
}

/// A sound server that accepts and says nothing ends in the code for it; and only so many wait for it at once.
#[tokio::test]
async fn a_sound_server_that_does_not_come_is_told_of() {
    let session = tempfile::tempdir().expect("a temporary folder");
    let socket = session.path().join("native");
    std::fs::write(session.path().join("env"), format!("PULSE_SERVER=unix:{}\n", socket.display()))
        .expect("written");
    if RunningAgent::with_a_screen().await.is_none() {
        return;
    }
    let agent = RunningAgent::on_a_free_display(session.path()).await;
    let path = format!("/ws/audio?token={}", agent.token());
    let mute = std::os::unix::net::UnixListener::bind(&socket).expect("a socket");
    let mut asked = Vec::new();
    for _ in 0..=MAX_LISTENERS {
        asked.push(Client::open(agent.address(), &path, &[]).await.expect("accepted"));
    }
    // The one too many is told at once, the others when nothing has come for a while.
    let mut too_many = 0;
    for mut client in asked {
        let said = message(client.next().await);
        assert_eq!(said["type"], "error");
        too_many += usize::from(said["message"].as_str().expect("why").contains("listeners"));
        assert!(matches!(client.next().await, Came::Closed(4500, _)));
    }
    assert_eq!(too_many, 1);
    drop(mute);
}
