//! How does a computer's file come here? Exported to the server, fetched, put in place when it is whole.

use std::path::{Path, PathBuf};
use std::time::Duration;

use reqwest::{Method, Response};
use tokio::io::AsyncWriteExt;

use crate::client::api::QUICK;
use crate::client::{Session, resolve};
use crate::failure::{Failure, Outcome};
use crate::output;
use crate::progress::Progress;
use hotdesk_domain::filename::FileName;
use hotdesk_wire::file::{Export, Exported};

/// How long the server may take to copy the file from the computer: its own 300 s and a moment.
const EXPORT: Duration = Duration::from_secs(315);
/// How long the server may be silent in the middle of the file.
const SILENCE: Duration = Duration::from_secs(60);

/// Fetches a file into a file, a folder or, with `-`, standard output.
///
/// # Errors
/// When it cannot be exported, fetched or written; then nothing is left here.
pub async fn run(session: &Session, computer: &str, path: &str, to: &Path) -> Outcome<()> {
    if path.is_empty() {
        return Err(Failure::Usage(format!("which file of {computer}? {computer}:PATH")));
    }
    let id = resolve::computer(&session.api, computer).await?;
    let waiting = Progress::waiting(format!("fetching {path}"));
    let body = Export { desktop_id: id, path: path.to_owned() };
    let answer = session.api.call(Method::POST, &["files", "export"], Some(&body), EXPORT).await?;
    drop(waiting);
    let exported: Exported = answer.decode()?;
    let fetched = fetch(session, &exported, to).await;
    // The stored copy was only the way here.
    let mut url = session.api.url(&["files", "delete"]);
    url.query_pairs_mut().append_pair("id", &exported.file.id);
    let removed = session.api.send(session.api.request(Method::DELETE, url).timeout(QUICK)).await;
    let written = fetched?;
    removed?;
    match written {
        None => Ok(()),
        Some(file) => session.show(&answer, || {
            output::line(&format!("{} ({} bytes)", file.display(), exported.file.size_bytes))
        }),
    }
}

/// Fetches the stored copy; gives the file that it was written to.
async fn fetch(session: &Session, exported: &Exported, to: &Path) -> Outcome<Option<PathBuf>> {
    let total = exported.file.size_bytes;
    let target = target(to, &exported.file.filename)?;
    let response = session.api.open_link(&exported.url).await?;
    let progress = Progress::bytes(format!("receiving {}", exported.file.filename), Some(total));
    let Some(target) = target else {
        receive(session, response, total, &progress, async |chunk| output::bytes(chunk)).await?;
        return Ok(None);
    };
    let partial = beside(&target);
    let failed = |error: std::io::Error| format!("{}: {error}", target.display());
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
            // The first error is the one to tell.
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
        let chunk = tokio::time::timeout(SILENCE, response.chunk()).await;
        let chunk = chunk.map_err(|_| "the server stopped in the middle of the file")?;
        let Some(chunk) = chunk.map_err(|error| session.api.unreached(error))? else { break };
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
    Err(format!("the server announced {total} bytes and sent {received}").into())
}

/// Where it goes; `None` is standard output. The name comes from the server: inside a folder it must be a plain one.
fn target(to: &Path, name: &str) -> Result<Option<PathBuf>, String> {
    if to == Path::new("-") {
        return Ok(None);
    }
    if !to.is_dir() {
        return Ok(Some(to.to_owned()));
    }
    let name = FileName::parse(name).map_err(|error| format!("the server's {}", error.message))?;
    Ok(Some(to.join(name.as_str())))
}

/// A name beside the target for what is not whole yet.
fn beside(target: &Path) -> PathBuf {
    target.with_file_name(format!(".hotdesk-partial-{}", std::process::id()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_goes_where_it_was_told_to() {
        let folder = tempfile::tempdir().unwrap();
        let inside = |name: &str| Ok(Some(folder.path().join(name)));
        assert_eq!(target(folder.path(), "a b.txt"), inside("a b.txt"));
        assert_eq!(target(&folder.path().join("new"), "a.txt"), inside("new"));
        assert_eq!(target(Path::new("-"), "a.txt"), Ok(None));
        for name in ["../a", "/etc/passwd", "..", ""] {
            assert!(target(folder.path(), name).is_err(), "{name:?}");
        }
        assert_eq!(beside(Path::new("x/y")).parent(), Some(Path::new("x")));
    }
}
