//! Requests for the files of one computer (docs/api/files.md#files-of-a-computer).

use std::time::Duration;

use reqwest::{Method, RequestBuilder, StatusCode};
use serde::de::DeserializeOwned;

use crate::client::Session;
use crate::client::api::{Exchange, REQUEST_TIMEOUT};
use crate::client::retry::Interruption;
use crate::failure::Outcome;
use crate::output;
use crate::progress::Progress;
use hotdesk_wire::files::guest_file::{EntryType, Stat};

/// Longest time without progress of an upload. The server gives up after 330 s, and stores what it received before it
/// answers.
const STALL_TIMEOUT: Duration = Duration::from_secs(340);
/// Code of a refusal that another attempt does not change (docs/api/errors.md#files).
const DISK_FULL: &str = "disk_full";

/// The files of a computer.
pub struct GuestFiles<'a> {
    /// Connection to the server.
    pub session: &'a Session,
    /// The computer, as the person named it.
    pub name: &'a str,
    /// Its id.
    pub id: String,
}

impl GuestFiles<'_> {
    /// A request of a route below `files`.
    pub fn request(&self, method: Method, route: &[&str], query: &[(&str, &str)]) -> RequestBuilder {
        let api = &self.session.api;
        let mut url = api.url(&[&["computers", &self.id, "files"], route].concat());
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        api.request(method, url)
    }

    /// Describes the object at a path, or the link itself, with the raw response; `None` when there is none.
    ///
    /// # Errors
    /// When the request fails.
    pub async fn stat(&self, path: &str) -> Outcome<Option<(Stat, Exchange)>> {
        let request = self.request(Method::GET, &["stat"], &[("path", path)]).timeout(REQUEST_TIMEOUT);
        let exchange = self.session.api.exchange(request).await?;
        if exchange.status == StatusCode::NOT_FOUND {
            return Ok(None);
        }
        let stat = decode(&exchange)?;
        Ok(Some((stat, exchange)))
    }

    /// Whether there is a folder at a path, or a link to one.
    ///
    /// # Errors
    /// When a request fails.
    pub async fn is_folder(&self, path: &str) -> Outcome<bool> {
        Ok(match self.stat(path).await? {
            None => false,
            Some((stat, _)) if stat.entry.kind == EntryType::Link => {
                let query = [("path", path), ("limit", "1")];
                let request = self.request(Method::GET, &["list"], &query).timeout(REQUEST_TIMEOUT);
                self.session.api.exchange(request).await?.status.is_success()
            }
            Some((stat, _)) => stat.entry.kind == EntryType::Folder,
        })
    }

    /// Sends a request of a copy that continues after an interruption, and reads the response.
    ///
    /// # Errors
    /// When the connection breaks, or the computer restarts or is busy (5xx).
    pub async fn attempt(&self, request: RequestBuilder) -> Result<Exchange, Interruption> {
        let exchange = self.session.api.exchange(request).await.map_err(Interruption::Connection)?;
        let is_full = exchange.refused().is_some_and(|refused| refused.code.as_deref() == Some(DISK_FULL));
        if exchange.status.is_server_error() && !is_full {
            return Err(Interruption::Connection(exchange.refusal()));
        }
        Ok(exchange)
    }

    /// The same for a request whose body advances a progress bar.
    ///
    /// # Errors
    /// Also when there is no progress.
    pub async fn attempt_upload(
        &self,
        request: RequestBuilder,
        progress: &Progress,
    ) -> Result<Exchange, Interruption> {
        tokio::select! {
            answered = self.attempt(request) => answered,
            () = progress.stalled(STALL_TIMEOUT) => {
                Err(Interruption::Connection("the upload stalled".into()))
            }
        }
    }

    /// Whether there is an object at a path, in an attempt of a copy.
    ///
    /// # Errors
    /// Those of [`GuestFiles::attempt`], or the server refuses.
    pub async fn exists(&self, path: &str) -> Result<bool, Interruption> {
        let request = self.request(Method::GET, &["stat"], &[("path", path)]).timeout(REQUEST_TIMEOUT);
        let exchange = self.attempt(request).await?;
        if exchange.status == StatusCode::NOT_FOUND {
            return Ok(false);
        }
        let _stat = exchange.success()?;
        Ok(true)
    }

    /// Prints what a copy to the computer made: the raw response with `--json`, otherwise the path.
    ///
    /// # Errors
    /// When the server refused, or standard output fails.
    pub fn show_copied(&self, exchange: Exchange, path: &str) -> Outcome<()> {
        let response = exchange.success()?;
        self.session.show(&response, || output::line(&format!("{}:{path}", self.name)))
    }
}

/// Parses the body of a success.
///
/// # Errors
/// When the server refused, or the body has another shape.
pub fn decode<T: DeserializeOwned>(exchange: &Exchange) -> Outcome<T> {
    exchange.clone().success()?.decode()
}
