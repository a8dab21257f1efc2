//! Is the clipboard exact both ways, apart on each screen, and never held up by others?

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use axum::http::StatusCode;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hotdesk::agent::display::{Content, Selection};
use hotdesk::base::wait;
use serde_json::{Value, json};
use x11rb::connection::Connection as _;
use x11rb::protocol::Event;
use x11rb::protocol::xproto::{
    AtomEnum, ConnectionExt as _, CreateWindowAux, EventMask, PropMode, SelectionNotifyEvent, WindowClass,
};
use x11rb::rust_connection::RustConnection;
use x11rb::wrapper::ConnectionExt as _;

use super::desk::{Desk, TIMEOUT, installed};

/// What another program pastes of a form.
async fn pasted(display: &str, arguments: &[&str]) -> Vec<u8> {
    let mut command = Command::new("xclip");
    command.args(["-display", display, "-o"]).args(arguments);
    let output = tokio::task::spawn_blocking(move || command.output()).await.expect("a task").expect("xclip");
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// Has another program copy something; it stays in the background to be asked, and may own the selection only a
/// moment after its start.
pub fn copy(display: &str, arguments: &[&str], content: &[u8]) {
    let (link, _) = x11rb::connect(Some(display)).expect("an X connection");
    let named = if arguments.contains(&"primary") { "PRIMARY" } else { "CLIPBOARD" };
    let atom = link.intern_atom(false, named.as_bytes()).expect("a request").reply().expect("an atom").atom;
    let owner = || link.get_selection_owner(atom).expect("a request").reply().expect("a reply").owner;
    let before = owner();
    let mut child = Command::new("xclip")
        .args(["-display", display, "-i"])
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("xclip");
    child.stdin.take().expect("piped").write_all(content).expect("xclip reads");
    assert!(child.wait().expect("xclip").success());
    let until = Instant::now() + TIMEOUT;
    while owner() == before {
        assert!(Instant::now() < until, "xclip does not own the selection");
        std::thread::sleep(Duration::from_millis(2));
    }
}

pub const CLIPBOARD: [&str; 2] = ["-selection", "clipboard"];

async fn seen(desk: &Desk, query: &str) -> Value {
    desk.ok("GET", &format!("/clipboard?{query}"), Value::Null).await
}

async fn set(desk: &Desk, query: &str, body: Value) {
    assert_eq!(desk.ok("PUT", &format!("/clipboard?{query}"), body).await, json!({"success": true}));
}

/// A client that owns selections and answers as a test has it.
pub struct Peer {
    link: RustConnection,
    window: u32,
}

impl Peer {
    pub fn open(display: &str) -> Self {
        let (link, screen) = x11rb::connect(Some(display)).expect("an X connection");
        let root = link.setup().roots[screen].root;
        let window = link.generate_id().expect("an id");
        let look = CreateWindowAux::new().event_mask(EventMask::PROPERTY_CHANGE);
        link.create_window(0, window, root, 0, 0, 1, 1, 0, WindowClass::INPUT_ONLY, 0, &look)
            .expect("a window");
        Self { link, window }
    }

    fn atom(&self, name: &str) -> u32 {
        self.link.intern_atom(false, name.as_bytes()).expect("a request").reply().expect("an atom").atom
    }

    /// Takes the clipboard.
    pub fn own(&self) {
        self.link
            .set_selection_owner(self.window, self.atom("CLIPBOARD"), x11rb::CURRENT_TIME)
            .expect("owning");
        self.link.get_input_focus().expect("a request").reply().expect("a reply");
    }

    /// Asks for a form of the clipboard and never takes what comes.
    fn ask(&self, target: &str) {
        let (clipboard, inbox) = (self.atom("CLIPBOARD"), self.atom("INBOX"));
        let target = self.atom(target);
        self.link
            .convert_selection(self.window, clipboard, target, inbox, x11rb::CURRENT_TIME)
            .expect("asking");
        self.link.flush().expect("a flush");
    }
}

#[tokio::test]
async fn text_goes_both_ways_exactly() {
    if !installed("xclip") {
        return;
    }
    let desk = Desk::bare(320, 240).await;
    let display = desk.display();
    assert_eq!(seen(&desk, "").await, json!({"mime_type": null}));
    let text = "grüße, €, \u{1f600}, 漢字\n\ttab \"quoted\" \\ \r\n end ";
    set(&desk, "", json!({"text": text})).await;
    for target in ["UTF8_STRING", "text/plain;charset=utf-8", "text/plain", "TEXT"] {
        assert_eq!(
            pasted(&display, &["-selection", "clipboard", "-t", target]).await,
            text.as_bytes(),
            "{target}"
        );
    }
    let latin = pasted(&display, &["-selection", "clipboard", "-t", "STRING"]).await;
    assert_eq!(latin, b"gr\xfc\xdfe, ?, ?, ??\n\ttab \"quoted\" \\ \r\n end ");
    let targets = pasted(&display, &["-selection", "clipboard", "-t", "TARGETS"]).await;
    let targets = String::from_utf8(targets).expect("names");
    for target in ["TARGETS", "TIMESTAMP", "MULTIPLE", "UTF8_STRING", "STRING", "TEXT"] {
        assert!(targets.lines().any(|line| line == target), "{target} is not in {targets}");
    }
    let own = seen(&desk, "").await;
    assert_eq!((&own["mime_type"], &own["text"]), (&json!("text/plain;charset=utf-8"), &json!(text)));
    copy(&display, &CLIPBOARD, text.as_bytes());
    let theirs = seen(&desk, "").await;
    assert_eq!((&theirs["mime_type"], &theirs["text"]), (&json!("text/plain;charset=utf-8"), &json!(text)));
    // Of a program that knows no Unicode.
    copy(&display, &["-selection", "clipboard", "-t", "STRING"], b"gr\xfc\xdfe");
    let old = seen(&desk, "").await;
    assert_eq!((&old["text"], &old["targets"]), (&json!("grüße"), &json!(["STRING"])));
    copy(&display, &CLIPBOARD, text.as_bytes());
    assert_eq!(seen(&desk, "").await["text"], text);
    // The other selection is another clipboard.
    assert_eq!(seen(&desk, "selection=primary").await["mime_type"], Value::Null);
    copy(&display, &["-selection", "primary"], b"marked");
    assert_eq!(seen(&desk, "selection=primary").await["text"], "marked");
    set(&desk, "selection=primary", json!({"text": ""})).await;
    assert_eq!(seen(&desk, "selection=primary").await["text"], "");
    assert_eq!(seen(&desk, "").await["text"], text);
    for (query, body) in [
        ("selection=secondary", json!({"text": "x"})),
        ("", json!({})),
        ("", json!({"text": "a\u{0}b"})),
        ("", json!({"image": "AAAA"})),
        ("", json!({"text": "x", "mime_type": "text/html"})),
    ] {
        desk.fails("PUT", &format!("/clipboard?{query}"), body, 400).await;
    }
    desk.fails("GET", "/clipboard?screen=nosuch", Value::Null, 404).await;
    desk.close().await;
}

#[tokio::test]
async fn a_mebibyte_of_text_goes_both_ways_in_pieces_and_more_is_refused() {
    if !installed("xclip") {
        return;
    }
    let desk = Desk::bare(320, 240).await;
    let display = desk.display();
    let text: String = (0..1024 * 1024_u32).map(|at| char::from(b'!' + (at % 93) as u8)).collect();
    let began = Instant::now();
    set(&desk, "", json!({"text": text})).await;
    assert!(pasted(&display, &CLIPBOARD).await == text.as_bytes(), "other bytes came out");
    println!("figure: 1 MiB set and pasted by xclip in {:?}", began.elapsed());
    copy(&display, &CLIPBOARD, text.as_bytes());
    let began = Instant::now();
    assert!(seen(&desk, "").await["text"] == json!(text), "other bytes came in");
    println!("figure: 1 MiB read from xclip in {:?}", began.elapsed());
    let more = format!("{text}x");
    desk.fails("PUT", "/clipboard", json!({"text": more}), 413).await;
    copy(&display, &CLIPBOARD, more.as_bytes());
    desk.fails("GET", "/clipboard", Value::Null, 413).await;
    // Nothing of what was broken off is taken for the next answer.
    copy(&display, &CLIPBOARD, b"small again");
    assert_eq!(seen(&desk, "").await["text"], "small again");
    desk.close().await;
}

#[tokio::test]
async fn images_go_both_ways() {
    if !installed("xclip") {
        return;
    }
    let desk = Desk::bare(320, 240).await;
    let display = desk.display();
    let mut image = b"\x89PNG\r\n\x1a\n".to_vec();
    image.extend((0..3_000_000_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8));
    let coded = STANDARD.encode(&image);
    set(&desk, "", json!({"image": coded, "mime_type": "image/png"})).await;
    let form = ["-selection", "clipboard", "-t", "image/png"];
    assert!(pasted(&display, &form).await == image, "other bytes came out");
    copy(&display, &form, &image);
    let theirs = seen(&desk, "").await;
    assert_eq!(theirs["mime_type"], "image/png");
    assert!(theirs["image"] == json!(coded), "other bytes came in");
    // What is neither text nor a picture that is known is named, not guessed.
    copy(&display, &["-selection", "clipboard", "-t", "application/x-thing"], b"123");
    let other = seen(&desk, "").await;
    assert_eq!((&other["mime_type"], &other["targets"]), (&Value::Null, &json!(["application/x-thing"])));
    let huge = format!("\"{}\"", "A".repeat(12 * 1024 * 1024));
    let body: Value = serde_json::from_str(&huge).expect("JSON");
    desk.fails("PUT", "/clipboard", json!({"image": body}), 413).await;
    desk.close().await;
}

#[tokio::test]
async fn every_screen_has_a_clipboard_of_its_own_that_survives_many_sets() {
    let desk = Desk::bare(320, 240).await;
    desk.ok("POST", "/screens", Value::Null).await;
    let threads = || std::fs::read_dir("/proc/self/task").expect("/proc").count();
    set(&desk, "", json!({"text": "warm"})).await;
    set(&desk, "screen=screen-100", json!({"text": "warm"})).await;
    let before = threads();
    let began = Instant::now();
    for round in 0..500 {
        set(&desk, "", json!({"text": format!("boot {round}")})).await;
        set(&desk, "screen=screen-100", json!({"text": format!("other {round}")})).await;
        assert_eq!(seen(&desk, "").await["text"], format!("boot {round}"));
        assert_eq!(seen(&desk, "screen=screen-100").await["text"], format!("other {round}"));
    }
    println!("figure: 2000 sets and gets in {:?}", began.elapsed());
    assert!(threads() <= before + 4, "{} threads, before {before}", threads());
    desk.ok("DELETE", "/screens/screen-100", Value::Null).await;
    assert_eq!(seen(&desk, "").await["text"], "boot 499");
    desk.close().await;
}

#[tokio::test]
async fn an_owner_that_hangs_is_told_in_time_and_holds_nothing_else_up() {
    let desk = Desk::bare(320, 240).await;
    set(&desk, "selection=primary", json!({"text": "served meanwhile"})).await;
    let hung = Peer::open(&desk.display());
    hung.own();
    let asked = Instant::now();
    let get = || async {
        let (status, answer) = desk.call("GET", "/clipboard", Value::Null).await;
        assert_eq!(status, StatusCode::GATEWAY_TIMEOUT, "{answer}");
        asked.elapsed()
    };
    // One after another: the last of them leaves the others time on a slow machine too.
    let gets = futures_util::future::join_all((0..4).map(|_| get()));
    let others = async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        desk.ok("POST", "/click", json!({"x": 10, "y": 10})).await;
        desk.picture("").await;
        if installed("xclip") {
            assert_eq!(pasted(&desk.display(), &["-selection", "primary"]).await, b"served meanwhile");
        }
        // Setting needs nobody's answer: the hung owner loses the clipboard.
        set(&desk, "selection=primary", json!({"text": "set meanwhile"})).await;
        asked.elapsed()
    };
    let (mut took, others) = tokio::join!(gets, others);
    took.sort_unstable();
    assert!((1.9..10.0).contains(&took[0].as_secs_f64()), "{took:?}");
    assert!(others < took[3], "others took {others:?} of {took:?}");
    assert_eq!(seen(&desk, "selection=primary").await["text"], "set meanwhile");
    set(&desk, "", json!({"text": "free again"})).await;
    assert_eq!(seen(&desk, "").await["text"], "free again");
    desk.close().await;
}

#[tokio::test]
async fn an_owner_that_breaks_off_or_answers_late_spoils_nothing() {
    let desk = Desk::bare(320, 240).await;
    let peer = Peer::open(&desk.display());
    peer.own();
    let (incr, targets, utf8) = (peer.atom("INCR"), peer.atom("TARGETS"), peer.atom("UTF8_STRING"));
    // Announces pieces, sends one, and falls silent.
    let talk = std::thread::spawn(move || {
        let mut late = None;
        loop {
            let Ok(event) = peer.link.wait_for_event() else { return peer };
            let Event::SelectionRequest(asked) = event else { continue };
            let answer = SelectionNotifyEvent {
                response_type: 31,
                sequence: 0,
                time: asked.time,
                requestor: asked.requestor,
                selection: asked.selection,
                target: asked.target,
                property: asked.property,
            };
            let (to, at) = (asked.requestor, asked.property);
            if asked.target == targets {
                peer.link
                    .change_property32(PropMode::REPLACE, to, at, AtomEnum::ATOM, &[utf8])
                    .expect("targets");
            } else if late.is_none() {
                peer.link
                    .change_property32(PropMode::REPLACE, to, at, incr, &[1000])
                    .expect("an announcement");
                late = Some(answer);
            } else {
                // Only now what was asked for first, under its old name, before the answer to this.
                let old = late.take().expect("the first");
                peer.link
                    .change_property8(PropMode::REPLACE, to, old.property, utf8, b"stale")
                    .expect("a property");
                peer.link.send_event(false, to, EventMask::NO_EVENT, old).expect("an answer");
                peer.link.change_property8(PropMode::REPLACE, to, at, utf8, b"fresh").expect("a property");
                peer.link.send_event(false, to, EventMask::NO_EVENT, answer).expect("an answer");
                peer.link.flush().expect("a flush");
                return peer;
            }
            peer.link.send_event(false, to, EventMask::NO_EVENT, answer).expect("an answer");
            peer.link.flush().expect("a flush");
        }
    });
    desk.fails("GET", "/clipboard", Value::Null, 504).await;
    assert_eq!(seen(&desk, "").await["text"], "fresh");
    let peer = talk.join().expect("the peer");
    // An owner that goes away leaves an empty clipboard.
    drop(peer);
    let empty = || async { (seen(&desk, "").await == json!({"mime_type": null})).then_some(()) };
    wait::until(TIMEOUT, empty).await.expect("the clipboard is empty");
    desk.close().await;
}

#[tokio::test]
async fn several_forms_can_be_asked_for_at_once_and_the_time_of_the_copy() {
    let desk = Desk::bare(320, 240).await;
    set(&desk, "", json!({"text": "grüße"})).await;
    let peer = Peer::open(&desk.display());
    let [clipboard, multiple, pair] = ["CLIPBOARD", "MULTIPLE", "ATOM_PAIR"].map(|name| peer.atom(name));
    let [utf8, nonsense, time] = ["UTF8_STRING", "NONSENSE", "TIMESTAMP"].map(|name| peer.atom(name));
    let [list, first, second, third] = ["LIST", "A", "B", "C"].map(|name| peer.atom(name));
    let asked = [utf8, first, nonsense, second, time, third];
    peer.link.change_property32(PropMode::REPLACE, peer.window, list, pair, &asked).expect("a list");
    peer.link.convert_selection(peer.window, clipboard, multiple, list, x11rb::CURRENT_TIME).expect("asking");
    peer.link.flush().expect("a flush");
    let answer = loop {
        if let Event::SelectionNotify(answer) = peer.link.wait_for_event().expect("an event") {
            break answer;
        }
    };
    assert_eq!((answer.property, answer.target), (list, multiple));
    let property = |name| {
        let asked =
            peer.link.get_property(true, peer.window, name, AtomEnum::ANY, 0, 100).expect("a request");
        asked.reply().expect("a property")
    };
    let served: Vec<u32> = property(list).value32().expect("atoms").collect();
    assert_eq!(served, [utf8, first, nonsense, x11rb::NONE, time, third]);
    assert_eq!(property(first).value, "grüße".as_bytes());
    let since = property(third).value32().expect("a number").next();
    assert!(since.is_some_and(|since| since > 0), "{since:?}");
    desk.close().await;
}

#[tokio::test]
async fn a_program_that_does_not_take_what_it_asked_for_holds_nobody_up() {
    let desk = Desk::bare(320, 240).await;
    let text = "x".repeat(1024 * 1024);
    set(&desk, "", json!({"text": text})).await;
    let paste = async || {
        let began = Instant::now();
        assert!(pasted(&desk.display(), &CLIPBOARD).await.len() == text.len());
        began.elapsed()
    };
    let alone = if installed("xclip") { Some(paste().await) } else { None };
    let lazy: Vec<Peer> = (0..40).map(|_| Peer::open(&desk.display())).collect();
    for peer in &lazy {
        peer.ask("UTF8_STRING");
    }
    if let Some(alone) = alone {
        // Half of the lazy go away in the middle; the others are forgotten after a while.
        let rest: Vec<Peer> = lazy.into_iter().take(20).collect();
        let took = paste().await;
        // A lazy one is forgotten after five seconds.
        assert!(took < alone + Duration::from_secs(3), "{took:?}, alone {alone:?}");
        drop(rest);
    }
    assert!(seen(&desk, "").await["text"] == json!(text));
    desk.close().await;
}

#[tokio::test]
async fn what_is_lent_is_given_back_in_all_its_forms_unless_someone_copied_meanwhile() {
    if !installed("xclip") {
        return;
    }
    let desk = Desk::bare(320, 240).await;
    let (boot, display) = (desk.boot(), desk.display());
    let lend = || boot.clipboard_lend(Selection::Clipboard, Content::Text("on loan".to_owned()));
    // Of another program, in a form that is not known here, by pieces.
    let thing = vec![7; 700_000];
    let form = ["-selection", "clipboard", "-t", "application/x-thing"];
    copy(&display, &form, &thing);
    let mut loan = lend().await.expect("a loan");
    assert!(!loan.former().is_empty() && !loan.former().partial);
    assert_eq!(loan.fetches(), 0);
    assert!(!loan.fetched_beyond(0, Duration::from_millis(50)).await, "nobody fetched it");
    assert_eq!(pasted(&display, &CLIPBOARD).await, b"on loan");
    assert!(loan.fetched_beyond(0, TIMEOUT).await, "xclip fetched it");
    assert!(boot.clipboard_give_back(loan).await.expect("an answer"));
    assert!(pasted(&display, &form).await == thing, "other bytes came back");
    // Our own.
    set(&desk, "", json!({"text": "mine"})).await;
    let loan = lend().await.expect("a loan");
    assert!(boot.clipboard_give_back(loan).await.expect("an answer"));
    assert_eq!(pasted(&display, &CLIPBOARD).await, b"mine");
    // Somebody copies meanwhile.
    let mut loan = lend().await.expect("a loan");
    copy(&display, &CLIPBOARD, b"copied meanwhile");
    assert!(!loan.fetched_beyond(0, Duration::from_millis(500)).await);
    assert!(!boot.clipboard_give_back(loan).await.expect("an answer"));
    assert_eq!(seen(&desk, "").await["text"], "copied meanwhile");
    desk.close().await;
}

#[tokio::test]
async fn an_empty_clipboard_is_empty_again_after_a_loan() {
    let desk = Desk::bare(320, 240).await;
    let boot = desk.boot();
    let loan =
        boot.clipboard_lend(Selection::Clipboard, Content::Text("x".to_owned())).await.expect("a loan");
    assert_eq!(seen(&desk, "").await["text"], "x");
    assert!(boot.clipboard_give_back(loan).await.expect("an answer"));
    assert_eq!(seen(&desk, "").await, json!({"mime_type": null}));
    desk.close().await;
}

#[tokio::test]
async fn the_clipboard_works_again_after_its_x_server_was_killed() {
    let desk = Desk::bare(320, 240).await;
    set(&desk, "", json!({"text": "before"})).await;
    let server = super::life::x_server(&desk.display());
    super::life::kill(server, nix::sys::signal::Signal::SIGKILL);
    let back = || async {
        let (status, answer) = desk.call("GET", "/clipboard", Value::Null).await;
        assert!([200, 503, 504].contains(&status.as_u16()), "{status} {answer}");
        (status == StatusCode::OK && answer["mime_type"].is_null()).then_some(())
    };
    wait::until(TIMEOUT, back).await.expect("the clipboard is back, and empty");
    set(&desk, "", json!({"text": "after"})).await;
    assert_eq!(seen(&desk, "").await["text"], "after");
    desk.close().await;
}
