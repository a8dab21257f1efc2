//! Requests to the operator's provider. Its address is configured, so private networks are allowed; bytes, time and
//! number are bounded.

use std::time::Duration;

use axum::http::{StatusCode, header};
use reqwest::{RequestBuilder, Url};
use serde::de::DeserializeOwned;
use tokio::sync::Semaphore;

use hotdesk_base::secret::Secret;
use hotdesk_domain::error::{Error, Result};

/// Largest answer in bytes: sets of keys with certificates have some tens of KiB.
const MAX_BYTES: usize = 256 * 1024;
/// Longest request: a person waits.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Concurrent requests; each may wait for a slow provider.
const MAX_CONCURRENT: usize = 8;

/// Client of the provider's endpoints.
#[derive(Debug)]
pub struct ProviderClient {
    http: reqwest::Client,
    permits: Semaphore,
    /// Whether plain HTTP is allowed: the issuer is on this machine.
    plain: bool,
}

/// Credentials of a request.
#[derive(Clone, Copy, Debug)]
pub enum RequestCredentials<'a> {
    /// None, or in the form.
    InBody,
    /// Client id and secret (RFC 6749 section 2.3.1).
    Basic(&'a str, &'a Secret),
}

impl ProviderClient {
    /// Returns the client for an issuer.
    ///
    /// # Errors
    /// `Internal` with the reason for an issuer that is neither https nor on this machine.
    pub fn new(issuer: &str) -> Result<Self> {
        let wrong = |why| Error::failed(format!("configuration: oidc.issuer {issuer:?}: {why}"));
        let url: Url = issuer.parse().map_err(|_| wrong("use an https:// address"))?;
        let plain = url.scheme() == "http" && is_this_machine(&url);
        if !plain && url.scheme() != "https" {
            return Err(wrong("use https://, or http:// on this machine"));
        }
        // A process has one crypto provider; an earlier one is equally good.
        drop(rustls::crypto::ring::default_provider().install_default());
        let http = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .referer(false)
            .timeout(TIMEOUT)
            .user_agent(concat!("hotdesk/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(Error::internal)?;
        Ok(Self { http, permits: Semaphore::new(MAX_CONCURRENT), plain })
    }

    /// Returns an endpoint of the provider if it is as well protected as the issuer.
    ///
    /// # Errors
    /// `Unavailable` for any other address.
    pub fn endpoint(&self, url: &str) -> Result<Url> {
        let url: Url = url.parse().map_err(|_| unanswered("an endpoint is no URL"))?;
        let is_safe =
            url.scheme() == "https" || self.plain && url.scheme() == "http" && is_this_machine(&url);
        if is_safe { Ok(url) } else { Err(unanswered("an endpoint is not https")) }
    }

    /// Reads a JSON document.
    ///
    /// # Errors
    /// `Unavailable` when the provider does not answer with one in time.
    pub async fn get<T: DeserializeOwned>(&self, url: &str, bearer: Option<&Secret>) -> Result<T> {
        let mut request = self.http.get(self.endpoint(url)?);
        if let Some(token) = bearer {
            request = request.bearer_auth(token.reveal());
        }
        self.send(request).await
    }

    /// Sends a form and reads the JSON of the answer.
    ///
    /// # Errors
    /// `Unavailable` when the provider does not answer with 200 and JSON in time.
    pub async fn post<T: DeserializeOwned>(
        &self,
        url: &str,
        form: &[(&str, &str)],
        credentials: RequestCredentials<'_>,
    ) -> Result<T> {
        let body = serde_urlencoded::to_string(form).map_err(Error::internal)?;
        let request = self.http.post(self.endpoint(url)?);
        let request = request.header(header::CONTENT_TYPE, "application/x-www-form-urlencoded").body(body);
        let request = match credentials {
            RequestCredentials::InBody => request,
            RequestCredentials::Basic(id, secret) => {
                request.basic_auth(form_encoded(id)?, Some(form_encoded(secret.reveal())?))
            }
        };
        self.send(request).await
    }

    async fn send<T: DeserializeOwned>(&self, request: RequestBuilder) -> Result<T> {
        let asked = async {
            let _permit = self.permits.acquire().await.map_err(Error::internal)?;
            let request = request.header(header::ACCEPT, "application/json");
            // The error's text has the URL, which has no secret.
            let mut response = request.send().await.map_err(unanswered)?;
            let status = response.status();
            let mut body = Vec::new();
            while let Some(part) = response.chunk().await.map_err(unanswered)? {
                if body.len() + part.len() > MAX_BYTES {
                    return Err(unanswered(format_args!("an answer has more than {MAX_BYTES} bytes")));
                }
                body.extend_from_slice(&part);
            }
            if status != StatusCode::OK {
                return Err(unanswered(format_args!("status {status}")));
            }
            serde_json::from_slice(&body).map_err(|_| unanswered("an answer is not the expected JSON"))
        };
        // The wait for a permit counts too.
        tokio::time::timeout(TIMEOUT, asked).await.unwrap_or_else(|_| Err(unanswered("no answer in time")))
    }
}

/// Encodes a value as RFC 6749 section 2.3.1 asks, before it becomes part of `Basic`.
fn form_encoded(text: &str) -> Result<String> {
    let pair = serde_urlencoded::to_string([("", text)]).map_err(Error::internal)?;
    Ok(pair.trim_start_matches('=').to_owned())
}

fn is_this_machine(url: &Url) -> bool {
    matches!(url.host_str(), Some("localhost" | "127.0.0.1" | "[::1]"))
}

/// The provider did not answer as it should. The reason is for the log only.
pub fn unanswered(why: impl std::fmt::Display) -> Error {
    Error::unavailable(
        "The provider does not answer as it should: try again later, or sign in in another way",
    )
    .context(format_args!("OpenID Connect provider: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_http_is_for_this_machine_alone() {
        for (issuer, ok) in [
            ("https://id.example.org", true),
            ("https://id.example.org/realms/one", true),
            ("http://127.0.0.1:8080", true),
            ("http://localhost:8080", true),
            ("http://id.example.org", false),
            ("http://127.0.0.1.example.org", false),
            ("ftp://id.example.org", false),
            ("id.example.org", false),
        ] {
            assert_eq!(ProviderClient::new(issuer).is_ok(), ok, "{issuer}");
        }
        let client = ProviderClient::new("https://id.example.org").expect("a client");
        assert!(client.endpoint("https://other.example.org/token").is_ok());
        assert!(client.endpoint("http://127.0.0.1/token").is_err(), "no fall back to plain HTTP");
    }

    #[test]
    fn credentials_are_encoded_before_they_are_joined() {
        assert_eq!(form_encoded("a:b c%=").expect("text"), "a%3Ab+c%25%3D");
    }
}
