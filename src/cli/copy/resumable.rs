//! Resumable upload of one file (tus 1.0.0, docs/api/files.md#resumable-uploads).

use std::io::SeekFrom;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures_util::StreamExt;
use reqwest::header::{CONTENT_LENGTH, CONTENT_TYPE, LOCATION};
use reqwest::{Body, Method, RequestBuilder, StatusCode};
use tokio::fs::File;
use tokio::io::{AsyncReadExt, AsyncSeekExt};
use tokio_util::io::ReaderStream;

use super::guest_files::GuestFiles;
use super::upload_record::UploadRecord;
use crate::client::api::{Exchange, REQUEST_TIMEOUT};
use crate::client::retry::{Attempts, Interruption};
use crate::failure::{Failure, Outcome};
use crate::progress::Progress;

/// Bytes that are read from the file at once.
const CHUNK: usize = 256 * 1024;
/// Longest time without progress. The server gives up after 330 s, and stores what it received before it answers.
const STALL_TIMEOUT: Duration = Duration::from_secs(340);

/// An upload of a file of `length` bytes.
pub struct ResumableUpload<'a> {
    pub files: &'a GuestFiles<'a>,
    pub record: UploadRecord,
    pub length: u64,
    /// `Upload-Metadata`: names and values.
    pub metadata: &'a [(&'a str, &'a str)],
    pub progress: Arc<Progress>,
}

impl ResumableUpload<'_> {
    /// Sends the file, from where an earlier run of the same command was interrupted.
    ///
    /// # Errors
    /// When the server refuses, or the connection breaks again and again. The same command continues the upload then.
    pub async fn send(&self, file: &mut File) -> Outcome<()> {
        let (id, mut offset) = match self.resume().await? {
            Some(begun) => begun,
            None => (self.create().await?, 0),
        };
        self.progress.skip_to(offset);
        let mut attempts = Attempts::from(offset);
        while let Err(interruption) = self.append(&id, file, offset).await {
            attempts.next(interruption, offset).await?;
            // Without an answer the next attempt fails in the same way.
            if let Ok(Some(at)) = self.offset(&id).await {
                offset = at;
                self.progress.skip_to(offset);
            }
        }
        Ok(self.record.remove()?)
    }

    /// Id and offset of the unfinished upload of an earlier run.
    async fn resume(&self) -> Outcome<Option<(String, u64)>> {
        let Some(id) = self.record.load()? else { return Ok(None) };
        Ok(self.offset(&id).await?.map(|offset| (id, offset)))
    }

    async fn create(&self) -> Outcome<String> {
        let pairs: Vec<String> =
            self.metadata.iter().map(|(name, value)| format!("{name} {}", STANDARD.encode(value))).collect();
        let request = self.request(Method::POST, None).header("upload-length", self.length);
        let created = self.exchange(request.header("upload-metadata", pairs.join(","))).await?;
        let location = created.headers.get(LOCATION).and_then(|it| it.to_str().ok()?.rsplit('/').next());
        let id = location.map(str::to_owned);
        let _created = created.success()?;
        let id = id.ok_or("the server did not say where the upload is")?;
        self.record.store(&id)?;
        Ok(id)
    }

    /// Offset of an upload; `None` when it cannot be continued.
    async fn offset(&self, id: &str) -> Outcome<Option<u64>> {
        let state = self.exchange(self.request(Method::HEAD, Some(id))).await?;
        if state.status.is_client_error() {
            return Ok(None);
        }
        let offset = field(&state);
        let _known = state.success()?;
        offset.map(Some).ok_or_else(|| "the server did not say how much of the upload it has".into())
    }

    /// Sends the file from an offset to its end.
    async fn append(&self, id: &str, file: &mut File, offset: u64) -> Result<(), Interruption> {
        let broken = |error: std::io::Error| format!("cannot read the file: {error}");
        file.seek(SeekFrom::Start(offset)).await.map_err(broken)?;
        let content = file.try_clone().await.map_err(broken)?.take(self.length - offset);
        let progress = Arc::clone(&self.progress);
        let content = ReaderStream::with_capacity(content, CHUNK).inspect(move |chunk| {
            progress.add(chunk.as_ref().map_or(0, |chunk| chunk.len() as u64));
        });
        let request = self.request(Method::PATCH, Some(id)).header("upload-offset", offset);
        let request = request.header(CONTENT_TYPE, "application/offset+octet-stream");
        let request = request.header(CONTENT_LENGTH, self.length - offset).body(Body::wrap_stream(content));
        let answered = tokio::select! {
            answered = self.files.session.api.exchange(request) => answered.map_err(Interruption::Connection)?,
            () = self.progress.stalled(STALL_TIMEOUT) => {
                return Err(Interruption::Connection("the upload stalled".into()));
            }
        };
        // 409: another request has moved the offset; 5xx: the computer restarts, or is busy.
        if answered.status == StatusCode::CONFLICT || answered.status.is_server_error() {
            let refused = answered.success().err().unwrap_or_else(|| Failure::from("the upload was refused"));
            return Err(Interruption::Connection(refused));
        }
        let offset = field(&answered);
        let _appended = answered.success()?;
        if offset == Some(self.length) {
            return Ok(());
        }
        Err(Interruption::Connection("the file became shorter while it was copied".into()))
    }

    fn request(&self, method: Method, id: Option<&str>) -> RequestBuilder {
        let route: Vec<&str> = ["uploads"].into_iter().chain(id).collect();
        self.files.request(method, &route, &[]).header("tus-resumable", "1.0.0")
    }

    async fn exchange(&self, request: RequestBuilder) -> Outcome<Exchange> {
        self.files.session.api.exchange(request.timeout(REQUEST_TIMEOUT)).await
    }
}

/// `Upload-Offset` of an answer.
fn field(exchange: &Exchange) -> Option<u64> {
    exchange.headers.get("upload-offset")?.to_str().ok()?.parse().ok()
}
