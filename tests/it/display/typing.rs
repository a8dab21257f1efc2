//! Does a program receive exactly the text that was typed?

use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;
use x11rb::connection::RequestConnection as _;
use x11rb::protocol::xkb::{ConnectionExt as _, Group};
use x11rb::protocol::xproto::{ConnectionExt as _, KEY_PRESS_EVENT, ModMask};
use x11rb::protocol::xtest::ConnectionExt as _;

use super::desk::{Desk, TIMEOUT, installed};
use super::window::Reader;
use hotdesk::agent::display::Session;
use hotdesk::base::wait;

const SENTENCES: &str = "Hello, World! ~`@#$%^&*()_+-={}[]|\\:;\"'<>?,./ 0123456789\n\tŽluťoučký kůň úpěl ďábelské ódy. \
    Àéîõü ñ ß ẞ É é Ÿ ÿ € £ ¥ © «» „“ ‚‘ – — … ‰ Ελληνικά: Γειά σου Κόσμε. Русский: Привет, мир! עברית שלום العربية مرحبا \
    हिन्दी नमस्ते ไทย สวัสดี 日本語 こんにちは世界 カタカナ 한국어 안녕하세요 中文 你好，世界 😀🎉🚀👩\u{200d}💻 🇩🇪 e\u{301} a\u{308}o\u{302}\u{323} \
    ∑∫√∞≠ ①②③ ─│┌ Æ æ Ø ø Å å Đ đ Ǆ ǆ\n";

/// The sentences, hundreds of different ideographs, and the sentences again.
fn long_text() -> String {
    let ideographs: String = (0..600_u32).filter_map(|step| char::from_u32(0x4e00 + step * 7)).collect();
    format!("{SENTENCES}{ideographs}{SENTENCES}")
}

#[track_caller]
fn assert_same(received: &str, sent: &str) {
    let wrong = received.chars().zip(sent.chars()).filter(|(a, b)| a != b).count();
    assert!(received == sent, "{wrong} of {} characters are wrong:\n{received}", sent.chars().count());
}

async fn types_exactly(desk: &Desk, reader: &Reader, text: &str) {
    desk.ok("POST", "/type", json!({ "text": text })).await;
    let received = reader.text(text.chars().count());
    assert_same(&received, text);
}

#[tokio::test]
async fn a_multilingual_text_arrives_exactly() {
    let desk = Desk::bare(640, 480).await;
    let reader = Reader::open(&desk.display());
    let text = long_text();
    assert!(text.chars().count() > 1000);
    types_exactly(&desk, &reader, &text).await;
    types_exactly(&desk, &reader, &text).await;
    types_exactly(&desk, &reader, "É").await;
    types_exactly(&desk, &reader, &"plain ascii, quickly. ".repeat(500)).await;
    desk.close().await;
}

#[tokio::test]
async fn a_slow_program_that_answers_pings_is_waited_for() {
    let desk = Desk::bare(640, 480).await;
    let reader = Reader::open_slow(&desk.display(), Duration::from_millis(8));
    types_exactly(&desk, &reader, &long_text()).await;
    desk.close().await;
}

/// An xterm whose program writes what it reads to a file.
struct Terminal {
    child: Child,
    folder: tempfile::TempDir,
}

impl Terminal {
    async fn open(display: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let child = Command::new("xterm")
            .args(["-u8", "-wf", "-geometry", "80x24+0+0", "-e", "sh", "-c"])
            .arg("stty raw -echo; : > ready; exec cat > text")
            .current_dir(folder.path())
            .env("DISPLAY", display)
            .env("LC_ALL", "C.UTF-8")
            .spawn()
            .expect("xterm");
        let ready = folder.path().join("ready");
        wait::until(TIMEOUT, || async { ready.exists().then_some(()) }).await.expect("the terminal's shell");
        Self { child, folder }
    }

    async fn text(&self, bytes: usize) -> String {
        let file = self.folder.path().join("text");
        let whole = || async {
            let text = std::fs::read_to_string(&file).ok()?;
            (text.len() >= bytes).then_some(text)
        };
        match wait::until(TIMEOUT, whole).await {
            Some(text) => text,
            None => panic!("only {}", String::from_utf8_lossy(&std::fs::read(&file).expect("the text"))),
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

async fn a_terminal_receives_exactly(session: Session) {
    let managed = matches!(session, Session::Embedded);
    let desk = Desk::own(800, 600, session).await;
    let terminal = Terminal::open(&desk.display()).await;
    if managed {
        desk.give_a_window_the_focus().await;
    } else {
        desk.ok("POST", "/click", json!({"x": 100, "y": 100})).await;
    }
    let text = long_text();
    desk.ok("POST", "/type", json!({ "text": text })).await;
    // A terminal in raw mode gives Return as a carriage return.
    let sent = text.replace('\n', "\r");
    assert_same(&terminal.text(sent.len()).await, &sent);
    drop(terminal);
    desk.close().await;
}

#[tokio::test]
async fn a_real_terminal_receives_the_text_exactly() {
    if installed("xterm") {
        a_terminal_receives_exactly(Session::None).await;
    }
}

#[tokio::test]
async fn a_real_terminal_under_a_window_manager_receives_the_text_exactly() {
    if installed("xterm") && installed("openbox") {
        a_terminal_receives_exactly(Session::Embedded).await;
    }
}

/// Lets a process run for short moments only, as on a host that has no processor left for it.
struct Starved {
    pid: Pid,
    fed: Arc<AtomicBool>,
    starving: Option<std::thread::JoinHandle<()>>,
}

impl Starved {
    const ASLEEP: Duration = Duration::from_millis(400);
    const AWAKE: Duration = Duration::from_millis(10);

    fn of(child: &Child) -> Self {
        let (pid, fed) = (Pid::from_raw(child.id().cast_signed()), Arc::new(AtomicBool::new(false)));
        let enough = Arc::clone(&fed);
        let starving = std::thread::spawn(move || {
            while !enough.load(Ordering::Relaxed) {
                kill(pid, Signal::SIGSTOP).expect("it lives");
                std::thread::sleep(Self::ASLEEP);
                kill(pid, Signal::SIGCONT).expect("it lives");
                std::thread::sleep(Self::AWAKE);
            }
        });
        Self { pid, fed, starving: Some(starving) }
    }
}

impl Drop for Starved {
    fn drop(&mut self) {
        self.fed.store(true, Ordering::Relaxed);
        if let Some(starving) = self.starving.take() {
            let _ended = starving.join();
        }
        let _continued = kill(self.pid, Signal::SIGCONT);
    }
}

#[tokio::test]
async fn a_terminal_that_gets_hardly_any_processor_loses_nothing() {
    if !installed("xterm") {
        return;
    }
    let desk = Desk::bare(800, 600).await;
    let terminal = Terminal::open(&desk.display()).await;
    desk.ok("POST", "/click", json!({"x": 100, "y": 100})).await;
    let starved = Starved::of(&terminal.child);
    let text: String = (0..120_u32).filter_map(|step| char::from_u32(0x4e00 + step * 7)).collect();
    desk.ok("POST", "/type", json!({ "text": text })).await;
    drop(starved);
    assert_same(&terminal.text(text.len()).await, &text);
    drop(terminal);
    desk.close().await;
}

/// A second client that disturbs the keyboard.
struct Meddler {
    link: x11rb::rust_connection::RustConnection,
    root: u32,
}

impl Meddler {
    fn on(display: &str) -> Self {
        let (link, screen) = x11rb::connect(Some(display)).expect("an X connection");
        let root = x11rb::connection::Connection::setup(&link).roots[screen].root;
        assert!(link.extension_information("XKEYBOARD").expect("the connection").is_some());
        link.xkb_use_extension(1, 0).expect("a request").reply().expect("XKB");
        Self { link, root }
    }

    fn hold(&self, code: u8) {
        self.link.xtest_fake_input(KEY_PRESS_EVENT, code, 0, self.root, 0, 0, 0).expect("a request");
        self.link.get_input_focus().expect("a request").reply().expect("a reply");
    }

    fn lock(&self, mods: ModMask, group: Group) {
        let every = ModMask::from(0xff_u8);
        let none = ModMask::from(0_u8);
        self.link.xkb_latch_lock_state(0x100, every, mods, true, group, none, false, 0).expect("a request");
        self.link.get_input_focus().expect("a request").reply().expect("a reply");
    }

    fn locked(&self) -> (u16, u8) {
        let state = self.link.xkb_get_state(0x100).expect("a request").reply().expect("the state");
        (state.locked_mods.into(), state.locked_group.into())
    }
}

/// Keycodes of the evdev map.
const SHIFT: u8 = 50;
const CONTROL: u8 = 37;
const CAPS: ModMask = ModMask::LOCK;

#[tokio::test]
async fn locks_stuck_keys_and_other_layouts_do_not_change_the_text() {
    let desk = Desk::bare(640, 480).await;
    let reader = Reader::open(&desk.display());
    let meddler = Meddler::on(&desk.display());
    let text = "Hello, ABC abc 123 ÄÖ @#€ Привет 日本\n";
    meddler.lock(CAPS, Group::M1);
    types_exactly(&desk, &reader, text).await;
    assert_eq!(meddler.locked(), (u16::from(CAPS), 0), "Caps Lock is as it was");
    meddler.hold(SHIFT);
    meddler.hold(CONTROL);
    types_exactly(&desk, &reader, text).await;
    for layout in ["de", "fr", "us,ru", "ru", "gr,us", "us(intl)"] {
        let set = Command::new("setxkbmap").arg(layout).env("DISPLAY", desk.display()).status();
        assert!(set.expect("setxkbmap").success());
        types_exactly(&desk, &reader, text).await;
        meddler.lock(CAPS, Group::M2);
        types_exactly(&desk, &reader, text).await;
        types_exactly(&desk, &reader, SENTENCES).await;
        assert_eq!(meddler.locked().0, u16::from(CAPS), "{layout}");
        meddler.lock(ModMask::from(0_u8), Group::M1);
    }
    desk.close().await;
}

#[tokio::test]
async fn texts_that_no_key_types_are_refused() {
    let desk = Desk::bare(320, 240).await;
    let reader = Reader::open(&desk.display());
    assert!(desk.fails("POST", "/type", json!({"text": "ok\u{1b}[A"}), 400).await.contains("U+001B"));
    assert!(desk.fails("POST", "/type", json!({"text": "\u{0}"}), 400).await.contains("U+0000"));
    desk.fails("POST", "/type", json!({}), 400).await;
    desk.fails("POST", "/type", json!({"text": 5}), 400).await;
    desk.fails("POST", "/type", json!({"text": "x".repeat(100_001)}), 413).await;
    desk.ok("POST", "/type", json!({"text": ""})).await;
    desk.ok("POST", "/type", json!({"text": "a\r\nb\rc"})).await;
    assert_eq!(reader.text(5), "a\nb\nc");
    desk.close().await;
}

#[tokio::test]
async fn typing_whose_client_hung_up_stops_and_leaves_nothing_pressed() {
    let desk = Desk::bare(320, 240).await;
    let reader = Reader::open(&desk.display());
    let endless: String = (0..50_000_u32).filter_map(|step| char::from_u32(0x4e00 + step % 20_000)).collect();
    let typing = desk.call("POST", "/type", json!({ "text": endless }));
    assert!(tokio::time::timeout(Duration::from_millis(500), typing).await.is_err());
    let began = Instant::now();
    desk.ok("POST", "/key", json!({"key": "F5"})).await;
    assert!(began.elapsed() < Duration::from_secs(20), "the screen was busy for {:?}", began.elapsed());
    let keys =
        wait::until(TIMEOUT, || async { reader.keys(0).into_iter().find(|(keysym, _)| *keysym == 0xffc2) });
    assert_eq!(keys.await, Some((0xffc2, 0)));
    desk.close().await;
}

#[tokio::test]
async fn keys_and_chords_arrive_with_their_modifiers() {
    let desk = Desk::bare(640, 480).await;
    let reader = Reader::open(&desk.display());
    let meddler = Meddler::on(&desk.display());
    let (shift, control, alt, supers) = (1, 4, 8, 64);
    let table = [
        ("Enter", 0xff0d, 0),
        ("BackSpace", 0xff08, 0),
        ("ArrowUp", 0xff52, 0),
        ("Page_Down", 0xff56, 0),
        ("F1", 0xffbe, 0),
        ("space", 0x20, 0),
        ("a", 0x61, 0),
        ("A", 0x41, shift),
        ("plus", 0x2b, shift),
        ("ctrl+c", 0x63, control),
        ("Ctrl+C", 0x63, control),
        ("ctrl+shift+c", 0x43, control | shift),
        ("ctrl++", 0x2b, control | shift),
        ("alt+F4", 0xffc1, alt),
        ("cmd+l", 0x6c, supers),
        ("ctrl+alt+Delete", 0xffff, control | alt),
    ];
    for lock in [ModMask::from(0_u8), CAPS] {
        meddler.lock(lock, Group::M1);
        for (key, keysym, state) in table {
            let answer = desk.ok("POST", "/key", json!({ "key": key })).await;
            assert_eq!(
                (&answer["success"], &answer["action"], &answer["details"]),
                (&json!(true), &json!("key_press"), &json!({ "key": key }))
            );
            assert_eq!(reader.keys(1), [(keysym, state)], "{key}");
        }
    }
    // Keys that the map lacks, with and without modifiers.
    for (key, keysym, state) in [("日", 0x0100_65e5, 0), ("ctrl+é", 0xe9, control), ("F24", 0xffd5, 0)] {
        desk.ok("POST", "/key", json!({ "key": key })).await;
        assert_eq!(reader.keys(1), [(keysym, state)], "{key}");
    }
    // A lock key does what it is for: off, as it was on, and on again.
    desk.ok("POST", "/key", json!({"key": "Caps_Lock"})).await;
    assert_eq!(meddler.locked(), (0, 0));
    desk.ok("POST", "/key", json!({"key": "capslock"})).await;
    assert_eq!(meddler.locked(), (u16::from(CAPS), 0));
    assert!(desk.fails("POST", "/key", json!({"key": "ctrl+nosuch"}), 400).await.contains("nosuch"));
    desk.fails("POST", "/key", json!({"key": ""}), 400).await;
    desk.fails("POST", "/key", json!({}), 400).await;
    desk.close().await;
}
