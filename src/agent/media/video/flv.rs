//! Reader of ffmpeg's FLV output: the H.264 configuration and access units in it.
//!
//! The format is in Adobe's Flash Video File Format Specification, version 10.1, annex E. FLV says how long
//! each tag is, so an access unit is complete with its last byte. In a bare byte stream (ITU-T H.264 annex B)
//! only the beginning of the next unit would end it, a whole frame later.

use bytes::{Buf, BytesMut};

/// Bytes of the file's header (`FLV`, a version, flags, its own length) and of the size of no tag behind it.
const FILE_HEADER: usize = 9 + PREVIOUS_SIZE;
/// Bytes before the body of a tag: type, size, time and stream.
const TAG_HEADER: usize = 11;
/// Bytes behind the body of a tag: the size of the tag.
const PREVIOUS_SIZE: usize = 4;
/// Bytes of a video tag before the H.264: kind of frame and codec, kind of packet, composition time.
const VIDEO_HEADER: usize = 5;
/// Type of a tag with video. The others are notes about the file.
const VIDEO_TAG: u8 = 9;
/// H.264 in the low half of a video tag's first byte.
const AVC: u8 = 7;
/// A key frame in the high half of it.
const KEY_FRAME: u8 = 1;
/// Longest access unit in bytes. The encoder's rate control allows half of it; a message of a socket may have
/// twice as much.
pub(super) const MAX_UNIT: usize = 1024 * 1024;

/// Output that is no FLV with H.264, and what is wrong with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BadVideo(pub(super) &'static str);

/// A part of the video.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Packet {
    /// The decoder's configuration, which precedes the units (`AVCDecoderConfigurationRecord` of ISO/IEC
    /// 14496-15).
    Configuration(BytesMut),
    /// An access unit: NAL units, each behind its length.
    Unit {
        /// Whether decoding can begin here.
        is_key: bool,
        /// The NAL units.
        nal_units: BytesMut,
    },
}

/// Reader of FLV that arrives in pieces of any size.
#[derive(Debug, Default)]
pub(super) struct FlvReader {
    held: BytesMut,
    has_header: bool,
}

impl FlvReader {
    /// Where the next bytes are appended. Before that, [`Self::packet`] must have returned `None`, which
    /// bounds it.
    pub(super) fn buffer(&mut self) -> &mut BytesMut {
        &mut self.held
    }

    /// Takes the next packet; `None` when it is not complete.
    ///
    /// # Errors
    /// When the bytes are not what ffmpeg writes. Nothing can be read then.
    pub(super) fn packet(&mut self) -> Result<Option<Packet>, BadVideo> {
        if !self.has_header {
            if self.held.len() < FILE_HEADER {
                return Ok(None);
            }
            let header = self.held.split_to(FILE_HEADER);
            if !header.starts_with(b"FLV\x01") || header[5..9] != [0, 0, 0, 9] {
                return Err(BadVideo("it has no header of FLV"));
            }
            self.has_header = true;
        }
        while let Some([kind, high, middle, low, ..]) = self.held.first_chunk::<TAG_HEADER>().copied() {
            let size = u32::from_be_bytes([0, high, middle, low]) as usize;
            if size > VIDEO_HEADER + MAX_UNIT {
                return Err(BadVideo("a tag is too long"));
            }
            if self.held.len() < TAG_HEADER + size + PREVIOUS_SIZE {
                return Ok(None);
            }
            let mut body = self.held.split_to(TAG_HEADER + size + PREVIOUS_SIZE);
            body.truncate(TAG_HEADER + size);
            body.advance(TAG_HEADER);
            if kind == VIDEO_TAG
                && let Some(packet) = video(body)?
            {
                return Ok(Some(packet));
            }
        }
        Ok(None)
    }
}

/// Reads the body of a video tag; `None` for the mark of the end.
fn video(mut body: BytesMut) -> Result<Option<Packet>, BadVideo> {
    let Some([coded, kind, ..]) = body.first_chunk::<VIDEO_HEADER>().copied() else {
        return Err(BadVideo("a tag is too short"));
    };
    if coded & 0x0f != AVC {
        return Err(BadVideo("it is not H.264"));
    }
    body.advance(VIDEO_HEADER);
    match kind {
        0 => Ok(Some(Packet::Configuration(body))),
        1 => Ok(Some(Packet::Unit { is_key: coded >> 4 == KEY_FRAME, nal_units: body })),
        2 => Ok(None),
        _ => Err(BadVideo("a packet is of an unknown kind")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tag(kind: u8, body: &[u8]) -> Vec<u8> {
        let size = u32::try_from(body.len()).unwrap().to_be_bytes();
        let whole = u32::try_from(body.len() + TAG_HEADER).unwrap().to_be_bytes();
        [&[kind][..], &size[1..], &[0, 0, 33, 0, 0, 0, 0], body, &whole].concat()
    }

    fn file(tags: &[Vec<u8>]) -> Vec<u8> {
        let header = b"FLV\x01\x01\0\0\0\x09\0\0\0\0".to_vec();
        [vec![header], tags.to_vec()].concat().concat()
    }

    fn read(pieces: &[&[u8]]) -> Result<Vec<Packet>, BadVideo> {
        let (mut reader, mut all) = (FlvReader::default(), Vec::new());
        for piece in pieces {
            reader.buffer().extend_from_slice(piece);
            while let Some(packet) = reader.packet()? {
                all.push(packet);
            }
        }
        Ok(all)
    }

    #[test]
    fn packets_are_read_from_pieces_of_any_size() {
        let whole = file(&[
            tag(18, b"onMetaData"),
            tag(9, b"\x17\0\0\0\0record"),
            tag(9, b"\x17\x01\0\0\0key"),
            tag(9, b"\x27\x01\0\0\0delta"),
            tag(9, b"\x17\x02\0\0\0"),
        ]);
        let expected = [
            Packet::Configuration(BytesMut::from(&b"record"[..])),
            Packet::Unit { is_key: true, nal_units: BytesMut::from(&b"key"[..]) },
            Packet::Unit { is_key: false, nal_units: BytesMut::from(&b"delta"[..]) },
        ];
        for size in [1, 2, 7, 50, whole.len()] {
            let pieces: Vec<&[u8]> = whole.chunks(size).collect();
            assert_eq!(read(&pieces).unwrap(), expected, "pieces of {size}");
        }
    }

    #[test]
    fn a_unit_is_there_with_its_last_byte() {
        let whole = file(&[tag(9, b"\x27\x01\0\0\0delta")]);
        assert!(read(&[&whole[..whole.len() - 1]]).unwrap().is_empty());
        assert_eq!(read(&[&whole]).unwrap().len(), 1);
    }

    #[test]
    fn other_output_is_refused() {
        for (whole, what) in [
            (b"no FLV at all".to_vec(), "it has no header of FLV"),
            (file(&[tag(9, b"\x12\0\0\0\0flash")]), "it is not H.264"),
            (file(&[tag(9, b"\x17\x09\0\0\0")]), "a packet is of an unknown kind"),
            (file(&[tag(9, b"\x17\x01")]), "a tag is too short"),
            (file(&[vec![9, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0]]), "a tag is too long"),
        ] {
            assert_eq!(read(&[&whole]), Err(BadVideo(what)));
        }
    }
}
