//! Window and screen size events: one per change, on every screen, across restarts.

use hotdesk::base::wait;
use hotdesk::domain::desktop::event::EventKind;
use serde_json::{Value, json};
use x11rb::connection::Connection as _;
use x11rb::protocol::xproto::{
    AtomEnum, ConnectionExt as _, CreateWindowAux, InputFocus, PropMode, WindowClass,
};
use x11rb::rust_connection::RustConnection;
use x11rb::wrapper::ConnectionExt as _;

use super::watch::WatchListener;
use crate::display::fixture::{DisplayFixture, TIMEOUT, processes_of};
use crate::display::windows::{boot_with_window_manager, open_terminal};

const WINDOWS: [EventKind; 4] =
    [EventKind::WindowOpen, EventKind::WindowFocus, EventKind::WindowClose, EventKind::TitleChange];

/// An X client with plain windows.
struct WindowProgram {
    link: RustConnection,
    root: u32,
}

impl WindowProgram {
    fn new(display: &str) -> Self {
        let (link, screen) = x11rb::connect(Some(display)).expect("an X connection");
        let root = link.setup().roots[screen].root;
        Self { link, root }
    }

    /// Opens a window and maps it.
    fn window(&self, title: &str) -> u32 {
        let id = self.link.generate_id().expect("an id");
        let (class, look) = (WindowClass::INPUT_OUTPUT, CreateWindowAux::new());
        self.link.create_window(0, id, self.root, 10, 10, 50, 50, 0, class, 0, &look).expect("a window");
        self.name(id, title);
        self.link.map_window(id).expect("a request");
        self.link.sync().expect("a reply");
        id
    }

    fn name(&self, window: u32, title: &str) {
        let (name, kind) = (AtomEnum::WM_NAME, AtomEnum::STRING);
        self.link.change_property8(PropMode::REPLACE, window, name, kind, title.as_bytes()).expect("a title");
        self.link.sync().expect("a reply");
    }

    fn focus(&self, window: u32) {
        self.link.set_input_focus(InputFocus::PARENT, window, 0_u32).expect("a request");
        self.link.sync().expect("a reply");
    }

    fn end(&self, window: u32) {
        self.link.destroy_window(window).expect("a request");
        self.link.sync().expect("a reply");
    }
}

fn id(window: u32) -> String {
    format!("{window:#x}")
}

fn title_data(screen: &str, id: &str, title: &str) -> Value {
    json!({"window_id": id, "title": title, "screen": screen})
}

/// Whether an event belongs to one of these windows.
fn events_of<'a>(ids: &'a [&'a str]) -> impl Fn(&str, &Value) -> bool + 'a {
    move |_, data| ids.iter().any(|id| data["window_id"] == *id)
}

#[tokio::test]
async fn windows_are_told_as_the_window_manager_has_them() {
    let Some(fixture) = boot_with_window_manager().await else { return };
    let before = open_terminal(&fixture, "", "before").await;
    let listener = WatchListener::start(Some(&fixture.displays), fixture.home(), &WINDOWS).await;
    let first = open_terminal(&fixture, "", "first").await;
    let first = first["id"].as_str().expect("an id");
    let first_window = |title: &str| title_data("default", first, title);
    assert_eq!(listener.find(events_of(&[first])).await, ("window_open".into(), first_window("first")));
    assert_eq!(listener.find(events_of(&[first])).await, ("window_focus".into(), first_window("first")));
    let before = before["id"].as_str().expect("an id");
    fixture.ok("POST", &format!("/windows/{before}/focus"), Value::Null).await;
    let own_events = [before, first];
    let focused = title_data("default", before, "before");
    assert_eq!(listener.find(events_of(&own_events)).await, ("window_focus".into(), focused.clone()));
    listener.expect_none_of(events_of(&own_events)).await;

    let program = WindowProgram::new(&fixture.display());
    let number = u32::from_str_radix(&first[2..], 16).expect("a number");
    program.name(number, "renamed");
    // The UTF-8 title takes precedence, and xterm sets it.
    let utf8 = program.link.intern_atom(false, b"UTF8_STRING").expect("a request").reply().expect("an atom");
    let name = program.link.intern_atom(false, b"_NET_WM_NAME").expect("a request").reply().expect("an atom");
    program
        .link
        .change_property8(PropMode::REPLACE, number, name.atom, utf8.atom, "renämed".as_bytes())
        .expect("a title");
    program.link.sync().expect("a reply");
    let renamed = listener.find(|kind, data| kind == "title_change" && data["title"] == "renämed").await;
    assert_eq!(renamed, ("title_change".into(), first_window("renämed")));

    fixture.ok("POST", &format!("/windows/{first}/minimize"), Value::Null).await;
    listener.expect_none_of(|kind, data| kind != "window_focus" && events_of(&own_events)(kind, data)).await;
    fixture.ok("POST", &format!("/windows/{first}/close"), Value::Null).await;
    let closed =
        listener.find(|kind, data| kind != "window_focus" && events_of(&own_events)(kind, data)).await;
    assert_eq!(closed, ("window_close".into(), json!({"window_id": first, "screen": "default"})));
    listener.expect_none_of(events_of(&[first])).await;
    listener.end().await;
    fixture.close().await;
}

#[tokio::test]
async fn a_window_manager_that_restarts_opens_and_closes_nothing() {
    let Some(fixture) = boot_with_window_manager().await else { return };
    let window = open_terminal(&fixture, "", "stays").await;
    let id = window["id"].as_str().expect("an id");
    // A launched window is first in the stacking list; its open event follows when the window manager lists
    // it.
    let listed = || async {
        let ask = ["-display", &fixture.display(), "-root", "_NET_CLIENT_LIST"];
        let output = std::process::Command::new("xprop").args(ask).output().expect("xprop");
        String::from_utf8_lossy(&output.stdout).contains(id).then_some(())
    };
    wait::until(TIMEOUT, listed).await.expect("the manager must list the window");
    let listener = WatchListener::start(Some(&fixture.displays), fixture.home(), &WINDOWS).await;
    for signal in [nix::sys::signal::Signal::SIGTERM, nix::sys::signal::Signal::SIGKILL] {
        let manager = || {
            let pids = processes_of(&fixture.display()).into_iter();
            let name = |pid: u32| std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            pids.filter(|pid| name(*pid).trim() == "openbox").collect::<Vec<_>>()
        };
        let [old] = manager()[..] else { panic!("one openbox: {:?}", manager()) };
        let pid = nix::unistd::Pid::from_raw(old.cast_signed());
        nix::sys::signal::kill(pid, signal).expect("a signal");
        let again = || async { (manager().len() == 1 && manager() != [old]).then_some(()) };
        wait::until(TIMEOUT, again).await.expect("another openbox");
        let listed = || async {
            let (_, list) = fixture.call("GET", "/windows", Value::Null).await;
            list["windows"].as_array()?.iter().any(|window| window["id"] == id).then_some(())
        };
        wait::until(TIMEOUT, listed).await.expect("the window must be managed again");
        listener.expect_none_of(|kind, data| kind != "window_focus" && data["window_id"] == id).await;
    }
    let after = open_terminal(&fixture, "", "after").await;
    let after = after["id"].as_str().expect("an id");
    let opened = listener.find(events_of(&[after])).await;
    assert_eq!(opened, ("window_open".into(), title_data("default", after, "after")));
    listener.end().await;
    fixture.close().await;
}

#[tokio::test]
async fn without_a_window_manager_the_x_server_tells() {
    let fixture = DisplayFixture::bare(400, 300).await;
    let program = WindowProgram::new(&fixture.display());
    let _before = program.window("before");
    let listener = WatchListener::start(Some(&fixture.displays), fixture.home(), &WINDOWS).await;
    let window = program.window("a window");
    listener.expect("window_open", title_data("default", &id(window), "a window")).await;
    program.focus(window);
    listener.expect("window_focus", title_data("default", &id(window), "a window")).await;
    program.name(window, "another");
    listener.expect("title_change", title_data("default", &id(window), "another")).await;
    program.end(window);
    listener.expect("window_close", json!({"window_id": id(window), "screen": "default"})).await;
    listener.expect_none().await;
    listener.end().await;
    fixture.close().await;
}

#[tokio::test]
async fn screens_that_come_go_and_restart_are_followed_each_by_itself() {
    let fixture = DisplayFixture::bare(400, 300).await;
    let kinds = [&WINDOWS[..], &[EventKind::ScreenChange]].concat();
    let listener = WatchListener::start(Some(&fixture.displays), fixture.home(), &kinds).await;
    fixture.ok("POST", "/screens", json!({"width": 320, "height": 240})).await;
    let second = format!(":{}", fixture.claim.base + 1);
    let (boot, other) = (WindowProgram::new(&fixture.display()), WindowProgram::new(&second));
    let (one, two) = (boot.window("one"), other.window("two"));
    let mut events = [listener.next().await, listener.next().await];
    events.sort_by_key(|(_, data)| data["screen"].to_string());
    assert_eq!(events[0], ("window_open".into(), title_data("default", &id(one), "one")));
    assert_eq!(events[1], ("window_open".into(), title_data("screen-100", &id(two), "two")));
    let two_more = other.window("two more");
    listener.expect("window_open", title_data("screen-100", &id(two_more), "two more")).await;

    // The boot screen's X server dies, and the next one uses the same ids again.
    for pid in processes_of(&fixture.display()) {
        let pid = nix::unistd::Pid::from_raw(pid.cast_signed());
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL).expect("a signal");
    }
    listener.expect("window_close", json!({"window_id": id(one), "screen": "default"})).await;
    let connected = || async { x11rb::connect(Some(&fixture.display())).ok().map(|_| ()) };
    wait::until(TIMEOUT, connected).await.expect("the X server must come back");
    let boot = WindowProgram::new(&fixture.display());
    let again = boot.window("again");
    listener.expect("window_open", title_data("default", &id(again), "again")).await;

    fixture.ok("DELETE", "/screens/screen-100", Value::Null).await;
    let mut events = [listener.next().await, listener.next().await];
    events.sort_by_key(|(_, data)| data["window_id"].to_string());
    for (event, window) in events.iter().zip([two, two_more]) {
        assert_eq!(*event, ("window_close".into(), json!({"window_id": id(window), "screen": "screen-100"})));
    }
    boot.end(again);
    listener.expect("window_close", json!({"window_id": id(again), "screen": "default"})).await;
    listener.expect_none().await;
    listener.end().await;
    fixture.close().await;
}

#[tokio::test]
async fn another_size_is_told_once() {
    if !crate::display::fixture::installed("Xvnc") {
        return;
    }
    let fixture = DisplayFixture::bare(640, 480).await;
    let listener =
        WatchListener::start(Some(&fixture.displays), fixture.home(), &[EventKind::ScreenChange]).await;
    for (width, height) in [(1024, 768), (1280, 720), (320, 240)] {
        let body = json!({"width": width, "height": height});
        fixture.ok("PATCH", "/screens/default", body.clone()).await;
        let expected = json!({"width": width, "height": height, "screen": "default"});
        listener.expect("screen_change", expected).await;
        fixture.ok("PATCH", "/screens/default", body).await;
    }
    listener.expect_none().await;
    listener.end().await;
    fixture.close().await;
}
