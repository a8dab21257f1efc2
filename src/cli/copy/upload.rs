//! Upload of a local file to the desktop of a computer.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use reqwest::multipart::{Form, Part};
use reqwest::{Body, Method};
use tokio_util::io::ReaderStream;

use crate::client::api::REQUEST_TIMEOUT;
use crate::client::{Session, resolve};
use crate::failure::{Failure, Outcome};
use crate::output;
use crate::progress::Progress;
use hotdesk_domain::filename::FileName;
use hotdesk_domain::limits::MAX_UPLOAD;
use hotdesk_wire::computer::Computer;
use hotdesk_wire::files::workspace_file::UploadResult;

/// Timeout of an upload: 10 MiB at half a megabit per second.
const TIMEOUT: Duration = Duration::from_secs(180);

/// Sends a file. `path` is the name on the desktop, or empty for the local name.
///
/// # Errors
/// When the file cannot be read or is too large, its name is invalid, or the desktop has a file of that name.
pub async fn run(session: &Session, file: &Path, computer: &str, path: &str) -> Outcome<()> {
    if path.contains('/') {
        let hint = format!("files go to the desktop; use {computer}: or {computer}:NAME");
        return Err(Failure::Usage(format!("cannot copy to {computer}:{path}: {hint}")));
    }
    let name = file_name(file, path)?;
    let failed = |error: std::io::Error| format!("cannot read {}: {error}", file.display());
    let metadata = tokio::fs::metadata(file).await.map_err(failed)?;
    if !metadata.is_file() {
        return Err(format!("cannot send {}: not a regular file", file.display()).into());
    }
    if metadata.len() > MAX_UPLOAD {
        return Err(format!(
            "cannot send {}: larger than the limit of {} MiB",
            file.display(),
            MAX_UPLOAD >> 20
        )
        .into());
    }
    let content = tokio::fs::File::open(file).await.map_err(failed)?;
    let id = resolve::computer(&session.api, computer).await?;
    let computer: Computer = session.api.get(&["computers", &id], &[], REQUEST_TIMEOUT).await?.decode()?;

    let progress = Arc::new(Progress::bytes(format!("sending {name}"), Some(metadata.len())));
    let shown = Arc::clone(&progress);
    let content = ReaderStream::new(content).inspect(move |chunk| {
        shown.add(chunk.as_ref().map_or(0, |chunk| chunk.len() as u64));
    });
    let kind = mime_guess::from_path(&name).first_or_octet_stream();
    let part = Part::stream_with_length(Body::wrap_stream(content), metadata.len()).file_name(name.clone());
    let part = part.mime_str(kind.as_ref()).map_err(|error| format!("media type {kind}: {error}"))?;
    let form = Form::new()
        .text("projectId", computer.workspace_id.clone())
        .text("desktopId", computer.id.clone())
        .part("file", part);
    let url = session.api.url(&["files", "upload"]);
    let request = session.api.request(Method::POST, url).multipart(form).timeout(TIMEOUT);
    let response = session.api.send(request).await?;
    drop(progress);
    let uploaded: UploadResult = response.decode()?;
    session.show(&response, || Ok(()))?;
    report_delivery(session, &uploaded, &computer, &name).await
}

/// Prints the result of the delivery. When the desktop has a file of that name, the command fails and deletes the stored
/// copy.
async fn report_delivery(
    session: &Session,
    uploaded: &UploadResult,
    computer: &Computer,
    name: &str,
) -> Outcome<()> {
    let print = |text: String| if session.json { Ok(()) } else { output::line(&text) };
    let on = &computer.name;
    let Some(delivery) = uploaded.deliveries.iter().find(|it| it.computer_id == computer.id) else {
        return print(format!("Stored {name}; {on} receives it on its desktop when it next starts."));
    };
    match delivery.outcome.as_str() {
        "created" => print(format!("{on}:{}", delivery.path.as_deref().unwrap_or(name))),
        "exists" => {
            let mut url = session.api.url(&["files", "delete"]);
            url.query_pairs_mut().append_pair("id", &uploaded.file.id);
            session.api.send(session.api.request(Method::DELETE, url).timeout(REQUEST_TIMEOUT)).await?;
            let hint = format!("use {on}:NAME for another name");
            Err(format!("{on} already has a file {name:?} on its desktop; it was not replaced: {hint}")
                .into())
        }
        other => {
            let why = delivery.error.as_deref().unwrap_or(other);
            let hint = format!("the server retries when {on} next starts");
            Err(format!("{name} is stored but could not be delivered to {on} ({why}); {hint}").into())
        }
    }
}

fn file_name(file: &Path, wanted: &str) -> Result<String, String> {
    let name = match wanted {
        "" => file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default(),
        wanted => wanted.to_owned(),
    };
    FileName::parse(&name).map_err(|error| format!("cannot send {}: {}", file.display(), error.message))?;
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_upload_has_the_local_name_unless_another_is_given() {
        for (file, wanted, expected) in [
            ("/tmp/ä b.txt", "", Some("ä b.txt")),
            ("a.txt", "b.txt", Some("b.txt")),
            ("/", "", None),
            ("..", "", None),
            ("a.txt", "..", None),
            ("a.txt", "a\\b", None),
        ] {
            assert_eq!(file_name(Path::new(file), wanted).ok().as_deref(), expected, "{file} {wanted}");
        }
    }
}
