//! Do real programs receive random text of every kind exactly, on an idle and on a loaded machine, whatever the layout?
//!
//! `make test` sends 1,000 characters of each kind in each of the four states, `HOTDESK_PROOF=full` (`make bench`) 10,000. A
//! failure prints the seed; `HOTDESK_SEED` repeats it.

use std::ops::RangeInclusive;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use hotdesk::agent::display::Session;
use hotdesk::base::wait;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use reqwest::Method;
use serde_json::{Value, json};

use super::desk::{Desk, installed};
use super::receivers::{Kind, Receiver};
use crate::harness::controller::RunningController;
use crate::harness::process::Owned;

/// Whether all of it is asked for, not the sample.
pub fn in_full() -> bool {
    std::env::var("HOTDESK_PROOF").is_ok_and(|value| value == "full")
}

/// A kind of character and where its characters are.
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

/// Characters whose keysyms end in the 16 bits of an accent's or of the compose key's. A program that composes by those bits
/// loses them and what follows; the session tells GTK not to.
const COMPOSING: &str = "\u{7ae}\u{fe50}\u{fe65}\u{ff20}\u{207ae}\u{207ae}";

/// Random characters of a class; one in twenty is a newline or a tab.
fn random_text((_, ranges): Class, count: usize, rng: &mut StdRng) -> String {
    let sizes: Vec<u32> = ranges.iter().map(|range| range.end() - range.start() + 1).collect();
    let all: u32 = sizes.iter().sum();
    let one = |rng: &mut StdRng| match rng.random_range(0..40_u8) {
        0 => '\n',
        1 => '\t',
        _ => {
            // Half by block, else ideographs alone would be most of it.
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
        COMPOSING.chars().filter(|first| ranges.iter().any(|range| range.contains(&u32::from(*first))));
    let first: Vec<char> = first.collect();
    let more = count - first.len();
    first.into_iter().chain((0..more).map(|_| one(rng))).collect()
}

/// Programs that keep both cores busy until they are dropped.
fn load() -> Vec<Owned> {
    let busy = |_| {
        let mut command = Command::new("nice");
        command.args(["-n", "0", "sh", "-c", "while :; do :; done"]).stdout(Stdio::null());
        Owned(command.spawn().expect("a shell"))
    };
    (0..2).map(busy).collect()
}

/// Where text is typed, and what arrived.
trait Typist {
    /// Sets the keyboard layout.
    async fn lay_out(&mut self, layout: &str);
    /// Types, and answers what was received.
    async fn send(&mut self, text: &str) -> String;
    /// What a text looks like there.
    fn expects(&self, text: &str) -> String;
}

/// All classes on both layouts, idle and loaded.
async fn every_character_arrives(what: &str, typist: &mut impl Typist) {
    let each = if in_full() { 10_000 } else { 1000 };
    let given = std::env::var("HOTDESK_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = given.unwrap_or_else(rand::random::<u64>);
    println!("{what}: {each} characters of each class, HOTDESK_SEED={seed}");
    let mut rng = StdRng::seed_from_u64(seed);
    for loaded in [false, true] {
        let _load = if loaded { load() } else { Vec::new() };
        for layout in ["us", "de"] {
            typist.lay_out(layout).await;
            for class in CLASSES {
                let text = random_text(class, each, &mut rng);
                let began = Instant::now();
                // In requests of a thousand: what a client sends as one text.
                let characters: Vec<char> = text.chars().collect();
                for part in characters.chunks(1000) {
                    let part: String = part.iter().collect();
                    let (wanted, received) = (typist.expects(&part), typist.send(&part).await);
                    let wrong = difference(&received, &wanted);
                    assert!(
                        wrong.is_none(),
                        "{what}, {layout}, loaded: {loaded}, {}, seed {seed}: {}",
                        class.0,
                        wrong.unwrap_or_default()
                    );
                }
                let rate = each as f64 / began.elapsed().as_secs_f64();
                let state = if loaded { "loaded" } else { "idle" };
                println!("  {what:9} {state:6} {layout} {:9} 100.00 % of {each}, {rate:6.0}/s seen", class.0);
            }
        }
    }
}

/// How two texts differ, if they do.
fn difference(received: &str, wanted: &str) -> Option<String> {
    if received == wanted {
        return None;
    }
    let (got, sent): (Vec<char>, Vec<char>) = (received.chars().collect(), wanted.chars().collect());
    let at = got.iter().zip(&sent).position(|(a, b)| a != b).unwrap_or(got.len().min(sent.len()));
    let near =
        |text: &[char]| format!("{:?}", text.iter().skip(at.saturating_sub(3)).take(10).collect::<String>());
    Some(format!(
        "{} of {} characters came; at {at} {} is not {}",
        got.len(),
        sent.len(),
        near(&got),
        near(&sent)
    ))
}

/// A program on a display of its own.
struct Here {
    desk: Desk,
    receiver: Receiver,
}

impl Typist for Here {
    async fn lay_out(&mut self, layout: &str) {
        let set = Command::new("setxkbmap").arg(layout).env("DISPLAY", self.desk.display()).status();
        assert!(set.expect("setxkbmap").success());
    }

    async fn send(&mut self, text: &str) -> String {
        let bytes = self.receiver.expects(text).len();
        let answer = self.desk.ok("POST", "/type", json!({ "text": text })).await;
        assert_eq!(answer["details"]["characters_delivered"], text.chars().count());
        self.receiver.text(bytes).await
    }

    fn expects(&self, text: &str) -> String {
        self.receiver.expects(text)
    }
}

async fn a_program_receives(what: &str, kind: Kind) {
    if !kind.is_here() || !installed("openbox") || !installed("setxkbmap") {
        return;
    }
    let desk = Desk::own(800, 600, Session::Embedded).await;
    let receiver = Receiver::open(&desk, kind).await;
    let mut here = Here { desk, receiver };
    every_character_arrives(what, &mut here).await;
    drop(here.receiver);
    here.desk.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn xterm_receives_every_character() {
    a_program_receives("xterm", Kind::Terminal).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gtk_text_view_receives_every_character() {
    a_program_receives("GTK", Kind::Gtk).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_qt_text_field_receives_every_character() {
    a_program_receives("Qt", Kind::Qt).await;
}

/// The port of the page in the computer; its loopback is its own.
const PORT: u16 = 8111;
/// How long a starved browser may take to show a thousand characters.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The browser of a computer, through the controller.
struct Browser {
    house: RunningController,
    id: String,
}

impl Browser {
    async fn open() -> Option<Self> {
        let house = RunningController::boot_full().await?;
        let workspace = house.workspace("proof").await;
        let id = crate::harness::caller::id_of(&house.computer(&workspace, "browser").await);
        let path = format!("/computers/{id}/files/content?path=page.py");
        let put =
            house.request(Method::PUT, &path).body(include_str!("page.py")).send().await.expect("an answer");
        assert_eq!(put.status(), 200);
        let started =
            house.act(&id, "processes", json!({"command": format!("python3 page.py {PORT}")})).await;
        assert!(started.status < 300, "{}", started.body);
        let browser = Self { house, id };
        let ask = format!("curl -s --retry 50 --retry-connrefused --retry-delay 1 http://127.0.0.1:{PORT}/");
        assert!(browser.house.bash(&browser.id, &ask).await.contains("textarea"), "the page's server");
        let open = json!({"command": format!("chromium --app=http://127.0.0.1:{PORT}/"), "wait_seconds": 60});
        let launched = browser.house.act(&browser.id, "launch", open).await;
        assert!(launched.body["window"].is_object(), "{}", launched.body);
        let window = launched.body["window"]["id"].as_str().expect("an id").to_owned();
        let large = browser.house.act(&browser.id, &format!("windows/{window}/maximize"), json!({})).await;
        assert_eq!(large.status, 200, "{}", large.body);
        let ready = || async {
            browser.house.act(&browser.id, "click", json!({"x": 500, "y": 350})).await;
            browser.held("page.ready").await
        };
        assert!(wait::until(Duration::from_secs(60), ready).await.is_some(), "the field has the keyboard");
        Some(browser)
    }

    /// What a file of the computer holds.
    async fn held(&self, name: &str) -> Option<String> {
        let path = format!("/computers/{}/files/content?path={name}", self.id);
        let answer = self.house.request(Method::GET, &path).send().await.expect("an answer");
        if answer.status() == 200 { answer.text().await.ok() } else { None }
    }
}

impl Typist for Browser {
    async fn lay_out(&mut self, layout: &str) {
        let set = format!("DISPLAY=:99 setxkbmap {layout} && echo set");
        assert_eq!(self.house.bash(&self.id, &set).await.trim(), "set");
    }

    async fn send(&mut self, text: &str) -> String {
        // A browser lays out its whole field again at each character: a field that grew with each text would be what is tested.
        self.house.act(&self.id, "key", json!({"key": "Escape"})).await;
        let empty = || async { self.held("page.text").await.filter(String::is_empty) };
        assert!(wait::until(TIMEOUT, empty).await.is_some(), "the field was emptied");
        let answer = self.house.act(&self.id, "type", json!({ "text": text })).await;
        let delivered: &Value = &answer.body["details"]["characters_delivered"];
        assert_eq!((answer.status, delivered), (200, &json!(text.chars().count())), "{}", answer.body);
        let whole = || async { self.held("page.text").await.filter(|held| held.len() >= text.len()) };
        match wait::until(TIMEOUT, whole).await {
            Some(held) => held,
            None => self.held("page.text").await.unwrap_or_default(),
        }
    }

    fn expects(&self, text: &str) -> String {
        text.to_owned()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_browser_receives_every_character_through_the_controller() {
    let Some(mut browser) = Browser::open().await else { return };
    every_character_arrives("Chromium", &mut browser).await;
}
