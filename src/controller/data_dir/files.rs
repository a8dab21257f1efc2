//! Workspace files and their delivery to computers.
//!
//! A file is pushed to the computers that run. A computer that starts gets the files that are still to be
//! delivered to it. A file in the computer is never replaced (docs/api/files.md).

use std::time::Duration;

use axum::body::Body;
use tokio_util::io::ReaderStream;

use crate::data_dir::blobs::{BlobKind, BlobStore};
use crate::data_dir::disk;
use hotdesk_base::ids::AccountId;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::filename::FileName;
use hotdesk_domain::identity::access::Credential;
use hotdesk_domain::limits::MAX_UPLOAD;
use hotdesk_guest::Guest;
use hotdesk_store::Store;
use hotdesk_store::files::File;
use hotdesk_store::fleet::computers::Computer;
use hotdesk_wire::agent::PutOutcome;
use hotdesk_wire::files::workspace_file::{Delivery, File as Record};

/// Largest form of an upload, in bytes: the file, and its boundaries, part headers and fields.
pub const MAX_FORM: u64 = MAX_UPLOAD + 64 * 1024;
/// Kind of a transfer that stores a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TransferKind {
    /// A client uploads it.
    Upload,
    /// A computer exports it.
    Export,
}

/// Key for counting concurrent transfers: those of one credential of an account, or all of the account.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StorageSlot {
    /// Uploads and exports are counted separately.
    pub what: TransferKind,
    /// The account that stores.
    pub account: AccountId,
    /// `None` counts all of the account's credentials.
    pub credential: Option<Credential>,
}

/// Longest upload: 10 MiB over half a megabit per second. A slower sender would hold a connection and a blob,
/// T13 (docs/security.md).
pub const UPLOAD_TIMEOUT: Duration = Duration::from_secs(180);
/// Largest export in bytes. It passes through the service's disk.
pub const MAX_EXPORT: u64 = 1024 * 1024 * 1024;
/// Longest push of one file. 10 MiB over a local socket takes milliseconds, so a slower guest hangs.
const PUSH_TIMEOUT: Duration = Duration::from_secs(20);
/// Longest delivery of all pending files to a computer that starts. It is not reported as running before.
const PENDING_TIMEOUT: Duration = Duration::from_secs(30);

/// Converts a file to its API form.
pub fn record(file: &File) -> Record {
    Record {
        id: file.id.to_string(),
        filename: file.filename.clone(),
        size_bytes: file.size_bytes,
        content_type: file.content_type.clone(),
        source: file.source.clone(),
        created_at: file.created_at.iso8601(),
    }
}

/// Pushes one file to a computer and stores the result. A failure is in the returned [`Delivery`], so that
/// deliveries to other computers continue.
pub async fn deliver(
    store: &Store,
    blobs: &BlobStore,
    file: &File,
    computer: &Computer,
    guest: &Guest,
) -> Delivery {
    let pushed = push(blobs, file, guest).await;
    let delivery =
        Delivery { computer_id: computer.id.to_string(), outcome: String::new(), path: None, error: None };
    match pushed {
        Ok((outcome, path)) => {
            let outcome = match outcome {
                PutOutcome::Created => "created",
                PutOutcome::Exists => "exists",
            };
            // Without the record the file is offered again at the next start, and the guest reports that it
            // exists.
            if let Err(error) = store.record_delivery(file.id, computer.id, outcome).await {
                tracing::warn!(
                    computer = %computer.id,
                    file = %file.id,
                    error = format_args!("{error:#}"),
                    "could not store that a file was delivered; it is offered again"
                );
            }
            Delivery { outcome: outcome.to_owned(), path: Some(path), ..delivery }
        }
        Err(error) => {
            tracing::warn!(
                computer = %computer.id,
                file = %file.id,
                error = format_args!("{error:#}"),
                "could not deliver a file; it is offered again when the computer starts"
            );
            Delivery { outcome: "failed".to_owned(), error: Some(error.message), ..delivery }
        }
    }
}

async fn push(blobs: &BlobStore, file: &File, guest: &Guest) -> Result<(PutOutcome, String)> {
    let name = FileName::parse(&file.filename)?;
    let path = blobs.path(BlobKind::File, file.id.0);
    let blob = tokio::fs::File::open(&path).await.map_err(|error| disk::failed("open", &path, &error))?;
    let result =
        guest.put_file(&name, file.id, Body::from_stream(ReaderStream::new(blob)), PUSH_TIMEOUT).await?;
    Ok((result.outcome, format!("/root/Desktop/{}", file.filename)))
}

/// Delivers all files that are still to be delivered to a computer. What fails is offered again at the next start.
///
/// # Errors
/// `Internal` when the database fails; `Unavailable` when some files were not delivered (the others were
/// tried); `TimedOut` when the guest is too slow.
pub async fn deliver_pending(
    store: &Store,
    blobs: &BlobStore,
    computer: &Computer,
    guest: &Guest,
) -> Result<()> {
    let mut failures = 0;
    let pending = store.undelivered_files(computer.id, computer.workspace).await?;
    let delivering = async {
        for file in &pending {
            let delivery = deliver(store, blobs, file, computer, guest).await;
            failures += usize::from(delivery.outcome == "failed");
        }
    };
    if tokio::time::timeout(PENDING_TIMEOUT, delivering).await.is_err() {
        return Err(Error::timed_out("the computer did not accept its files in time"));
    }
    if failures == 0 {
        Ok(())
    } else {
        Err(Error::unavailable(format!("{failures} files were not delivered")))
    }
}
