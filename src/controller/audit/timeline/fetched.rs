//! Checks of the entries that an agent told. Root of a computer can change them.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use hotdesk_base::ids::ComputerId;
use hotdesk_base::time::UnixMillis;
use hotdesk_domain::desktop::image::check_image;
use hotdesk_domain::desktop::screen::timeline::{
    MAX_PAGE_ENTRIES, MAX_PICTURE_BYTES, MAX_PICTURE_PIXELS, MAX_RECORD_BYTES,
};
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::identity::access::actor::Actor;
use hotdesk_wire::agent::timeline::{GuestTimeline, GuestTimelineEntry};
use hotdesk_wire::desktop::action::timeline::ActionRecord;

/// Longest name of a series in characters; real ones are UUIDs.
const MAX_SERIES: usize = 64;
/// Longest keyword of a record in bytes, such as the name of an action, a screen or a key.
const MAX_WORD: usize = 64;
/// Most keys of a record; an action presses at most some dozen.
const MAX_KEYS: usize = 128;
/// Greatest age of an entry. The memory of an agent is minutes long unless nobody fetched it.
const MAX_AGE: Duration = Duration::from_secs(30 * 24 * 3600);

/// Pictures of an entry: before and after.
pub(super) type Pictures = [Option<Vec<u8>>; 2];

/// A checked entry.
#[derive(Debug)]
pub(super) struct FetchedEntry {
    pub(super) number: u64,
    pub(super) at: UnixMillis,
    pub(super) by: Option<Actor>,
    pub(super) screen: String,
    /// The action, as JSON.
    pub(super) record: String,
    pub(super) pictures: Pictures,
}

/// Checks an answer of a computer. Entries out of order end it, and a wrong picture is left out.
///
/// # Errors
/// `Internal` for an answer without a usable series.
pub(super) fn check(
    page: &mut GuestTimeline,
    computer: ComputerId,
    after: u64,
    received: UnixMillis,
) -> Result<Vec<FetchedEntry>> {
    let is_word = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
    if page.series.is_empty() || page.series.len() > MAX_SERIES || !is_word(&page.series) {
        return Err(Error::internal("an agent's timeline has no series"));
    }
    let mut last = after;
    let (mut checked, mut refused) = (Vec::new(), Vec::new());
    for entry in page.entries.drain(..).take(MAX_PAGE_ENTRIES) {
        // Numbers are stored as signed ones.
        if entry.number <= last || i64::try_from(entry.number).is_err() {
            break;
        }
        last = entry.number;
        checked.push(check_entry(entry, received, &mut refused)?);
    }
    // One line for all of them.
    if let Some(why) = refused.first() {
        tracing::warn!(%computer, pictures = refused.len(), %why, "refused pictures of a timeline");
    }
    Ok(checked)
}

fn check_entry(
    entry: GuestTimelineEntry,
    received: UnixMillis,
    refused: &mut Vec<String>,
) -> Result<FetchedEntry> {
    let record = bounded(entry.record);
    let text = serde_json::to_string(&record).map_err(Error::internal)?;
    let text = if text.len() <= MAX_RECORD_BYTES {
        text
    } else {
        let small = ActionRecord { keys: None, window_after: None, changed: Vec::new(), ..record.clone() };
        serde_json::to_string(&small).map_err(Error::internal)?
    };
    Ok(FetchedEntry {
        number: entry.number,
        at: received.minus(Duration::from_millis(entry.age_ms).min(MAX_AGE)),
        by: entry.by.and_then(|by| by.parse().ok()),
        screen: record.screen,
        record: text,
        pictures: [picture(entry.before, refused), picture(entry.after, refused)],
    })
}

/// Bounds the texts of a record. All of them are keywords, except the title of a window.
fn bounded(mut record: ActionRecord) -> ActionRecord {
    let words = [&mut record.screen, &mut record.action];
    let optional = [&mut record.button, &mut record.direction, &mut record.code, &mut record.source];
    words.into_iter().chain(optional.into_iter().flatten()).for_each(keep_word);
    if let Some(keys) = &mut record.keys {
        keys.truncate(MAX_KEYS);
        keys.iter_mut().for_each(keep_word);
    }
    if let Some(window) = &mut record.window_after {
        keep_word(&mut window.id);
    }
    record
}

/// Replaces what is no keyword by `?`.
fn keep_word(text: &mut String) {
    if text.len() > MAX_WORD || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        "?".clone_into(text);
    }
}

/// Decodes the small JPEG of an entry. Returns `None` without one, and for anything else, with the reason in `refused`.
fn picture(text: Option<String>, refused: &mut Vec<String>) -> Option<Vec<u8>> {
    match small_jpeg(&text?) {
        Ok(bytes) => Some(bytes),
        Err(why) => {
            refused.push(why);
            None
        }
    }
}

/// Decodes a small JPEG.
///
/// # Errors
/// Why it is none, for the log.
fn small_jpeg(text: &str) -> Result<Vec<u8>, String> {
    // Base64 has four characters for three bytes.
    if text.len() > MAX_PICTURE_BYTES.div_ceil(3) * 4 {
        return Err(format!("more than {MAX_PICTURE_BYTES} bytes"));
    }
    let bytes = STANDARD.decode(text).map_err(|_| "no base64".to_owned())?;
    match check_image(&bytes, MAX_PICTURE_PIXELS) {
        Ok("image/jpeg") if bytes.len() <= MAX_PICTURE_BYTES => Ok(bytes),
        Ok("image/jpeg") => Err(format!("more than {MAX_PICTURE_BYTES} bytes")),
        Ok(other) => Err(format!("{other}, not JPEG")),
        Err(fault) => Err(fault.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hotdesk_wire::desktop::effect::{Area, WindowName};

    /// A JPEG of one pixel, without its tables and data.
    const JPEG: &[u8] = b"\xff\xd8\xff\xc0\0\x0b\x08\0\x01\0\x01\x01\x01\x11\0";
    /// The same of 65,535 pixels squared.
    const GIANT: &[u8] = b"\xff\xd8\xff\xc0\0\x0b\x08\xff\xff\xff\xff\x01\x01\x11\0";
    /// A PNG of one pixel, without its data.
    const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x02\0\0\0";

    fn page(entries: Vec<GuestTimelineEntry>) -> GuestTimeline {
        GuestTimeline { series: "a-1".to_owned(), entries, ..GuestTimeline::default() }
    }

    fn entry(number: u64) -> GuestTimelineEntry {
        GuestTimelineEntry { number, ..GuestTimelineEntry::default() }
    }

    fn checked(entries: Vec<GuestTimelineEntry>) -> Vec<FetchedEntry> {
        check(&mut page(entries), ComputerId::random(), 2, UnixMillis::new(1_000_000)).unwrap()
    }

    #[test]
    fn numbers_rise_and_pages_are_bounded() {
        for (numbers, expected) in [
            (vec![3, 4, 9], vec![3, 4, 9]),
            (vec![2, 3], vec![]),
            (vec![3, 3, 4], vec![3]),
            (vec![5, 4], vec![5]),
            (vec![3, u64::MAX], vec![3]),
        ] {
            let found = checked(numbers.iter().copied().map(entry).collect());
            assert_eq!(found.iter().map(|it| it.number).collect::<Vec<_>>(), expected, "{numbers:?}");
        }
        assert_eq!(checked((3..1000).map(entry).collect()).len(), MAX_PAGE_ENTRIES);
        for series in ["", "a b", "\u{e9}", &"x".repeat(65)] {
            let mut bad = GuestTimeline { series: series.to_owned(), ..page(Vec::new()) };
            assert!(check(&mut bad, ComputerId::random(), 0, UnixMillis::EPOCH).is_err(), "{series}");
        }
    }

    #[test]
    fn pictures_are_small_jpegs_and_actors_are_known_kinds() {
        let large = [JPEG, &[0; MAX_PICTURE_BYTES]].concat();
        for (bytes, expected) in [
            (JPEG, true),
            (GIANT, false),
            (PNG, false),
            (&b"\xff\xd8\xff\xe0 picture"[..], false),
            (&b"<svg xmlns="[..], false),
            (&large[..], false),
        ] {
            let after = Some(STANDARD.encode(bytes));
            let found = checked(vec![GuestTimelineEntry { after, ..entry(3) }]);
            assert_eq!(found[0].pictures[1].as_deref(), expected.then_some(bytes));
        }
        let broken = GuestTimelineEntry { before: Some("no base64!".to_owned()), ..entry(3) };
        assert_eq!(checked(vec![broken])[0].pictures, [None, None]);
        for (by, expected) in [("password", Some(Actor::Password)), ("root", None), ("key:1", None)] {
            let found = checked(vec![GuestTimelineEntry { by: Some(by.to_owned()), ..entry(3) }]);
            assert_eq!(found[0].by, expected, "{by}");
        }
        let old = GuestTimelineEntry { age_ms: 400, ..entry(3) };
        assert_eq!(checked(vec![old])[0].at, UnixMillis::new(999_600));
        let ancient = GuestTimelineEntry { age_ms: u64::MAX, ..entry(3) };
        assert!(checked(vec![ancient])[0].at < UnixMillis::EPOCH);
    }

    #[test]
    fn texts_of_records_are_bounded() {
        let area = Area { x: 1_000_000, y: 1_000_000, width: 1_000_000, height: 1_000_000 };
        let title = Some("\u{1b}".repeat(MAX_RECORD_BYTES));
        let record = ActionRecord {
            action: "click\n".to_owned(),
            screen: "s".repeat(100),
            button: Some("left".to_owned()),
            code: Some("a b".to_owned()),
            source: Some("a b".to_owned()),
            keys: Some(vec!["x".to_owned(); 10_000]),
            window_after: Some(WindowName { id: "0x1".to_owned(), title }),
            changed: vec![area; 10_000],
            ..ActionRecord::default()
        };
        let found = checked(vec![GuestTimelineEntry { record, ..entry(3) }]);
        let read: ActionRecord = serde_json::from_str(&found[0].record).unwrap();
        assert!(found[0].record.len() <= MAX_RECORD_BYTES);
        assert_eq!((read.action.as_str(), found[0].screen.as_str()), ("?", "?"));
        assert_eq!((read.button.as_deref(), read.code.as_deref()), (Some("left"), Some("?")));
        assert_eq!(read.source.as_deref(), Some("?"));
        assert!(read.keys.is_none() && read.window_after.is_none() && read.changed.is_empty());
    }
}
