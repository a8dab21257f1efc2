//! Resumable upload of one file (tus 1.0.0, docs/api/files.md#resumable-uploads).

use std::io::SeekFrom;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;

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
use crate::failure::Outcome;
use crate::progress::Progress;

/// Bytes that are read from the file at once.
const CHUNK: usize = 256 * 1024;
/// Size in bytes from which a file is sent in this way: below, it is sent again within seconds.
pub const RESUMABLE_SIZE: u64 = 16 * 1024 * 1024;

/// An upload of a file.
pub struct ResumableUpload<'a> {
    files: &'a GuestFiles<'a>,
    file: File,
    length: u64,
    /// `Upload-Metadata`: names and values.
    metadata: Vec<(&'static str, String)>,
    record: UploadRecord,
    progress: Arc<Progress>,
    /// Position of the file's first byte in the progress.
    start: u64,
}

impl<'a> ResumableUpload<'a> {
    /// Opens a regular file for an upload to a path. The progress is at the position of the file's first byte. With
    /// `keep_time` the copy has the file's time of modification, as the other files of a folder do.
    ///
    /// # Errors
    /// When the file cannot be opened or this user has no home folder.
    pub async fn open(
        files: &'a GuestFiles<'a>,
        source: &Path,
        path: &str,
        overwrite: bool,
        keep_time: bool,
        progress: Arc<Progress>,
    ) -> Outcome<Self> {
        let failed = |error: std::io::Error| format!("cannot read {}: {error}", source.display());
        let file = File::open(source).await.map_err(failed)?;
        let metadata = file.metadata().await.map_err(failed)?;
        let full = std::path::absolute(source).map_err(failed)?;
        let record = UploadRecord::of_file(&full, &metadata, &[&files.id, path, &overwrite.to_string()])?;
        let mode = format!("{:o}", metadata.permissions().mode() & 0o777);
        let mut target =
            vec![("path", path.to_owned()), ("overwrite", overwrite.to_string()), ("mode", mode)];
        target.extend(keep_time.then(|| ("modified", metadata.mtime().to_string())));
        Ok(Self {
            files,
            file,
            length: metadata.len(),
            metadata: target,
            record,
            start: progress.position(),
            progress,
        })
    }

    /// Sends the file, from where an earlier run of the same command was interrupted.
    ///
    /// # Errors
    /// When the server refuses, or the connection breaks again and again. The same command continues the upload then.
    pub async fn send(&self) -> Outcome<()> {
        let mut offset = 0;
        let mut attempts = Attempts::from(offset);
        while let Err(interruption) = self.attempt(&mut offset).await {
            attempts.next(interruption, offset).await?;
        }
        Ok(())
    }

    /// Sends what the server does not have. `offset` becomes the number of bytes that it had before.
    ///
    /// # Errors
    /// When the server refuses, or the connection breaks.
    pub async fn attempt(&self, offset: &mut u64) -> Result<(), Interruption> {
        let id = match self.resume().await? {
            Some((id, at)) => {
                *offset = at;
                id
            }
            None => {
                *offset = 0;
                self.create().await?
            }
        };
        self.progress.skip_to(self.start + *offset);
        self.append(&id, *offset).await?;
        Ok(self.record.remove()?)
    }

    /// Id and offset of the unfinished upload of an earlier attempt.
    async fn resume(&self) -> Result<Option<(String, u64)>, Interruption> {
        let Some(id) = self.record.load()? else { return Ok(None) };
        Ok(self.offset(&id).await?.map(|offset| (id, offset)))
    }

    async fn create(&self) -> Result<String, Interruption> {
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
    async fn offset(&self, id: &str) -> Result<Option<u64>, Interruption> {
        let state = self.exchange(self.request(Method::HEAD, Some(id))).await?;
        if state.status.is_client_error() {
            return Ok(None);
        }
        let offset = field(&state);
        let _known = state.success()?;
        Ok(Some(offset.ok_or("the server did not say how much of the upload it has")?))
    }

    /// Sends the file from an offset to its end.
    async fn append(&self, id: &str, offset: u64) -> Result<(), Interruption> {
        let broken = |error: std::io::Error| format!("cannot read the file: {error}");
        let mut content = self.file.try_clone().await.map_err(broken)?;
        content.seek(SeekFrom::Start(offset)).await.map_err(broken)?;
        let content = content.take(self.length - offset);
        let progress = Arc::clone(&self.progress);
        let content = ReaderStream::with_capacity(content, CHUNK).inspect(move |chunk| {
            progress.add(chunk.as_ref().map_or(0, |chunk| chunk.len() as u64));
        });
        let request = self.request(Method::PATCH, Some(id)).header("upload-offset", offset);
        let request = request.header(CONTENT_TYPE, "application/offset+octet-stream");
        let request = request.header(CONTENT_LENGTH, self.length - offset).body(Body::wrap_stream(content));
        let answered = self.files.attempt_upload(request, &self.progress).await?;
        // Another request has moved the offset.
        if answered.status == StatusCode::CONFLICT {
            return Err(Interruption::Connection(answered.refusal()));
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

    async fn exchange(&self, request: RequestBuilder) -> Result<Exchange, Interruption> {
        self.files.attempt(request.timeout(REQUEST_TIMEOUT)).await
    }
}

/// `Upload-Offset` of an answer.
fn field(exchange: &Exchange) -> Option<u64> {
    exchange.headers.get("upload-offset")?.to_str().ok()?.parse().ok()
}
