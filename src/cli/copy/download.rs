//! Copies from a computer.
//!
//! A file is received beside its target and renamed when it is complete. An interrupted copy leaves the part, whose name
//! contains the version of the file; the same command continues it.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use nix::fcntl::OFlag;
use reqwest::header::{CONTENT_LENGTH, ETAG, IF_RANGE, RANGE};
use reqwest::{Method, Response, StatusCode};
use sha2::{Digest, Sha256};
use tokio::fs::{File, OpenOptions};
use tokio::io::AsyncWriteExt;

use super::guest_files::GuestFiles;
use super::{PART, folder, is_stream};
use crate::client::api::REQUEST_TIMEOUT;
use crate::client::retry::{Attempts, Interruption};
use crate::failure::{Failure, Outcome};
use crate::output;
use crate::progress::Progress;
use crate::remote::stdio::{self, OutputStream};
use hotdesk_base::hex::hex;
use hotdesk_wire::files::guest_file::EntryType;

/// Longest time between two chunks: the server gives up earlier.
const IDLE_TIMEOUT: Duration = Duration::from_secs(90);
/// Bytes of the digest in that name.
const TAG: usize = 8;

/// A version of a file on the computer.
struct Version<'a> {
    path: &'a str,
    length: u64,
    etag: String,
}

/// Where the bytes go.
enum Sink {
    Stdout,
    File(File, PathBuf),
}

/// Copies a file or a folder of the computer to `to`: a file, a folder, or `-` for standard output.
///
/// # Errors
/// When the source cannot be read, or the target cannot be written. An incomplete file stays for the next attempt.
pub async fn run(files: &GuestFiles<'_>, path: &str, to: &Path, overwrite: bool) -> Outcome<()> {
    if files.is_folder(path).await? {
        if is_stream(to) {
            return Err(Failure::Usage(format!(
                "{}:{path} is a folder: standard output takes a file",
                files.name
            )));
        }
        return folder::download::receive(files, path, &absolute(&target(to, path)?)?, overwrite).await;
    }
    let version = version(files, path).await?;
    if is_stream(to) {
        return fetch(files, &version, &mut Sink::Stdout, 0).await;
    }
    let target = target(to, path)?;
    if !overwrite && target.symlink_metadata().is_ok() {
        return Err(format!("{} exists already; it was not replaced", target.display()).into());
    }
    match target.metadata() {
        // A device or a FIFO is written, not replaced.
        Ok(metadata) if !metadata.is_file() => {
            let failed = |error: std::io::Error| format!("cannot write {}: {error}", target.display());
            let file = OpenOptions::new().write(true).open(&target).await.map_err(failed)?;
            fetch(files, &version, &mut Sink::File(file, target), 0).await
        }
        // A link stays, and its file is replaced.
        Ok(_) => receive_file(files, &version, &std::fs::canonicalize(&target).unwrap_or(target)).await,
        Err(_) => receive_file(files, &version, &target).await,
    }
}

async fn version<'a>(files: &GuestFiles<'_>, path: &'a str) -> Outcome<Version<'a>> {
    let request = files.request(Method::HEAD, &["content"], &[("path", path)]).timeout(REQUEST_TIMEOUT);
    let answer = files.session.api.stream(request).await?;
    if !answer.status().is_success() {
        // A refusal of HEAD has no text.
        let request = files.request(Method::GET, &["stat"], &[("path", path)]).timeout(REQUEST_TIMEOUT);
        let _stat = files.session.api.exchange(request).await?.success()?;
        return Err(format!("cannot read {}:{path}: it is not a regular file", files.name).into());
    }
    let field = |name| answer.headers().get(name).and_then(|value| value.to_str().ok());
    let length = field(CONTENT_LENGTH).and_then(|length| length.parse().ok());
    let (Some(length), Some(etag)) = (length, field(ETAG)) else {
        return Err("the server did not say how long the file is: is it of this version?".into());
    };
    Ok(Version { path, length, etag: etag.to_owned() })
}

async fn receive_file(files: &GuestFiles<'_>, version: &Version<'_>, target: &Path) -> Outcome<()> {
    let failed = |error: std::io::Error| format!("cannot write {}: {error}", target.display());
    let part = part_path(target, files, version)?;
    remove_other_parts(&part, target).map_err(failed)?;
    // In a folder that others may write to, the part may be somebody's link to another file.
    let flags = OFlag::O_NOFOLLOW.bits();
    let file =
        OpenOptions::new().create(true).append(true).custom_flags(flags).open(&part).await.map_err(failed)?;
    let received = file.metadata().await.map_err(failed)?.len();
    let mut sink = Sink::File(file, target.to_owned());
    // A part that is too long was written by something else.
    let start = if received <= version.length { received } else { sink.restart().await? };
    fetch(files, version, &mut sink, start).await?;
    let executable = match files.stat(version.path).await? {
        Some((stat, _)) if stat.entry.kind == EntryType::File => {
            u32::from_str_radix(&stat.entry.mode, 8).unwrap_or(0) & 0o111
        }
        _ => 0,
    };
    if let Sink::File(file, _) = &sink {
        let mode = file.metadata().await.map_err(failed)?.permissions().mode();
        // Who may read the file may also execute it.
        let mode = mode | (executable & ((mode & 0o444) >> 2));
        file.set_permissions(Permissions::from_mode(mode)).await.map_err(failed)?;
        file.sync_data().await.map_err(failed)?;
    }
    tokio::fs::rename(&part, target).await.map_err(failed)?;
    if !files.session.json {
        return output::line(&format!("{} ({} bytes)", target.display(), version.length));
    }
    let shown = serde_json::json!({"path": target.to_string_lossy(), "size": version.length});
    output::line(&shown.to_string())
}

/// Receives the bytes from an offset to the end, over several connections when they break.
async fn fetch(files: &GuestFiles<'_>, version: &Version<'_>, sink: &mut Sink, start: u64) -> Outcome<()> {
    let progress = Progress::bytes(format!("receiving {}", version.path), Some(version.length));
    progress.skip_to(start);
    let mut attempts = Attempts::from(start);
    while progress.position() < version.length {
        if let Err(interruption) = fetch_once(files, version, sink, &progress).await {
            attempts.next(interruption, progress.position()).await?;
        }
    }
    Ok(())
}

async fn fetch_once(
    files: &GuestFiles<'_>,
    version: &Version<'_>,
    sink: &mut Sink,
    progress: &Progress,
) -> Result<(), Interruption> {
    let api = &files.session.api;
    let at = progress.position();
    let mut request = files.request(Method::GET, &["content"], &[("path", version.path)]);
    if at > 0 {
        request = request.header(RANGE, format!("bytes={at}-"));
    }
    let mut response =
        api.stream(request.header(IF_RANGE, &version.etag)).await.map_err(Interruption::Connection)?;
    let etag = response.headers().get(ETAG).map(|etag| etag.as_bytes());
    match response.status() {
        status if status.is_server_error() => {
            return Err(Interruption::Connection(api.refusal(response).await));
        }
        status if !status.is_success() => return Err(Interruption::Final(api.refusal(response).await)),
        status if etag != Some(version.etag.as_bytes()) || (status == StatusCode::OK && at > 0) => {
            let changed =
                format!("{}:{} changed while it was copied: copy it again", files.name, version.path);
            return Err(Interruption::Final(changed.into()));
        }
        _ => {}
    }
    while let Some(chunk) = next_chunk(files, &mut response).await? {
        let length = chunk.len() as u64;
        if progress.position() + length > version.length {
            return Err(Interruption::Final("the server sent more bytes than it announced".into()));
        }
        sink.write(chunk).await?;
        progress.add(length);
    }
    if progress.position() < version.length {
        return Err(Interruption::Connection("the server ended the file early".into()));
    }
    Ok(())
}

async fn next_chunk(files: &GuestFiles<'_>, response: &mut Response) -> Result<Option<Bytes>, Interruption> {
    let chunk = tokio::time::timeout(IDLE_TIMEOUT, response.chunk()).await;
    let chunk = chunk.map_err(|_| Interruption::Connection("the download stalled: try again".into()))?;
    chunk.map_err(|error| Interruption::Connection(files.session.api.transport_failure(error)))
}

impl Sink {
    async fn write(&mut self, chunk: Bytes) -> Outcome<()> {
        match self {
            Self::Stdout => {
                let written = stdio::write(OutputStream::Out, chunk).await;
                Ok(written.map_err(|error| format!("cannot write to standard output: {error}"))?)
            }
            Self::File(file, path) => {
                // The flush waits for the write, so that a failure belongs to this chunk.
                let written = async {
                    file.write_all(&chunk).await?;
                    file.flush().await
                };
                Ok(written.await.map_err(|error| format!("cannot write {}: {error}", path.display()))?)
            }
        }
    }

    /// Empties the file; returns its length.
    async fn restart(&mut self) -> Outcome<u64> {
        if let Self::File(file, path) = self {
            file.set_len(0).await.map_err(|error| format!("cannot write {}: {error}", path.display()))?;
        }
        Ok(0)
    }
}

/// Returns the path of the copy: `to`, or the name of the source in it when it is a folder.
fn target(to: &Path, source: &str) -> Outcome<PathBuf> {
    if !to.is_dir() {
        return Ok(to.to_owned());
    }
    let name = Path::new(source).file_name().filter(|name| *name != "~");
    let name = name.ok_or_else(|| {
        Failure::Usage(format!("{source:?} has no name: give the name of the copy in {}", to.display()))
    })?;
    Ok(to.join(name))
}

/// A path without links in its folders, because an archive is never unpacked through links.
fn absolute(target: &Path) -> Outcome<PathBuf> {
    let failed = |error: std::io::Error| format!("cannot write {}: {error}", target.display());
    let full = std::path::absolute(target).map_err(failed)?;
    match (full.parent(), full.file_name()) {
        (Some(folder), Some(name)) => Ok(std::fs::canonicalize(folder).map_err(failed)?.join(name)),
        _ => Err(format!("cannot write {}: it is not the name of a folder", target.display()).into()),
    }
}

/// Path of the incomplete file, in the folder of the target, so that a rename completes it.
fn part_path(target: &Path, files: &GuestFiles<'_>, version: &Version<'_>) -> Outcome<PathBuf> {
    let Some(name) = target.file_name() else {
        return Err(format!("cannot write {}: it is not the name of a file", target.display()).into());
    };
    let digest =
        Sha256::digest([files.id.as_bytes(), version.path.as_bytes(), version.etag.as_bytes()].join(&0));
    let tag = hex(&digest[..TAG]);
    Ok(target.with_file_name(format!(".{}.{tag}{PART}", name.to_string_lossy())))
}

/// Removes the parts of other versions.
fn remove_other_parts(part: &Path, target: &Path) -> std::io::Result<()> {
    let name = target.file_name().unwrap_or_default().to_string_lossy();
    let start = format!(".{name}.");
    let folder = part.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let found = entry.file_name().to_string_lossy().into_owned();
        let tag = found.strip_prefix(&start).and_then(|rest| rest.strip_suffix(PART));
        let other =
            tag.is_some_and(|tag| tag.len() == 2 * TAG && tag.bytes().all(|it| it.is_ascii_hexdigit()));
        if other && Some(entry.file_name().as_os_str()) != part.file_name() {
            std::fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_has_the_given_name_or_that_of_its_source() {
        let folder = tempfile::tempdir().unwrap();
        let to = folder.path();
        for (source, expected) in [
            ("a b.txt", Some("a b.txt")),
            ("/etc/../etc/x", Some("x")),
            ("~/Desktop/", Some("Desktop")),
            ("..", None),
            ("/", None),
            ("~", None),
        ] {
            assert_eq!(target(to, source).ok(), expected.map(|name| to.join(name)), "{source:?}");
        }
        assert_eq!(target(&to.join("new"), "a.txt").ok(), Some(to.join("new")));
    }

    #[test]
    fn parts_of_other_versions_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| folder.path().join(name);
        let (part, other) =
            (file(".a.0011223344556677.hotdesk-part"), file(".a.8899aabbccddeeff.hotdesk-part"));
        let foreign = file(".a.notes.hotdesk-part");
        for path in [&part, &other, &foreign, &file("a")] {
            std::fs::write(path, "x").unwrap();
        }
        remove_other_parts(&part, &file("a")).unwrap();
        assert!(part.exists() && foreign.exists() && file("a").exists() && !other.exists());
    }
}
