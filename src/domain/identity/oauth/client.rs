//! May a client be as it says it is? One rule for those that register and for those that a document describes.

use super::redirect::{self, Redirect};
use super::refusal::{Code, Refusal};

/// Most redirect URIs of a client: real ones have one to five.
const MAX_REDIRECTS: usize = 10;
/// Most characters of a client's name: it is shown in one line.
const MAX_NAME: usize = 100;

/// A client that may ask people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Client {
    /// Its id: a URL, or what it was given when it registered.
    pub id: String,
    /// What it calls itself, if it says; nobody has checked it.
    pub name: Option<String>,
    /// Where codes may go.
    pub redirect_uris: Vec<String>,
}

impl Client {
    /// Whether codes may go there.
    pub fn may_be_sent_to(&self, asked: &str) -> bool {
        self.redirect_uris.iter().any(|registered| redirect::is_registered(registered, asked))
    }

    /// Whether everything that it registered is on the person's own machine: then any program there can pretend to be it.
    pub fn is_local_only(&self) -> bool {
        self.redirect_uris.iter().all(|uri| Redirect::parse(uri).is_ok_and(|redirect| redirect.is_local()))
    }
}

/// What a client says about itself (RFC 7591 section 2), as far as it matters here.
#[derive(Clone, Debug, Default)]
pub struct Claims {
    /// `client_name`.
    pub name: Option<String>,
    /// `redirect_uris`.
    pub redirect_uris: Vec<String>,
    /// `grant_types`, if it says.
    pub grant_types: Option<Vec<String>>,
    /// `response_types`, if it says.
    pub response_types: Option<Vec<String>>,
}

impl Claims {
    /// Makes it a client.
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
            let why = "a redirect URI must be https, or http to 127.0.0.1, [::1] or localhost, without fragment and wildcard";
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
            return wrong("client_name has more than 100 characters, or one that cannot be seen");
        }
        Ok(Client { id, name, redirect_uris: self.redirect_uris })
    }
}

/// Control characters, and those that turn the direction of the text around them: a name must not redraw the page.
fn misleads(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claims(redirects: &[&str]) -> Claims {
        Claims { redirect_uris: redirects.iter().map(|&uri| uri.to_owned()).collect(), ..Claims::default() }
    }

    fn code(claims: Claims) -> Option<Code> {
        claims.accept("id".to_owned()).err().map(|refusal| refusal.code)
    }

    fn words(list: &[&str]) -> Option<Vec<String>> {
        Some(list.iter().map(|&word| word.to_owned()).collect())
    }

    #[test]
    fn a73_what_may_be_registered() {
        let good = ["https://app.example/cb", "http://127.0.0.1/cb"];
        assert_eq!(code(claims(&good)), None);
        for bad in [
            "javascript:alert(1)",
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
            assert_eq!(code(claims(&[good[0], bad])), Some(Code::InvalidRedirectUri), "{bad}");
        }
        assert_eq!(code(claims(&[])), Some(Code::InvalidRedirectUri));
        assert_eq!(code(claims(&[good[0]; MAX_REDIRECTS + 1])), Some(Code::InvalidClientMetadata));
        let with = |change: fn(&mut Claims)| {
            let mut claims = claims(&good);
            change(&mut claims);
            code(claims)
        };
        assert_eq!(with(|claims| claims.grant_types = words(&["refresh_token", "authorization_code"])), None);
        assert_eq!(with(|claims| claims.name = Some("Café ☕ client".to_owned())), None);
        for wrong in [
            with(|claims| claims.grant_types = words(&["client_credentials"])),
            with(|claims| claims.response_types = words(&["token"])),
            with(|claims| claims.name = Some("x".repeat(MAX_NAME + 1))),
            with(|claims| claims.name = Some("a\u{202e}b".to_owned())),
            with(|claims| claims.name = Some("a\nb".to_owned())),
        ] {
            assert_eq!(wrong, Some(Code::InvalidClientMetadata));
        }
    }

    #[test]
    fn a_client_on_the_own_machine_alone_can_be_anybody() {
        let local = |redirects: &[&str]| claims(redirects).accept("id".to_owned()).unwrap().is_local_only();
        assert!(local(&["http://127.0.0.1/cb", "http://localhost/cb"]));
        assert!(!local(&["http://127.0.0.1/cb", "https://app.example/cb"]));
    }
}
