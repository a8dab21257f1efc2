//! Which part of a file is asked for? One range as RFC 9110 section 14 reads it; several at once get the whole.

/// What is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// All of it: 200.
    Whole,
    /// From the first to the last byte, inclusive: 206.
    Range {
        /// Offset of the first byte.
        first: u64,
        /// Offset of the last byte.
        last: u64,
    },
    /// Nothing of what was asked for is there: 416.
    Unsatisfiable,
}

/// Reads a `Range` field for a file of `length` bytes. What is no byte range is ignored, as section 14.2 allows.
pub fn part(range: Option<&str>, length: u64) -> Part {
    let Some((unit, set)) = range.and_then(|range| range.split_once('=')) else { return Part::Whole };
    let Some((first, last)) = set.trim().split_once('-') else { return Part::Whole };
    if !unit.trim().eq_ignore_ascii_case("bytes") {
        return Part::Whole;
    }
    match (number(first), number(last)) {
        (Some(Some(first)), Some(last)) => {
            if last.is_some_and(|last| last < first) {
                return Part::Whole;
            }
            if first >= length {
                return Part::Unsatisfiable;
            }
            Part::Range { first, last: last.unwrap_or(u64::MAX).min(length - 1) }
        }
        (Some(None), Some(Some(suffix))) => {
            if suffix == 0 || length == 0 {
                return Part::Unsatisfiable;
            }
            Part::Range { first: length.saturating_sub(suffix), last: length - 1 }
        }
        _ => Part::Whole,
    }
}

/// Digits as a number, past all of them as the largest; `Some(None)` for nothing.
fn number(text: &str) -> Option<Option<u64>> {
    let text = text.trim_matches([' ', '\t']);
    if text.is_empty() {
        return Some(None);
    }
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Some(Some(text.parse().unwrap_or(u64::MAX)))
}

/// Whether a `Range` counts: without `If-Range`, or when that names the file as it is (section 13.1.5; strong tags and
/// exact dates only).
pub fn still(if_range: Option<&str>, etag: &str, modified: &str) -> bool {
    if_range.is_none_or(|wanted| wanted == etag || wanted == modified)
}

/// Whether an `If-None-Match` names the file as it is (section 13.1.2).
pub fn known(if_none_match: Option<&str>, etag: &str) -> bool {
    let Some(tags) = if_none_match else { return false };
    tags.split(',').map(str::trim).any(|tag| tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == etag)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_range_is_read_as_rfc_9110_says() {
        let range = |first, last| Part::Range { first, last };
        for (text, wanted) in [
            ("bytes=0-0", range(0, 0)),
            ("bytes=0-9", range(0, 9)),
            ("bytes=0-99", range(0, 9)),
            ("bytes=3-", range(3, 9)),
            ("bytes=9-9", range(9, 9)),
            ("bytes=-1", range(9, 9)),
            ("bytes=-10", range(0, 9)),
            ("bytes=-99", range(0, 9)),
            ("Bytes= 2-4 ", range(2, 4)),
            ("bytes=0-99999999999999999999999", range(0, 9)),
            ("bytes=10-", Part::Unsatisfiable),
            ("bytes=10-20", Part::Unsatisfiable),
            ("bytes=-0", Part::Unsatisfiable),
            ("bytes=99999999999999999999999-", Part::Unsatisfiable),
            ("bytes=4-3", Part::Whole),
            ("bytes=0-1,3-4", Part::Whole),
            ("bytes=-", Part::Whole),
            ("bytes=", Part::Whole),
            ("bytes=a-b", Part::Whole),
            ("bytes=+1-2", Part::Whole),
            ("bytes=1--2", Part::Whole),
            ("bytes 0-1", Part::Whole),
            ("lines=0-1", Part::Whole),
            ("", Part::Whole),
        ] {
            assert_eq!(part(Some(text), 10), wanted, "{text:?}");
        }
        assert_eq!(part(None, 10), Part::Whole);
        assert_eq!(part(Some("bytes=0-"), 0), Part::Unsatisfiable);
        assert_eq!(part(Some("bytes=-5"), 0), Part::Unsatisfiable);
    }

    #[test]
    fn validators_are_compared_strongly_for_ranges_and_weakly_for_caches() {
        let (etag, date) = ("\"1-2\"", "Sun, 06 Nov 1994 08:49:37 GMT");
        for (wanted, counts) in [
            (None, true),
            (Some("\"1-2\""), true),
            (Some(date), true),
            (Some("W/\"1-2\""), false),
            (Some("\"1\""), false),
            (Some("Sun, 06 Nov 1994 08:49:38 GMT"), false),
            (Some("*"), false),
        ] {
            assert_eq!(still(wanted, etag, date), counts, "{wanted:?}");
        }
        for (tags, is_known) in [
            (None, false),
            (Some("*"), true),
            (Some("\"1-2\""), true),
            (Some("\"x\", W/\"1-2\""), true),
            (Some("\"x\""), false),
            (Some(""), false),
        ] {
            assert_eq!(known(tags, etag), is_known, "{tags:?}");
        }
    }
}
