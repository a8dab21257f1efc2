//! Copies of folders, as tar archives (docs/api/files.md#folders-as-tar).

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use futures_util::StreamExt;
use reqwest::{Body, Method};
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use super::guest_files::{GuestFiles, decode};
use crate::failure::Outcome;
use crate::output;
use crate::progress::Progress;
use hotdesk_agent::files::Files;
use hotdesk_agent::files::archive::{pack, unpack};
use hotdesk_http::extract::Body as ServerBody;
use hotdesk_wire::files::guest_file::{UnpackQuery, UnpackResult};

/// Bytes of a header in a tar archive, to which contents are filled up.
const BLOCK: u64 = 512;

/// Sends a folder; on the computer it gets this path, completely or not at all.
///
/// # Errors
/// When the folder cannot be read, or the server refuses or is unreachable.
pub async fn send(files: &GuestFiles<'_>, source: &Path, path: &str, overwrite: bool) -> Outcome<()> {
    let failed = |error: io::Error| format!("cannot read {}: {error}", source.display());
    let folder = OwnedFd::from(File::open(source).map_err(failed)?);
    let total = archive_size(source).map_err(failed)?;
    let (sender, receiver) = mpsc::channel(pack::WAITING_PIECES);
    let runtime = Handle::current();
    // It ends with its last piece, or when the body is dropped.
    let _packing = tokio::task::spawn_blocking(move || pack::pack(&folder, sender, runtime));
    let progress = Progress::bytes(format!("sending {path}"), Some(total));
    let content = ReceiverStream::new(receiver)
        .inspect(move |piece| progress.add(piece.as_ref().map_or(0, |piece| piece.len() as u64)));
    let query = [("path", path), ("overwrite", if overwrite { "true" } else { "false" })];
    let request = files.request(Method::PUT, &["archive"], &query).body(Body::wrap_stream(content));
    let exchange = files.session.api.exchange(request).await?;
    let unpacked: UnpackResult = decode(&exchange)?;
    files.show_copied(exchange, &unpacked.path)
}

/// Receives a folder; here it gets this absolute path, completely or not at all.
///
/// # Errors
/// When the server refuses or breaks off, or the folder cannot be written.
pub async fn receive(files: &GuestFiles<'_>, path: &str, target: &Path, overwrite: bool) -> Outcome<()> {
    let api = &files.session.api;
    let response = api.stream(files.request(Method::GET, &["archive"], &[("path", path)])).await?;
    if !response.status().is_success() {
        return Err(api.refusal(response).await);
    }
    let progress = Progress::bytes(format!("receiving {path}"), None);
    let content = response
        .bytes_stream()
        .inspect(move |piece| progress.add(piece.as_ref().map_or(0, |piece| piece.len() as u64)));
    let Some(path) = target.to_str() else {
        return Err(format!("cannot write {}: its name is not UTF-8", target.display()).into());
    };
    let query = UnpackQuery { path: path.to_owned(), overwrite, parents: false };
    let home = target.parent().unwrap_or(Path::new("/"));
    // The computer is not trusted: nothing in the archive may lead out of the folder (T8, docs/security.md).
    let unpacked =
        unpack::put(&Files::new(home), home.to_owned(), query, ServerBody::from_stream(content)).await?;
    if files.session.json {
        let text = serde_json::to_string(&unpacked).map_err(|error| error.to_string())?;
        return output::line(&text);
    }
    output::line(&format!("{path} ({} files, {} bytes)", unpacked.files, unpacked.bytes))
}

/// Bytes of the archive of a folder, nearly: long names need more.
fn archive_size(folder: &Path) -> io::Result<u64> {
    let mut total = 0;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        total += BLOCK;
        if metadata.is_dir() {
            total += archive_size(&entry.path())?;
        } else if metadata.is_file() {
            total += metadata.len().next_multiple_of(BLOCK);
        }
    }
    Ok(total)
}
