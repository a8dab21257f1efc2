//! Device authorization: user codes and polling intervals (RFC 8628; docs/api/authentication.md).

use std::fmt;
use std::time::Duration;

/// Lifetime of a device authorization, in seconds (A21, docs/authentication-rules.md: at most 900).
pub const LIFE_SECONDS: u32 = 900;
/// Initial interval between polls, in seconds (RFC 8628 section 3.2).
pub const INTERVAL_SECONDS: u32 = 5;
/// Increase of the interval for each early poll, in seconds (RFC 8628 section 3.5).
const SLOW_DOWN_SECONDS: u32 = 5;
/// Longest interval, in seconds: clients wait no longer between polls (docs/api/authentication.md).
const LONGEST_INTERVAL_SECONDS: u32 = 60;
/// Letters of a user code, without vowels, so that no code spells a word (RFC 8628 section 6.1). 20^8 codes
/// are 34 bits.
pub const LETTERS: &[u8; 20] = b"BCDFGHJKLMNPQRSTVWXZ";
/// Number of letters of a user code.
pub const CODE_LETTERS: usize = 8;
/// Longest name of a program or host on a page, in characters.
const MAX_SHOWN: usize = 64;

/// Code that a person types to identify the program: eight letters, shown as `BCDF-GHJK`.
#[derive(Clone, PartialEq, Eq)]
pub struct UserCode(String);

impl UserCode {
    /// Creates a code from eight numbers; each selects a letter.
    pub fn of(numbers: [u8; CODE_LETTERS]) -> Self {
        let letter = |number: u8| char::from(LETTERS[usize::from(number) % LETTERS.len()]);
        Self(numbers.into_iter().map(letter).collect())
    }

    /// Parses typed text, ignoring case, white space and punctuation; `None` when it is not a code.
    pub fn parse(typed: &str) -> Option<Self> {
        let significant = |c: &char| !c.is_whitespace() && !c.is_ascii_punctuation();
        let letters: String = typed
            .chars()
            .filter(significant)
            .take(CODE_LETTERS + 1)
            .map(|c| c.to_ascii_uppercase())
            .collect();
        let known = letters.bytes().all(|byte| LETTERS.contains(&byte));
        (letters.len() == CODE_LETTERS && known).then_some(Self(letters))
    }

    /// Returns the letters without the hyphen, for hashing.
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

/// Hides the code: it gives access to an account and must not be logged.
impl fmt::Debug for UserCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("UserCode(***)")
    }
}

/// Whether a device authorization that has waited this long is still valid. An unknown age is not.
pub fn is_alive(waited: Option<Duration>) -> bool {
    waited.is_some_and(|waited| waited < Duration::from_secs(LIFE_SECONDS.into()))
}

/// Answer to a poll before the person has decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PollPace {
    /// Poll again after this number of seconds.
    Wait(u32),
    /// The program polls too often in spite of the longest interval, in seconds: the server does not query
    /// the store for it.
    Flood(u32),
}

/// Decides on a poll from the current interval, in seconds, and the time since the last poll (A26,
/// docs/authentication-rules.md).
pub fn pace(interval: u32, since: Option<Duration>) -> PollPace {
    let early = since.is_some_and(|since| since < Duration::from_secs(interval.into()));
    match (early, interval) {
        (false, interval) => PollPace::Wait(interval),
        (true, LONGEST_INTERVAL_SECONDS..) => PollPace::Flood(interval),
        (true, interval) => PollPace::Wait((interval + SLOW_DOWN_SECONDS).min(LONGEST_INTERVAL_SECONDS)),
    }
}

/// Prepares a program's own name for display: removes control, invisible and direction-changing characters,
/// and truncates it.
pub fn displayable(text: &str) -> String {
    let turns = |c: char| matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}');
    let visible: String =
        text.trim().chars().filter(|c| !c.is_control() && !turns(*c)).take(MAX_SHOWN).collect();
    if visible.trim().is_empty() { "unknown".to_owned() } else { visible }
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
        for (interval, since, expected) in [
            (5, None, PollPace::Wait(5)),
            (5, seconds(5), PollPace::Wait(5)),
            (5, seconds(4), PollPace::Wait(10)),
            (10, seconds(9), PollPace::Wait(15)),
            (10, seconds(11), PollPace::Wait(10)),
            (58, seconds(0), PollPace::Wait(60)),
            (60, seconds(60), PollPace::Wait(60)),
            (60, seconds(59), PollPace::Flood(60)),
        ] {
            assert_eq!(pace(interval, since), expected, "{interval} {since:?}");
        }
    }

    #[test]
    fn a27_a_request_ends_with_its_time_and_where_that_is_not_known() {
        for (waited, alive) in [
            (Some(Duration::ZERO), true),
            (Some(Duration::from_millis(899_999)), true),
            (Some(Duration::from_secs(900)), false),
            (Some(Duration::MAX), false),
            (None, false),
        ] {
            assert_eq!(is_alive(waited), alive, "{waited:?}");
        }
    }

    #[test]
    fn a30_what_a_program_says_of_itself_is_cut_and_cannot_hide() {
        assert_eq!(displayable("  build\u{202e}box\n\u{200b} "), "buildbox");
        assert_eq!(displayable("\u{feff}\u{0}"), "unknown");
        assert_eq!(displayable(&"語".repeat(500)).chars().count(), MAX_SHOWN);
    }
}
