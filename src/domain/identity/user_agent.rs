//! Name of a browser by its `User-Agent` field, for people who look for a sign-in of theirs.
//!
//! Browsers name each other in that field, so the order of the tables decides. It is a hint and proves nothing:
//! a client sends what it likes.

/// Mark of each browser, the more specific first: Edge and Opera also name Chrome, and Chrome names Safari.
const BROWSERS: [(&str, &str); 7] = [
    ("Edg/", "Edge"),
    ("OPR/", "Opera"),
    ("Firefox/", "Firefox"),
    ("FxiOS/", "Firefox"),
    ("CriOS/", "Chrome"),
    ("Chrome/", "Chrome"),
    ("Safari/", "Safari"),
];

/// Mark of each system, the more specific first: Android also names Linux, and an iPhone names Mac OS X.
const SYSTEMS: [(&str, &str); 7] = [
    ("Windows", "Windows"),
    ("Android", "Android"),
    ("iPhone", "iOS"),
    ("iPad", "iPadOS"),
    ("CrOS", "ChromeOS"),
    ("Mac OS X", "macOS"),
    ("Linux", "Linux"),
];

/// Returns for example `Firefox on Linux`; only the browser or only the system when the field names one of
/// them; `None` when it names neither.
pub fn browser_name(user_agent: &str) -> Option<String> {
    let named = |table: &[(&str, &'static str)]| {
        table.iter().find(|(mark, _)| user_agent.contains(mark)).map(|(_, name)| *name)
    };
    match (named(&BROWSERS), named(&SYSTEMS)) {
        (Some(browser), Some(system)) => Some(format!("{browser} on {system}")),
        (Some(only), None) | (None, Some(only)) => Some(only.to_owned()),
        (None, None) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn browsers_are_named_although_they_name_each_other() {
        let mozilla = "Mozilla/5.0";
        for (user_agent, name) in [
            ("(X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0", Some("Firefox on Linux")),
            (
                "(Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36",
                Some("Chrome on Windows"),
            ),
            (
                "(Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0 Safari/537.36 Edg/140.0",
                Some("Edge on Windows"),
            ),
            (
                "(Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.0 Safari/605.1.15",
                Some("Safari on macOS"),
            ),
            (
                "(iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1.15 Version/18.0 Mobile Safari/604.1",
                Some("Safari on iOS"),
            ),
            (
                "(Linux; Android 15) AppleWebKit/537.36 Chrome/140.0 Mobile Safari/537.36",
                Some("Chrome on Android"),
            ),
            ("(X11; Linux x86_64)", Some("Linux")),
            ("", None),
        ] {
            assert_eq!(browser_name(&format!("{mozilla} {user_agent}")).as_deref(), name, "{user_agent}");
        }
        assert_eq!(browser_name("curl/8.0"), None);
    }
}
