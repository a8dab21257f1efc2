//! How does a program without a browser get a key? By a code that a person types elsewhere (wire.md 13; RFC 8628).

use std::fmt;
use std::time::Duration;

/// How long a request for a key waits for its person (access.md A21: at most 900 s).
pub const LIFE_SECONDS: u32 = 900;
/// Seconds between two polls unless the program asks too often (RFC 8628 section 3.2).
pub const INTERVAL_SECONDS: u32 = 5;
/// What each poll that comes too early adds (RFC 8628 section 3.5).
const SLOW_DOWN_SECONDS: u32 = 5;
/// Clients wait no longer than this between polls, whatever they are told (wire.md 13).
const LONGEST_INTERVAL_SECONDS: u32 = 60;
/// Letters of a user code: without vowels, so that none spells a word (RFC 8628 section 6.1). 20^8 codes are 34 bits.
pub const LETTERS: &[u8; 20] = b"BCDFGHJKLMNPQRSTVWXZ";
/// How many letters it has.
pub const CODE_LETTERS: usize = 8;
/// Longest name of a program or host that a page shows, in characters.
const MAX_SHOWN: usize = 64;

/// What a person types to say which program is meant: eight letters, shown as `BCDF-GHJK`.
#[derive(Clone, PartialEq, Eq)]
pub struct UserCode(String);

impl UserCode {
    /// Makes one of eight numbers, each of which stands for a letter.
    pub fn of(numbers: [u8; CODE_LETTERS]) -> Self {
        let letter = |number: u8| char::from(LETTERS[usize::from(number) % LETTERS.len()]);
        Self(numbers.into_iter().map(letter).collect())
    }

    /// Reads what was typed: case and punctuation do not matter. `None` when it is no code.
    pub fn parse(typed: &str) -> Option<Self> {
        let kept = |c: &char| !c.is_whitespace() && !c.is_ascii_punctuation();
        let letters: String =
            typed.chars().filter(kept).take(CODE_LETTERS + 1).map(|c| c.to_ascii_uppercase()).collect();
        let known = letters.bytes().all(|byte| LETTERS.contains(&byte));
        (letters.len() == CODE_LETTERS && known).then_some(Self(letters))
    }

    /// The letters alone, as they are hashed.
    pub fn letters(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for UserCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (first, second) = self.0.split_at(CODE_LETTERS / 2);
        write!(f, "{first}-{second}")
    }
}

/// It opens an account to whoever waits for it: no log line shows one.
impl fmt::Debug for UserCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("UserCode(***)")
    }
}

/// Whether a request that has waited for so many milliseconds may still be answered; `None`: nobody knows how long.
pub fn is_alive(waited_ms: Option<i64>) -> bool {
    waited_ms.is_some_and(|waited| waited < i64::from(LIFE_SECONDS) * 1000)
}

/// What is said to a program that polls before its person has decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// Wait so many seconds and ask again.
    Wait(u32),
    /// It was told to ask less often as often as that helps: nothing more is looked up for it.
    Flood(u32),
}

/// Paces a poll, from the seconds that the program was told to wait and the time since its last poll, if there was one
/// (access.md A26).
pub fn pace(interval: u32, since: Option<Duration>) -> Pace {
    let early = since.is_some_and(|since| since < Duration::from_secs(interval.into()));
    match (early, interval) {
        (false, interval) => Pace::Wait(interval),
        (true, LONGEST_INTERVAL_SECONDS..) => Pace::Flood(interval),
        (true, interval) => Pace::Wait((interval + SLOW_DOWN_SECONDS).min(LONGEST_INTERVAL_SECONDS)),
    }
}

/// What a program says of itself, as a page may show it: nothing that turns writing around or is not seen, and not
/// everything of what is long.
pub fn shown(text: &str) -> String {
    let turns = |c: char| matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}');
    let kept: String =
        text.trim().chars().filter(|c| !c.is_control() && !turns(*c)).take(MAX_SHOWN).collect();
    if kept.trim().is_empty() { "unknown".to_owned() } else { kept }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a23_a_code_is_eight_letters_however_it_is_typed() {
        let code = UserCode::of([0, 1, 2, 3, 16, 17, 18, 19]);
        assert_eq!(code.to_string(), "BCDF-VWXZ");
        for typed in [
            code.to_string(),
            code.letters().to_lowercase(),
            format!(" {}. ", code.to_string().replace('-', " - ")),
        ] {
            assert_eq!(UserCode::parse(&typed).as_ref(), Some(&code), "{typed:?}");
        }
        for bad in ["", "BCDF-GHJ", "BCDF-GHJKL", "BCDF-GHJA", "BCDF-GHJ1", "BCDF-GHJÄ", "ＢＣＤＦＧＨＪＫ"]
        {
            assert_eq!(UserCode::parse(bad), None, "{bad:?}");
        }
        assert_eq!(UserCode::of([255; CODE_LETTERS]).letters().len(), CODE_LETTERS);
        assert!(!format!("{code:?}").contains(code.letters()));
    }

    #[test]
    fn a26_each_poll_that_comes_too_early_makes_the_next_one_later() {
        let seconds = |n| Some(Duration::from_secs(n));
        for (interval, since, said) in [
            (5, None, Pace::Wait(5)),
            (5, seconds(5), Pace::Wait(5)),
            (5, seconds(4), Pace::Wait(10)),
            (10, seconds(9), Pace::Wait(15)),
            (10, seconds(11), Pace::Wait(10)),
            (58, seconds(0), Pace::Wait(60)),
            (60, seconds(60), Pace::Wait(60)),
            (60, seconds(59), Pace::Flood(60)),
        ] {
            assert_eq!(pace(interval, since), said, "{interval} {since:?}");
        }
    }

    #[test]
    fn a27_a_request_ends_with_its_time_and_where_that_is_not_known() {
        for (waited, alive) in [
            (Some(0), true),
            (Some(899_999), true),
            (Some(900_000), false),
            (Some(i64::MAX), false),
            (None, false),
        ] {
            assert_eq!(is_alive(waited), alive, "{waited:?}");
        }
    }

    #[test]
    fn a30_what_a_program_says_of_itself_is_cut_and_cannot_hide() {
        assert_eq!(shown("  build\u{202e}box\n\u{200b} "), "buildbox");
        assert_eq!(shown("\u{feff}\u{0}"), "unknown");
        assert_eq!(shown(&"語".repeat(500)).chars().count(), MAX_SHOWN);
    }
}
