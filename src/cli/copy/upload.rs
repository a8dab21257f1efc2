//! How does a local file come to a computer's desktop?

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use reqwest::multipart::{Form, Part};
use reqwest::{Body, Method};
use tokio_util::io::ReaderStream;

use crate::client::api::QUICK;
use crate::client::{Session, resolve};
use crate::failure::{Failure, Outcome};
use crate::output;
use crate::progress::Progress;
use hotdesk_domain::filename::FileName;
use hotdesk_domain::limits::MAX_UPLOAD;
use hotdesk_wire::computer::Computer;
use hotdesk_wire::file::Uploaded;

/// How long an upload may take: 10 MiB over a line of half a megabit.
const TIMEOUT: Duration = Duration::from_secs(180);

/// Sends a file. `path` is empty or the name that it shall have.
///
/// # Errors
/// When it is no file that can be sent, or a file of its name is there already.
pub async fn run(session: &Session, file: &Path, computer: &str, path: &str) -> Outcome<()> {
    if path.contains('/') {
        return Err(Failure::Usage(format!("files go to the desktop: {computer}: or {computer}:NAME")));
    }
    let name = file_name(file, path)?;
    let failed = |error: std::io::Error| format!("{}: {error}", file.display());
    let about = tokio::fs::metadata(file).await.map_err(failed)?;
    if !about.is_file() {
        return Err(format!("{}: not a file", file.display()).into());
    }
    if about.len() > MAX_UPLOAD {
        return Err(format!("{}: larger than {} MiB", file.display(), MAX_UPLOAD >> 20).into());
    }
    let content = tokio::fs::File::open(file).await.map_err(failed)?;
    let id = resolve::computer(&session.api, computer).await?;
    let computer: Computer = session.api.get(&["computers", &id], &[], QUICK).await?.decode()?;

    let progress = Arc::new(Progress::bytes(format!("sending {name}"), Some(about.len())));
    let shown = Arc::clone(&progress);
    let content = ReaderStream::new(content).inspect(move |chunk| {
        shown.add(chunk.as_ref().map_or(0, |chunk| chunk.len() as u64));
    });
    let kind = mime_guess::from_path(&name).first_or_octet_stream();
    let part = Part::stream_with_length(Body::wrap_stream(content), about.len()).file_name(name.clone());
    let part = part.mime_str(kind.as_ref()).map_err(|error| format!("media type {kind}: {error}"))?;
    let form = Form::new()
        .text("projectId", computer.workspace_id.clone())
        .text("desktopId", computer.id.clone())
        .part("file", part);
    let url = session.api.url(&["files", "upload"]);
    let request = session.api.request(Method::POST, url).multipart(form).timeout(TIMEOUT);
    let answer = session.api.send(request).await?;
    drop(progress);
    let uploaded: Uploaded = answer.decode()?;
    session.show(&answer, || Ok(()))?;
    told(session, &uploaded, &computer, &name).await
}

/// Says what became of it. What was left out because of its name fails the command, and is not kept either.
async fn told(session: &Session, uploaded: &Uploaded, computer: &Computer, name: &str) -> Outcome<()> {
    let say = |text: String| if session.json { Ok(()) } else { output::line(&text) };
    let on = &computer.name;
    let Some(delivery) = uploaded.deliveries.iter().find(|it| it.computer_id == computer.id) else {
        return say(format!("Stored {name}; it comes to the desktop of {on} when that starts."));
    };
    match delivery.outcome.as_str() {
        "created" => say(format!("{on}:{}", delivery.path.as_deref().unwrap_or(name))),
        "exists" => {
            let mut url = session.api.url(&["files", "delete"]);
            url.query_pairs_mut().append_pair("id", &uploaded.file.id);
            session.api.send(session.api.request(Method::DELETE, url).timeout(QUICK)).await?;
            let text = format!("{on} has a file {name:?} on its desktop; it was left alone (use {on}:NAME)");
            Err(text.into())
        }
        other => {
            let why = delivery.error.as_deref().unwrap_or(other);
            Err(format!("{name} is stored, but not on {on} ({why}); it is tried again at the next start")
                .into())
        }
    }
}

fn file_name(file: &Path, wanted: &str) -> Result<String, String> {
    let name = match wanted {
        "" => file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default(),
        wanted => wanted.to_owned(),
    };
    FileName::parse(&name).map_err(|error| format!("{}: {}", file.display(), error.message))?;
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_keeps_its_name_unless_another_is_wanted() {
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
