//! Audio formats and frame lengths of the audio channel (docs/channels.md).

use std::ops::RangeInclusive;
use std::time::Duration;

use crate::error::{Error, Result};

/// Valid sample rates, in Hz: from telephone quality to the rate of the virtual speaker.
pub const RATES: RangeInclusive<u32> = 8000..=48_000;
/// Valid numbers of channels: up to those of the virtual speaker.
pub const CHANNELS: RangeInclusive<u8> = 1..=2;
/// Frames per second: 20 ms each.
const FRAMES: u32 = 50;
/// Bytes per sample of one channel: 16 bits.
const SAMPLE: usize = 2;

/// Format of an audio stream: interleaved signed 16-bit samples, little-endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AudioFormat {
    /// Sample rate, in Hz.
    pub rate: u32,
    /// Number of channels.
    pub channels: u8,
}

impl Default for AudioFormat {
    fn default() -> Self {
        Self { rate: 24_000, channels: 1 }
    }
}

impl AudioFormat {
    /// Parses the query parameters; an absent one is as in [`AudioFormat::default`].
    ///
    /// # Errors
    /// `Invalid` for a value that is not in [`RATES`] or [`CHANNELS`].
    pub fn parse(rate: Option<&str>, channels: Option<&str>) -> Result<Self> {
        let usual = Self::default();
        let rate = rate.map_or(Ok(usual.rate), |text| text.parse().map_err(drop));
        let channels = channels.map_or(Ok(usual.channels), |text| text.parse().map_err(drop));
        let rate = rate.ok().filter(|rate| RATES.contains(rate));
        let channels = channels.ok().filter(|channels| CHANNELS.contains(channels));
        Ok(Self {
            rate: rate.ok_or_else(|| refused("sample_rate", RATES.start(), RATES.end()))?,
            channels: channels.ok_or_else(|| refused("channels", CHANNELS.start(), CHANNELS.end()))?,
        })
    }

    /// Returns the size of a frame of 20 ms, in bytes, rounded down to whole samples.
    pub fn frame(self) -> usize {
        (self.rate / FRAMES) as usize * usize::from(self.channels) * SAMPLE
    }

    /// Returns the duration of a frame.
    pub fn frame_time(self) -> Duration {
        Duration::from_secs(1) * (self.rate / FRAMES) / self.rate
    }
}

fn refused(name: &str, least: impl std::fmt::Display, most: impl std::fmt::Display) -> Error {
    Error::invalid(format!("{name} must be a whole number from {least} to {most}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_are_checked_and_a_frame_is_twenty_milliseconds() {
        let frame = |rate, channels| AudioFormat::parse(rate, channels).ok().map(AudioFormat::frame);
        assert_eq!(frame(None, None), Some(960));
        assert_eq!(frame(Some("48000"), Some("2")), Some(3840));
        assert_eq!(frame(Some("8000"), Some("1")), Some(320));
        assert_eq!(frame(Some("44100"), None), Some(1764));
        assert_eq!(frame(Some("11025"), None), Some(440));
        for bad in ["", "0", "7999", "48001", "-24000", "24000.0", "24k", "99999999999"] {
            assert_eq!(frame(Some(bad), None), None, "{bad:?}");
        }
        for bad in ["", "0", "3", "-1", "mono", "257"] {
            assert_eq!(frame(None, Some(bad)), None, "{bad:?}");
        }
    }

    #[test]
    fn a_frame_sounds_as_long_as_its_samples() {
        assert_eq!(AudioFormat::default().frame_time(), Duration::from_millis(20));
        let odd = AudioFormat { rate: 11_025, channels: 1 };
        assert_eq!(odd.frame_time().as_micros(), 19_954);
    }
}
