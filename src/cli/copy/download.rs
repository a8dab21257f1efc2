//! Download of a file from a computer.
//!
//! The server exports the file to its storage, the client fetches that copy, renames it into place when it is complete,
//! and deletes the stored copy.

use std::path::{Path, PathBuf};
use std::time::Duration;

use reqwest::{Method, Response};
use tokio::io::AsyncWriteExt;

use crate::client::api::REQUEST_TIMEOUT;
use crate::client::{Session, resolve};
use crate::failure::{Failure, Outcome};
use crate::output;
use crate::progress::Progress;
use hotdesk_domain::filename::FileName;
use hotdesk_wire::files::workspace_file::{Export, ExportResult};

/// Timeout of the export from the computer: a little above the server's own 300 s.
const EXPORT_TIMEOUT: Duration = Duration::from_secs(315);
/// Timeout between two chunks of the file.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// Fetches a file into a file, a folder or, with `-`, standard output.
///
/// # Errors
/// When the file cannot be exported, fetched or written; no partial file remains then.
pub async fn run(session: &Session, computer: &str, path: &str, to: &Path) -> Outcome<()> {
    if path.is_empty() {
        return Err(Failure::Usage(format!("no path on computer {computer} is given: use {computer}:PATH")));
    }
    let id = resolve::computer(&session.api, computer).await?;
    let progress = Progress::waiting(format!("fetching {path}"));
    let body = Export { desktop_id: id, path: path.to_owned() };
    let response = session.api.call(Method::POST, &["files", "export"], Some(&body), EXPORT_TIMEOUT).await?;
    drop(progress);
    let exported: ExportResult = response.decode()?;
    let fetched = fetch(session, &exported, to).await;
    // The stored copy is temporary, also when the download failed.
    let mut url = session.api.url(&["files", "delete"]);
    url.query_pairs_mut().append_pair("id", &exported.file.id);
    let removed = session.api.send(session.api.request(Method::DELETE, url).timeout(REQUEST_TIMEOUT)).await;
    let written = fetched?;
    removed?;
    match written {
        None => Ok(()),
        Some(file) => session.show(&response, || {
            output::line(&format!("{} ({} bytes)", file.display(), exported.file.size_bytes))
        }),
    }
}

/// Fetches the stored copy; returns the written file, `None` for standard output.
async fn fetch(session: &Session, exported: &ExportResult, to: &Path) -> Outcome<Option<PathBuf>> {
    let total = exported.file.size_bytes;
    let target = target(to, &exported.file.filename)?;
    let response = session.api.open_link(&exported.url).await?;
    let progress = Progress::bytes(format!("receiving {}", exported.file.filename), Some(total));
    let Some(target) = target else {
        receive(session, response, total, &progress, async |chunk| output::bytes(chunk)).await?;
        return Ok(None);
    };
    let partial = partial_path(&target);
    let failed = |error: std::io::Error| format!("cannot write {}: {error}", target.display());
    let mut file = tokio::fs::File::create_new(&partial).await.map_err(failed)?;
    let written = async {
        receive(session, response, total, &progress, async |chunk| {
            file.write_all(chunk).await.map_err(|error| failed(error).into())
        })
        .await?;
        file.flush().await.map_err(failed)?;
        tokio::fs::rename(&partial, &target).await.map_err(failed)?;
        Ok(())
    };
    match written.await {
        Ok(()) => Ok(Some(target)),
        Err(error) => {
            // The removal often fails for the same reason; only the first error is reported.
            drop(tokio::fs::remove_file(&partial).await);
            Err(error)
        }
    }
}

async fn receive(
    session: &Session,
    mut response: Response,
    total: u64,
    progress: &Progress,
    mut write: impl AsyncFnMut(&[u8]) -> Outcome<()>,
) -> Outcome<()> {
    let mut received = 0_u64;
    loop {
        let chunk = tokio::time::timeout(IDLE_TIMEOUT, response.chunk()).await;
        let chunk =
            chunk.map_err(|_| "the download stalled: the server sent no data for a minute; try again")?;
        let Some(chunk) = chunk.map_err(|error| session.api.transport_failure(error))? else { break };
        received += chunk.len() as u64;
        if received > total {
            break;
        }
        write(&chunk).await?;
        progress.add(chunk.len() as u64);
    }
    if received == total {
        return Ok(());
    }
    Err(format!("the download is incomplete: the server announced {total} bytes and sent {received}").into())
}

/// Returns the target file; `None` is standard output. The name comes from the server, so it is checked: it must not
/// leave the target folder.
fn target(to: &Path, name: &str) -> Result<Option<PathBuf>, String> {
    if to == Path::new("-") {
        return Ok(None);
    }
    if !to.is_dir() {
        return Ok(Some(to.to_owned()));
    }
    let name = FileName::parse(name)
        .map_err(|error| format!("the server returned an invalid file name: {}", error.message))?;
    Ok(Some(to.join(name.as_str())))
}

/// Path of the incomplete file, in the folder of the target, so that a rename completes it.
fn partial_path(target: &Path) -> PathBuf {
    target.with_file_name(format!(".hotdesk-partial-{}", std::process::id()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_download_stays_inside_its_target_folder() {
        let folder = tempfile::tempdir().unwrap();
        let inside = |name: &str| Ok(Some(folder.path().join(name)));
        assert_eq!(target(folder.path(), "a b.txt"), inside("a b.txt"));
        assert_eq!(target(&folder.path().join("new"), "a.txt"), inside("new"));
        assert_eq!(target(Path::new("-"), "a.txt"), Ok(None));
        for name in ["../a", "/etc/passwd", "..", ""] {
            assert!(target(folder.path(), name).is_err(), "{name:?}");
        }
        assert_eq!(partial_path(Path::new("x/y")).parent(), Some(Path::new("x")));
    }
}
