//! Cache lifetime of fetched documents, from their headers (RFC 9111 section 5.2.2).

use std::time::Duration;

/// Lifetime without a `Cache-Control` header: long enough for one sign-in, and a corrected document is used
/// soon.
const DEFAULT_LIFETIME: Duration = Duration::from_secs(300);
/// Longest lifetime: a day.
const MAX_LIFETIME: Duration = Duration::from_secs(24 * 3600);

/// Returns the lifetime of a response with these header values.
pub fn lifetime(cache_control: Option<&str>, age: Option<&str>) -> Duration {
    let Some(header) = cache_control else { return DEFAULT_LIFETIME };
    let directives = || header.split(',').map(|directive| directive.trim().to_ascii_lowercase());
    if directives().any(|directive| ["no-store", "no-cache"].contains(&directive.as_str())) {
        return Duration::ZERO;
    }
    let named = |name| directives().find_map(|directive| directive.strip_prefix(name).map(seconds));
    let life = named("s-maxage=").or_else(|| named("max-age="));
    let spent = age.map(seconds).unwrap_or_default();
    life.map_or(DEFAULT_LIFETIME, |life| life.saturating_sub(spent).min(MAX_LIFETIME))
}

/// Parses seconds; an invalid value is 0, so that it never extends the lifetime.
fn seconds(text: &str) -> Duration {
    Duration::from_secs(text.trim().trim_matches('"').parse().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a71_a_document_is_cached_as_long_as_its_headers_permit_and_a_day_at_most() {
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
