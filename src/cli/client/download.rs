//! Downloads of any size, to a file or to standard output.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use reqwest::{RequestBuilder, Response};

use super::api::{Api, REQUEST_TIMEOUT};
use crate::failure::Outcome;
use crate::output;
use crate::progress::Progress;

/// Timeout between two chunks.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// Sends a request and writes the response to standard output.
///
/// # Errors
/// When the server refuses the request, is unreachable or stalls, or the output cannot be written.
pub async fn to_stdout(api: &Api, request: RequestBuilder) -> Outcome<()> {
    let response = head(api, request).await?;
    receive(api, response, output::bytes).await.map(drop)
}

/// Sends a request and writes the response to a file; returns the size in bytes. The file appears, or is replaced, when
/// it is complete.
///
/// # Errors
/// When the server refuses the request, is unreachable or stalls, or the file cannot be written.
pub async fn to_file(api: &Api, request: RequestBuilder, file: &Path) -> Outcome<u64> {
    let response = head(api, request).await?;
    let failed = |error: std::io::Error| format!("cannot write {}: {error}", file.display());
    let folder = file.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."));
    // The process's umask narrows these permissions, as those of any new file.
    let permissions = std::fs::Permissions::from_mode(0o666);
    let mut partial = tempfile::Builder::new()
        .prefix(".hotdesk-partial-")
        .permissions(permissions)
        .tempfile_in(folder)
        .map_err(failed)?;
    let progress = Progress::bytes(format!("receiving {}", file.display()), response.content_length());
    let size = receive(api, response, |chunk| {
        progress.add(chunk.len() as u64);
        partial.write_all(chunk).map_err(|error| failed(error).into())
    })
    .await?;
    partial.persist(file).map_err(|error| failed(error.error))?;
    Ok(size)
}

/// The response head; its body has no time limit, because it may be large.
async fn head(api: &Api, request: RequestBuilder) -> Outcome<Response> {
    let opening = tokio::time::timeout(REQUEST_TIMEOUT, api.open(request));
    opening.await.map_err(|_| "the server did not answer in a minute; try again")?
}

async fn receive(
    api: &Api,
    mut response: Response,
    mut write: impl FnMut(&[u8]) -> Outcome<()>,
) -> Outcome<u64> {
    let mut received = 0_u64;
    loop {
        let chunk = tokio::time::timeout(IDLE_TIMEOUT, response.chunk()).await;
        let chunk =
            chunk.map_err(|_| "the download stalled: the server sent no data for a minute; try again")?;
        let Some(chunk) = chunk.map_err(|error| api.transport_failure(error))? else { return Ok(received) };
        write(&chunk)?;
        received += chunk.len() as u64;
    }
}
