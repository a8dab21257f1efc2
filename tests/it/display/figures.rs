//! How fast is it? Printed figures, on request: `HOTDESK_FIGURES=1 cargo test --release figures -- --nocapture`.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::desk::{Desk, Shot, installed};
use super::window::{Reader, Window};
use hotdesk::agent::display::Session;

/// Milliseconds of the best and the median of some rounds.
async fn timed<F: Future<Output = usize>>(what: &str, rounds: usize, mut round: impl FnMut(usize) -> F) {
    let mut took = Vec::new();
    let mut bytes = 0;
    for number in 0..rounds {
        let began = Instant::now();
        bytes = round(number).await;
        took.push(began.elapsed());
    }
    took.sort_unstable();
    let ms = |took: Duration| took.as_secs_f64() * 1000.0;
    println!(
        "{what:44} best {:8.3} ms  median {:8.3} ms  {bytes:>9} bytes",
        ms(took[0]),
        ms(took[rounds / 2])
    );
}

fn clutter(display: &str) -> Vec<Child> {
    // A page of coloured text per terminal: what a busy desktop looks like to an encoder.
    let page = "for i in $(seq 40); do printf '\\033[3%dm%s\\033[0m ' $((i % 8)) \"$(head -c 60 /dev/urandom | base64 -w0)\"; done; sleep 1000";
    let geometries = ["100x30+0+0", "100x30+640+0", "100x30+0+400", "100x30+640+400"];
    let open = geometries.iter().map(|geometry| {
        let mut terminal = Command::new("xterm");
        terminal.args(["-geometry", geometry, "-e", "sh", "-c", page]).env("DISPLAY", display);
        terminal.stderr(Stdio::null()).spawn().expect("xterm")
    });
    open.collect()
}

/// What the choice of compression and filter rests on.
fn compare_png(shot: &Shot) {
    use png::{Compression, Filter};
    for (what, compression, filter) in [
        ("Fast, Sub", Compression::Fast, Filter::Sub),
        ("Fast, Up", Compression::Fast, Filter::Up),
        ("Fast, Adaptive", Compression::Fast, Filter::Adaptive),
        ("Fastest, Sub", Compression::Fastest, Filter::Sub),
        ("Fastest, Up", Compression::Fastest, Filter::Up),
    ] {
        let mut took = Duration::MAX;
        let mut file = Vec::new();
        for _ in 0..20 {
            let began = Instant::now();
            file.clear();
            let mut encoder = png::Encoder::new(&mut file, shot.width, shot.height);
            encoder.set_color(png::ColorType::Rgb);
            encoder.set_compression(compression);
            encoder.set_filter(filter);
            encoder.write_header().expect("a header").write_image_data(&shot.rgb).expect("pixels");
            took = took.min(began.elapsed());
        }
        let ms = took.as_secs_f64() * 1000.0;
        println!("  png alone, {what:32} best {ms:8.3} ms {:>29} bytes", file.len());
    }
}

/// Pictures that nobody has yet, in every form.
async fn looks(desk: &Desk) {
    let mark = Window::open(&desk.display(), 0, 0, 8, 8, 0);
    for query in [
        "format=png",
        "format=png&scale=0.5",
        "format=png&region=0,0,64,64",
        "format=png&max_bytes=60000",
        "format=jpeg",
        "format=jpeg&quality=95",
        "format=jpeg&max_bytes=60000",
        "format=webp",
        "format=webp&quality=80",
    ] {
        let shot = async |number: usize| {
            mark.fill(0, 0, 8, 8, number as u32 + 1);
            desk.look(query, &[]).await.bytes.len()
        };
        timed(&format!("changed, {query}"), 60, shot).await;
    }
}

#[tokio::test]
async fn figures() {
    if std::env::var_os("HOTDESK_FIGURES").is_none() {
        println!("skipped: HOTDESK_FIGURES is not set");
        return;
    }
    if !installed("xterm") {
        return;
    }
    for (width, height) in [(1280, 720), (1920, 1080)] {
        let desk = Desk::own(width, height, Session::Embedded).await;
        println!("--- {width}x{height}, an empty desktop");
        looks(&desk).await;
        let mut terminals = clutter(&desk.display());
        tokio::time::sleep(Duration::from_secs(3)).await;
        println!("--- {width}x{height}, full of text");
        looks(&desk).await;
        let tag = desk.look("", &[]).await.header("etag").to_owned();
        for (what, query, held) in
            [("", "", vec![]), (", no pointer", "cursor=off", vec![]), (", 304", "", vec![&*tag])]
        {
            let same = async |_| desk.look(query, &held).await.bytes.len();
            timed(&format!("unchanged, png{what}"), 300, same).await;
        }
        let base64 = async |_| desk.raw("GET", "/screenshot", &Value::Null).await.2.len();
        timed("unchanged, png as base64 JSON", 100, base64).await;
        compare_png(&desk.picture("").await);
        let click = async |number: usize| {
            desk.ok("POST", "/click", json!({"x": number % 64, "y": 60})).await;
            0
        };
        timed("click", 1000, click).await;
        for terminal in &mut terminals {
            terminal.kill().expect("the end of a terminal");
            terminal.wait().expect("its status");
        }
        desk.close().await;
    }
    // Without a window manager: it would take the focus back from a window that it does not manage.
    let desk = Desk::bare(1280, 720).await;
    let reader = Reader::open(&desk.display());
    for (what, text) in [
        ("ascii", "The quick brown fox. ".repeat(200)),
        ("ideographs", (0..1000_u32).filter_map(|step| char::from_u32(0x4e00 + step)).collect()),
    ] {
        let count = text.chars().count();
        let began = Instant::now();
        desk.ok("POST", "/type", json!({ "text": text })).await;
        let took = began.elapsed().as_secs_f64();
        assert_eq!(reader.text(count), text);
        println!("{what}: {count} characters in {took:.3} s, {:.0} a second", count as f64 / took);
    }
    drop(reader);
    desk.close().await;
}
