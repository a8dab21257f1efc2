//! How soon is what happened published? Printed for the record; a person's patience is the only bound.

use std::fs::File;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use hotdesk::domain::event::Kind;
use serde_json::json;
use x11rb::connection::Connection as _;
use x11rb::protocol::xproto::{ConnectionExt as _, CreateWindowAux, InputFocus, WindowClass};
use x11rb::wrapper::ConnectionExt as _;

use super::watch::Hearing;
use crate::display::desk::Desk;

/// How often each cause is made.
const ROUNDS: usize = 50;

/// The times of one kind of event.
#[derive(Default)]
struct Times(Vec<Duration>);

impl Times {
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
    let desk = Desk::bare(400, 300).await;
    let home = tempfile::tempdir().expect("a folder");
    std::fs::create_dir(home.path().join("Desktop")).expect("a folder");
    let kinds = [
        Kind::WindowOpen,
        Kind::WindowFocus,
        Kind::WindowClose,
        Kind::Clipboard,
        Kind::ScreenChange,
        Kind::FileChange,
    ];
    let hearing = Hearing::begin(Some(&desk.displays), home.path(), &kinds).await;
    let (link, screen) = x11rb::connect(Some(&desk.display())).expect("an X connection");
    let root = link.setup().roots[screen].root;
    let (mut open, mut focus, mut close) = (Times::default(), Times::default(), Times::default());
    let (mut copied, mut sized, mut file) = (Times::default(), Times::default(), Times::default());
    for round in 0..ROUNDS {
        let id = link.generate_id().expect("an id");
        let (class, look) = (WindowClass::INPUT_OUTPUT, CreateWindowAux::new());
        link.create_window(0, id, root, 10, 10, 50, 50, 0, class, 0, &look).expect("a window");
        link.sync().expect("a reply");
        let began = Instant::now();
        link.map_window(id).expect("a request");
        link.flush().expect("sent");
        assert_eq!(hearing.next().await.0, "window_open");
        open.add(began);
        let began = Instant::now();
        link.set_input_focus(InputFocus::PARENT, id, 0_u32).expect("a request");
        link.flush().expect("sent");
        assert_eq!(hearing.next().await.0, "window_focus");
        focus.add(began);
        let began = Instant::now();
        link.destroy_window(id).expect("a request");
        link.flush().expect("sent");
        assert_eq!(hearing.next().await.0, "window_close");
        close.add(began);
        let began = Instant::now();
        desk.ok("PUT", "/clipboard", json!({"text": format!("copy {round}")})).await;
        assert_eq!(hearing.next().await.0, "clipboard");
        copied.add(began);
        let began = Instant::now();
        File::create(home.path().join(format!("Desktop/{round}"))).expect("a file");
        assert_eq!(hearing.next().await.0, "file_change");
        file.add(began);
        if round < 10 && crate::display::desk::installed("Xvnc") {
            let body = json!({"width": 500 + round, "height": 300 + round});
            let began = Instant::now();
            desk.ok("PATCH", "/screens/default", body).await;
            assert_eq!(hearing.next().await.0, "screen_change");
            sized.add(began);
        }
    }
    open.print("window_open");
    focus.print("window_focus");
    close.print("window_close");
    copied.print("clipboard");
    file.print("file_change");
    if !sized.0.is_empty() {
        sized.print("screen_change (50 ms of it are waited for the size to stay)");
    }
    hearing.end().await;
    desk.close().await;

    let hearing = Hearing::begin(None, home.path(), &[Kind::ProcessStart, Kind::ProcessStop]).await;
    let (mut start, mut stop) = (Times::default(), Times::default());
    for _ in 0..10 {
        let began = Instant::now();
        let mut child = Command::new("sleep").arg("1000").stdout(Stdio::null()).spawn().expect("sleep");
        let pid = child.id();
        hearing.find(|kind, data| kind == "process_start" && data["pid"] == pid).await;
        start.add(began);
        let began = Instant::now();
        child.kill().expect("killed");
        child.wait().expect("an end");
        hearing.find(|kind, data| kind == "process_stop" && data["pid"] == pid).await;
        stop.add(began);
    }
    start.print("process_start");
    stop.print("process_stop");
    hearing.end().await;
}
