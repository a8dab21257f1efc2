//! Copies to a computer.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use futures_util::StreamExt;
use reqwest::header::CONTENT_LENGTH;
use reqwest::{Body, Method};
use tokio::fs::File;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::io::ReaderStream;

use super::guest_files::{GuestFiles, decode};
use super::resumable::{RESUMABLE_SIZE, ResumableUpload};
use super::{folder, is_stream};
use crate::failure::{Failure, Outcome};
use crate::progress::Progress;
use crate::remote::stdio;
use hotdesk_wire::files::guest_file::FileWritten;

/// Folder that an empty target path names, in the home folder.
const DESKTOP: &str = "Desktop";

/// Returns the folder that a target names, without a slash at its end; `None` when the target is the path of the copy.
///
/// # Errors
/// When several sources need a folder and the target is none, or the request fails.
pub async fn target_folder(files: &GuestFiles<'_>, path: &str, several: bool) -> Outcome<Option<String>> {
    if path.is_empty() {
        return Ok(Some(DESKTOP.to_owned()));
    }
    if path.ends_with('/') || files.is_folder(path).await? {
        let folder = path.trim_end_matches('/');
        return Ok(Some(if folder.is_empty() { "/" } else { folder }.to_owned()));
    }
    if several {
        return Err(Failure::Usage(format!(
            "{}:{path} is not a folder: several sources need one",
            files.name
        )));
    }
    Ok(None)
}

/// Copies a local file, folder or standard input into `folder`, or to `path` without one.
///
/// # Errors
/// When the source cannot be read, or the server refuses or is unreachable.
pub async fn run(
    files: &GuestFiles<'_>,
    source: &Path,
    path: &str,
    folder: Option<&str>,
    overwrite: bool,
) -> Outcome<()> {
    if is_stream(source) {
        if folder.is_some() {
            let named = format!("{}:{path}", files.name);
            return Err(Failure::Usage(format!("standard input has no name: give a file name in {named}")));
        }
        return send_input(files, path, overwrite).await;
    }
    let failed = |error: std::io::Error| format!("cannot read {}: {error}", source.display());
    let metadata = tokio::fs::metadata(source).await.map_err(failed)?;
    let path = match folder {
        Some(folder) => inside(folder, source)?,
        None => path.to_owned(),
    };
    if metadata.is_dir() {
        return folder::upload::send(files, source, &path, overwrite).await;
    }
    if metadata.is_file() && metadata.len() >= RESUMABLE_SIZE {
        return send_resumable(files, source, metadata.len(), &path, overwrite).await;
    }
    let content = File::open(source).await.map_err(failed)?;
    // A device or a FIFO has no length.
    let length = metadata.is_file().then_some(metadata.len());
    let body = Body::wrap_stream(watched(ReaderStream::new(content), &path, length));
    let mode = format!("{:o}", metadata.permissions().mode() & 0o777);
    put(files, &path, overwrite, Some(&mode), length, body).await
}

async fn send_input(files: &GuestFiles<'_>, path: &str, overwrite: bool) -> Outcome<()> {
    let content = ReceiverStream::new(stdio::input());
    put(files, path, overwrite, None, None, Body::wrap_stream(watched(content, path, None))).await
}

/// A stream whose bytes advance a progress bar.
fn watched<E>(
    content: impl futures_util::Stream<Item = Result<bytes::Bytes, E>> + Send + 'static,
    path: &str,
    length: Option<u64>,
) -> impl futures_util::Stream<Item = Result<bytes::Bytes, E>> + Send + 'static {
    let progress = Progress::bytes(format!("sending {path}"), length);
    content.inspect(move |chunk| progress.add(chunk.as_ref().map_or(0, |chunk| chunk.len() as u64)))
}

async fn put(
    files: &GuestFiles<'_>,
    path: &str,
    overwrite: bool,
    mode: Option<&str>,
    length: Option<u64>,
    body: Body,
) -> Outcome<()> {
    let mut query = vec![("path", path), ("overwrite", if overwrite { "true" } else { "false" })];
    query.extend(mode.map(|mode| ("mode", mode)));
    let mut request = files.request(Method::PUT, &["content"], &query).body(body);
    if let Some(length) = length {
        request = request.header(CONTENT_LENGTH, length);
    }
    let exchange = files.session.api.exchange(request).await?;
    let written: FileWritten = decode(&exchange)?;
    files.show_copied(exchange, &written.path)
}

async fn send_resumable(
    files: &GuestFiles<'_>,
    source: &Path,
    length: u64,
    path: &str,
    overwrite: bool,
) -> Outcome<()> {
    let progress = Arc::new(Progress::bytes(format!("sending {path}"), Some(length)));
    ResumableUpload::open(files, source, path, overwrite, false, progress).await?.send().await?;
    let (stat, exchange) = files.stat(path).await?.ok_or("the file was sent, but is not on the computer")?;
    files.show_copied(exchange, &stat.path)
}

/// Path of a source in a folder of the computer.
fn inside(folder: &str, source: &Path) -> Outcome<String> {
    // `.` and `..` name a folder by another path.
    let full = std::fs::canonicalize(source).ok().filter(|_| source.file_name().is_none());
    let name = full.as_deref().unwrap_or(source).file_name().and_then(|name| name.to_str());
    let name = name.ok_or_else(|| format!("cannot send {}: its name is not UTF-8", source.display()))?;
    Ok(format!("{}/{name}", folder.trim_end_matches('/')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_in_a_folder_has_the_local_name() {
        for (folder, source, expected) in [
            ("Desktop", "/tmp/ä b.txt", Some("Desktop/ä b.txt")),
            ("/", "a.txt", Some("/a.txt")),
            ("~", "./a/", Some("~/a")),
            ("x", "/", None),
        ] {
            assert_eq!(inside(folder, Path::new(source)).ok().as_deref(), expected, "{source}");
        }
        let here = std::env::current_dir().unwrap();
        let name = here.file_name().unwrap().to_str().unwrap();
        assert_eq!(inside("x", Path::new(".")).ok(), Some(format!("x/{name}")));
    }
}
