//! Has this very picture been encoded already? A screen that did not change is answered from here.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;

use super::form::Form;

/// Pictures kept per screen: a few forms (full, scaled, JPEG) of the newest content.
const MOST_PICTURES: usize = 8;
/// Bytes kept per screen. A 1080p desktop is under 3 MB as PNG; larger pictures are simply not kept.
const MOST_BYTES: usize = 16 * 1024 * 1024;

/// Tells one content of a screen from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    /// Which connection counted; a restarted screen counts from new.
    pub(super) seat: u64,
    /// Changes of content seen on that connection.
    pub(super) frame: u64,
    /// The pointer in the picture; none when it is not asked for, or is elsewhere.
    pub(super) cursor: Option<Pointer>,
}

/// Tells one look of the pointer from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pointer {
    /// The X server's number of its picture.
    pub(super) serial: u32,
    /// Its place.
    pub(super) at: (i16, i16),
}

/// An encoded picture.
#[derive(Clone, Debug)]
pub struct Picture {
    /// The file's bytes.
    pub bytes: Bytes,
    /// `image/png`, `image/jpeg` or `image/webp`.
    pub mime_type: &'static str,
    /// Pixels across, after scaling.
    pub width: u32,
    /// Pixels down, after scaling.
    pub height: u32,
    /// The factor between screen and picture.
    pub scale: f64,
    /// Its name, for [`super::Screen::place`] and for an entity tag: no other picture has it.
    pub frame: Arc<str>,
}

/// The pictures of one screen, newest first.
#[derive(Debug, Default)]
pub(super) struct Cache {
    kept: VecDeque<(Stamp, Form, Picture)>,
}

impl Cache {
    /// The picture of this content in this form.
    pub(super) fn get(&self, stamp: Stamp, form: Form) -> Option<Picture> {
        let found = self.kept.iter().find(|(known, shape, _)| *known == stamp && *shape == form);
        found.map(|(_, _, picture)| picture.clone())
    }

    /// Keeps a picture, and lets go of the oldest beyond the bounds.
    pub(super) fn put(&mut self, stamp: Stamp, form: Form, picture: Picture) {
        self.kept.push_front((stamp, form, picture));
        let mut bytes = 0;
        let within = self.kept.iter().take(MOST_PICTURES).take_while(|(_, _, picture)| {
            bytes += picture.bytes.len();
            bytes <= MOST_BYTES
        });
        let count = within.count();
        self.kept.truncate(count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picture(bytes: usize) -> Picture {
        Picture {
            bytes: vec![0; bytes].into(),
            mime_type: "image/png",
            width: 1,
            height: 1,
            scale: 1.0,
            frame: "1".into(),
        }
    }

    #[test]
    fn only_the_same_content_in_the_same_form_is_found_and_bounds_hold() {
        let form = |query: &str| Form::parse(&serde_urlencoded::from_str(query).unwrap()).unwrap();
        let (png, jpeg) = (form(""), form("format=jpeg"));
        let pointer = Pointer { serial: 1, at: (0, 0) };
        let stamp = Stamp { seat: 1, frame: 1, cursor: Some(pointer) };
        let mut cache = Cache::default();
        cache.put(stamp, png, picture(10));
        assert!(cache.get(stamp, png).is_some());
        for other in
            [jpeg, form("region=0,0,9,9"), form("cursor=off"), form("scale=0.5"), form("max_bytes=9")]
        {
            assert!(cache.get(stamp, other).is_none(), "{other:?}");
        }
        for other in [
            Stamp { seat: 2, ..stamp },
            Stamp { frame: 2, ..stamp },
            Stamp { cursor: Some(Pointer { serial: 2, ..pointer }), ..stamp },
            Stamp { cursor: Some(Pointer { at: (0, 1), ..pointer }), ..stamp },
            Stamp { cursor: None, ..stamp },
        ] {
            assert!(cache.get(other, png).is_none(), "{other:?}");
        }
        for frame in 2..100 {
            cache.put(Stamp { frame, ..stamp }, png, picture(10));
        }
        assert_eq!(cache.kept.len(), MOST_PICTURES);
        cache.put(stamp, jpeg, picture(MOST_BYTES));
        assert_eq!(cache.kept.len(), 1);
        cache.put(stamp, png, picture(MOST_BYTES + 1));
        assert!(cache.kept.is_empty());
    }
}
