//! Who is a client? One that registered itself, or one that a document describes, at the URL that is its id
//! (draft-ietf-oauth-client-id-metadata-document).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::http::{HeaderMap, HeaderName, StatusCode, header};

use crate::App;
use crate::auth::rate::count;
use crate::auth::source::Source;
use hotdesk_domain::error::Error;
use hotdesk_domain::error::Result;
use hotdesk_domain::oauth::client::{Claims, Client};
use hotdesk_domain::oauth::{client_id, freshness};
use hotdesk_http::guarded::{Bounds, Fetched, Guarded};
use hotdesk_wire::oauth::ClientMetadata;

/// What a document may take: 5 KiB is what the draft recommends (section 6.6), and a person waits.
const BOUNDS: Bounds = Bounds { bytes: 5 * 1024, patience: Duration::from_secs(5) };
/// Documents that are kept; 256 x 5 KiB are little more than a megabyte.
const MAX_KEPT: usize = 256;

impl App {
    /// The client with this id.
    ///
    /// # Errors
    /// `Invalid` when there is none; `RateLimited` when its document would be one too many of this source's.
    pub(super) async fn client(&self, id: &str, source: Source) -> Result<Client> {
        if !client_id::is_url(id) {
            let known = self.store.oauth_client(id).await?;
            return known.ok_or_else(|| Error::invalid("This client is not registered here (any more)"));
        }
        client_id::check(id).map_err(|why| Error::invalid(format!("The client's id {why}")))?;
        self.oauth.documents.client(id, || count(&self.oauth.fetches, &source)).await
    }

    /// Whether a client can be known: one that is named by a URL has shown its document when a person was asked.
    ///
    /// # Errors
    /// When the store fails.
    pub(super) async fn knows_client(&self, id: &str) -> Result<bool> {
        if client_id::is_url(id) {
            return Ok(client_id::check(id).is_ok());
        }
        Ok(self.store.oauth_client(id).await?.is_some())
    }
}

/// The documents of clients. Only sound ones are kept.
#[derive(Debug)]
pub struct Documents {
    guarded: Guarded,
    kept: Mutex<HashMap<String, (Client, Instant)>>,
    /// Whose turn it is to fetch a URL: one at a time.
    turns: Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>,
}

impl Documents {
    pub(super) fn new(guarded: Guarded) -> Self {
        Self { guarded, kept: Mutex::default(), turns: Mutex::default() }
    }

    /// The client that is described at a URL; `may_fetch` is asked unless the document is kept.
    async fn client(&self, url: &str, may_fetch: impl FnOnce() -> Result<()>) -> Result<Client> {
        if let Some(client) = self.kept(url) {
            return Ok(client);
        }
        may_fetch()?;
        let turn = self.turn(url);
        let _turn = turn.lock().await;
        // Whoever had the turn before has fetched it.
        if let Some(client) = self.kept(url) {
            return Ok(client);
        }
        let fetched = self.guarded.get(url, "application/json", BOUNDS).await?;
        let client = read(url, &fetched)?;
        self.keep(&client, lifetime(&fetched.headers));
        Ok(client)
    }

    fn turn(&self, url: &str) -> Arc<tokio::sync::Mutex<()>> {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        turns.retain(|_, turn| Arc::strong_count(turn) > 1);
        Arc::clone(turns.entry(url.to_owned()).or_default())
    }

    fn kept(&self, url: &str) -> Option<Client> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.get(url).filter(|(_, until)| *until > Instant::now()).map(|(client, _)| client.clone())
    }

    fn keep(&self, client: &Client, lifetime: Duration) {
        let now = Instant::now();
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|_, (_, until)| *until > now);
        if kept.len() >= MAX_KEPT {
            let soonest = kept.iter().min_by_key(|(_, (_, until))| *until).map(|(url, _)| url.clone());
            soonest.and_then(|url| kept.remove(&url));
        }
        kept.insert(client.id.clone(), (client.clone(), now + lifetime));
    }
}

fn lifetime(headers: &HeaderMap) -> Duration {
    let said = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    freshness::lifetime(said(header::CACHE_CONTROL), said(header::AGE))
}

/// Reads a client's document as it was fetched.
fn read(url: &str, fetched: &Fetched) -> Result<Client> {
    let wrong = |why: &str| Error::invalid(format!("The document at the client's id {why}"));
    if fetched.status != StatusCode::OK {
        return Err(wrong("is not there").context(fetched.status));
    }
    let kind =
        fetched.headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    if kind != "application/json" && !(kind.starts_with("application/") && kind.ends_with("+json")) {
        return Err(wrong("is not JSON"));
    }
    let said: ClientMetadata =
        serde_json::from_slice(&fetched.body).map_err(|error| wrong("cannot be read").context(error))?;
    if said.client_id.as_deref() != Some(url) {
        return Err(wrong("has another client_id"));
    }
    if said.client_name.is_none() {
        return Err(wrong("has no client_name"));
    }
    if said.client_secret.is_some() || said.client_secret_expires_at.is_some() {
        return Err(wrong("has a secret, which everybody can read"));
    }
    if said.token_endpoint_auth_method.as_deref().is_some_and(|method| method != "none") {
        return Err(wrong("asks for another token_endpoint_auth_method than none"));
    }
    claims(said)
        .accept(url.to_owned())
        .map_err(|refusal| wrong(&format!("is refused: {}", refusal.description)))
}

/// What matters of what a client says about itself.
pub(super) fn claims(said: ClientMetadata) -> Claims {
    Claims {
        name: said.client_name,
        redirect_uris: said.redirect_uris,
        grant_types: said.grant_types,
        response_types: said.response_types,
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;
    use serde_json::{Value, json};

    use super::*;

    const URL: &str = "https://app.example/client.json";

    fn fetched(status: u16, kind: &'static str, body: &str) -> Fetched {
        let headers = [(header::CONTENT_TYPE, HeaderValue::from_static(kind))].into_iter().collect();
        Fetched { status: StatusCode::from_u16(status).unwrap(), headers, body: body.as_bytes().to_vec() }
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
            client.may_be_sent_to("https://app.example/cb") && !client.may_be_sent_to("https://app.example/")
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
        let documents = Documents::new(Guarded::default());
        let client = |name: &str| Client { id: name.to_owned(), name: None, redirect_uris: Vec::new() };
        documents.keep(&client("gone"), Duration::ZERO);
        assert_eq!(documents.kept("gone"), None);
        for number in 0..=MAX_KEPT {
            documents.keep(&client(&number.to_string()), Duration::from_secs(60 + number as u64));
        }
        assert_eq!(documents.kept("0"), None, "the one that ends first makes room");
        assert!(documents.kept("1").is_some() && documents.kept(&MAX_KEPT.to_string()).is_some());
        assert_eq!(documents.kept.lock().unwrap().len(), MAX_KEPT);
    }
}
