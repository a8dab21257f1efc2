//! Copies of folders to a computer.
//!
//! A folder of one batch is one request. A larger one is sent part by part, and a record says which have arrived:
//!
//! ```text
//! no folder at the target: parts -> hidden folder beside the target -> move to the target
//! a folder at the target:  parts -> target
//! ```

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use futures_util::{StreamExt, TryStreamExt};
use reqwest::{Body, Method, RequestBuilder, StatusCode};
use serde_json::json;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use uuid::Uuid;

use super::plan::{self, PartContent, UploadPlan};
use crate::client::retry::{Attempts, Interruption};
use crate::copy::PART;
use crate::copy::guest_files::{GuestFiles, decode};
use crate::copy::resumable::ResumableUpload;
use crate::copy::upload_record::UploadRecord;
use crate::failure::Outcome;
use crate::output;
use crate::progress::Progress;
use hotdesk_agent::files::archive::pack::{self, ArchiveSelection};
use hotdesk_wire::files::guest_file::UnpackResult;

/// Sends a folder. On the computer a new folder gets this path completely or not at all; into an existing one the
/// parts of a large folder are merged one after another.
///
/// # Errors
/// When the folder cannot be read, the server refuses or is unreachable, or the connection breaks again and again. The
/// same command continues the copy of a large folder then.
pub async fn send(files: &GuestFiles<'_>, source: &Path, path: &str, overwrite: bool) -> Outcome<()> {
    let failed = |error: io::Error| format!("cannot read {}: {error}", source.display());
    let plan = plan::of(source).map_err(failed)?;
    let total = plan.parts.iter().map(|part| part.size).sum();
    let full = std::path::absolute(source).map_err(failed)?;
    let upload = FolderUpload {
        files,
        source,
        path,
        record: UploadRecord::of_folder(&full, &[&files.id, path, &overwrite.to_string()])?,
        plan,
        progress: Arc::new(Progress::bytes(format!("sending {path}"), Some(total))),
    };
    if let [] | [plan::UploadPart { content: PartContent::Batch(_), .. }] = &upload.plan.parts[..] {
        return upload.send_whole(overwrite).await;
    }
    // Nothing may be added to a folder before all of it is known to be new, which only the server can do at once.
    if !overwrite && files.stat(path).await?.is_some() {
        return upload.send_whole(overwrite).await;
    }
    upload.send_parts().await
}

struct FolderUpload<'a> {
    files: &'a GuestFiles<'a>,
    source: &'a Path,
    /// Path on the computer.
    path: &'a str,
    plan: UploadPlan,
    record: UploadRecord,
    progress: Arc<Progress>,
}

/// What the computer has of a folder.
struct PartialCopy {
    /// Path at which it is collected; the target itself when that is an existing folder.
    folder: String,
    /// Number of parts.
    parts: usize,
}

/// A request whose body is an archive.
struct ArchiveUpload {
    request: RequestBuilder,
    /// Why the folder could not be read.
    failure: Arc<OnceLock<String>>,
}

impl FolderUpload<'_> {
    async fn send_whole(self, overwrite: bool) -> Outcome<()> {
        let upload = self.archive(ArchiveSelection::After(PathBuf::new()), self.path, overwrite)?;
        let exchange = self.files.session.api.exchange(upload.request).await;
        let exchange = exchange.map_err(|failure| match upload.failure.get() {
            Some(text) => text.clone().into(),
            None => failure,
        })?;
        let unpacked: UnpackResult = decode(&exchange)?;
        let files = self.files;
        drop(self);
        files.show_copied(exchange, &unpacked.path)
    }

    async fn send_parts(self) -> Outcome<()> {
        let mut arrived = 0;
        let mut attempts = Attempts::from(arrived);
        while let Err(interruption) = self.attempt(&mut arrived).await {
            attempts.next(interruption, arrived).await?;
        }
        let Self { files, path, plan, progress, .. } = self;
        drop(progress);
        let (stat, _) = files.stat(path).await?.ok_or("the folder was sent, but is not on the computer")?;
        if files.session.json {
            let shown = UnpackResult { path: stat.path, ..plan.totals };
            return output::line(&serde_json::to_string(&shown).map_err(|error| error.to_string())?);
        }
        output::line(&format!("{}:{}", files.name, stat.path))
    }

    /// Sends the parts that the computer does not have. `arrived` becomes the number of bytes that it has.
    async fn attempt(&self, arrived: &mut u64) -> Result<(), Interruption> {
        let received = self.received().await?;
        let (before, rest) = self.plan.parts.split_at(received.parts);
        *arrived = before.iter().map(|part| part.size).sum();
        for (number, part) in rest.iter().enumerate() {
            self.progress.skip_to(*arrived);
            self.note(&received.folder, received.parts + number)?;
            match &part.content {
                PartContent::Batch(paths) => self.send_batch(&received.folder, paths).await?,
                PartContent::File(path) => self.send_file(&received.folder, path, arrived).await?,
            }
            *arrived += part.size;
        }
        self.note(&received.folder, self.plan.parts.len())?;
        if received.folder != self.path {
            let wanted = json!({"from": received.folder, "to": self.path, "overwrite": false});
            let moving = self.files.request(Method::POST, &["move"], &[]).json(&wanted);
            let moved = self.files.attempt(moving).await?;
            if moved.status == StatusCode::CONFLICT {
                self.discard(&received.folder).await?;
            }
            let _moved = moved.success()?;
        }
        Ok(self.record.remove()?)
    }

    /// Records that the computer has the first `parts` parts and may have the next one.
    fn note(&self, folder: &str, parts: usize) -> Outcome<()> {
        let state =
            |index: Option<usize>| index.and_then(|it| self.plan.parts.get(it)).map_or("", |it| &it.state);
        let (done, next) = (state(parts.checked_sub(1)), state(Some(parts)));
        Ok(self.record.store(&format!("{folder}\n{done}\n{next}"))?)
    }

    /// The folder and the number of parts of a record; `None` when the source has changed up to the part that was sent
    /// last. That one counts, because the computer may have received it.
    fn recorded<'a>(&self, record: &'a str) -> (&'a str, Option<usize>) {
        let mut fields = record.rsplitn(3, '\n');
        let (next, done, folder) = (fields.next(), fields.next(), fields.next().unwrap_or_default());
        let parts = match done {
            Some("") => Some(0),
            done => self.plan.parts.iter().position(|part| Some(&*part.state) == done).map(|it| it + 1),
        };
        let unchanged = |parts: &usize| {
            self.plan.parts.get(*parts).map_or("", |part| &part.state) == next.unwrap_or_default()
        };
        (folder, parts.filter(unchanged))
    }

    /// What the computer has from an earlier attempt; begins anew when the folder or the computer has changed since.
    async fn received(&self) -> Result<PartialCopy, Interruption> {
        if let Some(record) = self.record.load()?.filter(|record| record.matches('\n').count() == 2) {
            let (folder, parts) = self.recorded(&record);
            if let Some(parts) = parts {
                let last = parts.checked_sub(1).map_or("", |index| &self.plan.parts[index].last);
                // The computer may have been reset to an earlier state.
                let at = async |folder: &str| self.files.exists(&format!("{folder}/{last}")).await;
                if at(folder).await? {
                    return Ok(PartialCopy { folder: folder.to_owned(), parts });
                }
                // The answer to the move was lost.
                if parts == self.plan.parts.len() && at(self.path).await? {
                    return Ok(PartialCopy { folder: self.path.to_owned(), parts });
                }
            }
            self.discard(folder).await?;
        }
        if self.files.exists(self.path).await? {
            return Ok(PartialCopy { folder: self.path.to_owned(), parts: 0 });
        }
        let folder = self.path.rfind('/').map_or("", |slash| &self.path[..=slash]);
        let folder = format!("{folder}.{}{PART}", Uuid::new_v4().simple());
        self.note(&folder, 0)?;
        let request = self.files.request(Method::POST, &["mkdir"], &[]).json(&json!({"path": folder}));
        let made = self.files.attempt(request).await?;
        if !made.status.is_success() {
            self.record.remove()?;
        }
        let _made = made.success()?;
        Ok(PartialCopy { folder, parts: 0 })
    }

    /// Removes an unfinished copy.
    async fn discard(&self, folder: &str) -> Result<(), Interruption> {
        if folder != self.path {
            let query = [("path", folder), ("recursive", "true")];
            let removed = self.files.attempt(self.files.request(Method::DELETE, &[], &query)).await?;
            // The computer still writes what it received last.
            if removed.status == StatusCode::CONFLICT {
                return Err(Interruption::Connection(removed.refusal()));
            }
            if removed.status != StatusCode::NOT_FOUND {
                let _removed = removed.success()?;
            }
        }
        Ok(self.record.remove()?)
    }

    async fn send_batch(&self, folder: &str, paths: &[PathBuf]) -> Result<(), Interruption> {
        let upload = self.archive(ArchiveSelection::Paths(paths.to_owned()), folder, true)?;
        let answered = self.files.attempt_upload(upload.request, &self.progress).await;
        if let Some(text) = upload.failure.get() {
            return Err(Interruption::from(text.clone()));
        }
        let _unpacked = answered?.success()?;
        Ok(())
    }

    /// `arrived` grows by what the computer has of the file when the connection breaks.
    async fn send_file(&self, folder: &str, path: &Path, arrived: &mut u64) -> Result<(), Interruption> {
        let target = format!("{folder}/{}", path.display());
        let source = self.source.join(path);
        if !source.exists() {
            // It vanished meanwhile.
            return Ok(());
        }
        let progress = Arc::clone(&self.progress);
        let upload = ResumableUpload::open(self.files, &source, &target, true, true, progress).await?;
        let mut offset = 0;
        let sent = upload.attempt(&mut offset).await;
        if sent.is_err() {
            *arrived += offset;
        }
        sent
    }

    fn archive(&self, selection: ArchiveSelection, path: &str, overwrite: bool) -> Outcome<ArchiveUpload> {
        let shown = self.source.display().to_string();
        let folder = File::open(self.source).map_err(|error| format!("cannot read {shown}: {error}"))?;
        let folder = OwnedFd::from(folder);
        let (sender, receiver) = mpsc::channel(pack::WAITING_PIECES);
        let runtime = Handle::current();
        // It ends with its last piece, or when the body is dropped.
        let _packing =
            hotdesk_base::tasks::spawn_blocking(move || pack::pack(&folder, &selection, sender, runtime));
        let failure = Arc::new(OnceLock::new());
        let (noted, progress) = (Arc::clone(&failure), Arc::clone(&self.progress));
        let content = ReceiverStream::new(receiver)
            .inspect(move |piece| progress.add(piece.as_ref().map_or(0, |piece| piece.len() as u64)))
            .inspect_err(move |error| drop(noted.set(format!("cannot read {shown}: {error}"))));
        let query = [("path", path), ("overwrite", if overwrite { "true" } else { "false" })];
        let request = self.files.request(Method::PUT, &["archive"], &query).body(Body::wrap_stream(content));
        Ok(ArchiveUpload { request, failure })
    }
}
