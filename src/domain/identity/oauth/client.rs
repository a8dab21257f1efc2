//! Validation of OAuth client metadata, for registered clients and for client id documents.

use super::redirect::{self, Redirect};
use super::refusal::{Code, Refusal};

/// Largest number of redirect URIs of a client: real clients have one to five.
const MAX_REDIRECTS: usize = 10;
/// Longest name of a client, in characters: it is shown in one line.
const MAX_NAME: usize = 100;

/// A validated client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Client {
    /// Its id: a URL, or the id from its registration.
    pub id: String,
    /// Its own name, which is not verified.
    pub name: Option<String>,
    /// Its registered redirect URIs.
    pub redirect_uris: Vec<String>,
}

impl Client {
    /// Whether an authorization code can be sent to this redirect URI.
    pub fn allows_redirect_to(&self, requested: &str) -> bool {
        self.redirect_uris.iter().any(|registered| redirect::is_registered(registered, requested))
    }

    /// Whether all redirect URIs are on the person's own machine: any program there can then impersonate the
    /// client.
    pub fn is_local_only(&self) -> bool {
        self.redirect_uris.iter().all(|uri| Redirect::parse(uri).is_ok_and(|redirect| redirect.is_local()))
    }
}

/// Client metadata (RFC 7591 section 2) that the server uses.
#[derive(Clone, Debug, Default)]
pub struct ClientMetadata {
    /// `client_name`.
    pub name: Option<String>,
    /// `redirect_uris`.
    pub redirect_uris: Vec<String>,
    /// `grant_types`, if present.
    pub grant_types: Option<Vec<String>>,
    /// `response_types`, if present.
    pub response_types: Option<Vec<String>>,
}

impl ClientMetadata {
    /// Validates the metadata and returns the client.
    ///
    /// # Errors
    /// `invalid_redirect_uri` or `invalid_client_metadata`.
    pub fn accept(self, id: String) -> Result<Client, Refusal> {
        let wrong = |why| Err(Code::InvalidClientMetadata.because(why));
        if self.redirect_uris.is_empty() {
            return Err(Code::InvalidRedirectUri.because("redirect_uris is missing or empty"));
        }
        if self.redirect_uris.len() > MAX_REDIRECTS {
            return wrong("redirect_uris has more than 10 entries");
        }
        if self.redirect_uris.iter().any(|uri| Redirect::parse(uri).is_err()) {
            let why = "a redirect URI must be https, http to 127.0.0.1, [::1] or localhost, or an app's own scheme (app://host/path), without fragment and wildcard";
            return Err(Code::InvalidRedirectUri.because(why));
        }
        if self.grant_types.is_some_and(|all| !all.iter().any(|one| one == "authorization_code")) {
            return wrong("grant_types must have authorization_code");
        }
        if self.response_types.is_some_and(|all| !all.iter().any(|one| one == "code")) {
            return wrong("response_types must have code");
        }
        let name = self.name.map(|name| name.trim().to_owned()).filter(|name| !name.is_empty());
        if name.as_deref().is_some_and(|name| name.chars().count() > MAX_NAME || name.chars().any(misleads)) {
            return wrong("client_name has more than 100 characters or an invisible one");
        }
        Ok(Client { id, name, redirect_uris: self.redirect_uris })
    }
}

/// Whether a character is a control, invisible or direction-changing character, which can make a name
/// misleading.
fn misleads(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metadata(redirects: &[&str]) -> ClientMetadata {
        ClientMetadata {
            redirect_uris: redirects.iter().map(|&uri| uri.to_owned()).collect(),
            ..ClientMetadata::default()
        }
    }

    fn code(metadata: ClientMetadata) -> Option<Code> {
        metadata.accept("id".to_owned()).err().map(|refusal| refusal.code)
    }

    fn list_of(list: &[&str]) -> Option<Vec<String>> {
        Some(list.iter().map(|&word| word.to_owned()).collect())
    }

    #[test]
    fn a73_what_may_be_registered() {
        let good = ["https://app.example/cb", "http://127.0.0.1/cb", "cursor://x/oauth/callback"];
        assert_eq!(code(metadata(&good)), None);
        for bad in [
            "javascript:alert(1)",
            "javascript://x/%0aalert(1)",
            "file:///etc/passwd",
            "data:text/html,x",
            "http://app.example/cb",
            "https://*.example/cb",
            "https://app.example/*",
            "https://app.example/cb#x",
            "https://u@app.example/cb",
            "urn:ietf:wg:oauth:2.0:oob",
            "",
            "/cb",
        ] {
            assert_eq!(code(metadata(&[good[0], bad])), Some(Code::InvalidRedirectUri), "{bad}");
        }
        assert_eq!(code(metadata(&[])), Some(Code::InvalidRedirectUri));
        assert_eq!(code(metadata(&[good[0]; MAX_REDIRECTS + 1])), Some(Code::InvalidClientMetadata));
        let with = |change: fn(&mut ClientMetadata)| {
            let mut metadata = metadata(&good);
            change(&mut metadata);
            code(metadata)
        };
        assert_eq!(
            with(|metadata| metadata.grant_types = list_of(&["refresh_token", "authorization_code"])),
            None
        );
        assert_eq!(with(|metadata| metadata.name = Some("Café ☕ client".to_owned())), None);
        for wrong in [
            with(|metadata| metadata.grant_types = list_of(&["client_credentials"])),
            with(|metadata| metadata.response_types = list_of(&["token"])),
            with(|metadata| metadata.name = Some("x".repeat(MAX_NAME + 1))),
            with(|metadata| metadata.name = Some("a\u{202e}b".to_owned())),
            with(|metadata| metadata.name = Some("a\nb".to_owned())),
        ] {
            assert_eq!(wrong, Some(Code::InvalidClientMetadata));
        }
    }

    #[test]
    fn a_client_on_the_own_machine_alone_can_be_anybody() {
        let local = |redirects: &[&str]| metadata(redirects).accept("id".to_owned()).unwrap().is_local_only();
        assert!(local(&["http://127.0.0.1/cb", "http://localhost/cb", "cursor://x/cb"]));
        assert!(!local(&["http://127.0.0.1/cb", "https://app.example/cb"]));
    }
}
