//! Windows: listing, changes of state and geometry, and closing.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hotdesk::agent::display::ScreenSession;
use hotdesk::base::wait;
use serde_json::{Value, json};
use x11rb::connection::Connection as _;
use x11rb::protocol::xproto::{
    AtomEnum, ConnectionExt as _, CreateWindowAux, EventMask, PropMode, WindowClass,
};
use x11rb::rust_connection::RustConnection;
use x11rb::wrapper::ConnectionExt as _;

use super::fixture::{DisplayFixture, TIMEOUT, installed};

/// A fixture with a window manager, if one is installed.
pub async fn boot_with_window_manager() -> Option<DisplayFixture> {
    if !installed("openbox") || !installed("xterm") {
        return None;
    }
    Some(DisplayFixture::with_session(1000, 700, ScreenSession::Embedded).await)
}

/// Opens a terminal with a title; returns its window's record.
pub async fn open_terminal(fixture: &DisplayFixture, query: &str, title: &str) -> Value {
    let argv = json!({"argv": ["xterm", "-T", title, "-e", "sleep", "1000"], "wait_seconds": 30});
    let launched = fixture.ok("POST", &format!("/launch?{query}"), argv).await;
    assert!(launched["window"].is_object(), "{launched}");
    launched["window"].clone()
}

fn id(window: &Value) -> String {
    window["id"].as_str().expect("an id").to_owned()
}

async fn list_windows(fixture: &DisplayFixture, query: &str) -> Vec<Value> {
    let list = fixture.ok("GET", &format!("/windows?{query}"), Value::Null).await;
    list["windows"].as_array().expect("a list").clone()
}

async fn titles(fixture: &DisplayFixture, query: &str) -> Vec<String> {
    list_windows(fixture, query)
        .await
        .iter()
        .map(|window| window["title"].as_str().expect("a title").to_owned())
        .collect()
}

/// A client with a managed window that supports no protocol. Its title is `title`. It has a border, which the
/// window manager removes but still counts.
struct Client {
    link: RustConnection,
    window: u32,
}

impl Client {
    fn open(display: &str, title: &[u8]) -> Self {
        let (link, screen) = x11rb::connect(Some(display)).expect("an X connection");
        let (root, visual) = (link.setup().roots[screen].root, link.setup().roots[screen].root_visual);
        let window = link.generate_id().expect("an id");
        let attributes = CreateWindowAux::new().event_mask(EventMask::STRUCTURE_NOTIFY);
        link.create_window(
            24,
            window,
            root,
            10,
            10,
            300,
            200,
            2,
            WindowClass::INPUT_OUTPUT,
            visual,
            &attributes,
        )
        .expect("a window");
        let utf8 = link.intern_atom(false, b"UTF8_STRING").expect("a request").reply().expect("an atom").atom;
        let name =
            link.intern_atom(false, b"_NET_WM_NAME").expect("a request").reply().expect("an atom").atom;
        link.change_property8(PropMode::REPLACE, window, name, utf8, title).expect("a title");
        let class = AtomEnum::WM_CLASS;
        link.change_property8(PropMode::REPLACE, window, class, AtomEnum::STRING, b"client\0Client\0")
            .expect("a class");
        Self { link, window }
    }

    fn another(&self) -> u32 {
        let id = self.link.generate_id().expect("an id");
        let root = self.link.setup().roots[0].root;
        let (class, attributes) = (WindowClass::INPUT_OUTPUT, CreateWindowAux::new());
        self.link.create_window(0, id, root, 10, 10, 50, 50, 0, class, 0, &attributes).expect("a window");
        id
    }

    fn map(&self) {
        self.link.map_window(self.window).expect("mapping");
        self.link.get_input_focus().expect("a request").reply().expect("a reply");
    }

    /// Requests `WM_DELETE_WINDOW` and ignores it.
    fn keep_open(&self) {
        let atom = |name: &[u8]| {
            self.link.intern_atom(false, name).expect("a request").reply().expect("an atom").atom
        };
        let (protocols, delete) = (atom(b"WM_PROTOCOLS"), atom(b"WM_DELETE_WINDOW"));
        let mode = PropMode::REPLACE;
        self.link
            .change_property32(mode, self.window, protocols, AtomEnum::ATOM, &[delete])
            .expect("protocols");
    }
}

/// The record of the window with this title, once it is managed.
async fn wait_for_window(fixture: &DisplayFixture, title: &str) -> Value {
    let found = wait::until(TIMEOUT, || async {
        list_windows(fixture, "").await.into_iter().find(|window| window["title"] == title)
    });
    found.await.expect("the window must be listed")
}

#[tokio::test]
async fn windows_are_listed_topmost_first_with_all_that_is_known_of_them() {
    let Some(fixture) = boot_with_window_manager().await else { return };
    let first = open_terminal(&fixture, "", "one ä€😀").await;
    let second = open_terminal(&fixture, "", "two").await;
    assert_eq!(second["focused"], true, "a launch answers after the window manager has handled the window");
    assert_eq!(titles(&fixture, "").await, ["two", "one ä€😀"]);
    let topmost = &list_windows(&fixture, "").await[0];
    assert_eq!((&topmost["class"], &topmost["instance"]), (&json!("XTerm"), &json!("xterm")));
    assert_eq!(
        (&topmost["screen"], &topmost["type"], &topmost["desktop"]),
        (&json!("default"), &json!("normal"), &json!(0))
    );
    for state in ["minimized", "maximized", "fullscreen"] {
        assert_eq!(topmost[state], false, "{state}");
    }
    let pid = topmost["pid"].as_u64().expect("a pid");
    assert!(std::fs::read_to_string(format!("/proc/{pid}/comm")).expect("a process").starts_with("xterm"));
    // The geometry is that of the content, as X reports it for the window.
    let (link, _) = x11rb::connect(Some(&fixture.display())).expect("an X connection");
    let window = u32::from_str_radix(&id(topmost)[2..], 16).expect("a number");
    let geometry = link.get_geometry(window).expect("a request").reply().expect("a geometry");
    assert_eq!((&topmost["width"], &topmost["height"]), (&json!(geometry.width), &json!(geometry.height)));
    assert!(topmost["frame"]["top"].as_u64().expect("a height") > 5, "{topmost}");
    let focused = fixture.ok("POST", &format!("/windows/{}/focus", id(&first)), Value::Null).await;
    assert_eq!((&focused["focused"], &focused["id"]), (&json!(true), &first["id"]));
    let list = list_windows(&fixture, "").await;
    assert_eq!(list[0]["id"], first["id"]);
    assert_eq!(list.iter().filter(|window| window["focused"] == true).count(), 1);
    fixture.close().await;
}

#[tokio::test]
async fn a_window_becomes_what_is_asked_and_the_answer_is_what_it_became() {
    let Some(fixture) = boot_with_window_manager().await else { return };
    let window = Client::open(&fixture.display(), b"plain");
    window.map();
    let before = wait_for_window(&fixture, "plain").await;
    let path = |verb: &str| format!("/windows/{}{verb}", id(&before));
    let full = fixture.ok("POST", &path("/maximize"), Value::Null).await;
    assert_eq!(full["maximized"], true, "{full}");
    assert!(full["width"].as_u64() > Some(900), "{full}");
    let hidden = fixture.ok("POST", &path("/minimize"), Value::Null).await;
    assert_eq!((&hidden["minimized"], &hidden["focused"]), (&json!(true), &json!(false)), "{hidden}");
    let shown = fixture.ok("POST", &path("/focus"), Value::Null).await;
    assert_eq!((&shown["minimized"], &shown["focused"]), (&json!(false), &json!(true)), "{shown}");
    fixture.ok("POST", &path("/minimize"), Value::Null).await;
    let normal = fixture.ok("POST", &path("/restore"), Value::Null).await;
    assert_eq!((&normal["minimized"], &normal["maximized"]), (&json!(false), &json!(false)), "{normal}");
    assert_eq!((&normal["width"], &normal["height"]), (&json!(300), &json!(200)), "{normal}");
    let mut fastest = Duration::MAX;
    for place in [
        json!({"x": 120, "y": 140, "width": 333, "height": 222}),
        json!({"x": 50, "y": 60}),
        json!({"width": 401}),
        json!({"y": 99, "height": 1}),
    ] {
        let request = Instant::now();
        let placed = fixture.ok("PATCH", &path(""), place.clone()).await;
        for (name, value) in place.as_object().expect("fields") {
            assert_eq!(&placed[name], value, "{place} {placed}");
        }
        let duration = request.elapsed();
        // A window that does not reach the geometry is answered after five seconds.
        assert!(duration < Duration::from_secs(4), "{place} took {duration:?}");
        fastest = fastest.min(duration);
    }
    assert!(fastest < Duration::from_secs(1), "{fastest:?}");
    // A maximized window is restored to its placement, and placing it makes it a normal window.
    fixture.ok("PATCH", &path(""), json!({"x": 120, "y": 140})).await;
    fixture.ok("POST", &path("/maximize"), Value::Null).await;
    fixture.ok("POST", &path("/restore"), Value::Null).await;
    let back = wait::until(TIMEOUT, || async {
        let window =
            list_windows(&fixture, "").await.into_iter().find(|window| window["id"] == before["id"])?;
        (window["x"] == 120 && window["y"] == 140).then_some(())
    });
    assert!(back.await.is_some(), "{:?}", list_windows(&fixture, "").await);
    fixture.ok("POST", &path("/maximize"), Value::Null).await;
    let placed = fixture.ok("PATCH", &path(""), json!({"x": 30, "y": 40, "width": 200, "height": 150})).await;
    assert_eq!((&placed["x"], &placed["maximized"]), (&json!(30), &json!(false)), "{placed}");
    // A terminal has whole characters only: the answer has the actual size.
    let terminal = open_terminal(&fixture, "", "letters").await;
    let path = format!("/windows/{}", id(&terminal));
    let placed = fixture.ok("PATCH", &path, json!({"width": 301, "height": 203})).await;
    let width = placed["width"].as_u64().expect("a width");
    assert!((280..=301).contains(&width), "{placed}");
    assert_eq!(placed["width"], list_windows(&fixture, "").await[0]["width"]);
    for bad in
        [json!({}), json!({"x": 20_000}), json!({"width": 0}), json!({"height": -1}), json!({"x": "1"})]
    {
        fixture.fails("PATCH", &path, bad, 400).await;
    }
    fixture.close().await;
}

#[tokio::test]
async fn closing_is_told_as_it_went() {
    let Some(fixture) = boot_with_window_manager().await else { return };
    let terminal = open_terminal(&fixture, "", "obedient").await;
    let path = format!("/windows/{}", id(&terminal));
    assert_eq!(fixture.ok("POST", &format!("{path}/close"), Value::Null).await, json!({"closed": true}));
    for verb in ["focus", "close", "maximize", "minimize", "restore"] {
        fixture.fails("POST", &format!("{path}/{verb}"), Value::Null, 404).await;
    }
    fixture.fails("PATCH", &path, json!({"x": 1}), 404).await;
    let unresponsive = Client::open(&fixture.display(), b"Save changes?");
    unresponsive.keep_open();
    unresponsive.map();
    let window = wait_for_window(&fixture, "Save changes?").await;
    let path = format!("/windows/{}/close", id(&window));
    let request = Instant::now();
    assert_eq!(fixture.ok("POST", &path, json!({})).await, json!({"closed": false}));
    assert!((1.9..20.0).contains(&request.elapsed().as_secs_f64()), "{:?}", request.elapsed());
    assert_eq!(titles(&fixture, "").await, ["Save changes?"]);
    assert_eq!(fixture.ok("POST", &path, json!({"force": true})).await, json!({"closed": true}));
    assert_eq!(titles(&fixture, "").await, [""; 0]);
    for unknown in ["0x1", "1", "0xffffffffff", "%00", "default"] {
        fixture.fails("POST", &format!("/windows/{unknown}/focus"), Value::Null, 404).await;
    }
    fixture.fails("GET", "/windows?screen=nosuch", Value::Null, 404).await;
    fixture.close().await;
}

#[tokio::test]
async fn windows_that_vanish_while_they_are_listed_are_left_out() {
    let Some(fixture) = boot_with_window_manager().await else { return };
    open_terminal(&fixture, "", "stays").await;
    let (stop, opened) = (std::sync::Arc::<AtomicBool>::default(), std::sync::Arc::<AtomicU64>::default());
    let (display, stopping, opening) = (fixture.display(), stop.clone(), opened.clone());
    let flicker = std::thread::spawn(move || {
        while !stopping.load(Ordering::Relaxed) {
            let client = Client::open(&display, b"mayfly");
            client.map();
            let before = opening.fetch_add(1, Ordering::Relaxed);
            std::thread::sleep(Duration::from_millis(before % 7));
        }
    });
    let (mut observed, began) = (0, Instant::now());
    let is_too_few = |observed: usize| observed == 0 || opened.load(Ordering::Relaxed) <= 20;
    // At least some seconds, and longer where the machine opens only few windows.
    while began.elapsed() < Duration::from_secs(4) || is_too_few(observed) && began.elapsed() < TIMEOUT {
        let titles = titles(&fixture, "").await;
        assert!(titles.contains(&"stays".to_owned()), "{titles:?}");
        observed += titles.iter().filter(|title| *title == "mayfly").count();
    }
    stop.store(true, Ordering::Relaxed);
    flicker.join().expect("the thread");
    assert!(!is_too_few(observed), "{opened:?} opened, {observed} listed");
    fixture.close().await;
}

#[tokio::test]
async fn titles_and_lists_are_bounded_and_a_bare_screen_has_no_managed_windows() {
    let bare = DisplayFixture::bare(320, 240).await;
    let window = Client::open(&bare.display(), b"unmanaged");
    window.map();
    assert_eq!(list_windows(&bare, "").await, Vec::<Value>::new());
    bare.close().await;
    let Some(fixture) = boot_with_window_manager().await else { return };
    let long = "é".repeat(3000);
    let window = Client::open(&fixture.display(), long.as_bytes());
    window.map();
    let found =
        wait::until(TIMEOUT, || async { list_windows(&fixture, "").await.pop() }).await.expect("a window");
    assert_eq!(found["title"], "é".repeat(2048));
    // Without _NET_WM_PID the X server knows the process of the window.
    assert_eq!(found["pid"], std::process::id());
    for _ in 0..300 {
        let another = window.another();
        window.link.map_window(another).expect("mapping");
    }
    window.link.flush().expect("a flush");
    let request =
        wait::until(TIMEOUT, || async { (list_windows(&fixture, "").await.len() == 256).then(Instant::now) });
    request.await.expect("the limit must be reached");
    let request = Instant::now();
    list_windows(&fixture, "").await;
    println!("figure: a list of 256 windows takes {:?}", request.elapsed());
    fixture.close().await;
}
