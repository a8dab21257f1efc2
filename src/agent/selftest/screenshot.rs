//! Do pictures show every pixel as it is, and what do they cost?

use std::io::Cursor;
use std::time::{Duration, Instant};

use super::finding::{Flaw, Found, Measured, median, millis};
use super::screen::Lit;
use crate::display::{Form, Picture, Receiver};
use crate::files::blocking;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::region::Region;
use hotdesk_domain::resolution::Size;
use hotdesk_wire::screenshot::ScreenshotQuery;

/// How often the unchanged screen is asked for; odd, for the median.
const UNCHANGED: usize = 21;

/// A decoded picture.
struct Decoded {
    width: usize,
    height: usize,
    rgb: Vec<u8>,
}

pub(super) async fn check(lit: &Lit) -> Found {
    // The first picture makes buffers that later ones find.
    let (webp, _) = take(lit, "webp").await?;
    let (png, png_took) = take(lit, "png").await?;
    let (jpeg, jpeg_took) = take(lit, "jpeg").await?;
    let mut unchanged = Vec::with_capacity(UNCHANGED);
    for _ in 0..UNCHANGED {
        unchanged.push(take(lit, "png").await?.1);
    }
    let measured = Measured::new("a painted pattern comes back as it is, in PNG and in WebP")
        .with("png_ms", millis(png_took))
        .with("png_bytes", png.bytes.len() as f64)
        .with("jpeg_ms", millis(jpeg_took))
        .with("jpeg_bytes", jpeg.bytes.len() as f64)
        .with("unchanged_ms", median(unchanged));
    let (place, size) = (lit.receiver.pattern(), lit.screen.size());
    let wrong = blocking(move || {
        let seen = [("PNG", of_png(&png)), ("WebP", of_webp(&webp))];
        let compared = seen.into_iter().map(|(name, seen)| (name, pixels(place, size, seen)));
        let mut all = compared.chain([("JPEG", jpeg_size(&jpeg))]);
        Ok(all.find_map(|(name, seen)| seen.err().map(|why| format!("{name}: {why}"))))
    });
    let wrong = wrong.await?;
    measured.only_if(wrong.is_none(), || wrong.unwrap_or_default())
}

async fn take(lit: &Lit, format: &str) -> std::result::Result<(Picture, Duration), Flaw> {
    let query = ScreenshotQuery {
        format: Some(format.to_owned()),
        cursor: Some("off".to_owned()),
        ..ScreenshotQuery::default()
    };
    let form = Form::parse(&query)?;
    let began = Instant::now();
    let picture = lit.screen.screenshot(form).await?;
    Ok((picture, began.elapsed()))
}

/// Compares the pattern's pixels; `place` is where it is on a screen of this size.
fn pixels(place: Region, size: Size, decoded: Result<Decoded>) -> std::result::Result<(), String> {
    let decoded = decoded.map_err(|error| error.message)?;
    if (decoded.width, decoded.height) != (usize::from(size.width), usize::from(size.height)) {
        return Err(format!("it is {}x{}", decoded.width, decoded.height));
    }
    let at = |x: u16, y: u16| {
        let pixel = (usize::from(place.y + y) * decoded.width + usize::from(place.x + x)) * 3;
        decoded.rgb.get(pixel..pixel + 3)
    };
    let all = (0..place.height).flat_map(|y| (0..place.width).map(move |x| (x, y)));
    let wrong = all.filter(|(x, y)| at(*x, *y) != Some(&Receiver::colour(*x, *y)[..])).count();
    if wrong == 0 {
        return Ok(());
    }
    Err(format!(
        "{wrong} of {} pixels of the pattern are others",
        usize::from(place.width) * usize::from(place.height)
    ))
}

/// By a library that did not write it.
fn of_png(picture: &Picture) -> Result<Decoded> {
    let failed = |error: png::DecodingError| Error::invalid(format!("it cannot be read: {error}"));
    let mut reader = png::Decoder::new(Cursor::new(&picture.bytes)).read_info().map_err(failed)?;
    let size = reader.output_buffer_size().ok_or_else(|| Error::invalid("it is too large"))?;
    let mut rgb = vec![0; size];
    let info = reader.next_frame(&mut rgb).map_err(failed)?;
    if info.color_type != png::ColorType::Rgb || info.bit_depth != png::BitDepth::Eight {
        return Err(Error::invalid("it is not RGB of 8 bits"));
    }
    Ok(Decoded { width: info.width as usize, height: info.height as usize, rgb })
}

fn of_webp(picture: &Picture) -> Result<Decoded> {
    let image = webp::Decoder::new(&picture.bytes).decode();
    let image = image.filter(|image| !image.is_alpha()).ok_or_else(|| Error::invalid("it cannot be read"))?;
    Ok(Decoded { width: image.width() as usize, height: image.height() as usize, rgb: image.to_vec() })
}

/// A JPEG loses pixels on purpose; it must be one, and of the right size.
fn jpeg_size(picture: &Picture) -> std::result::Result<(), String> {
    let header = turbojpeg::read_header(&picture.bytes).map_err(|error| error.to_string())?;
    if (header.width, header.height) == (picture.width as usize, picture.height as usize) {
        return Ok(());
    }
    Err(format!("it is {}x{}", header.width, header.height))
}
