//! Are windows listed as they are, and do they become what is asked?

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hotdesk::agent::display::Session;
use hotdesk::base::wait;
use serde_json::{Value, json};
use x11rb::connection::Connection as _;
use x11rb::protocol::xproto::{
    AtomEnum, ConnectionExt as _, CreateWindowAux, EventMask, PropMode, WindowClass,
};
use x11rb::rust_connection::RustConnection;
use x11rb::wrapper::ConnectionExt as _;

use super::desk::{Desk, TIMEOUT, installed};

/// A screen with a window manager, where one is installed.
pub async fn managed() -> Option<Desk> {
    if !installed("openbox") || !installed("xterm") {
        return None;
    }
    Some(Desk::own(1000, 700, Session::Embedded).await)
}

/// A terminal of that title; its window's record.
pub async fn terminal(desk: &Desk, query: &str, title: &str) -> Value {
    let argv = json!({"argv": ["xterm", "-T", title, "-e", "sleep", "1000"], "wait_seconds": 30});
    let launched = desk.ok("POST", &format!("/launch?{query}"), argv).await;
    assert!(launched["window"].is_object(), "{launched}");
    launched["window"].clone()
}

fn id(window: &Value) -> String {
    window["id"].as_str().expect("an id").to_owned()
}

async fn listed(desk: &Desk, query: &str) -> Vec<Value> {
    let list = desk.ok("GET", &format!("/windows?{query}"), Value::Null).await;
    list["windows"].as_array().expect("a list").clone()
}

async fn titles(desk: &Desk, query: &str) -> Vec<String> {
    listed(desk, query)
        .await
        .iter()
        .map(|window| window["title"].as_str().expect("a title").to_owned())
        .collect()
}

/// A client of its own with a managed window, whose title is `title` and which takes part in nothing. It has a border,
/// which the window manager takes away and yet counts.
struct Client {
    link: RustConnection,
    window: u32,
}

impl Client {
    fn open(display: &str, title: &[u8]) -> Self {
        let (link, screen) = x11rb::connect(Some(display)).expect("an X connection");
        let (root, visual) = (link.setup().roots[screen].root, link.setup().roots[screen].root_visual);
        let window = link.generate_id().expect("an id");
        let look = CreateWindowAux::new().event_mask(EventMask::STRUCTURE_NOTIFY);
        link.create_window(24, window, root, 10, 10, 300, 200, 2, WindowClass::INPUT_OUTPUT, visual, &look)
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
        let (class, look) = (WindowClass::INPUT_OUTPUT, CreateWindowAux::new());
        self.link.create_window(0, id, root, 10, 10, 50, 50, 0, class, 0, &look).expect("a window");
        id
    }

    fn map(&self) {
        self.link.map_window(self.window).expect("mapping");
        self.link.get_input_focus().expect("a request").reply().expect("a reply");
    }

    /// Says that it wants to be asked before it closes, and then never reacts.
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

/// The record of the window with that title, once it is managed.
async fn appeared(desk: &Desk, title: &str) -> Value {
    let found = wait::until(TIMEOUT, || async {
        listed(desk, "").await.into_iter().find(|window| window["title"] == title)
    });
    found.await.expect("the window is listed")
}

#[tokio::test]
async fn windows_are_listed_topmost_first_with_all_that_is_known_of_them() {
    let Some(desk) = managed().await else { return };
    let first = terminal(&desk, "", "one ä€😀").await;
    terminal(&desk, "", "two").await;
    assert_eq!(titles(&desk, "").await, ["two", "one ä€😀"]);
    let top = &listed(&desk, "").await[0];
    assert_eq!((&top["class"], &top["instance"]), (&json!("XTerm"), &json!("xterm")));
    assert_eq!(
        (&top["screen"], &top["type"], &top["desktop"]),
        (&json!("default"), &json!("normal"), &json!(0))
    );
    for state in ["minimized", "maximized", "fullscreen"] {
        assert_eq!(top[state], false, "{state}");
    }
    let pid = top["pid"].as_u64().expect("a pid");
    assert!(std::fs::read_to_string(format!("/proc/{pid}/comm")).expect("a process").starts_with("xterm"));
    // The geometry is the content's: what X itself says of the window.
    let (link, _) = x11rb::connect(Some(&desk.display())).expect("an X connection");
    let window = u32::from_str_radix(&id(top)[2..], 16).expect("a number");
    let geometry = link.get_geometry(window).expect("a request").reply().expect("a geometry");
    assert_eq!((&top["width"], &top["height"]), (&json!(geometry.width), &json!(geometry.height)));
    assert!(top["frame"]["top"].as_u64().expect("a height") > 5, "{top}");
    let focused = desk.ok("POST", &format!("/windows/{}/focus", id(&first)), Value::Null).await;
    assert_eq!((&focused["focused"], &focused["id"]), (&json!(true), &first["id"]));
    let list = listed(&desk, "").await;
    assert_eq!(list[0]["id"], first["id"]);
    assert_eq!(list.iter().filter(|window| window["focused"] == true).count(), 1);
    desk.close().await;
}

#[tokio::test]
async fn a_window_becomes_what_is_asked_and_the_answer_is_what_it_became() {
    let Some(desk) = managed().await else { return };
    let window = Client::open(&desk.display(), b"plain");
    window.map();
    let before = appeared(&desk, "plain").await;
    let path = |verb: &str| format!("/windows/{}{verb}", id(&before));
    let full = desk.ok("POST", &path("/maximize"), Value::Null).await;
    assert_eq!(full["maximized"], true, "{full}");
    assert!(full["width"].as_u64() > Some(900), "{full}");
    let hidden = desk.ok("POST", &path("/minimize"), Value::Null).await;
    assert_eq!((&hidden["minimized"], &hidden["focused"]), (&json!(true), &json!(false)), "{hidden}");
    let shown = desk.ok("POST", &path("/focus"), Value::Null).await;
    assert_eq!((&shown["minimized"], &shown["focused"]), (&json!(false), &json!(true)), "{shown}");
    desk.ok("POST", &path("/minimize"), Value::Null).await;
    let normal = desk.ok("POST", &path("/restore"), Value::Null).await;
    assert_eq!((&normal["minimized"], &normal["maximized"]), (&json!(false), &json!(false)), "{normal}");
    assert_eq!((&normal["width"], &normal["height"]), (&json!(300), &json!(200)), "{normal}");
    let mut quickest = Duration::MAX;
    for place in [
        json!({"x": 120, "y": 140, "width": 333, "height": 222}),
        json!({"x": 50, "y": 60}),
        json!({"width": 401}),
        json!({"y": 99, "height": 1}),
    ] {
        let asked = Instant::now();
        let placed = desk.ok("PATCH", &path(""), place.clone()).await;
        for (name, value) in place.as_object().expect("fields") {
            assert_eq!(&placed[name], value, "{place} {placed}");
        }
        let took = asked.elapsed();
        // A window that does not get there is answered for after five seconds.
        assert!(took < Duration::from_secs(4), "{place} took {took:?}");
        quickest = quickest.min(took);
    }
    assert!(quickest < Duration::from_secs(1), "{quickest:?}");
    // A maximized window goes back to where it was put, and becomes a normal one to be placed.
    desk.ok("PATCH", &path(""), json!({"x": 120, "y": 140})).await;
    desk.ok("POST", &path("/maximize"), Value::Null).await;
    desk.ok("POST", &path("/restore"), Value::Null).await;
    let back = wait::until(TIMEOUT, || async {
        let window = listed(&desk, "").await.into_iter().find(|window| window["id"] == before["id"])?;
        (window["x"] == 120 && window["y"] == 140).then_some(())
    });
    assert!(back.await.is_some(), "{:?}", listed(&desk, "").await);
    desk.ok("POST", &path("/maximize"), Value::Null).await;
    let placed = desk.ok("PATCH", &path(""), json!({"x": 30, "y": 40, "width": 200, "height": 150})).await;
    assert_eq!((&placed["x"], &placed["maximized"]), (&json!(30), &json!(false)), "{placed}");
    // A terminal takes whole characters only: the answer says what it took.
    let terminal = terminal(&desk, "", "letters").await;
    let path = format!("/windows/{}", id(&terminal));
    let placed = desk.ok("PATCH", &path, json!({"width": 301, "height": 203})).await;
    let width = placed["width"].as_u64().expect("a width");
    assert!((280..=301).contains(&width), "{placed}");
    assert_eq!(placed["width"], listed(&desk, "").await[0]["width"]);
    for bad in
        [json!({}), json!({"x": 20_000}), json!({"width": 0}), json!({"height": -1}), json!({"x": "1"})]
    {
        desk.fails("PATCH", &path, bad, 400).await;
    }
    desk.close().await;
}

#[tokio::test]
async fn closing_is_told_as_it_went() {
    let Some(desk) = managed().await else { return };
    let terminal = terminal(&desk, "", "obedient").await;
    let path = format!("/windows/{}", id(&terminal));
    assert_eq!(desk.ok("POST", &format!("{path}/close"), Value::Null).await, json!({"closed": true}));
    for verb in ["focus", "close", "maximize", "minimize", "restore"] {
        desk.fails("POST", &format!("{path}/{verb}"), Value::Null, 404).await;
    }
    desk.fails("PATCH", &path, json!({"x": 1}), 404).await;
    let stubborn = Client::open(&desk.display(), b"Save changes?");
    stubborn.keep_open();
    stubborn.map();
    let window = appeared(&desk, "Save changes?").await;
    let path = format!("/windows/{}/close", id(&window));
    let asked = Instant::now();
    assert_eq!(desk.ok("POST", &path, json!({})).await, json!({"closed": false}));
    assert!((1.9..20.0).contains(&asked.elapsed().as_secs_f64()), "{:?}", asked.elapsed());
    assert_eq!(titles(&desk, "").await, ["Save changes?"]);
    assert_eq!(desk.ok("POST", &path, json!({"force": true})).await, json!({"closed": true}));
    assert_eq!(titles(&desk, "").await, [""; 0]);
    for unknown in ["0x1", "1", "0xffffffffff", "%00", "default"] {
        desk.fails("POST", &format!("/windows/{unknown}/focus"), Value::Null, 404).await;
    }
    desk.fails("GET", "/windows?screen=nosuch", Value::Null, 404).await;
    desk.close().await;
}

#[tokio::test]
async fn windows_that_vanish_while_they_are_listed_are_left_out() {
    let Some(desk) = managed().await else { return };
    terminal(&desk, "", "stays").await;
    let (stop, opened) = (std::sync::Arc::<AtomicBool>::default(), std::sync::Arc::<AtomicU64>::default());
    let (display, stopping, opening) = (desk.display(), stop.clone(), opened.clone());
    let flicker = std::thread::spawn(move || {
        while !stopping.load(Ordering::Relaxed) {
            let client = Client::open(&display, b"mayfly");
            client.map();
            let before = opening.fetch_add(1, Ordering::Relaxed);
            std::thread::sleep(Duration::from_millis(before % 7));
        }
    });
    let (mut seen, began) = (0, Instant::now());
    let few = |seen: usize| seen == 0 || opened.load(Ordering::Relaxed) <= 20;
    // For a while, and on where the machine lets few come.
    while began.elapsed() < Duration::from_secs(4) || few(seen) && began.elapsed() < TIMEOUT {
        let titles = titles(&desk, "").await;
        assert!(titles.contains(&"stays".to_owned()), "{titles:?}");
        seen += titles.iter().filter(|title| *title == "mayfly").count();
    }
    stop.store(true, Ordering::Relaxed);
    flicker.join().expect("the thread");
    assert!(!few(seen), "{opened:?} opened, {seen} seen");
    desk.close().await;
}

#[tokio::test]
async fn titles_and_lists_are_bounded_and_a_bare_screen_has_no_managed_windows() {
    let bare = Desk::bare(320, 240).await;
    let window = Client::open(&bare.display(), b"unmanaged");
    window.map();
    assert_eq!(listed(&bare, "").await, Vec::<Value>::new());
    bare.close().await;
    let Some(desk) = managed().await else { return };
    let long = "é".repeat(3000);
    let window = Client::open(&desk.display(), long.as_bytes());
    window.map();
    let found = wait::until(TIMEOUT, || async { listed(&desk, "").await.pop() }).await.expect("a window");
    assert_eq!(found["title"], "é".repeat(2048));
    // Without _NET_WM_PID the X server knows whose window it is.
    assert_eq!(found["pid"], std::process::id());
    for _ in 0..300 {
        let another = window.another();
        window.link.map_window(another).expect("mapping");
    }
    window.link.flush().expect("a flush");
    let asked = wait::until(TIMEOUT, || async { (listed(&desk, "").await.len() == 256).then(Instant::now) });
    asked.await.expect("the bound");
    let asked = Instant::now();
    listed(&desk, "").await;
    println!("figure: a list of 256 windows takes {:?}", asked.elapsed());
    desk.close().await;
}
