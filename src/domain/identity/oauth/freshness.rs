//! How long may a fetched document be used? As long as its headers say, within bounds (RFC 9111 section 5.2.2).

use std::time::Duration;

/// Without a word about it: long enough for one sign-in, short enough for a mend to arrive.
const UNSAID: Duration = Duration::from_secs(300);
/// Whatever is said: a day.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// The time for which an answer with these fields may be kept.
pub fn lifetime(cache_control: Option<&str>, age: Option<&str>) -> Duration {
    let Some(said) = cache_control else { return UNSAID };
    let directives = || said.split(',').map(|directive| directive.trim().to_ascii_lowercase());
    if directives().any(|directive| ["no-store", "no-cache"].contains(&directive.as_str())) {
        return Duration::ZERO;
    }
    let named = |name| directives().find_map(|directive| directive.strip_prefix(name).map(seconds));
    let life = named("s-maxage=").or_else(|| named("max-age="));
    let spent = age.map(seconds).unwrap_or_default();
    life.map_or(UNSAID, |life| life.saturating_sub(spent).min(LONGEST))
}

/// Whole seconds; what is no number is none, so that a broken field never prolongs.
fn seconds(text: &str) -> Duration {
    Duration::from_secs(text.trim().trim_matches('"').parse().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a71_a_document_is_kept_as_long_as_it_says_and_a_day_at_most() {
        for (cache_control, age, expected) in [
            (None, None, 300),
            (Some("public"), None, 300),
            (Some("max-age=60"), None, 60),
            (Some("public, MAX-AGE=60"), Some("20"), 40),
            (Some("max-age=60"), Some("80"), 0),
            (Some("max-age=60, s-maxage=10"), None, 10),
            (Some("max-age=99999999999"), None, 86_400),
            (Some("max-age=soon"), None, 0),
            (Some("no-store"), None, 0),
            (Some("max-age=60, no-cache"), None, 0),
        ] {
            assert_eq!(lifetime(cache_control, age).as_secs(), expected, "{cache_control:?} {age:?}");
        }
    }
}
