//! OAuth clients: registered ones, and those that a document at their id's URL describes
//! (draft-ietf-oauth-client-id-metadata-document).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::http::{HeaderMap, HeaderName, StatusCode, header};

use super::AuthorizationServer;
use crate::identity::auth::rate::count;
use crate::web::source::Source;
use hotdesk_domain::error::Error;
use hotdesk_domain::error::Result;
use hotdesk_domain::identity::oauth::client::{self, Client};
use hotdesk_domain::identity::oauth::{client_id, freshness};
use hotdesk_http::guarded_fetch::{FetchLimits, FetchResponse, GuardedFetcher};
use hotdesk_wire::identity::oauth::ClientMetadata;

/// FetchLimits of a document: 5 KiB as the draft recommends (section 6.6), and a short time because a person
/// waits.
const BOUNDS: FetchLimits = FetchLimits { bytes: 5 * 1024, timeout: Duration::from_secs(5) };
/// Most cached documents; 256 of 5 KiB are about a megabyte.
const MAX_DOCUMENTS: usize = 256;

impl AuthorizationServer {
    /// Returns the client with this id.
    ///
    /// # Errors
    /// `Invalid` for an unknown or invalid client; `RateLimited` when this address caused too many fetches.
    pub(super) async fn client(&self, id: &str, source: Source) -> Result<Client> {
        if !client_id::is_url(id) {
            let known = self.store.oauth_client(id).await?;
            return known
                .ok_or_else(|| Error::invalid("This client is not registered here, or not any more"));
        }
        client_id::check(id).map_err(|why| Error::invalid(format!("The client's id {why}")))?;
        self.documents.client(id, || count(&self.fetches, &source)).await
    }

    /// Whether a client id can be valid. The document of a URL id was checked when the person was asked.
    ///
    /// # Errors
    /// `Internal` when the database fails.
    pub(super) async fn is_known_client(&self, id: &str) -> Result<bool> {
        if client_id::is_url(id) {
            return Ok(client_id::check(id).is_ok());
        }
        Ok(self.store.oauth_client(id).await?.is_some())
    }
}

/// Cache of client documents. Only valid ones are cached.
#[derive(Debug)]
pub struct Documents {
    guarded: GuardedFetcher,
    entries: Mutex<HashMap<String, (Client, Instant)>>,
    /// Lock of each URL, so that it is fetched once at a time.
    locks: Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>,
}

impl Documents {
    pub(super) fn new(guarded: GuardedFetcher) -> Self {
        Self { guarded, entries: Mutex::default(), locks: Mutex::default() }
    }

    /// Returns the client that a URL describes. `may_fetch` is called unless the document is cached.
    async fn client(&self, url: &str, may_fetch: impl FnOnce() -> Result<()>) -> Result<Client> {
        if let Some(client) = self.cached(url) {
            return Ok(client);
        }
        may_fetch()?;
        let turn = self.url_lock(url);
        let _turn = turn.lock().await;
        // The previous holder of the lock may have fetched it.
        if let Some(client) = self.cached(url) {
            return Ok(client);
        }
        let fetched = self.guarded.get(url, "application/json", BOUNDS).await?;
        let client = read(url, &fetched)?;
        self.cache(&client, lifetime(&fetched.headers));
        Ok(client)
    }

    fn url_lock(&self, url: &str) -> Arc<tokio::sync::Mutex<()>> {
        let mut locks = self.locks.lock().unwrap_or_else(PoisonError::into_inner);
        locks.retain(|_, turn| Arc::strong_count(turn) > 1);
        Arc::clone(locks.entry(url.to_owned()).or_default())
    }

    fn cached(&self, url: &str) -> Option<Client> {
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.get(url).filter(|(_, until)| *until > Instant::now()).map(|(client, _)| client.clone())
    }

    fn cache(&self, client: &Client, lifetime: Duration) {
        let now = Instant::now();
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.retain(|_, (_, until)| *until > now);
        if entries.len() >= MAX_DOCUMENTS {
            let soonest = entries.iter().min_by_key(|(_, (_, until))| *until).map(|(url, _)| url.clone());
            soonest.and_then(|url| entries.remove(&url));
        }
        entries.insert(client.id.clone(), (client.clone(), now + lifetime));
    }
}

fn lifetime(headers: &HeaderMap) -> Duration {
    let field = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    freshness::lifetime(field(header::CACHE_CONTROL), field(header::AGE))
}

/// Validates a fetched client document.
fn read(url: &str, fetched: &FetchResponse) -> Result<Client> {
    let wrong = |why: &str| Error::invalid(format!("The document at the client's id {why}"));
    if fetched.status != StatusCode::OK {
        return Err(wrong("is missing").context(fetched.status));
    }
    let kind =
        fetched.headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    if kind != "application/json" && !(kind.starts_with("application/") && kind.ends_with("+json")) {
        return Err(wrong("is not JSON"));
    }
    let metadata: ClientMetadata =
        serde_json::from_slice(&fetched.body).map_err(|error| wrong("cannot be parsed").context(error))?;
    if metadata.client_id.as_deref() != Some(url) {
        return Err(wrong("has another client_id"));
    }
    if metadata.client_name.is_none() {
        return Err(wrong("has no client_name"));
    }
    if metadata.client_secret.is_some() || metadata.client_secret_expires_at.is_some() {
        return Err(wrong("contains a secret, but anyone can read it"));
    }
    if metadata.token_endpoint_auth_method.as_deref().is_some_and(|method| method != "none") {
        return Err(wrong("asks for another token_endpoint_auth_method than none"));
    }
    validated_fields(metadata)
        .accept(url.to_owned())
        .map_err(|refusal| wrong(&format!("is refused: {}", refusal.description)))
}

/// Returns the fields of client metadata that the service uses.
pub(super) fn validated_fields(metadata: ClientMetadata) -> client::ClientMetadata {
    client::ClientMetadata {
        name: metadata.client_name,
        redirect_uris: metadata.redirect_uris,
        grant_types: metadata.grant_types,
        response_types: metadata.response_types,
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;
    use serde_json::{Value, json};

    use super::*;

    const URL: &str = "https://app.example/client.json";

    fn fetched(status: u16, kind: &'static str, body: &str) -> FetchResponse {
        let headers = [(header::CONTENT_TYPE, HeaderValue::from_static(kind))].into_iter().collect();
        FetchResponse {
            status: StatusCode::from_u16(status).unwrap(),
            headers,
            body: body.as_bytes().to_vec(),
        }
    }

    fn sound() -> Value {
        json!({"client_id": URL, "client_name": "App", "redirect_uris": ["https://app.example/cb"],
            "grant_types": ["authorization_code"], "token_endpoint_auth_method": "none", "logo_uri": "x"})
    }

    #[test]
    fn a68_a_document_is_what_the_draft_says_or_refused() {
        let client =
            read(URL, &fetched(200, "application/json; charset=utf-8", &sound().to_string())).unwrap();
        assert_eq!((client.id.as_str(), client.name.as_deref()), (URL, Some("App")));
        assert!(
            client.allows_redirect_to("https://app.example/cb")
                && !client.allows_redirect_to("https://app.example/")
        );
        assert!(read(URL, &fetched(200, "application/ld+json", &sound().to_string())).is_ok());
        for status in [201, 204, 301, 302, 304, 404, 500] {
            assert!(
                read(URL, &fetched(status, "application/json", &sound().to_string())).is_err(),
                "{status}"
            );
        }
        for kind in ["text/html", "text/plain", "application/xml", "", "json"] {
            assert!(read(URL, &fetched(200, kind, &sound().to_string())).is_err(), "{kind}");
        }
        for body in ["", "[]", "{", "null", "\"x\""] {
            assert!(read(URL, &fetched(200, "application/json", body)).is_err(), "{body}");
        }
        for (field, value) in [
            ("client_id", Value::Null),
            ("client_id", json!("https://app.example/client.json/")),
            ("client_id", json!("https://APP.example/client.json")),
            ("client_name", Value::Null),
            ("client_name", json!(7)),
            ("redirect_uris", json!([])),
            ("redirect_uris", json!("https://app.example/cb")),
            ("redirect_uris", json!(["javascript:alert(1)"])),
            ("client_secret", json!("x")),
            ("client_secret_expires_at", json!(0)),
            ("token_endpoint_auth_method", json!("client_secret_post")),
            ("token_endpoint_auth_method", json!("client_secret_basic")),
            ("token_endpoint_auth_method", json!("client_secret_jwt")),
            ("token_endpoint_auth_method", json!("private_key_jwt")),
            ("grant_types", json!(["client_credentials"])),
        ] {
            let mut body = sound();
            body[field] = value;
            assert!(read(URL, &fetched(200, "application/json", &body.to_string())).is_err(), "{body}");
        }
    }

    #[test]
    fn a71_so_many_documents_are_kept_and_none_that_may_not() {
        let documents = Documents::new(GuardedFetcher::default());
        let client = |name: &str| Client { id: name.to_owned(), name: None, redirect_uris: Vec::new() };
        documents.cache(&client("gone"), Duration::ZERO);
        assert_eq!(documents.cached("gone"), None);
        for number in 0..=MAX_DOCUMENTS {
            documents.cache(&client(&number.to_string()), Duration::from_secs(60 + number as u64));
        }
        assert_eq!(documents.cached("0"), None, "the one that ends first makes room");
        assert!(documents.cached("1").is_some() && documents.cached(&MAX_DOCUMENTS.to_string()).is_some());
        assert_eq!(documents.entries.lock().unwrap().len(), MAX_DOCUMENTS);
    }
}
