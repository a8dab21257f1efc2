//! Speed of the Rust libraries xcap and enigo on the screen that `DISPLAY` names; prints one line of JSON per
//! measurement.
//!
//! usage: peers capture ROUNDS | peers click DELAY_MS ROUNDS | peers move DELAY_MS ROUNDS | peers type
//! DELAY_MS
//!
//! The libraries run as in a long-lived program: one connection, no new process per call. The delay `default`
//! is enigo's own. `type` types each line of its input, a JSON string, and prints a line for each. It runs
//! until its input ends: enigo unbinds its spare keys at the end, and the receiver may still need them.

use std::error::Error;
use std::io::{Cursor, Write};
use std::time::Instant;

use enigo::{Button, Coordinate, Direction, Enigo, Keyboard, Mouse, Settings};
use image::codecs::jpeg::JpegEncoder;
use image::{DynamicImage, ImageFormat, RgbaImage};
use xcap::Monitor;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// JPEG quality, the same as in the measurements of hotdesk.
const QUALITY: u8 = 80;

fn milliseconds(work: impl FnOnce() -> Result<usize>) -> Result<(f64, usize)> {
    let began = Instant::now();
    let bytes = work()?;
    Ok((began.elapsed().as_secs_f64() * 1000.0, bytes))
}

/// Prints the figures of some rounds, after one warm-up round.
fn measure(what: &str, rounds: usize, mut work: impl FnMut(usize) -> Result<usize>) -> Result<()> {
    let mut bytes = work(0)?;
    let mut durations = Vec::with_capacity(rounds);
    for round in 0..rounds {
        let (duration, size) = milliseconds(|| work(round))?;
        durations.push(duration);
        bytes = size;
    }
    durations.sort_by(f64::total_cmp);
    let at = |share: usize| durations.get((durations.len() * share / 100).min(durations.len().saturating_sub(1)));
    let line = serde_json::json!({
        "what": what, "median": at(50), "p90": at(90), "best": durations.first(), "bytes": bytes,
    });
    println!("{line}");
    Ok(())
}

fn png(picture: &RgbaImage) -> Result<Vec<u8>> {
    let mut file = Cursor::new(Vec::new());
    picture.write_to(&mut file, ImageFormat::Png)?;
    Ok(file.into_inner())
}

/// Converts a picture to RGB and encodes it with the `png` crate at its quick level, as hotdesk's own encoder does in one pass.
fn png_crate(picture: &RgbaImage, filter: png::Filter) -> Result<Vec<u8>> {
    let mut rgb = Vec::with_capacity(picture.as_raw().len() / 4 * 3);
    for pixel in picture.as_raw().chunks_exact(4) {
        rgb.extend_from_slice(&pixel[..3]);
    }
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, picture.width(), picture.height());
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_compression(png::Compression::Fast);
    encoder.set_filter(filter);
    encoder.write_header()?.write_image_data(&rgb)?;
    Ok(file)
}

fn jpeg(picture: RgbaImage) -> Result<Vec<u8>> {
    let mut file = Vec::new();
    // JPEG has no transparency.
    DynamicImage::from(picture)
        .to_rgb8()
        .write_with_encoder(JpegEncoder::new_with_quality(&mut file, QUALITY))?;
    Ok(file)
}

fn capture(rounds: usize) -> Result<()> {
    let monitors = Monitor::all()?;
    let monitor = monitors.first().ok_or("this screen has no monitor")?;
    measure("pixels", rounds, |_| Ok(monitor.capture_image()?.as_raw().len()))?;
    measure("png", rounds, |_| Ok(png(&monitor.capture_image()?)?.len()))?;
    measure("jpeg", rounds, |_| Ok(jpeg(monitor.capture_image()?)?.len()))?;
    let picture = monitor.capture_image()?;
    measure("png_crate_up", rounds, |_| Ok(png_crate(&picture, png::Filter::Up)?.len()))?;
    measure("png_crate_adaptive", rounds, |_| Ok(png_crate(&picture, png::Filter::Adaptive)?.len()))
}

fn connect(delay: &str) -> Result<Enigo> {
    let mut settings = Settings::default();
    if delay != "default" {
        settings.linux_delay = delay.parse()?;
    }
    Ok(Enigo::new(&settings)?)
}

/// An x coordinate that differs from round to round.
fn x_of(round: usize) -> Result<i32> {
    Ok(i32::try_from(10 + round % 500)?)
}

fn click(delay: &str, rounds: usize) -> Result<()> {
    let mut enigo = connect(delay)?;
    measure("click", rounds, |round| {
        enigo.move_mouse(x_of(round)?, 300, Coordinate::Abs)?;
        enigo.button(Button::Left, Direction::Click)?;
        Ok(0)
    })
}

fn move_pointer(delay: &str, rounds: usize) -> Result<()> {
    let mut enigo = connect(delay)?;
    measure("move", rounds, |round| {
        enigo.move_mouse(x_of(round)?, 300, Coordinate::Abs)?;
        Ok(0)
    })
}

fn write(delay: &str) -> Result<()> {
    let mut enigo = connect(delay)?;
    for line in std::io::stdin().lines() {
        let text: String = serde_json::from_str(&line?)?;
        let (duration, _) = milliseconds(|| {
            enigo.text(&text)?;
            Ok(0)
        })?;
        println!("{}", serde_json::json!({"what": "type", "ms": duration, "characters": text.chars().count()}));
        std::io::stdout().flush()?;
    }
    Ok(())
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["capture", rounds] => capture(rounds.parse()?),
        ["click", delay, rounds] => click(delay, rounds.parse()?),
        ["move", delay, rounds] => move_pointer(delay, rounds.parse()?),
        ["type", delay] => write(delay),
        _ => Err("usage: peers capture ROUNDS | click DELAY ROUNDS | move DELAY ROUNDS | type DELAY".into()),
    }
}
