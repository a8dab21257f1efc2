//! Validation of client id URLs (draft-ietf-oauth-client-id-metadata-document section 3), before any network
//! access.

use super::uri::{self, InvalidUri};

/// Whether a client id is a URL; otherwise it is from a registration.
pub fn is_url(id: &str) -> bool {
    id.contains(':')
}

/// Checks a client id that is a URL.
///
/// # Errors
/// [`InvalidUri`], with the reason.
pub fn check(id: &str) -> Result<(), InvalidUri> {
    let parts = uri::split(id)?;
    if !parts.secure {
        return Err(InvalidUri("is not https"));
    }
    if parts.host.bytes().any(|byte| byte.is_ascii_uppercase()) {
        return Err(InvalidUri("has a host in capital letters"));
    }
    let path = parts.rest.split('?').next().unwrap_or_default();
    if path.len() < 2 {
        return Err(InvalidUri("has no path"));
    }
    let dots =
        |segment: &str| matches!(segment.to_ascii_lowercase().replace("%2e", ".").as_str(), "." | "..");
    if path.split('/').any(dots) {
        return Err(InvalidUri("has a dot segment"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a67_a_client_s_url_is_https_with_a_path_and_nothing_that_could_mislead() {
        let longest = format!("https://app.example/{}", "x".repeat(2048 - 20));
        for good in [
            "https://app.example/client.json",
            "https://app.example:8443/a/b?v=1",
            "https://a.example/.x",
            &longest,
        ] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
        let long = format!("{longest}x");
        for bad in [
            "http://app.example/client.json",
            "HTTPS://app.example/client.json",
            "https://APP.example/client.json",
            "https://app.example",
            "https://app.example/",
            "https://app.example?x",
            "https://app.example/?x",
            "https://app.example/./client.json",
            "https://app.example/a/../client.json",
            "https://app.example/a/..",
            "https://app.example/%2e%2E/client.json",
            "https://app.example/.%2e/client.json",
            "https://app.example/client.json#x",
            "https://user@app.example/client.json",
            "https://user:pw@app.example/client.json",
            "https://app.example/client json",
            "https://app.example\\client.json",
            "ftp://app.example/client.json",
            "file:///etc/passwd",
            &long,
        ] {
            assert!(is_url(bad), "{bad}");
            assert!(check(bad).is_err(), "{bad}");
        }
        assert!(!is_url("q8Zk3Yw0"));
    }
}
