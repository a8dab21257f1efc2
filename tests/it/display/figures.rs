//! Printed performance figures, on request: `HOTDESK_FIGURES=1 cargo test --release figures -- --nocapture`.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::fixture::{DisplayFixture, Picture, installed};
use super::window::{KeyReader, Window};
use crate::harness::capability::Capability;
use hotdesk::agent::display::ScreenSession;

/// Prints the best and the median time of some rounds in milliseconds.
async fn print_timing<F: Future<Output = usize>>(
    what: &str,
    rounds: usize,
    mut round: impl FnMut(usize) -> F,
) {
    let mut durations = Vec::new();
    let mut bytes = 0;
    for number in 0..rounds {
        let began = Instant::now();
        bytes = round(number).await;
        durations.push(began.elapsed());
    }
    durations.sort_unstable();
    let ms = |durations: Duration| durations.as_secs_f64() * 1000.0;
    println!(
        "{what:44} best {:8.3} ms  median {:8.3} ms  {bytes:>9} bytes",
        ms(durations[0]),
        ms(durations[rounds / 2])
    );
}

fn open_terminals(display: &str) -> Vec<Child> {
    // A page of coloured text per terminal: like a busy desktop to an encoder.
    let page = "for i in $(seq 40); do printf '\\033[3%dm%s\\033[0m ' $((i % 8)) \"$(head -c 60 /dev/urandom | base64 -w0)\"; done; sleep 1000";
    let geometries = ["100x30+0+0", "100x30+640+0", "100x30+0+400", "100x30+640+400"];
    let open = geometries.iter().map(|geometry| {
        let mut terminal = Command::new("xterm");
        terminal.args(["-geometry", geometry, "-e", "sh", "-c", page]).env("DISPLAY", display);
        terminal.stderr(Stdio::null()).spawn().expect("xterm")
    });
    open.collect()
}

/// Prints the figures that the choice of compression and filter is based on.
fn compare_png(shot: &Picture) {
    use png::{Compression, Filter};
    for (what, compression, filter) in [
        ("Fast, Sub", Compression::Fast, Filter::Sub),
        ("Fast, Up", Compression::Fast, Filter::Up),
        ("Fast, Adaptive", Compression::Fast, Filter::Adaptive),
        ("Fastest, Sub", Compression::Fastest, Filter::Sub),
        ("Fastest, Up", Compression::Fastest, Filter::Up),
    ] {
        let mut durations = Duration::MAX;
        let mut file = Vec::new();
        for _ in 0..20 {
            let began = Instant::now();
            file.clear();
            let mut encoder = png::Encoder::new(&mut file, shot.width, shot.height);
            encoder.set_color(png::ColorType::Rgb);
            encoder.set_compression(compression);
            encoder.set_filter(filter);
            encoder.write_header().expect("a header").write_image_data(&shot.rgb).expect("pixels");
            durations = durations.min(began.elapsed());
        }
        let ms = durations.as_secs_f64() * 1000.0;
        println!("  png alone, {what:32} best {ms:8.3} ms {:>29} bytes", file.len());
    }
}

/// Prints the times of uncached screenshots in every format.
async fn time_screenshots(fixture: &DisplayFixture) {
    let mark = Window::open(&fixture.display(), 0, 0, 8, 8, 0);
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
            fixture.screenshot(query, &[]).await.bytes.len()
        };
        print_timing(&format!("changed, {query}"), 60, shot).await;
    }
}

#[tokio::test]
async fn figures() {
    if std::env::var_os("HOTDESK_FIGURES").is_none() {
        Capability::Host.skip("HOTDESK_FIGURES is not set");
        return;
    }
    if !installed("xterm") {
        return;
    }
    for (width, height) in [(1280, 720), (1920, 1080)] {
        let fixture = DisplayFixture::with_session(width, height, ScreenSession::Embedded).await;
        println!("--- {width}x{height}, an empty desktop");
        time_screenshots(&fixture).await;
        let mut terminals = open_terminals(&fixture.display());
        tokio::time::sleep(Duration::from_secs(3)).await;
        println!("--- {width}x{height}, full of text");
        time_screenshots(&fixture).await;
        let tag = fixture.screenshot("", &[]).await.header("etag").to_owned();
        for (what, query, tags) in
            [("", "", vec![]), (", no pointer", "cursor=off", vec![]), (", 304", "", vec![&*tag])]
        {
            let same = async |_| fixture.screenshot(query, &tags).await.bytes.len();
            print_timing(&format!("unchanged, png{what}"), 300, same).await;
        }
        let base64 = async |_| fixture.raw("GET", "/screenshot", &Value::Null).await.2.len();
        print_timing("unchanged, png as base64 JSON", 100, base64).await;
        compare_png(&fixture.picture("").await);
        let click = async |number: usize| {
            fixture.ok("POST", "/click", json!({"x": number % 64, "y": 60})).await;
            0
        };
        print_timing("click", 1000, click).await;
        for terminal in &mut terminals {
            terminal.kill().expect("the end of a terminal");
            terminal.wait().expect("an exit status");
        }
        fixture.close().await;
    }
    // Without a window manager, which would take the focus from an unmanaged window.
    let fixture = DisplayFixture::bare(1280, 720).await;
    let reader = KeyReader::open(&fixture.display());
    for (what, text) in [
        ("ascii", "The quick brown fox. ".repeat(200)),
        ("ideographs", (0..1000_u32).filter_map(|step| char::from_u32(0x4e00 + step)).collect()),
    ] {
        let count = text.chars().count();
        let began = Instant::now();
        fixture.ok("POST", "/type", json!({ "text": text })).await;
        let durations = began.elapsed().as_secs_f64();
        assert_eq!(reader.text(count), text);
        println!("{what}: {count} characters in {durations:.3} s, {:.0} a second", count as f64 / durations);
    }
    drop(reader);
    fixture.close().await;
}
