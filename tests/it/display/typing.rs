//! Typed text in a program: exact delivery over slow programs, other layouts, locks and held keys.

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

use super::fixture::{DisplayFixture, TIMEOUT, installed};
use super::window::KeyReader;
use hotdesk::agent::display::ScreenSession;
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
    let mismatches = received.chars().zip(sent.chars()).filter(|(a, b)| a != b).count();
    assert!(received == sent, "{mismatches} of {} characters are wrong:\n{received}", sent.chars().count());
}

async fn check_typing(fixture: &DisplayFixture, reader: &KeyReader, text: &str) {
    fixture.ok("POST", "/type", json!({ "text": text })).await;
    let received = reader.text(text.chars().count());
    assert_same(&received, text);
}

#[tokio::test]
async fn a_multilingual_text_arrives_exactly() {
    let fixture = DisplayFixture::bare(640, 480).await;
    let reader = KeyReader::open(&fixture.display());
    let text = long_text();
    assert!(text.chars().count() > 1000);
    check_typing(&fixture, &reader, &text).await;
    check_typing(&fixture, &reader, &text).await;
    check_typing(&fixture, &reader, "É").await;
    check_typing(&fixture, &reader, &"plain ascii, quickly. ".repeat(500)).await;
    fixture.close().await;
}

#[tokio::test]
async fn a_slow_program_that_answers_pings_is_waited_for() {
    let fixture = DisplayFixture::bare(640, 480).await;
    let reader = KeyReader::open_slow(&fixture.display(), Duration::from_millis(8));
    check_typing(&fixture, &reader, &long_text()).await;
    fixture.close().await;
}

/// An xterm whose shell writes its input to a file.
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

async fn check_terminal(session: ScreenSession) {
    let managed = matches!(session, ScreenSession::Embedded);
    let fixture = DisplayFixture::with_session(800, 600, session).await;
    let terminal = Terminal::open(&fixture.display()).await;
    if managed {
        fixture.focus_any_window().await;
    } else {
        fixture.ok("POST", "/click", json!({"x": 100, "y": 100})).await;
    }
    let text = long_text();
    fixture.ok("POST", "/type", json!({ "text": text })).await;
    // A terminal in raw mode reports Return as a carriage return.
    let sent = text.replace('\n', "\r");
    assert_same(&terminal.text(sent.len()).await, &sent);
    drop(terminal);
    fixture.close().await;
}

#[tokio::test]
async fn a_real_terminal_receives_the_text_exactly() {
    if installed("xterm") {
        check_terminal(ScreenSession::None).await;
    }
}

#[tokio::test]
async fn a_real_terminal_under_a_window_manager_receives_the_text_exactly() {
    if installed("xterm") && installed("openbox") {
        check_terminal(ScreenSession::Embedded).await;
    }
}

/// Lets a process run for short moments only, as on an overloaded host.
struct ThrottledProcess {
    pid: Pid,
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl ThrottledProcess {
    const STOPPED_FOR: Duration = Duration::from_millis(400);
    const RUNNING_FOR: Duration = Duration::from_millis(10);

    fn start(child: &Child) -> Self {
        let (pid, stop) = (Pid::from_raw(child.id().cast_signed()), Arc::new(AtomicBool::new(false)));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                kill(pid, Signal::SIGSTOP).expect("the process runs");
                std::thread::sleep(Self::STOPPED_FOR);
                kill(pid, Signal::SIGCONT).expect("the process runs");
                std::thread::sleep(Self::RUNNING_FOR);
            }
        });
        Self { pid, stop, thread: Some(thread) }
    }
}

impl Drop for ThrottledProcess {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ended = thread.join();
        }
        let _continued = kill(self.pid, Signal::SIGCONT);
    }
}

#[tokio::test]
async fn a_terminal_that_gets_hardly_any_processor_loses_nothing() {
    if !installed("xterm") {
        return;
    }
    let fixture = DisplayFixture::bare(800, 600).await;
    let terminal = Terminal::open(&fixture.display()).await;
    fixture.ok("POST", "/click", json!({"x": 100, "y": 100})).await;
    let throttled = ThrottledProcess::start(&terminal.child);
    let text: String = (0..120_u32).filter_map(|step| char::from_u32(0x4e00 + step * 7)).collect();
    fixture.ok("POST", "/type", json!({ "text": text })).await;
    drop(throttled);
    assert_same(&terminal.text(text.len()).await, &text);
    drop(terminal);
    fixture.close().await;
}

/// A second client that changes the keyboard state.
struct DisturbingClient {
    link: x11rb::rust_connection::RustConnection,
    root: u32,
}

impl DisturbingClient {
    fn open(display: &str) -> Self {
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
        let all = ModMask::from(0xff_u8);
        let none = ModMask::from(0_u8);
        self.link.xkb_latch_lock_state(0x100, all, mods, true, group, none, false, 0).expect("a request");
        self.link.get_input_focus().expect("a request").reply().expect("a reply");
    }

    fn locked(&self) -> (u16, u8) {
        let state = self.link.xkb_get_state(0x100).expect("a request").reply().expect("the state");
        (state.locked_mods.into(), state.locked_group.into())
    }
}

/// Keycodes of the evdev keymap.
const SHIFT: u8 = 50;
const CONTROL: u8 = 37;
const CAPS: ModMask = ModMask::LOCK;

#[tokio::test]
async fn locks_stuck_keys_and_other_layouts_do_not_change_the_text() {
    let fixture = DisplayFixture::bare(640, 480).await;
    let reader = KeyReader::open(&fixture.display());
    let disturbing = DisturbingClient::open(&fixture.display());
    let text = "Hello, ABC abc 123 ÄÖ @#€ Привет 日本\n";
    disturbing.lock(CAPS, Group::M1);
    check_typing(&fixture, &reader, text).await;
    assert_eq!(disturbing.locked(), (u16::from(CAPS), 0), "Caps Lock must be unchanged");
    disturbing.hold(SHIFT);
    disturbing.hold(CONTROL);
    check_typing(&fixture, &reader, text).await;
    for layout in ["de", "fr", "us,ru", "ru", "gr,us", "us(intl)"] {
        let set = Command::new("setxkbmap").arg(layout).env("DISPLAY", fixture.display()).status();
        assert!(set.expect("setxkbmap").success());
        check_typing(&fixture, &reader, text).await;
        disturbing.lock(CAPS, Group::M2);
        check_typing(&fixture, &reader, text).await;
        check_typing(&fixture, &reader, SENTENCES).await;
        assert_eq!(disturbing.locked().0, u16::from(CAPS), "{layout}");
        disturbing.lock(ModMask::from(0_u8), Group::M1);
    }
    fixture.close().await;
}

#[tokio::test]
async fn texts_that_no_key_types_are_refused() {
    let fixture = DisplayFixture::bare(320, 240).await;
    let reader = KeyReader::open(&fixture.display());
    assert!(fixture.fails("POST", "/type", json!({"text": "ok\u{1b}[A"}), 400).await.contains("U+001B"));
    assert!(fixture.fails("POST", "/type", json!({"text": "\u{0}"}), 400).await.contains("U+0000"));
    fixture.fails("POST", "/type", json!({}), 400).await;
    fixture.fails("POST", "/type", json!({"text": 5}), 400).await;
    fixture.fails("POST", "/type", json!({"text": "x".repeat(100_001)}), 413).await;
    fixture.ok("POST", "/type", json!({"text": ""})).await;
    fixture.ok("POST", "/type", json!({"text": "a\r\nb\rc"})).await;
    assert_eq!(reader.text(5), "a\nb\nc");
    fixture.close().await;
}

#[tokio::test]
async fn typing_whose_client_hung_up_stops_and_leaves_nothing_pressed() {
    let fixture = DisplayFixture::bare(320, 240).await;
    let reader = KeyReader::open(&fixture.display());
    let endless: String = (0..50_000_u32).filter_map(|step| char::from_u32(0x4e00 + step % 20_000)).collect();
    let typing = fixture.call("POST", "/type", json!({ "text": endless }));
    assert!(tokio::time::timeout(Duration::from_millis(500), typing).await.is_err());
    let began = Instant::now();
    fixture.ok("POST", "/key", json!({"key": "F5"})).await;
    assert!(began.elapsed() < Duration::from_secs(20), "the screen was busy for {:?}", began.elapsed());
    let keys =
        wait::until(TIMEOUT, || async { reader.keys(0).into_iter().find(|(keysym, _)| *keysym == 0xffc2) });
    assert_eq!(keys.await, Some((0xffc2, 0)));
    fixture.close().await;
}

#[tokio::test]
async fn keys_and_chords_arrive_with_their_modifiers() {
    let fixture = DisplayFixture::bare(640, 480).await;
    let reader = KeyReader::open(&fixture.display());
    let disturbing = DisturbingClient::open(&fixture.display());
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
        disturbing.lock(lock, Group::M1);
        for (key, keysym, state) in table {
            let answer = fixture.ok("POST", "/key", json!({ "key": key })).await;
            assert_eq!(
                (&answer["success"], &answer["action"], &answer["details"]),
                (&json!(true), &json!("key_press"), &json!({ "key": key }))
            );
            assert_eq!(reader.keys(1), [(keysym, state)], "{key}");
        }
    }
    // Keysyms that are not in the keymap, with and without modifiers.
    for (key, keysym, state) in [("日", 0x0100_65e5, 0), ("ctrl+é", 0xe9, control), ("F24", 0xffd5, 0)] {
        fixture.ok("POST", "/key", json!({ "key": key })).await;
        assert_eq!(reader.keys(1), [(keysym, state)], "{key}");
    }
    // The Caps Lock key toggles: off, because it was on, and on again.
    fixture.ok("POST", "/key", json!({"key": "Caps_Lock"})).await;
    assert_eq!(disturbing.locked(), (0, 0));
    fixture.ok("POST", "/key", json!({"key": "capslock"})).await;
    assert_eq!(disturbing.locked(), (u16::from(CAPS), 0));
    assert!(fixture.fails("POST", "/key", json!({"key": "ctrl+nosuch"}), 400).await.contains("nosuch"));
    fixture.fails("POST", "/key", json!({"key": ""}), 400).await;
    fixture.fails("POST", "/key", json!({}), 400).await;
    fixture.close().await;
}
