//! HTTP byte ranges and validators of file downloads (RFC 9110). A request for several ranges gets the whole
//! file.

/// Part of a file that is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestedPart {
    /// The whole file: 200.
    Whole,
    /// From the first to the last byte, inclusive: 206.
    Range {
        /// Offset of the first byte.
        first: u64,
        /// Offset of the last byte.
        last: u64,
    },
    /// No requested byte exists: 416.
    Unsatisfiable,
}

/// Evaluates a `Range` field for a file of `length` bytes. Fields that are not byte ranges are ignored
/// (section 14.2).
pub fn requested_part(range: Option<&str>, length: u64) -> RequestedPart {
    let Some((unit, set)) = range.and_then(|range| range.split_once('=')) else {
        return RequestedPart::Whole;
    };
    let Some((first, last)) = set.trim().split_once('-') else { return RequestedPart::Whole };
    if !unit.trim().eq_ignore_ascii_case("bytes") {
        return RequestedPart::Whole;
    }
    match (number(first), number(last)) {
        (Some(Some(first)), Some(last)) => {
            if last.is_some_and(|last| last < first) {
                return RequestedPart::Whole;
            }
            if first >= length {
                return RequestedPart::Unsatisfiable;
            }
            RequestedPart::Range { first, last: last.unwrap_or(u64::MAX).min(length - 1) }
        }
        (Some(None), Some(Some(suffix))) => {
            if suffix == 0 || length == 0 {
                return RequestedPart::Unsatisfiable;
            }
            RequestedPart::Range { first: length.saturating_sub(suffix), last: length - 1 }
        }
        _ => RequestedPart::Whole,
    }
}

/// Parses digits, saturating at the largest number; `Some(None)` for an empty text.
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

/// Whether a `Range` applies: without `If-Range`, or when that names the current file (section 13.1.5; only
/// strong tags and exact dates).
pub fn if_range_matches(if_range: Option<&str>, etag: &str, modified: &str) -> bool {
    if_range.is_none_or(|wanted| wanted == etag || wanted == modified)
}

/// Whether an `If-None-Match` names the current file (section 13.1.2).
pub fn if_none_match_matches(if_none_match: Option<&str>, etag: &str) -> bool {
    let Some(tags) = if_none_match else { return false };
    tags.split(',').map(str::trim).any(|tag| tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == etag)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn single_ranges_follow_rfc_9110() {
        let range = |first, last| RequestedPart::Range { first, last };
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
            ("bytes=10-", RequestedPart::Unsatisfiable),
            ("bytes=10-20", RequestedPart::Unsatisfiable),
            ("bytes=-0", RequestedPart::Unsatisfiable),
            ("bytes=99999999999999999999999-", RequestedPart::Unsatisfiable),
            ("bytes=4-3", RequestedPart::Whole),
            ("bytes=0-1,3-4", RequestedPart::Whole),
            ("bytes=-", RequestedPart::Whole),
            ("bytes=", RequestedPart::Whole),
            ("bytes=a-b", RequestedPart::Whole),
            ("bytes=+1-2", RequestedPart::Whole),
            ("bytes=1--2", RequestedPart::Whole),
            ("bytes 0-1", RequestedPart::Whole),
            ("lines=0-1", RequestedPart::Whole),
            ("", RequestedPart::Whole),
        ] {
            assert_eq!(requested_part(Some(text), 10), wanted, "{text:?}");
        }
        assert_eq!(requested_part(None, 10), RequestedPart::Whole);
        assert_eq!(requested_part(Some("bytes=0-"), 0), RequestedPart::Unsatisfiable);
        assert_eq!(requested_part(Some("bytes=-5"), 0), RequestedPart::Unsatisfiable);
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
            assert_eq!(if_range_matches(wanted, etag, date), counts, "{wanted:?}");
        }
        for (tags, is_known) in [
            (None, false),
            (Some("*"), true),
            (Some("\"1-2\""), true),
            (Some("\"x\", W/\"1-2\""), true),
            (Some("\"x\""), false),
            (Some(""), false),
        ] {
            assert_eq!(if_none_match_matches(tags, etag), is_known, "{tags:?}");
        }
    }
}
