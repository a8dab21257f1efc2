//! In which form may sound be asked for, and how long is a frame of it? (wire.md 10.5)

use std::ops::RangeInclusive;
use std::time::Duration;

use super::error::{Error, Result};

/// Samples a second that may be asked for: from telephone quality to what the virtual speaker itself has.
pub const RATES: RangeInclusive<u32> = 8000..=48_000;
/// Channels that may be asked for: as many as the virtual speaker has.
pub const CHANNELS: RangeInclusive<u8> = 1..=2;
/// Frames a second: 20 ms each.
const FRAMES: u32 = 50;
/// Bytes of a sample of one channel: 16 bits.
const SAMPLE: usize = 2;

/// The form of a stream of sound: signed 16-bit samples, little-endian, the channels of a moment side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Form {
    /// Samples a second.
    pub rate: u32,
    /// Channels.
    pub channels: u8,
}

impl Default for Form {
    fn default() -> Self {
        Self { rate: 24_000, channels: 1 }
    }
}

impl Form {
    /// A form as a query has it; what is absent is as [`Form::default`].
    ///
    /// # Errors
    /// `Invalid` for what is no number of [`RATES`] or [`CHANNELS`].
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

    /// Bytes of a frame: 20 ms of sound, the part of a sample that a rate may leave over left out.
    pub fn frame(self) -> usize {
        (self.rate / FRAMES) as usize * usize::from(self.channels) * SAMPLE
    }

    /// How long a frame sounds.
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
        let frame = |rate, channels| Form::parse(rate, channels).ok().map(Form::frame);
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
        assert_eq!(Form::default().frame_time(), Duration::from_millis(20));
        let odd = Form { rate: 11_025, channels: 1 };
        assert_eq!(odd.frame_time().as_micros(), 19_954);
    }
}
