//! Copies of folders from a computer.
//!
//! What has arrived waits in a staging folder, from which an interrupted copy continues.

use std::io;
use std::path::Path;
use std::sync::Arc;

use futures_util::TryStreamExt;
use reqwest::header::IF_MATCH;
use reqwest::{Method, StatusCode};
use sha2::{Digest, Sha256};
use tokio::sync::mpsc;

use crate::client::retry::{Attempts, Interruption};
use crate::copy::PART;
use crate::copy::guest_files::GuestFiles;
use crate::failure::Outcome;
use crate::output;
use crate::progress::Progress;
use hotdesk_agent::files::archive::unfinished::{self, UnfinishedFolder};
use hotdesk_base::hex::hex;
use hotdesk_domain::error::Kind;
use hotdesk_http::extract::Body;
use hotdesk_wire::files::guest_file::UnpackResult;

/// Receives a folder; here it gets this absolute path, completely or not at all.
///
/// # Errors
/// When the server refuses, the folder cannot be written, or the connection breaks again and again. The same command
/// continues the copy then.
pub async fn receive(files: &GuestFiles<'_>, path: &str, target: &Path, overwrite: bool) -> Outcome<()> {
    let shown = target.display();
    let digest = Sha256::digest([&files.id, path, &shown.to_string()].map(str::as_bytes).join(&0));
    let name = format!(".{}{PART}", hex(&digest[..16]));
    let download = FolderDownload { files, path, target, name, overwrite };
    let progress = Arc::new(Progress::bytes(format!("receiving {path}"), None));
    let mut arrived = 0;
    let mut attempts = Attempts::from(arrived);
    let unpacked = loop {
        match download.attempt(&progress, &mut arrived).await {
            Ok(unpacked) => break unpacked,
            Err(interruption) => attempts.next(interruption, arrived).await?,
        }
    };
    drop(progress);
    if files.session.json {
        let text = serde_json::to_string(&unpacked).map_err(|error| error.to_string())?;
        return output::line(&text);
    }
    output::line(&format!("{shown} ({} files, {} bytes)", unpacked.files, unpacked.bytes))
}

struct FolderDownload<'a> {
    files: &'a GuestFiles<'a>,
    path: &'a str,
    target: &'a Path,
    /// Name of the staging folder.
    name: String,
    overwrite: bool,
}

impl FolderDownload<'_> {
    /// Receives what has not arrived. `arrived` becomes the number of entries and bytes that arrived before.
    async fn attempt(
        &self,
        progress: &Arc<Progress>,
        arrived: &mut u64,
    ) -> Result<UnpackResult, Interruption> {
        let api = &self.files.session.api;
        let before = self.unfinished()?.checkpoint()?;
        let UnpackResult { files, folders, links, bytes, .. } = before.unpacked;
        *arrived = files + folders + links + bytes;
        progress.skip_to(bytes);
        let query = [("path", self.path), ("after", &before.after)];
        let request = if before.after.is_empty() {
            self.files.request(Method::GET, &["archive"], &query[..1])
        } else {
            let request = self.files.request(Method::GET, &["archive"], &query);
            request.header(IF_MATCH, before.digest.etag())
        };
        let response = api.stream(request).await.map_err(Interruption::Connection)?;
        match response.status() {
            status if status.is_server_error() => {
                return Err(Interruption::Connection(api.refusal(response).await));
            }
            // What arrived before has changed on the computer.
            StatusCode::PRECONDITION_FAILED => {
                self.unfinished()?.discard()?;
                return Err(Interruption::Connection(api.refusal(response).await));
            }
            status if !status.is_success() => return Err(Interruption::Final(api.refusal(response).await)),
            _ => {}
        }
        let (breaks, mut broken) = mpsc::channel(1);
        let shown = Arc::clone(progress);
        let content = response.bytes_stream().inspect_ok(move |piece| shown.add(piece.len() as u64)).map_err(
            move |error| {
                // Without a receiver the copy has ended.
                drop(breaks.try_send(error));
                io::Error::other("the connection broke")
            },
        );
        let (target, name) = (self.target.to_owned(), self.name.clone());
        let received = unfinished::put(target, name, self.overwrite, Body::from_stream(content)).await;
        let error = match (received, broken.try_recv()) {
            (Ok(unpacked), _) => return Ok(unpacked),
            (Err(_), Ok(broken)) => return Err(Interruption::Connection(api.transport_failure(broken))),
            (Err(error), Err(_)) => error,
        };
        if error.kind == Kind::SlowRequest {
            return Err(Interruption::Connection("the download stalled".into()));
        }
        // Another attempt would fail in the same way.
        self.unfinished()?.discard()?;
        Err(Interruption::from(error))
    }

    fn unfinished(&self) -> Outcome<UnfinishedFolder> {
        Ok(UnfinishedFolder::find(self.target, self.name.clone())?)
    }
}
