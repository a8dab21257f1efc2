//! Frames of the video channel: a header of nine bytes, then an access unit as a byte stream.
//!
//! The byte stream is that of ITU-T H.264 annex B.

use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};

use super::flv::BadVideo;
use hotdesk_domain::desktop::resolution::Size;
use hotdesk_wire::desktop::channel::video::VideoServerMessage;

/// Bytes before the access unit: flags, and the time in microseconds as a big-endian number.
const HEADER: usize = 1 + 8;
/// Flag of a frame at which decoding can begin.
const KEY: u8 = 1;
/// Bytes of the length before each NAL unit, which the start code of a byte stream takes as well.
const LENGTH: usize = 4;
/// Start of a NAL unit in a byte stream.
const START: [u8; LENGTH] = [0, 0, 0, 1];

/// Format of the frames of one encoder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct VideoFormat {
    /// Size of the screen in pixels.
    size: Size,
    /// The codec as browsers name it.
    codec: String,
}

impl VideoFormat {
    /// The message that announces the format.
    pub(super) fn started(&self) -> VideoServerMessage {
        let Size { width, height } = self.size;
        VideoServerMessage::Started { width, height, codec: self.codec.clone() }
    }
}

/// What a decoder needs before the first key frame (ISO/IEC 14496-15, `AVCDecoderConfigurationRecord`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Configuration {
    format: Arc<VideoFormat>,
    /// The parameter sets as a byte stream. Each key frame has them, so that a viewer may begin at each.
    sets: Vec<u8>,
}

impl Configuration {
    /// Reads the record of an encoder for a screen of this size.
    ///
    /// # Errors
    /// When it is malformed.
    pub(super) fn parse(record: &[u8], size: Size) -> Result<Self, BadVideo> {
        let bad = BadVideo("its configuration is malformed");
        let [1, profile, constraints, level, lengths, sequences, rest @ ..] = record else { return Err(bad) };
        if usize::from(lengths & 3) + 1 != LENGTH {
            return Err(bad);
        }
        let codec = format!("avc1.{profile:02X}{constraints:02X}{level:02X}");
        let mut sets = Vec::new();
        let rest = take_sets(rest, sequences & 0x1f, &mut sets).ok_or(bad)?;
        let (pictures, rest) = rest.split_first().ok_or(bad)?;
        take_sets(rest, *pictures, &mut sets).ok_or(bad)?;
        if sets.is_empty() {
            return Err(bad);
        }
        Ok(Self { format: Arc::new(VideoFormat { size, codec }), sets })
    }

    /// Makes the frame of an access unit that has the lengths of its NAL units.
    ///
    /// # Errors
    /// When the lengths do not add up.
    pub(super) fn frame(&self, is_key: bool, micros: u64, nal_units: &[u8]) -> Result<VideoFrame, BadVideo> {
        let mut message = BytesMut::with_capacity(HEADER + self.sets.len() + nal_units.len());
        message.put_u8(if is_key { KEY } else { 0 });
        message.put_u64(micros);
        if is_key {
            message.put_slice(&self.sets);
        }
        let mut rest = nal_units;
        while !rest.is_empty() {
            let (unit, after) =
                take_nal_unit(rest).ok_or(BadVideo("the lengths of a frame do not add up"))?;
            message.put_slice(&START);
            message.put_slice(unit);
            rest = after;
        }
        Ok(VideoFrame { is_key, micros, format: Arc::clone(&self.format), message: message.freeze() })
    }
}

/// A frame for all viewers of a screen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct VideoFrame {
    /// Whether decoding can begin here.
    pub(super) is_key: bool,
    /// Its time in microseconds.
    pub(super) micros: u64,
    /// The format since the last key frame.
    pub(super) format: Arc<VideoFormat>,
    /// The binary message.
    pub(super) message: Bytes,
}

/// Appends parameter sets to a byte stream; returns what follows them, `None` when one is cut.
fn take_sets<'a>(mut from: &'a [u8], count: u8, sets: &mut Vec<u8>) -> Option<&'a [u8]> {
    for _ in 0..count {
        let (length, rest) = from.split_first_chunk::<2>()?;
        let (set, rest) = rest.split_at_checked(u16::from_be_bytes(*length).into())?;
        sets.extend_from_slice(&START);
        sets.extend_from_slice(set);
        from = rest;
    }
    Some(from)
}

/// Splits the first NAL unit off, without its length; `None` when it is cut.
fn take_nal_unit(from: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = from.split_first_chunk::<LENGTH>()?;
    rest.split_at_checked(u32::from_be_bytes(*length) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORD: &[u8] = b"\x01\x42\xc0\x1f\xff\xe1\0\x03SPS\x01\0\x02PP";
    const SIZE: Size = Size { width: 641, height: 360 };

    #[test]
    fn a_configuration_names_its_codec_and_keeps_its_sets() {
        let configuration = Configuration::parse(RECORD, SIZE).unwrap();
        assert_eq!(configuration.sets, b"\0\0\0\x01SPS\0\0\0\x01PP");
        let started = serde_json::to_value(configuration.format.started()).unwrap();
        let expected =
            serde_json::json!({"type": "started", "width": 641, "height": 360, "codec": "avc1.42C01F"});
        assert_eq!(started, expected);
        for end in 0..RECORD.len() {
            assert!(Configuration::parse(&RECORD[..end], SIZE).is_err(), "{end}");
        }
        for (at, wrong) in [(0, 2), (4, 0xfc), (5, 0xe2), (7, 200)] {
            let mut record = RECORD.to_vec();
            record[at] = wrong;
            assert!(Configuration::parse(&record, SIZE).is_err(), "{wrong} at {at}");
        }
    }

    #[test]
    fn a_key_frame_has_the_sets_and_every_frame_its_time() {
        let configuration = Configuration::parse(RECORD, SIZE).unwrap();
        let units = b"\0\0\0\x02ab\0\0\0\x01c";
        let frame = configuration.frame(false, 0x0102, units).unwrap();
        assert_eq!(&frame.message[..], b"\0\0\0\0\0\0\0\x01\x02\0\0\0\x01ab\0\0\0\x01c");
        let key = configuration.frame(true, 1, b"\0\0\0\x01k").unwrap();
        assert_eq!(&key.message[..], b"\x01\0\0\0\0\0\0\0\x01\0\0\0\x01SPS\0\0\0\x01PP\0\0\0\x01k");
        assert!(key.is_key && !frame.is_key);
        for cut in [&units[..3], &units[..5], &units[..8], &units[..10]] {
            assert!(configuration.frame(false, 0, cut).is_err(), "{cut:?}");
        }
    }
}
