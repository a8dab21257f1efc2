//! Are windows and sizes of screens told once each, as they change, on every screen and across restarts?

use hotdesk::base::wait;
use hotdesk::domain::event::Kind;
use serde_json::{Value, json};
use x11rb::connection::Connection as _;
use x11rb::protocol::xproto::{
    AtomEnum, ConnectionExt as _, CreateWindowAux, InputFocus, PropMode, WindowClass,
};
use x11rb::rust_connection::RustConnection;
use x11rb::wrapper::ConnectionExt as _;

use super::watch::Hearing;
use crate::display::desk::{Desk, TIMEOUT, processes_of};
use crate::display::windows::{managed, terminal};

const WINDOWS: [Kind; 4] = [Kind::WindowOpen, Kind::WindowFocus, Kind::WindowClose, Kind::TitleChange];

/// A program with windows, as plain as can be.
struct Program {
    link: RustConnection,
    root: u32,
}

impl Program {
    fn new(display: &str) -> Self {
        let (link, screen) = x11rb::connect(Some(display)).expect("an X connection");
        let root = link.setup().roots[screen].root;
        Self { link, root }
    }

    /// A window that is shown.
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

fn titled(screen: &str, id: &str, title: &str) -> Value {
    json!({"window_id": id, "title": title, "screen": screen})
}

/// Whether an event is of one of these windows.
fn of<'a>(ids: &'a [&'a str]) -> impl Fn(&str, &Value) -> bool + 'a {
    move |_, data| ids.iter().any(|id| data["window_id"] == *id)
}

#[tokio::test]
async fn windows_are_told_as_the_window_manager_has_them() {
    let Some(desk) = managed().await else { return };
    let before = terminal(&desk, "", "before").await;
    let hearing = Hearing::begin(Some(&desk.displays), desk.home(), &WINDOWS).await;
    let first = terminal(&desk, "", "first").await;
    let first = first["id"].as_str().expect("an id");
    let told = |title: &str| titled("default", first, title);
    assert_eq!(hearing.find(of(&[first])).await, ("window_open".into(), told("first")));
    assert_eq!(hearing.find(of(&[first])).await, ("window_focus".into(), told("first")));
    let before = before["id"].as_str().expect("an id");
    desk.ok("POST", &format!("/windows/{before}/focus"), Value::Null).await;
    let ours = [before, first];
    let focused = titled("default", before, "before");
    assert_eq!(hearing.find(of(&ours)).await, ("window_focus".into(), focused.clone()));
    hearing.quiet_of(of(&ours)).await;

    let program = Program::new(&desk.display());
    let number = u32::from_str_radix(&first[2..], 16).expect("a number");
    program.name(number, "renamed");
    // What a program says in UTF-8 comes first, and xterm says it.
    let utf8 = program.link.intern_atom(false, b"UTF8_STRING").expect("a request").reply().expect("an atom");
    let name = program.link.intern_atom(false, b"_NET_WM_NAME").expect("a request").reply().expect("an atom");
    program
        .link
        .change_property8(PropMode::REPLACE, number, name.atom, utf8.atom, "renämed".as_bytes())
        .expect("a title");
    program.link.sync().expect("a reply");
    let renamed = hearing.find(|kind, data| kind == "title_change" && data["title"] == "renämed").await;
    assert_eq!(renamed, ("title_change".into(), told("renämed")));

    desk.ok("POST", &format!("/windows/{first}/minimize"), Value::Null).await;
    hearing.quiet_of(|kind, data| kind != "window_focus" && of(&ours)(kind, data)).await;
    desk.ok("POST", &format!("/windows/{first}/close"), Value::Null).await;
    let closed = hearing.find(|kind, data| kind != "window_focus" && of(&ours)(kind, data)).await;
    assert_eq!(closed, ("window_close".into(), json!({"window_id": first, "screen": "default"})));
    hearing.quiet_of(of(&[first])).await;
    hearing.end().await;
    desk.close().await;
}

#[tokio::test]
async fn a_window_manager_that_restarts_opens_and_closes_nothing() {
    let Some(desk) = managed().await else { return };
    let window = terminal(&desk, "", "stays").await;
    let id = window["id"].as_str().expect("an id");
    // A window is launched once it is among those that are stacked; the manager lists it a moment later, which is its opening.
    let listed = || async {
        let ask = ["-display", &desk.display(), "-root", "_NET_CLIENT_LIST"];
        let told = std::process::Command::new("xprop").args(ask).output().expect("xprop");
        String::from_utf8_lossy(&told.stdout).contains(id).then_some(())
    };
    wait::until(TIMEOUT, listed).await.expect("the manager lists the window");
    let hearing = Hearing::begin(Some(&desk.displays), desk.home(), &WINDOWS).await;
    for signal in [nix::sys::signal::Signal::SIGTERM, nix::sys::signal::Signal::SIGKILL] {
        let manager = || {
            let pids = processes_of(&desk.display()).into_iter();
            let name = |pid: u32| std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            pids.filter(|pid| name(*pid).trim() == "openbox").collect::<Vec<_>>()
        };
        let [old] = manager()[..] else { panic!("one openbox: {:?}", manager()) };
        let pid = nix::unistd::Pid::from_raw(old.cast_signed());
        nix::sys::signal::kill(pid, signal).expect("a signal");
        let again = || async { (manager().len() == 1 && manager() != [old]).then_some(()) };
        wait::until(TIMEOUT, again).await.expect("another openbox");
        let listed = || async {
            let (_, list) = desk.call("GET", "/windows", Value::Null).await;
            list["windows"].as_array()?.iter().any(|window| window["id"] == id).then_some(())
        };
        wait::until(TIMEOUT, listed).await.expect("the window is managed again");
        hearing.quiet_of(|kind, data| kind != "window_focus" && data["window_id"] == id).await;
    }
    let after = terminal(&desk, "", "after").await;
    let after = after["id"].as_str().expect("an id");
    let opened = hearing.find(of(&[after])).await;
    assert_eq!(opened, ("window_open".into(), titled("default", after, "after")));
    hearing.end().await;
    desk.close().await;
}

#[tokio::test]
async fn without_a_window_manager_the_x_server_tells() {
    let desk = Desk::bare(400, 300).await;
    let program = Program::new(&desk.display());
    let _before = program.window("before");
    let hearing = Hearing::begin(Some(&desk.displays), desk.home(), &WINDOWS).await;
    let window = program.window("a window");
    hearing.expect("window_open", titled("default", &id(window), "a window")).await;
    program.focus(window);
    hearing.expect("window_focus", titled("default", &id(window), "a window")).await;
    program.name(window, "another");
    hearing.expect("title_change", titled("default", &id(window), "another")).await;
    program.end(window);
    hearing.expect("window_close", json!({"window_id": id(window), "screen": "default"})).await;
    hearing.quiet().await;
    hearing.end().await;
    desk.close().await;
}

#[tokio::test]
async fn screens_that_come_go_and_restart_are_followed_each_by_itself() {
    let desk = Desk::bare(400, 300).await;
    let kinds = [&WINDOWS[..], &[Kind::ScreenChange]].concat();
    let hearing = Hearing::begin(Some(&desk.displays), desk.home(), &kinds).await;
    desk.ok("POST", "/screens", json!({"width": 320, "height": 240})).await;
    let second = format!(":{}", desk.claim.base + 1);
    let (boot, other) = (Program::new(&desk.display()), Program::new(&second));
    let (one, two) = (boot.window("one"), other.window("two"));
    let mut told = [hearing.next().await, hearing.next().await];
    told.sort_by_key(|(_, data)| data["screen"].to_string());
    assert_eq!(told[0], ("window_open".into(), titled("default", &id(one), "one")));
    assert_eq!(told[1], ("window_open".into(), titled("screen-100", &id(two), "two")));
    let two_more = other.window("two more");
    hearing.expect("window_open", titled("screen-100", &id(two_more), "two more")).await;

    // The boot screen's X server dies; the same ids come back on the next.
    for pid in processes_of(&desk.display()) {
        let pid = nix::unistd::Pid::from_raw(pid.cast_signed());
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL).expect("a signal");
    }
    hearing.expect("window_close", json!({"window_id": id(one), "screen": "default"})).await;
    let connected = || async { x11rb::connect(Some(&desk.display())).ok().map(|_| ()) };
    wait::until(TIMEOUT, connected).await.expect("the X server is back");
    let boot = Program::new(&desk.display());
    let again = boot.window("again");
    hearing.expect("window_open", titled("default", &id(again), "again")).await;

    desk.ok("DELETE", "/screens/screen-100", Value::Null).await;
    let mut told = [hearing.next().await, hearing.next().await];
    told.sort_by_key(|(_, data)| data["window_id"].to_string());
    for (told, window) in told.iter().zip([two, two_more]) {
        assert_eq!(*told, ("window_close".into(), json!({"window_id": id(window), "screen": "screen-100"})));
    }
    boot.end(again);
    hearing.expect("window_close", json!({"window_id": id(again), "screen": "default"})).await;
    hearing.quiet().await;
    hearing.end().await;
    desk.close().await;
}

#[tokio::test]
async fn another_size_is_told_once() {
    if !crate::display::desk::installed("Xvnc") {
        return;
    }
    let desk = Desk::bare(640, 480).await;
    let hearing = Hearing::begin(Some(&desk.displays), desk.home(), &[Kind::ScreenChange]).await;
    for (width, height) in [(1024, 768), (1280, 720), (320, 240)] {
        let body = json!({"width": width, "height": height});
        desk.ok("PATCH", "/screens/default", body.clone()).await;
        let told = json!({"width": width, "height": height, "screen": "default"});
        hearing.expect("screen_change", told).await;
        desk.ok("PATCH", "/screens/default", body).await;
    }
    hearing.quiet().await;
    hearing.end().await;
    desk.close().await;
}
