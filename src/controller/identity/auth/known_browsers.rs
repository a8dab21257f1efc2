//! Marks of browsers in which a person has signed in with their password: strangers who guess do not lock these out.
//!
//! A mark is a signed cookie (OWASP, "Slow Down Online Guessing Attacks with Device Cookies"). It signs nobody in. It is for one
//! account with its present password, so a new password ends all of them.

use std::time::Duration;

use axum::http::{HeaderMap, HeaderValue};
use cookie::{Cookie, SameSite};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use super::session::cookie_value;
use hotdesk_base::hex::{hex, unhex};
use hotdesk_base::secret::Secret;
use hotdesk_base::time::UnixMillis;
use hotdesk_domain::error::{Error, Result};
use hotdesk_store::identity::people::Account;

/// Lifetime of a mark: longer than several sessions, whose ends are when people need it.
const LIFE: Duration = Duration::from_secs(90 * 24 * 3600);
/// Characters of a browser's id: 22 of base62 are 131 random bits.
const CHARACTERS: usize = 22;

/// Id of a browser in which a person signed in before.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct KnownBrowser(String);

/// Signer of marks.
pub struct KnownBrowsers {
    signer: Hmac<Sha256>,
    /// Whether browsers reach the service by https only.
    secure: bool,
}

impl KnownBrowsers {
    /// Creates the service with the installation's secret, for browsers that reach the service at `public_url`.
    ///
    /// # Errors
    /// `Internal` for a secret that is no key.
    pub fn new(secret: &Secret, public_url: &str) -> Result<Self> {
        let signer = Hmac::new_from_slice(secret.reveal().as_bytes()).map_err(Error::internal)?;
        Ok(Self { signer, secure: public_url.starts_with("https://") })
    }

    /// Marks a browser in which a person has signed in. Returns the value of `Set-Cookie`.
    ///
    /// # Errors
    /// `Internal` when the value is no header field.
    pub fn mark(&self, account: &Account, now: UnixMillis) -> Result<HeaderValue> {
        let id = Secret::random(CHARACTERS);
        let signed = format!("{}.{}.{}", account.id, now.plus(LIFE).as_i64(), id.reveal());
        let mac = hex(&self.mac(&signed, account).finalize().into_bytes());
        let cookie = Cookie::build((cookie_name(self.secure), format!("{signed}.{mac}"))).path("/");
        let mut cookie = cookie.http_only(true).secure(self.secure).same_site(SameSite::Strict).build();
        cookie.set_max_age(cookie::time::Duration::try_from(LIFE).map_err(Error::internal)?);
        HeaderValue::from_str(&cookie.to_string()).map_err(Error::internal)
    }

    /// Returns the browser of a request, if the person of this account has signed in there.
    pub fn find(&self, headers: &HeaderMap, account: &Account, now: UnixMillis) -> Option<KnownBrowser> {
        let cookie = cookie_value(headers, cookie_name(self.secure))?;
        let (signed, mac) = cookie.reveal().rsplit_once('.')?;
        let mut parts = signed.splitn(3, '.');
        let (owner, expires, id) = (parts.next()?, parts.next()?, parts.next()?);
        let expires = UnixMillis::new(expires.parse().ok()?);
        let mac = unhex(mac.as_bytes())?;
        let is_valid = owner == account.id.to_string()
            && expires > now
            && self.mac(signed, account).verify_slice(&mac).is_ok();
        is_valid.then(|| KnownBrowser(id.to_owned()))
    }

    fn mac(&self, signed: &str, account: &Account) -> Hmac<Sha256> {
        let mut mac = self.signer.clone();
        let password = account.password_hash.as_deref().unwrap_or_default();
        mac.update(format!("known browser {signed} {password}").as_bytes());
        mac
    }
}

#[cfg(test)]
impl KnownBrowser {
    /// A browser with this id.
    pub fn named(id: &str) -> Self {
        Self(id.to_owned())
    }
}

/// The prefix `__Host-` ensures that no other host or path set the cookie (RFC 6265bis section 4.1.3.2).
fn cookie_name(secure: bool) -> &'static str {
    if secure { "__Host-hotdesk-browser" } else { "hotdesk-browser" }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::header;
    use hotdesk_domain::identity::email::Email;

    fn account(email: &str) -> Account {
        Account::person(&Email::parse(email).expect("an address"), "", Some("hash".to_owned()))
    }

    #[test]
    fn a18_a_mark_is_for_one_account_with_one_password_and_a_time() {
        let browsers = KnownBrowsers::new(&Secret::random(43), "https://desk.example").expect("a key");
        let (ada, eve, now) =
            (account("ada@x.example"), account("eve@x.example"), UnixMillis::new(1_000_000));
        let field = browsers.mark(&ada, now).expect("a cookie");
        let field = field.to_str().expect("a text");
        for part in ["__Host-hotdesk-browser=", "HttpOnly", "Secure", "SameSite=Strict", "Path=/"] {
            assert!(field.contains(part), "{field}");
        }
        let cookie = field.split(';').next().expect("a cookie");
        let find = |cookie: &str, account: &Account, now| {
            let headers = HeaderMap::from_iter([(header::COOKIE, cookie.parse().expect("a value"))]);
            browsers.find(&headers, account, now)
        };
        assert!(find(cookie, &ada, now).is_some());
        assert_eq!(find(cookie, &ada, now), find(&format!("a=b; {cookie}"), &ada, now));
        assert!(find(cookie, &eve, now).is_none() && find(cookie, &ada, now.plus(LIFE)).is_none());
        let changed = Account { password_hash: Some("other".to_owned()), ..ada.clone() };
        assert!(find(cookie, &changed, now).is_none());
        let later = now.plus(LIFE).as_i64();
        for forged in [
            cookie.replace(&later.to_string(), &(later + 1).to_string()),
            cookie.replace(&ada.id.to_string(), &eve.id.to_string()),
            cookie.split_at(cookie.len() - 2).0.to_owned(),
            "__Host-hotdesk-browser=a.b.c.d".to_owned(),
            "__Host-hotdesk-browser=".to_owned(),
        ] {
            assert!(find(&forged, &ada, now).is_none() && find(&forged, &eve, now).is_none(), "{forged}");
        }
    }
}
