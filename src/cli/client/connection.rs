//! Selection of the server and its API key from flags, environment and profiles.
//!
//! A key from a profile is sent only to the server of that profile.

use reqwest::Url;

use super::credentials::{Credentials, Profile};
use hotdesk_base::secret::Secret;

/// Default address of `hotdesk serve`.
pub const DEFAULT_URL: &str = "http://127.0.0.1:8700";

/// A server and its API key.
#[derive(Clone, Debug)]
pub struct Connection {
    /// Base URL of the API; ends in `/api`.
    pub base: Url,
    /// API key.
    pub key: Secret,
}

/// Flags and variables about the connection; `None` when unset.
#[derive(Clone, Debug, Default)]
pub struct ConnectionOptions {
    /// `--url` or `HOTDESK_URL`.
    pub url: Option<String>,
    /// `--profile` or `HOTDESK_PROFILE`.
    pub profile: Option<String>,
    /// `HOTDESK_API_KEY`.
    pub key: Option<Secret>,
}

/// Returns the server and its key. `HOTDESK_API_KEY` wins over profiles. Otherwise the key comes from the selected
/// profile, or from any profile for the same URL when none is selected explicitly.
///
/// # Errors
/// When the profile does not exist, the URL is invalid, or no key is stored for the URL.
pub fn resolve(options: &ConnectionOptions, credentials: &Credentials) -> Result<Connection, String> {
    let name = options.profile.as_ref().or(credentials.current.as_ref());
    let profile = match name {
        None => None,
        Some(name) => match credentials.profiles.get(name) {
            None if options.profile.is_some() => {
                return Err(format!("there is no profile {name:?}: list them with `hotdesk profile show`"));
            }
            profile => profile,
        },
    };
    let url = options.url.as_deref().or(profile.map(|profile| profile.url.as_str())).unwrap_or(DEFAULT_URL);
    let base = base(url)?;
    if let Some(key) = &options.key {
        return Ok(Connection { base, key: key.clone() });
    }
    let belongs = |profile: &&Profile| self::base(&profile.url).is_ok_and(|other| other == base);
    // An explicitly selected profile is never replaced by another one.
    let others = credentials.profiles.values().filter(|_| options.profile.is_none());
    match profile.into_iter().chain(others).find(belongs) {
        Some(profile) => Ok(Connection { base, key: profile.key.clone() }),
        None => Err(format!(
            "no API key for {url}: get one with `hotdesk login --url {url}`, store one with \
             `hotdesk profile set NAME --url {url}`, or set HOTDESK_API_KEY"
        )),
    }
}

/// Returns the base URL of the API at a server address; appends `/api` when it is absent
/// (docs/api/conventions.md).
///
/// # Errors
/// When the text is not an `http` or `https` URL, or has credentials, a query or a fragment.
pub fn base(url: &str) -> Result<Url, String> {
    let invalid = |why: &str| format!("{why}: use a server address such as {DEFAULT_URL}");
    let mut parsed: Url =
        url.trim().parse().map_err(|error| invalid(&format!("{url:?} is not a URL ({error})")))?;
    if !matches!(parsed.scheme(), "http" | "https") || parsed.host_str().is_none() {
        return Err(invalid(&format!("{url:?} is not an http or https URL")));
    }
    if !parsed.username().is_empty() || parsed.password().is_some() {
        // The URL is not quoted: it may contain a password.
        return Err(invalid("the URL must not contain a user or password"));
    }
    if parsed.query().is_some() || parsed.fragment().is_some() {
        return Err(invalid("the URL must not contain a query or fragment"));
    }
    let path = parsed.path().trim_end_matches('/').to_owned();
    parsed.set_path(&if path.ends_with("/api") { path } else { format!("{path}/api") });
    Ok(parsed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_address_leads_to_the_api() {
        for (url, expected) in [
            ("http://127.0.0.1:8700", "http://127.0.0.1:8700/api"),
            ("http://127.0.0.1:8700/", "http://127.0.0.1:8700/api"),
            (" http://127.0.0.1:8700/api/ ", "http://127.0.0.1:8700/api"),
            ("https://desk.example.org", "https://desk.example.org/api"),
            ("https://example.org/desk/", "https://example.org/desk/api"),
            ("http://[::1]:1/api", "http://[::1]:1/api"),
        ] {
            assert_eq!(base(url).unwrap().as_str(), expected);
        }
        for bad in ["", "localhost", "127.0.0.1:8700", "ftp://x", "file:///etc", "http://x?y=1", "http://x#y"]
        {
            assert!(base(bad).unwrap_err().contains(DEFAULT_URL), "{bad:?}");
        }
        let error = base("http://me:hush@x").unwrap_err();
        assert!(!error.contains("hush"), "{error}");
    }

    #[test]
    fn a_key_goes_only_where_it_belongs() {
        let profile = |key: &str, url: &str| Profile { key: Secret::new(key), url: url.to_owned() };
        let profiles = [
            ("home".to_owned(), profile("k-home", "http://home:1")),
            ("work".to_owned(), profile("k-work", "https://work/api/")),
        ];
        let credentials = Credentials { current: Some("home".to_owned()), profiles: profiles.into() };
        let none = Credentials::default();
        for (url, name, key, from, expected) in [
            ("", "", "", &credentials, Ok(("http://home:1/api", "k-home"))),
            ("", "work", "", &credentials, Ok(("https://work/api", "k-work"))),
            ("http://home:1/api", "", "", &credentials, Ok(("http://home:1/api", "k-home"))),
            ("https://work", "", "", &credentials, Ok(("https://work/api", "k-work"))),
            ("http://work", "", "", &credentials, Err("no API key")),
            ("http://evil:1", "", "", &credentials, Err("no API key")),
            ("http://home:2", "", "", &credentials, Err("no API key")),
            ("http://home:1", "work", "", &credentials, Err("no API key")),
            ("http://evil:1", "", "given", &credentials, Ok(("http://evil:1/api", "given"))),
            ("", "", "given", &credentials, Ok(("http://home:1/api", "given"))),
            ("", "", "given", &none, Ok(("http://127.0.0.1:8700/api", "given"))),
            ("", "", "", &none, Err("no API key")),
            ("", "nowhere", "given", &credentials, Err("no profile")),
        ] {
            let non_empty = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
            let key_option = non_empty(key).map(Secret::new);
            let options =
                ConnectionOptions { url: non_empty(url), profile: non_empty(name), key: key_option };
            let got = resolve(&options, from);
            let case = format!("{url:?} {name:?} {key:?}");
            match (got, expected) {
                (Ok(got), Ok((base, key))) => {
                    assert_eq!((got.base.as_str(), got.key.reveal()), (base, key), "{case}")
                }
                (Err(got), Err(part)) => assert!(got.contains(part), "{case}: {got}"),
                (got, expected) => panic!("{case}: {got:?}, expected {expected:?}"),
            }
        }
    }
}
