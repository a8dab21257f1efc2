//! Self-test of screenshots: exact pixels in PNG and WebP, and the duration of each format.

use std::io::Cursor;
use std::time::{Duration, Instant};

use super::outcome::{CheckResult, Measurement, NotPassed, median, millis};
use super::screen::TestScreen;
use crate::display::{Picture, ScreenshotOptions, TestWindow};
use crate::files::blocking;
use hotdesk_domain::desktop::region::Region;
use hotdesk_domain::desktop::resolution::Size;
use hotdesk_domain::error::{Error, Result};
use hotdesk_wire::desktop::screenshot::ScreenshotQuery;

/// Number of screenshots of the unchanged screen; odd, for the median.
const UNCHANGED_ROUNDS: usize = 21;

/// DecodedImage screenshot; sizes in pixels, three bytes per pixel in rows.
struct DecodedImage {
    width: usize,
    height: usize,
    rgb: Vec<u8>,
}

pub(super) async fn check(target: &TestScreen) -> CheckResult {
    // The first screenshot allocates buffers that later ones reuse.
    let (webp, _) = screenshot(target, "webp").await?;
    let (png, png_took) = screenshot(target, "png").await?;
    let (jpeg, jpeg_took) = screenshot(target, "jpeg").await?;
    let mut unchanged = Vec::with_capacity(UNCHANGED_ROUNDS);
    for _ in 0..UNCHANGED_ROUNDS {
        unchanged.push(screenshot(target, "png").await?.1);
    }
    let measurement = Measurement::new("a painted pattern is shown exactly in PNG and WebP")
        .with("png_ms", millis(png_took))
        .with("png_bytes", png.bytes.len() as f64)
        .with("jpeg_ms", millis(jpeg_took))
        .with("jpeg_bytes", jpeg.bytes.len() as f64)
        .with("unchanged_ms", median(unchanged));
    let (place, size) = (target.window.pattern(), target.screen.size());
    let wrong = blocking(move || {
        let seen = [("PNG", decode_png(&png)), ("WebP", decode_webp(&webp))];
        let compared = seen.into_iter().map(|(name, seen)| (name, compare_pixels(place, size, seen)));
        let mut all = compared.chain([("JPEG", check_jpeg(&jpeg))]);
        Ok(all.find_map(|(name, seen)| seen.err().map(|error| format!("{name}: {}", error.message))))
    });
    let wrong = wrong.await?;
    measurement.pass_if(wrong.is_none(), || wrong.unwrap_or_default())
}

async fn screenshot(
    target: &TestScreen,
    format: &str,
) -> std::result::Result<(Picture, Duration), NotPassed> {
    let query = ScreenshotQuery {
        format: Some(format.to_owned()),
        cursor: Some("off".to_owned()),
        ..ScreenshotQuery::default()
    };
    let options = ScreenshotOptions::parse(&query)?;
    let began = Instant::now();
    let picture = target.screen.screenshot(options).await?;
    Ok((picture, began.elapsed()))
}

/// Compares the pixels of the pattern, which is at `place` on a screen of this size.
fn compare_pixels(place: Region, size: Size, decoded: Result<DecodedImage>) -> Result<()> {
    let decoded = decoded?;
    if (decoded.width, decoded.height) != (usize::from(size.width), usize::from(size.height)) {
        return Err(Error::invalid(format!("the picture has {}x{} pixels", decoded.width, decoded.height)));
    }
    let at = |x: u16, y: u16| {
        let pixel = (usize::from(place.y + y) * decoded.width + usize::from(place.x + x)) * 3;
        decoded.rgb.get(pixel..pixel + 3)
    };
    let all = (0..place.height).flat_map(|y| (0..place.width).map(move |x| (x, y)));
    let wrong = all.filter(|(x, y)| at(*x, *y) != Some(&TestWindow::colour(*x, *y)[..])).count();
    if wrong == 0 {
        return Ok(());
    }
    let all = usize::from(place.width) * usize::from(place.height);
    Err(Error::invalid(format!("{wrong} of {all} pixels of the pattern have another colour")))
}

/// Decodes a PNG with another library than the one that wrote it.
fn decode_png(picture: &Picture) -> Result<DecodedImage> {
    let failed =
        |error: png::DecodingError| Error::invalid(format!("the picture cannot be decoded: {error}"));
    let mut reader = png::Decoder::new(Cursor::new(&picture.bytes)).read_info().map_err(failed)?;
    let size = reader.output_buffer_size().ok_or_else(|| Error::invalid("the picture is too large"))?;
    let mut rgb = vec![0; size];
    let info = reader.next_frame(&mut rgb).map_err(failed)?;
    if info.color_type != png::ColorType::Rgb || info.bit_depth != png::BitDepth::Eight {
        return Err(Error::invalid("the picture is not 8-bit RGB"));
    }
    Ok(DecodedImage { width: info.width as usize, height: info.height as usize, rgb })
}

fn decode_webp(picture: &Picture) -> Result<DecodedImage> {
    let image = webp::Decoder::new(&picture.bytes).decode();
    let image = image
        .filter(|image| !image.is_alpha())
        .ok_or_else(|| Error::invalid("the picture cannot be decoded"))?;
    Ok(DecodedImage { width: image.width() as usize, height: image.height() as usize, rgb: image.to_vec() })
}

/// Checks the format and size of a JPEG; its pixels are lossy.
fn check_jpeg(picture: &Picture) -> Result<()> {
    let header = turbojpeg::read_header(&picture.bytes).map_err(|error| Error::invalid(error.to_string()))?;
    if (header.width, header.height) == (picture.width as usize, picture.height as usize) {
        return Ok(());
    }
    Err(Error::invalid(format!("the picture has {}x{} pixels", header.width, header.height)))
}
