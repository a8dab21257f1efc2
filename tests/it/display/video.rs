//! Live video of an agent's screen: what viewers see, from when on, and when it ends (docs/channels.md).
//!
//! Uses a real agent and a real encoder; ffprobe and ffmpeg read the result.

use std::path::PathBuf;

use futures_util::SinkExt;
use hotdesk::base::wait;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_tungstenite::tungstenite::Message;

use super::fixture::{TIMEOUT, installed, processes_of};
use super::window::Window;
use crate::harness::agent::RunningAgent;
use crate::harness::rtmp::{colours, probe};
use crate::harness::socket::{Client, SocketEvent};

/// Bytes before the access unit (docs/channels.md).
const HEADER: usize = 9;
/// Frames in which a new size is announced: twenty seconds, for a busy machine.
const SOON: usize = 600;

/// A viewer of the boot screen, and the format that it was told last.
struct Viewer {
    socket: Client,
    format: Value,
}

/// A frame as the viewer gets it.
struct Frame {
    is_key: bool,
    micros: u64,
    unit: Vec<u8>,
}

impl Viewer {
    async fn open(agent: &RunningAgent) -> Self {
        let path = format!("/ws/video?token={}", agent.token());
        let socket = Client::open(agent.address(), &path, &[]).await.expect("accepted");
        Self { socket, format: Value::Null }
    }

    /// Reads over the frames before the next announcement of a format.
    async fn announcement(&mut self) -> Value {
        for _ in 0..SOON {
            match self.socket.next().await {
                SocketEvent::Text(text) => return serde_json::from_str(&text).expect("JSON"),
                SocketEvent::Binary(_) => {}
                end @ (SocketEvent::Closed(..) | SocketEvent::Cut) => panic!("{end:?}"),
            }
        }
        panic!("no announcement in {SOON} frames")
    }

    async fn frame(&mut self) -> Frame {
        loop {
            match self.socket.next().await {
                SocketEvent::Text(text) => {
                    self.format = serde_json::from_str(&text).expect("JSON");
                    assert_eq!(self.format["type"], "started");
                }
                SocketEvent::Binary(bytes) => {
                    assert!(!self.format.is_null(), "a frame before its format");
                    let micros = u64::from_be_bytes(bytes[1..HEADER].try_into().expect("eight bytes"));
                    return Frame { is_key: bytes[0] == 1, micros, unit: bytes[HEADER..].to_vec() };
                }
                end @ (SocketEvent::Closed(..) | SocketEvent::Cut) => panic!("{end:?}"),
            }
        }
    }

    /// Reports that everything was received up to a frame.
    async fn report(&mut self, micros: u64) {
        let message = json!({"type": "received", "micros": micros}).to_string();
        self.socket.0.send(Message::text(message)).await.expect("sent");
    }

    /// A file with the first frames, which must begin with a key frame.
    async fn record(&mut self, count: usize) -> (TempDir, PathBuf) {
        let (mut content, mut last) = (Vec::new(), 0);
        for number in 0..count {
            let frame = self.frame().await;
            assert!(number > 0 || frame.is_key, "the first frame cannot be decoded");
            assert!(frame.micros >= last, "time goes back from {last} to {}", frame.micros);
            last = frame.micros;
            content.extend(frame.unit);
        }
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("video.h264");
        std::fs::write(&file, content).expect("written");
        (folder, file)
    }
}

/// An agent with a screen of 800 by 600, and the name of its display.
async fn start_agent() -> Option<(RunningAgent, String)> {
    if !installed("ffmpeg") {
        return None;
    }
    let agent = RunningAgent::with_screen().await?;
    let ready = wait::until(TIMEOUT, || async {
        let screens = agent.get("/screens").await;
        (agent.get("/screenshot").await.status == 200).then_some(screens.body)
    });
    let screens = ready.await.expect("a screen");
    let display = screens["screens"][0]["display"].as_str().expect("a display").to_owned();
    Some((agent, display))
}

/// The encoders on a display.
fn encoders(display: &str) -> Vec<u32> {
    let named = |pid: &u32| {
        std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim() == "ffmpeg")
    };
    processes_of(display).into_iter().filter(named).collect()
}

/// Whether the only encoder on a display makes at most so many thousand bits a second.
fn has_rate(display: &str, kbits: u32) -> bool {
    let command = |pid: u32| std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let all: Vec<String> = encoders(display).into_iter().map(command).collect();
    all.len() == 1 && all[0].contains(&format!("\0-maxrate\0{kbits}k\0"))
}

fn is_red([r, g, b]: &[u8; 3]) -> bool {
    *r > 180 && *g < 70 && *b < 70
}

fn is_blue([r, g, b]: &[u8; 3]) -> bool {
    *b > 180 && *g < 70 && *r < 70
}

#[tokio::test(flavor = "multi_thread")]
async fn all_viewers_see_the_screen_by_one_encoder_which_ends_with_them() {
    let Some((agent, display)) = start_agent().await else { return };
    let window = Window::open(&display, 0, 0, 800, 600, 0xff_00_00);
    assert_eq!(encoders(&display).len(), 0, "nobody watches");
    let mut viewer = Viewer::open(&agent).await;
    let (_folder, file) = viewer.record(5).await;
    let (width, height) = (&viewer.format["width"], &viewer.format["height"]);
    assert_eq!((width, height), (&json!(800), &json!(600)));
    assert!(viewer.format["codec"].as_str().is_some_and(|codec| codec.starts_with("avc1.")));
    assert_eq!(probe(&file), (vec!["h264".to_owned()], 800, 600));
    let seen = colours(&file, "200:200:500:300");
    assert!(seen.len() == 5 && seen.iter().all(is_red), "{seen:?}");

    // One that joins later begins at a key frame, too, and adds no encoder.
    window.fill(0, 0, 800, 600, 0x00_00_ff);
    let mut late = Viewer::open(&agent).await;
    let (_folder, file) = late.record(40).await;
    let seen = colours(&file, "200:200:500:300");
    assert!(seen.len() == 40 && seen.last().is_some_and(is_blue), "{seen:?}");
    assert_eq!(encoders(&display).len(), 1);
    drop(viewer);
    late.frame().await;
    assert_eq!(encoders(&display).len(), 1, "somebody still watches");
    drop(late);
    let ended = wait::until(TIMEOUT, || async { encoders(&display).is_empty().then_some(()) });
    ended.await.expect("the encoder ends with the last viewer");

    // It begins anew, also after an encoder that was killed.
    let mut viewer = Viewer::open(&agent).await;
    let mut last = viewer.frame().await.micros;
    let killed = encoders(&display);
    for pid in &killed {
        let pid = nix::unistd::Pid::from_raw(pid.cast_signed());
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL).expect("it runs");
    }
    let replaced = wait::until(TIMEOUT, || async {
        let all = encoders(&display);
        (!all.is_empty() && all.iter().all(|pid| !killed.contains(pid))).then_some(())
    });
    replaced.await.expect("another encoder");
    // Whoever joins now has frames of the new one alone.
    let mut later = Viewer::open(&agent).await;
    let first = later.frame().await;
    assert!(first.is_key);
    while last < first.micros {
        let frame = viewer.frame().await;
        assert!(frame.micros >= last, "time goes back");
        last = frame.micros;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_screen_of_another_size_is_announced() {
    let Some((agent, display)) = start_agent().await else { return };
    if !installed("Xvnc") {
        return;
    }
    // It covers the screen in every size.
    let _window = Window::open(&display, 0, 0, 900, 700, 0xff_00_00);
    let mut viewer = Viewer::open(&agent).await;
    viewer.frame().await;
    for (width, height) in [(640_u64, 480_u64), (801, 601)] {
        let size = json!({"width": width, "height": height});
        let resized = agent.patch("/screens/default", size.clone()).await;
        assert_eq!(resized.status, 200, "{}", resized.body);
        while viewer.format["width"] != size["width"] || viewer.format["height"] != size["height"] {
            viewer.format = viewer.announcement().await;
        }
        let (_folder, file) = viewer.record(20).await;
        // H.264 for every player has even sides.
        let even = |side: u64| side.next_multiple_of(2);
        assert_eq!(probe(&file), (vec!["h264".to_owned()], even(width), even(height)));
        let seen = colours(&file, "600:400:20:40");
        assert!(seen.len() == 20 && seen.iter().all(is_red), "{seen:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_viewer_of_no_screen_is_told() {
    let closed = async |agent: &RunningAgent, query: &str| {
        let path = format!("/ws/video?token={}{query}", agent.token());
        Client::open(agent.address(), &path, &[]).await.expect("accepted").closed().await
    };
    let headless = RunningAgent::headless().await;
    assert_eq!(closed(&headless, "").await, 4500);
    let Some((agent, _)) = start_agent().await else { return };
    assert_eq!(closed(&agent, "&screen=screen-102").await, 4404);
    // What viewers say has no meaning, and the video goes on.
    let mut viewer = Viewer::open(&agent).await;
    viewer.frame().await;
    viewer.socket.0.send(Message::text("pause")).await.expect("the socket is open");
    for _ in 0..10 {
        viewer.frame().await;
    }
    // A screen that is deleted ends its video.
    let made = agent.post("/screens", json!({})).await;
    let id = made.body["id"].as_str().unwrap_or_else(|| panic!("{}", made.body));
    let path = format!("/ws/video?token={}&screen={id}", agent.token());
    let mut other = Viewer {
        socket: Client::open(agent.address(), &path, &[]).await.expect("accepted"),
        format: Value::Null,
    };
    other.frame().await;
    assert_eq!(agent.delete(&format!("/screens/{id}")).await.status, 200);
    assert_eq!(other.socket.closed().await, 4500);
    viewer.frame().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_rate_follows_what_viewers_report() {
    let Some((agent, display)) = start_agent().await else { return };
    let until = async |kbits| {
        let found = wait::until(TIMEOUT, || async { has_rate(&display, kbits).then_some(()) });
        found.await.unwrap_or_else(|| panic!("no encoder with {kbits} kbit/s"));
    };
    let mut viewer = Viewer::open(&agent).await;
    let first = viewer.frame().await.micros;
    until(8000).await;
    // It says that it has nothing since.
    viewer.report(first).await;
    until(1000).await;
    // It has everything that it was sent, so it is sent frames again, and after ten seconds in time more bits.
    viewer.report(u64::MAX).await;
    let began = std::time::Instant::now();
    while !has_rate(&display, 2000) {
        let micros = viewer.frame().await.micros;
        viewer.report(micros).await;
        // A busy machine is late itself at times, which begins the ten seconds anew.
        assert!(began.elapsed() < 4 * TIMEOUT, "the rate is not raised");
    }
}
