//! Byte budget of a screenshot: lowers the quality first, then the size, in a bounded number of attempts.

use bytes::Bytes;

use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::error_code::ErrorCode;

/// Lowest quality that is tried: below it small text is lost, and fewer pixels of higher quality show more.
const MIN_QUALITY: u8 = 30;
/// Attempts between the lowest and the requested quality: three leave steps of at most 9.
const QUALITY_TRIES: u32 = 3;
/// Attempts with smaller sizes; the last uses the smallest. A guess from the previous file's bytes is seldom
/// wrong twice.
const SIZE_TRIES: u32 = 5;
/// Safety factor of a guess, because smaller pictures have more detail per pixel.
const MARGIN: f64 = 0.92;
/// Longer side of the smallest picture, in pixels: below it nothing is recognisable.
const MIN_SIDE: f64 = 64.0;

/// Parameters of one encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EncodeParams {
    pub(crate) width: u32,
    pub(crate) height: u32,
    /// `None` is lossless.
    pub(crate) quality: Option<u8>,
}

/// Width and height of a picture of `full` at this scale, reduced to at most `max_pixels` pixels.
pub(crate) fn sides(full: (u32, u32), scale: f64, max_pixels: Option<u64>) -> (u32, u32) {
    let (width, height) = resized(full, scale);
    let pixels = u64::from(width) * u64::from(height);
    let Some(most) = max_pixels.filter(|most| pixels > *most) else { return (width, height) };
    let factor = (most as f64 / (f64::from(full.0) * f64::from(full.1))).sqrt();
    let side = |full: u32| ((f64::from(full) * factor).floor() as u32).max(1);
    let (width, height) = (side(full.0), side(full.1));
    // A side of at least 1 takes more than its share.
    let rest = |other: u32| u32::try_from(most / u64::from(other)).unwrap_or(u32::MAX).max(1);
    (width.min(rest(height)), height.min(rest(width)))
}

fn resized(sides: (u32, u32), factor: f64) -> (u32, u32) {
    let side = |side: u32| ((f64::from(side) * factor).round() as u32).max(1);
    (side(sides.0), side(sides.1))
}

/// Encodes with `encode`, and repeats with other parameters while the file is larger than `most` bytes.
/// `lossy` is the initial quality when quality may be lowered.
pub(crate) fn fit(
    first: EncodeParams,
    lossy: Option<u8>,
    most: Option<u64>,
    mut encode: impl FnMut(EncodeParams) -> Result<Bytes>,
) -> Result<(EncodeParams, Bytes)> {
    let mut params = first;
    let mut file = encode(params)?;
    let Some(most) = most else { return Ok((params, file)) };
    let fits = |file: &Bytes| file.len() as u64 <= most;
    if fits(&file) {
        return Ok((params, file));
    }
    if let Some(top) = lossy.filter(|top| first.quality.is_none() || *top > MIN_QUALITY) {
        params.quality = Some(MIN_QUALITY.min(top));
        file = encode(params)?;
        if fits(&file) {
            return refine(params, file, top, fits, encode);
        }
    }
    let (width, height) = (f64::from(first.width), f64::from(first.height));
    let least = resized((first.width, first.height), (MIN_SIDE / width.max(height)).min(1.0));
    for step in 1..=SIZE_TRIES {
        if (params.width, params.height) == least {
            break;
        }
        let factor = (most as f64 / file.len() as f64).sqrt() * MARGIN;
        let guess = resized((params.width, params.height), factor);
        let too_small = guess.0 <= least.0 || guess.1 <= least.1 || step == SIZE_TRIES;
        (params.width, params.height) = if too_small { least } else { guess };
        file = encode(params)?;
        if fits(&file) {
            return Ok((params, file));
        }
    }
    Err(Error::invalid(format!(
        "max_bytes is too small: the smallest picture of this screen has {} bytes",
        file.len()
    ))
    .code(ErrorCode::BudgetTooSmall))
}

/// Finds the best quality that fits, between one that fits and one that does not.
fn refine(
    mut good: EncodeParams,
    mut file: Bytes,
    top: u8,
    fits: impl Fn(&Bytes) -> bool,
    mut encode: impl FnMut(EncodeParams) -> Result<Bytes>,
) -> Result<(EncodeParams, Bytes)> {
    let (mut low, mut high) = (good.quality.unwrap_or(top), top);
    for _ in 0..QUALITY_TRIES {
        let middle = low.midpoint(high);
        if middle == low {
            break;
        }
        let params = EncodeParams { quality: Some(middle), ..good };
        let tried = encode(params)?;
        if fits(&tried) {
            (low, good, file) = (middle, params, tried);
        } else {
            high = middle;
        }
    }
    Ok((good, file))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sides_follow_the_scale_and_the_pixels() {
        for (full, scale, most, expected) in [
            ((1280, 720), 1.0, None, (1280, 720)),
            ((1280, 720), 0.5, None, (640, 360)),
            ((1280, 720), 0.0001, None, (1, 1)),
            ((3, 3), 0.5, None, (2, 2)),
            ((1280, 720), 1.0, Some(921_600), (1280, 720)),
            ((1280, 720), 1.0, Some(921_599), (1279, 719)),
            ((1280, 720), 0.5, Some(921_600), (640, 360)),
            ((1280, 720), 0.5, Some(57_600), (320, 180)),
            ((1280, 720), 1.0, Some(1), (1, 1)),
            ((7680, 1), 1.0, Some(10), (10, 1)),
            ((1, 7680), 1.0, Some(10), (1, 10)),
            ((2, 2), 1.0, Some(u64::MAX), (2, 2)),
        ] {
            assert_eq!(sides(full, scale, most), expected, "{full:?} {scale} {most:?}");
        }
        for most in 1..3000_u64 {
            let (width, height) = sides((997, 13), 1.0, Some(most));
            assert!(u64::from(width) * u64::from(height) <= most, "{width}x{height} for {most}");
        }
    }

    /// Runs `fit` with files of `size(params)` bytes; returns the result and the number of attempts.
    fn tried(
        first: EncodeParams,
        lossy: Option<u8>,
        most: u64,
        size: impl Fn(EncodeParams) -> f64,
    ) -> (Result<EncodeParams>, usize) {
        let mut tries = 0;
        let done = fit(first, lossy, Some(most), |params| {
            tries += 1;
            Ok(vec![0; size(params) as usize].into())
        });
        (
            done.map(|(params, file)| {
                assert!(file.len() as u64 <= most);
                params
            }),
            tries,
        )
    }

    fn bytes(params: EncodeParams) -> f64 {
        f64::from(params.width * params.height) * f64::from(params.quality.unwrap_or(200)) / 100.0
    }

    #[test]
    fn quality_goes_first_and_size_second() {
        let full = EncodeParams { width: 640, height: 360, quality: Some(80) };
        let (params, tries) = tried(full, Some(80), 200_000, bytes);
        assert_eq!((params.unwrap(), tries), (full, 1));
        // Half the quality is enough: the size stays.
        let (params, tries) = tried(full, Some(80), 130_000, bytes);
        let params = params.unwrap();
        assert!(
            (params.width, tries) == (640, 5) && (50..=56).contains(&params.quality.unwrap()),
            "{params:?}"
        );
        // Lower quality alone is not enough.
        let (params, tries) = tried(full, Some(80), 20_000, bytes);
        let params = params.unwrap();
        assert!(params.quality == Some(MIN_QUALITY) && tries <= 4, "{params:?} {tries}");
        assert!(params.width * 360 / 640 - params.height <= 1 && bytes(params) > 10_000.0, "{params:?}");
        // A low quality is not raised.
        let low = EncodeParams { quality: Some(10), ..full };
        assert_eq!(tried(low, Some(10), 5_000, bytes).0.unwrap().quality, Some(10));
    }

    #[test]
    fn lossless_only_shrinks_unless_it_may_become_lossy() {
        let full = EncodeParams { width: 640, height: 360, quality: None };
        let shrunk = tried(full, None, 100_000, bytes).0.unwrap();
        assert!(shrunk.quality.is_none() && shrunk.width < 640, "{shrunk:?}");
        let lossy = tried(full, Some(80), 150_000, bytes).0.unwrap();
        assert!(lossy.quality.is_some() && lossy.width == 640, "{lossy:?}");
    }

    #[test]
    fn attempts_are_bounded_and_an_impossible_budget_is_refused() {
        let most_tries = 2 + QUALITY_TRIES.max(SIZE_TRIES) as usize;
        let full = EncodeParams { width: 640, height: 360, quality: Some(80) };
        // The file never gets smaller.
        let (refused, tries) = tried(full, Some(80), 999, |_| 1000.0);
        assert_eq!((refused.unwrap_err().code, tries <= most_tries), (Some(ErrorCode::BudgetTooSmall), true));
        // A small picture is tried once.
        let small = EncodeParams { width: 20, height: 20, quality: None };
        assert_eq!(tried(small, None, 10, bytes).1, 1);
        for most in (100..200_000).step_by(977) {
            assert!(tried(full, Some(80), most, bytes).1 <= most_tries, "{most}");
        }
    }
}
