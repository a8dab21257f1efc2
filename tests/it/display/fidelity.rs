//! Typed random text of every kind in real programs, on idle and loaded machines and with different layouts.
//!
//! `make test` sends 300 characters of each kind in each of the four states, `HOTDESK_PROOF=full` (`make
//! bench`) sends 10,000. A failure prints the seed; `HOTDESK_SEED` repeats it.

use std::ops::RangeInclusive;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use hotdesk::agent::display::ScreenSession;
use hotdesk::base::wait;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use reqwest::Method;
use serde_json::{Value, json};

use super::fixture::{DisplayFixture, installed};
use super::receivers::{Kind, Receiver};
use crate::harness::controller::RunningController;
use crate::harness::process::OwnedChild;
use crate::harness::sampling::sampled;

/// A kind of character and its code point ranges.
type Class = (&'static str, &'static [RangeInclusive<u32>]);

const CLASSES: [Class; 4] = [
    ("ASCII", &[0x20..=0x7e]),
    ("Latin-1", &[0xa0..=0xff]),
    (
        "other BMP",
        &[
            0x100..=0x17f,   // Latin Extended-A
            0x180..=0x24f,   // Latin Extended-B
            0x300..=0x36f,   // combining accents
            0x391..=0x3a1,   // Greek
            0x3b1..=0x3c9,   //
            0x400..=0x4ff,   // Cyrillic
            0x531..=0x556,   // Armenian
            0x5d0..=0x5ea,   // Hebrew
            0x620..=0x64a,   // Arabic
            0x905..=0x939,   // Devanagari
            0xe01..=0xe3a,   // Thai
            0x10d0..=0x10f0, // Georgian
            0x1e00..=0x1eff, // Latin Extended Additional
            0x2010..=0x2027, // dashes and quotes
            0x20a0..=0x20bf, // currencies
            0x2190..=0x22ff, // arrows, mathematics
            0x2500..=0x257f, // boxes
            0x3041..=0x3096, // Hiragana
            0x30a1..=0x30fa, // Katakana
            0x4e00..=0x9fa5, // ideographs
            0xac00..=0xd7a3, // Hangul
            0x7ae..=0x7ae,
            0xfe50..=0xfe50,
            0xfe65..=0xfe65,
            0xff20..=0xff20,
        ],
    ),
    (
        "astral",
        &[
            0x10330..=0x1034a, // Gothic
            0x12000..=0x12399, // cuneiform
            0x1d400..=0x1d454, // mathematical letters
            0x1f300..=0x1f64f, // emoji
            0x1f680..=0x1f6c5, // more emoji
            0x20000..=0x2a6d6, // rare ideographs
        ],
    ),
];

/// Characters whose keysyms end in the 16 bits of an accent or of the compose key. A program that composes by
/// those bits loses them and the next character; the session disables that in GTK.
const COMPOSE_LIKE: &str = "\u{7ae}\u{fe50}\u{fe65}\u{ff20}\u{207ae}\u{207ae}";

/// Random characters of a class; one in twenty is a newline or a tab.
fn random_text((_, ranges): Class, count: usize, rng: &mut StdRng) -> String {
    let sizes: Vec<u32> = ranges.iter().map(|range| range.end() - range.start() + 1).collect();
    let all: u32 = sizes.iter().sum();
    let one = |rng: &mut StdRng| match rng.random_range(0..40_u8) {
        0 => '\n',
        1 => '\t',
        _ => {
            // Half of them by block; otherwise most would be ideographs.
            let (block, at) = if rng.random() {
                let block = rng.random_range(0..ranges.len());
                (block, rng.random_range(0..sizes[block]))
            } else {
                let mut at = rng.random_range(0..all);
                let block = sizes.iter().position(|size| {
                    at < *size || {
                        at -= size;
                        false
                    }
                });
                (block.expect("a block"), at)
            };
            char::from_u32(ranges[block].start() + at).expect("a character")
        }
    };
    let first =
        COMPOSE_LIKE.chars().filter(|first| ranges.iter().any(|range| range.contains(&u32::from(*first))));
    let first: Vec<char> = first.collect();
    let more = count - first.len();
    first.into_iter().chain((0..more).map(|_| one(rng))).collect()
}

/// Starts programs that keep both cores busy until they are dropped.
fn start_load() -> Vec<OwnedChild> {
    let busy = |_| {
        let mut command = Command::new("nice");
        command.args(["-n", "0", "sh", "-c", "while :; do :; done"]).stdout(Stdio::null());
        OwnedChild(command.spawn().expect("a shell"))
    };
    (0..2).map(busy).collect()
}

/// A program that receives typed text.
trait TypingTarget {
    /// Sets the keyboard layout.
    async fn set_layout(&mut self, layout: &str);
    /// Types a text and returns what was received.
    async fn send(&mut self, text: &str) -> String;
    /// The text in the form in which the program receives it.
    fn as_received(&self, text: &str) -> String;
}

/// Sends all classes in both layouts, on the idle and on the loaded machine.
async fn check_all_classes(what: &str, target: &mut impl TypingTarget) {
    let count = sampled(300, 10_000);
    let requested_seed = std::env::var("HOTDESK_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = requested_seed.unwrap_or_else(rand::random::<u64>);
    println!("{what}: {count} characters of each class, HOTDESK_SEED={seed}");
    let mut rng = StdRng::seed_from_u64(seed);
    for loaded in [false, true] {
        let _load = if loaded { start_load() } else { Vec::new() };
        for layout in ["us", "de"] {
            target.set_layout(layout).await;
            for class in CLASSES {
                let text = random_text(class, count, &mut rng);
                let began = Instant::now();
                // One request per thousand characters, a usual size of a client's text.
                let characters: Vec<char> = text.chars().collect();
                for part in characters.chunks(1000) {
                    let part: String = part.iter().collect();
                    let (expected, received) = (target.as_received(&part), target.send(&part).await);
                    let mismatch = difference(&received, &expected);
                    assert!(
                        mismatch.is_none(),
                        "{what}, {layout}, loaded: {loaded}, {}, seed {seed}: {}",
                        class.0,
                        mismatch.unwrap_or_default()
                    );
                }
                let rate = count as f64 / began.elapsed().as_secs_f64();
                let state = if loaded { "loaded" } else { "idle" };
                println!(
                    "  {what:9} {state:6} {layout} {:9} 100.00 % of {count}, {rate:6.0}/s seen",
                    class.0
                );
            }
        }
    }
}

/// Describes the first difference of two texts, if there is one.
fn difference(received: &str, expected: &str) -> Option<String> {
    if received == expected {
        return None;
    }
    let (actual, sent): (Vec<char>, Vec<char>) = (received.chars().collect(), expected.chars().collect());
    let at = actual.iter().zip(&sent).position(|(a, b)| a != b).unwrap_or(actual.len().min(sent.len()));
    let near =
        |text: &[char]| format!("{:?}", text.iter().skip(at.saturating_sub(3)).take(10).collect::<String>());
    Some(format!(
        "{} of {} characters received; at {at} {} is not {}",
        actual.len(),
        sent.len(),
        near(&actual),
        near(&sent)
    ))
}

/// A program on a display of its own.
struct LocalProgram {
    fixture: DisplayFixture,
    receiver: Receiver,
}

impl TypingTarget for LocalProgram {
    async fn set_layout(&mut self, layout: &str) {
        let set = Command::new("setxkbmap").arg(layout).env("DISPLAY", self.fixture.display()).status();
        assert!(set.expect("setxkbmap").success());
    }

    async fn send(&mut self, text: &str) -> String {
        let bytes = self.receiver.as_received(text).len();
        let answer = self.fixture.ok("POST", "/type", json!({ "text": text })).await;
        assert_eq!(answer["details"]["characters_delivered"], text.chars().count());
        self.receiver.text(bytes).await
    }

    fn as_received(&self, text: &str) -> String {
        self.receiver.as_received(text)
    }
}

async fn check_program(what: &str, kind: Kind) {
    if !kind.is_installed() || !installed("openbox") || !installed("setxkbmap") {
        return;
    }
    let fixture = DisplayFixture::with_session(800, 600, ScreenSession::Embedded).await;
    let receiver = Receiver::open(&fixture, kind).await;
    let mut target = LocalProgram { fixture, receiver };
    check_all_classes(what, &mut target).await;
    drop(target.receiver);
    target.fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn xterm_receives_every_character() {
    check_program("xterm", Kind::Terminal).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gtk_text_view_receives_every_character() {
    check_program("GTK", Kind::Gtk).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_qt_text_field_receives_every_character() {
    check_program("Qt", Kind::Qt).await;
}

/// Port of the page inside the computer, on its own loopback.
const PORT: u16 = 8111;
/// Longest time for a starved browser to show a thousand characters.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The browser of a computer, driven through the controller.
struct Browser {
    controller: RunningController,
    id: String,
}

impl Browser {
    async fn open() -> Option<Self> {
        let controller = RunningController::boot_full().await?;
        let workspace = controller.workspace("proof").await;
        let id = crate::harness::caller::id_of(&controller.computer(&workspace, "browser").await);
        let path = format!("/computers/{id}/files/content?path=page.py");
        let put = controller
            .request(Method::PUT, &path)
            .body(include_str!("page.py"))
            .send()
            .await
            .expect("an answer");
        assert_eq!(put.status(), 200);
        let started =
            controller.act(&id, "processes", json!({"command": format!("python3 page.py {PORT}")})).await;
        assert!(started.status < 300, "{}", started.body);
        let browser = Self { controller, id };
        let ask = format!("curl -s --retry 50 --retry-connrefused --retry-delay 1 http://127.0.0.1:{PORT}/");
        assert!(browser.controller.bash(&browser.id, &ask).await.contains("textarea"), "the page's server");
        let open = json!({"command": format!("chromium --app=http://127.0.0.1:{PORT}/"), "wait_seconds": 60});
        let launched = browser.controller.act(&browser.id, "launch", open).await;
        assert!(launched.body["window"].is_object(), "{}", launched.body);
        let window = launched.body["window"]["id"].as_str().expect("an id").to_owned();
        let large =
            browser.controller.act(&browser.id, &format!("windows/{window}/maximize"), json!({})).await;
        assert_eq!(large.status, 200, "{}", large.body);
        let ready = || async {
            browser.controller.act(&browser.id, "click", json!({"x": 500, "y": 350})).await;
            browser.read_file("page.ready").await
        };
        assert!(wait::until(Duration::from_secs(60), ready).await.is_some(), "the field must have the focus");
        Some(browser)
    }

    /// Content of a file on the computer.
    async fn read_file(&self, name: &str) -> Option<String> {
        let path = format!("/computers/{}/files/content?path={name}", self.id);
        let answer = self.controller.request(Method::GET, &path).send().await.expect("an answer");
        if answer.status() == 200 { answer.text().await.ok() } else { None }
    }
}

impl TypingTarget for Browser {
    async fn set_layout(&mut self, layout: &str) {
        let set = format!("DISPLAY=:99 setxkbmap {layout} && echo set");
        assert_eq!(self.controller.bash(&self.id, &set).await.trim(), "set");
    }

    async fn send(&mut self, text: &str) -> String {
        // A browser lays out the whole field at each character. Empty it, so that the test does not measure a
        // growing field.
        self.controller.act(&self.id, "key", json!({"key": "Escape"})).await;
        let empty = || async { self.read_file("page.text").await.filter(String::is_empty) };
        assert!(wait::until(TIMEOUT, empty).await.is_some(), "the field must become empty");
        let answer = self.controller.act(&self.id, "type", json!({ "text": text })).await;
        let delivered: &Value = &answer.body["details"]["characters_delivered"];
        assert_eq!((answer.status, delivered), (200, &json!(text.chars().count())), "{}", answer.body);
        let whole =
            || async { self.read_file("page.text").await.filter(|content| content.len() >= text.len()) };
        match wait::until(TIMEOUT, whole).await {
            Some(content) => content,
            None => self.read_file("page.text").await.unwrap_or_default(),
        }
    }

    fn as_received(&self, text: &str) -> String {
        text.to_owned()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_browser_receives_every_character_through_the_controller() {
    let Some(mut browser) = Browser::open().await else { return };
    check_all_classes("Chromium", &mut browser).await;
}
