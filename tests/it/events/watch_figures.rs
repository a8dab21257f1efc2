//! Printed delays from a cause to its event. The bounds are generous.

use std::fs::File;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use hotdesk::domain::desktop::event::EventKind;
use serde_json::json;
use x11rb::connection::Connection as _;
use x11rb::protocol::xproto::{ConnectionExt as _, CreateWindowAux, InputFocus, WindowClass};
use x11rb::wrapper::ConnectionExt as _;

use super::watch::WatchListener;
use crate::display::fixture::DisplayFixture;

/// Number of measurements of each cause.
const ROUNDS: usize = 50;

/// Delays of one type of event.
#[derive(Default)]
struct Durations(Vec<Duration>);

impl Durations {
    fn add(&mut self, since: Instant) {
        self.0.push(since.elapsed());
    }

    fn print(mut self, what: &str) {
        self.0.sort();
        let at = |part: usize| self.0[(self.0.len() - 1) * part / 100].as_secs_f64() * 1000.0;
        println!("{what}: p50 {:.2} ms, p99 {:.2} ms of {}", at(50), at(99), self.0.len());
        assert!(at(50) < 1000.0 && at(100) < 30_000.0, "{what}: {:?}", self.0.last());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_happens_is_published_at_once() {
    let fixture = DisplayFixture::bare(400, 300).await;
    let home = tempfile::tempdir().expect("a folder");
    std::fs::create_dir(home.path().join("Desktop")).expect("a folder");
    let kinds = [
        EventKind::WindowOpen,
        EventKind::WindowFocus,
        EventKind::WindowClose,
        EventKind::Clipboard,
        EventKind::ScreenChange,
        EventKind::FileChange,
    ];
    let listener = WatchListener::start(Some(&fixture.displays), home.path(), &kinds).await;
    let (link, screen) = x11rb::connect(Some(&fixture.display())).expect("an X connection");
    let root = link.setup().roots[screen].root;
    let (mut open, mut focus, mut close) = (Durations::default(), Durations::default(), Durations::default());
    let (mut clipboard, mut resized, mut file) =
        (Durations::default(), Durations::default(), Durations::default());
    for round in 0..ROUNDS {
        let id = link.generate_id().expect("an id");
        let (class, attributes) = (WindowClass::INPUT_OUTPUT, CreateWindowAux::new());
        link.create_window(0, id, root, 10, 10, 50, 50, 0, class, 0, &attributes).expect("a window");
        link.sync().expect("a reply");
        let began = Instant::now();
        link.map_window(id).expect("a request");
        link.flush().expect("sent");
        assert_eq!(listener.next().await.0, "window_open");
        open.add(began);
        let began = Instant::now();
        link.set_input_focus(InputFocus::PARENT, id, 0_u32).expect("a request");
        link.flush().expect("sent");
        assert_eq!(listener.next().await.0, "window_focus");
        focus.add(began);
        let began = Instant::now();
        link.destroy_window(id).expect("a request");
        link.flush().expect("sent");
        assert_eq!(listener.next().await.0, "window_close");
        close.add(began);
        let began = Instant::now();
        fixture.ok("PUT", "/clipboard", json!({"text": format!("copy {round}")})).await;
        assert_eq!(listener.next().await.0, "clipboard");
        clipboard.add(began);
        let began = Instant::now();
        File::create(home.path().join(format!("Desktop/{round}"))).expect("a file");
        assert_eq!(listener.next().await.0, "file_change");
        file.add(began);
        if round < 10 && crate::display::fixture::installed("Xvnc") {
            let body = json!({"width": 500 + round, "height": 300 + round});
            let began = Instant::now();
            fixture.ok("PATCH", "/screens/default", body).await;
            assert_eq!(listener.next().await.0, "screen_change");
            resized.add(began);
        }
    }
    open.print("window_open");
    focus.print("window_focus");
    close.print("window_close");
    clipboard.print("clipboard");
    file.print("file_change");
    if !resized.0.is_empty() {
        resized.print("screen_change (includes a debounce of 50 ms)");
    }
    listener.end().await;
    fixture.close().await;

    let listener =
        WatchListener::start(None, home.path(), &[EventKind::ProcessStart, EventKind::ProcessStop]).await;
    let (mut start, mut stop) = (Durations::default(), Durations::default());
    for _ in 0..10 {
        let began = Instant::now();
        let mut child = Command::new("sleep").arg("1000").stdout(Stdio::null()).spawn().expect("sleep");
        let pid = child.id();
        listener.find(|kind, data| kind == "process_start" && data["pid"] == pid).await;
        start.add(began);
        let began = Instant::now();
        child.kill().expect("killed");
        child.wait().expect("an end");
        listener.find(|kind, data| kind == "process_stop" && data["pid"] == pid).await;
        stop.add(began);
    }
    start.print("process_start");
    stop.print("process_stop");
    listener.end().await;
}
