//! Screens: creation, deletion, resizing and recovery.

use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, Instant};

use axum::http::StatusCode;
use serde_json::{Value, json};
use x11rb::connection::Connection as _;
use x11rb::protocol::xproto::{AtomEnum, ConnectionExt as _, CreateWindowAux, PropMode, WindowClass};
use x11rb::rust_connection::RustConnection;
use x11rb::wrapper::ConnectionExt as _;

use super::fixture::{Claim, DisplayFixture, TIMEOUT, installed, is_installed, is_running, processes_of};
use super::window::{InputEvent, Window};
use hotdesk::agent::display::{ScreenSession, XServer};
use hotdesk::base::wait;
use hotdesk::domain::desktop::resolution::Resolution;

/// Longest time of a request to a silent or missing X server: several times the X timeout, and far below the
/// timeout of a queue.
const REQUEST_DEADLINE: Duration = Duration::from_secs(10);
/// Time in which a screen must not become ready.
const NOT_READY: Duration = Duration::from_millis(300);
/// Longest time until a screen sees that a window is visible. It is below the timeout after which the screen is
/// used without that window.
const EVENT_DEADLINE: Duration = Duration::from_secs(8);

#[tokio::test]
async fn four_screens_at_most_each_with_its_own_pointer_and_picture() {
    let fixture = DisplayFixture::bare(320, 240).await;
    let base = fixture.claim.base;
    for (body, id, display, width, height) in [
        (json!({"width": 640, "height": 400}), "screen-100", base + 1, 640, 400),
        (json!({"width": 640}), "screen-101", base + 2, 320, 240),
        (Value::Null, "screen-102", base + 3, 320, 240),
    ] {
        let expected = json!({"id": id, "display": format!(":{display}"), "width": width, "height": height,
            "default": false, "vnc_port": null, "ws_port": null});
        assert_eq!(fixture.ok("POST", "/screens", body).await, expected);
    }
    fixture.fails("POST", "/screens", Value::Null, 409).await;
    let list = fixture.ok("GET", "/screens", Value::Null).await;
    let ids: Vec<_> =
        list["screens"].as_array().expect("a list").iter().map(|screen| &screen["id"]).collect();
    assert_eq!(ids, ["default", "screen-100", "screen-101", "screen-102"]);
    assert_eq!(list["screens"][0]["default"], true);
    let boot = Window::open(&fixture.display(), 0, 0, 320, 240, 0xff_00_00);
    let other = Window::open(&format!(":{}", base + 1), 0, 0, 640, 400, 0x00_00_ff);
    fixture.ok("POST", "/click?screen=screen-100", json!({"x": 600, "y": 300})).await;
    assert_eq!(other.clicks(), [InputEvent::Press(1, 600, 300), InputEvent::Release(1, 600, 300)]);
    assert_eq!(boot.clicks(), []);
    assert_eq!(fixture.picture("screen=screen-100").await.pixel(10, 10), 0x00_00_ff);
    assert_eq!(fixture.picture("screen=default").await.pixel(10, 10), 0xff_00_00);
    fixture.fails("DELETE", "/screens/default", Value::Null, 409).await;
    fixture.fails("DELETE", "/screens/screen-103", Value::Null, 404).await;
    drop(other);
    assert_eq!(fixture.ok("DELETE", "/screens/screen-100", Value::Null).await, json!({"success": true}));
    assert!(!is_running(&format!(":{}", base + 1)));
    fixture.fails("POST", "/click?screen=screen-100", json!({"x": 1, "y": 1}), 404).await;
    // The lowest free display number is used again.
    assert_eq!(fixture.ok("POST", "/screens", Value::Null).await["id"], "screen-100");
    fixture.fails("POST", "/screens", json!({"width": 10, "height": 10}), 400).await;
    fixture.close().await;
}

#[tokio::test]
async fn creating_at_once_never_passes_the_limit() {
    let fixture = DisplayFixture::bare(320, 240).await;
    let create = || fixture.call("POST", "/screens", Value::Null);
    let (a, b, c, d, e) = tokio::join!(create(), create(), create(), create(), create());
    let statuses = [a, b, c, d, e].map(|(status, _)| status);
    assert_eq!(statuses.iter().filter(|status| **status == StatusCode::OK).count(), 3, "{statuses:?}");
    assert_eq!(statuses.iter().filter(|status| **status == StatusCode::CONFLICT).count(), 2, "{statuses:?}");
    fixture.close().await;
}

#[tokio::test]
async fn a_screen_changes_its_size_in_place() {
    if !installed("Xvnc") {
        return;
    }
    let fixture = DisplayFixture::bare(800, 600).await;
    let window = Window::open(&fixture.display(), 0, 0, 3000, 2000, 0x12_34_56);
    for (width, height) in [(1280, 720), (1921, 1081), (640, 480), (64, 64), (2560, 1440), (1280, 720)] {
        let body = json!({"width": width, "height": height});
        let record = fixture.ok("PATCH", "/screens/default", body).await;
        assert_eq!((&record["width"], &record["height"]), (&json!(width), &json!(height)));
        fixture.ok("POST", "/click", json!({"x": width - 1, "y": height - 1})).await;
        let at = (width as i16 - 1, height as i16 - 1);
        assert_eq!(window.clicks(), [InputEvent::Press(1, at.0, at.1), InputEvent::Release(1, at.0, at.1)]);
        fixture.fails("POST", "/click", json!({"x": width, "y": 0}), 400).await;
        fixture.ok("POST", "/move", json!({"x": 0, "y": 0})).await;
        let shot = fixture.picture("").await;
        assert_eq!((shot.width, shot.height), (width, height));
        assert_eq!(shot.pixel(width - 1, height - 1), 0x12_34_56);
    }
    fixture.fails("PATCH", "/screens/default", json!({"width": 800}), 400).await;
    fixture.fails("PATCH", "/screens/default", json!({"width": 8000, "height": 600}), 400).await;
    fixture.fails("PATCH", "/screens/nosuch", json!({"width": 800, "height": 600}), 404).await;
    fixture.close().await;
}

/// Pid of the X server of a display.
pub fn x_server_pid(display: &str) -> u32 {
    let found = processes_of(display).into_iter().find(|pid| {
        let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        ["Xvnc\n", "Xvfb\n"].contains(&name.as_str())
    });
    found.expect("an X server")
}

pub fn kill(pid: u32, signal: nix::sys::signal::Signal) {
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid.cast_signed()), signal).expect("a signal");
}

#[tokio::test]
async fn a_killed_x_server_comes_back_with_its_size_and_others_do_not_notice() {
    let fixture = DisplayFixture::bare(320, 240).await;
    fixture.ok("POST", "/screens", Value::Null).await;
    if installed("Xvnc") {
        fixture.ok("PATCH", "/screens/default", json!({"width": 500, "height": 400})).await;
    }
    let expected = fixture.boot().size();
    for round in 0..3 {
        let old = x_server_pid(&fixture.display());
        kill(old, nix::sys::signal::Signal::SIGKILL);
        let (mut refused, began) = (0, Instant::now());
        loop {
            let started = Instant::now();
            let (status, answer) = fixture.call("POST", "/click", json!({"x": 10, "y": 10})).await;
            assert!(started.elapsed() < REQUEST_DEADLINE, "{:?}", started.elapsed());
            fixture.ok("POST", "/click?screen=screen-100", json!({"x": 1, "y": 1})).await;
            if status == StatusCode::OK && x_server_pid(&fixture.display()) != old {
                break;
            }
            if status != StatusCode::OK {
                assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE, "{answer}");
                assert_eq!(answer["retry_after"], 1, "{answer}");
                refused += 1;
            }
            assert!(began.elapsed() < TIMEOUT, "round {round}: the screen must come back");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert!(refused > 0, "round {round}: a request must fail meanwhile");
        let shot = fixture.picture("").await;
        assert_eq!((shot.width, shot.height), (expected.width.into(), expected.height.into()));
    }
    fixture.close().await;
}

#[tokio::test]
async fn a_grabbed_x_server_is_answered_for_in_time_and_receives_nothing_late() {
    let fixture = DisplayFixture::bare(320, 240).await;
    fixture.ok("POST", "/screens", Value::Null).await;
    let window = Window::open(&fixture.display(), 0, 0, 320, 240, 0);
    window.link.grab_server().expect("a grab");
    window.sync();
    let mut second_screen_answered = false;
    for (method, path, body) in [
        ("POST", "/click", json!({"x": 10, "y": 10})),
        ("GET", "/screenshot", Value::Null),
        ("POST", "/type", json!({"text": "late"})),
        ("PATCH", "/screens/default", json!({"width": 400, "height": 300})),
    ] {
        let started = Instant::now();
        let grabbed = async { (fixture.fails(method, path, body, 503).await, started.elapsed()) };
        let other = async {
            fixture.ok("POST", "/click?screen=screen-100", json!({"x": 1, "y": 1})).await;
            started.elapsed()
        };
        let ((error, duration), other) = tokio::join!(grabbed, other);
        assert!(error.contains("does not answer"), "{error}");
        assert!(
            duration < REQUEST_DEADLINE && other < REQUEST_DEADLINE,
            "{path} took {duration:?}, the other {other:?}"
        );
        second_screen_answered |= other < duration;
    }
    // The first request waits for the X server, the later ones fail at once.
    assert!(second_screen_answered, "the other screen must not wait for this one");
    // A hundred concurrent requests: the queue is bounded, and all are answered in time.
    let started = Instant::now();
    let calls = (0..100).map(|_| fixture.call("POST", "/click", json!({"x": 10, "y": 10})));
    for (status, _) in futures_util::future::join_all(calls).await {
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    }
    assert!(started.elapsed() < REQUEST_DEADLINE, "{:?}", started.elapsed());
    window.link.ungrab_server().expect("the end of the grab");
    window.sync();
    let back = || async {
        (fixture.call("POST", "/click", json!({"x": 20, "y": 20})).await.0 == StatusCode::OK).then_some(())
    };
    wait::until(TIMEOUT, back).await.expect("the screen must come back");
    assert_eq!(window.clicks(), [InputEvent::Press(1, 20, 20), InputEvent::Release(1, 20, 20)]);
    fixture.close().await;
}

#[tokio::test]
async fn what_a_dead_x_server_left_is_cleared_even_when_its_id_lives_again() {
    let claim = Claim::new();
    let (lock, socket) = (format!("/tmp/.X{}-lock", claim.base), format!("/tmp/.X11-unix/X{}", claim.base));
    // The lock names an unrelated living process (this test), and nobody listens on the socket.
    std::fs::write(&lock, format!("{:>10}\n", std::process::id())).expect("a lock");
    std::fs::create_dir_all("/tmp/.X11-unix").expect("the sockets' folder");
    drop(std::os::unix::net::UnixListener::bind(&socket).expect("a socket"));
    let boot = "320x240".parse::<Resolution>().expect("a resolution");
    let fixture = DisplayFixture::start(claim, XServer::Own { boot }, ScreenSession::None).await;
    fixture.picture("").await;
    fixture.close().await;
}

#[tokio::test]
async fn the_session_makes_a_screen_ready_and_is_started_again_alone() {
    if !installed("openbox") {
        return;
    }
    let fixture = DisplayFixture::with_session(640, 480, ScreenSession::Embedded).await;
    let windows = |link: &RustConnection| {
        let root = link.setup().roots[0].root;
        let atom = link.intern_atom(false, b"_NET_SUPPORTING_WM_CHECK").expect("a request");
        let atom = atom.reply().expect("an atom").atom;
        let property = link.get_property(false, root, atom, 33_u32, 0, 1).expect("a request");
        property.reply().expect("a property").value32().and_then(|mut ids| ids.next())
    };
    let (link, _) = x11rb::connect(Some(&fixture.display())).expect("an X connection");
    windows(&link).expect("a window manager");
    // The screen waits for no window of a program that is not installed.
    let named =
        std::fs::read_to_string(fixture.home().join("session/windows")).expect("the session's windows");
    assert_eq!(
        (named.contains("dock"), named.contains("desktop")),
        (is_installed("tint2"), is_installed("pcmanfm"))
    );
    let server = x_server_pid(&fixture.display());
    let openbox = || {
        let of = processes_of(&fixture.display()).into_iter();
        of.filter(|pid| {
            std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default() == "openbox\n"
        })
        .collect::<Vec<_>>()
    };
    // A program that it starts has its name until it runs.
    let one = wait::until(TIMEOUT, || async { Some(openbox()).filter(|running| running.len() == 1) });
    let old = one.await.expect("one window manager");
    kill(old[0], nix::sys::signal::Signal::SIGKILL);
    let again = || async { openbox().iter().any(|pid| !old.contains(pid)).then_some(()) };
    wait::until(TIMEOUT, again).await.expect("another window manager");
    assert_eq!(x_server_pid(&fixture.display()), server, "the X server must keep running");
    fixture.ok("POST", "/click", json!({"x": 10, "y": 10})).await;
    fixture.close().await;
}

/// A session that is this shell script, and its folder.
fn scripted_session(text: &str) -> (tempfile::TempDir, ScreenSession) {
    let folder = tempfile::tempdir().expect("a folder");
    let script = folder.path().join("session");
    std::fs::write(&script, text).expect("a script");
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).expect("the mode is set");
    let session = ScreenSession::Folder(folder.path().to_owned());
    (folder, session)
}

/// A window manager that maps a window only when the test says so.
struct TestManager {
    link: RustConnection,
    root: u32,
}

impl TestManager {
    fn connect(display: &str) -> Self {
        let (link, _) = x11rb::connect(Some(display)).expect("an X connection");
        let root = link.setup().roots[0].root;
        Self { link, root }
    }

    fn atom(&self, name: &str) -> u32 {
        let request = self.link.intern_atom(false, name.as_bytes()).expect("a request");
        request.reply().expect("an atom").atom
    }

    fn set(&self, window: u32, property: &str, kind: AtomEnum, values: &[u32]) {
        let property = self.atom(property);
        let set = self.link.change_property32(PropMode::REPLACE, window, property, kind, values);
        set.expect("a request").check().expect("the property is set");
    }

    fn window(&self) -> u32 {
        let window = self.link.generate_id().expect("an id");
        let (class, look) = (WindowClass::INPUT_OUTPUT, CreateWindowAux::new());
        let made = self.link.create_window(0, window, self.root, 0, 0, 10, 10, 0, class, 0, &look);
        made.expect("a request").check().expect("a window");
        window
    }

    /// Creates windows of these types, which are not visible, and announces itself.
    fn announce<const N: usize>(&self, types: [&str; N]) -> [u32; N] {
        let windows = types.map(|name| {
            let window = self.window();
            self.set(window, "_NET_WM_WINDOW_TYPE", AtomEnum::ATOM, &[self.atom(name)]);
            window
        });
        self.set(self.root, "_NET_CLIENT_LIST", AtomEnum::WINDOW, &windows);
        let check = self.window();
        for window in [check, self.root] {
            self.set(window, "_NET_SUPPORTING_WM_CHECK", AtomEnum::WINDOW, &[check]);
        }
        windows
    }

    fn show(&self, window: u32) {
        self.link.map_window(window).expect("a request").check().expect("a visible window");
    }
}

#[tokio::test]
async fn a_screen_is_ready_once_it_shows_the_windows_that_its_session_names() {
    let (scripts, session) = scripted_session(
        "#!/bin/sh\nmkdir -p \"$HOTDESK_SESSION_DIR\"\necho dock desktop unknown >\"$HOTDESK_SESSION_DIR/windows\"\n\
        touch \"$(dirname \"$0\")/begun\"\nexec sleep 1000\n",
    );
    let claim = Claim::new();
    let display = format!(":{}", claim.base);
    let boot = "320x240".parse::<Resolution>().expect("a resolution");
    let mut starting = std::pin::pin!(DisplayFixture::start(claim, XServer::Own { boot }, session));
    let mark = scripts.path().join("begun");
    let begun = wait::until(TIMEOUT, || async { mark.exists().then_some(()) });
    tokio::select! {
        _ = &mut starting => panic!("a screen is ready before its session"),
        begun = begun => begun.expect("the session begins"),
    }
    let manager = TestManager::connect(&display);
    let [dock, desktop] = manager.announce(["_NET_WM_WINDOW_TYPE_DOCK", "_NET_WM_WINDOW_TYPE_DESKTOP"]);
    let early = tokio::time::timeout(NOT_READY, &mut starting).await;
    assert!(early.is_err(), "a screen is ready before any window is visible");
    manager.show(dock);
    let early = tokio::time::timeout(NOT_READY, &mut starting).await;
    assert!(early.is_err(), "a screen is ready before its desktop is visible");
    manager.show(desktop);
    let fixture = tokio::time::timeout(EVENT_DEADLINE, starting).await;
    fixture.expect("a screen is ready when its windows are visible").close().await;
}

#[tokio::test]
async fn deleting_a_screen_leaves_no_process_of_it() {
    // The session leaves children inside and outside of its process group, and one that ignores SIGTERM.
    let text = "#!/bin/sh\nsleep 1000 &\nsetsid sleep 1000 &\nsetsid sh -c 'trap \"\" TERM HUP; sleep 1000; sleep 1000' &\n\
        echo \"$1 $DISPLAY $HOTDESK_SCREEN\" > \"$(dirname \"$0\")/$HOTDESK_SCREEN\"\nxterm -e sleep 1000 &\nexec sleep 1000\n";
    let (scripts, folder) = scripted_session(text);
    let claim = Claim::new();
    let boot = "320x240".parse::<Resolution>().expect("a resolution");
    // No window manager appears, so the screens become usable without one after a timeout.
    let fixture = DisplayFixture::start(claim, XServer::Own { boot }, folder).await;
    let id = fixture.ok("POST", "/screens", Value::Null).await["id"].as_str().expect("an id").to_owned();
    let display = format!(":{}", fixture.claim.base + 1);
    let environment_of =
        |screen: &str| std::fs::read_to_string(scripts.path().join(screen)).expect("the session's output");
    assert_eq!(environment_of("screen-100"), format!("bare {display} screen-100\n"));
    assert_eq!(environment_of("default"), format!("default {} default\n", fixture.display()));
    assert!(processes_of(&display).len() >= 5);
    fixture.ok("DELETE", &format!("/screens/{id}"), Value::Null).await;
    assert_eq!(processes_of(&display), Vec::<u32>::new());
    fixture.close().await;
}
