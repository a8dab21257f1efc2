//! How do files reach computers? Stored per workspace, pushed to those that run, delivered to those started later;
//! never replacing anything (interface.md "Files").

use std::time::Duration;

use axum::body::Body;
use tokio_util::io::ReaderStream;

use super::storage::{self, Kind, Storage};
use hotdesk_base::clock::iso8601;
use hotdesk_base::ids::AccountId;
use hotdesk_domain::access::Credential;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::filename::FileName;
use hotdesk_domain::limits::MAX_UPLOAD;
use hotdesk_guest::Guest;
use hotdesk_store::Store;
use hotdesk_store::computers::Computer;
use hotdesk_store::files::File;
use hotdesk_wire::agent::PutOutcome;
use hotdesk_wire::file::{Delivery, File as Record};

/// Longest form of an upload: the file, and what boundaries, part headers and fields add to it.
pub const MAX_FORM: u64 = MAX_UPLOAD + 64 * 1024;
/// What stores a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum What {
    /// A client sends it.
    Upload,
    /// A computer does.
    Export,
}

/// Whose files that are being stored are counted together: those of one credential of an account, or of all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Storing {
    /// Apart from the others.
    pub what: What,
    /// Whose.
    pub account: AccountId,
    /// `None`: all of them.
    pub credential: Option<Credential>,
}

/// How long an upload may take to arrive: 10 MiB over a line of half a megabit. A slower sender holds a connection and a
/// blob for nothing (threats.md T13).
pub const UPLOAD_TIMEOUT: Duration = Duration::from_secs(180);
/// Largest file that is exported; it passes through the service's disk.
pub const MAX_EXPORT: u64 = 1024 * 1024 * 1024;
/// How long one push may take: 10 MiB over a local socket is milliseconds; a stuck guest is given up.
const PUSH_TIMEOUT: Duration = Duration::from_secs(20);
/// How long all deliveries to a computer that starts may take: it is not shown as running before.
const PENDING_TIMEOUT: Duration = Duration::from_secs(30);

/// A stored file as clients see it.
pub fn record(file: &File) -> Record {
    Record {
        id: file.id.to_string(),
        filename: file.filename.clone(),
        size_bytes: file.size_bytes,
        content_type: file.content_type.clone(),
        source: file.source.clone(),
        created_at: iso8601(file.created_at),
    }
}

/// Pushes one stored file to a computer and remembers what became of it. A failure is told, not returned: the other
/// computers' deliveries go on.
pub async fn deliver(
    store: &Store,
    storage: &Storage,
    file: &File,
    computer: &Computer,
    guest: &Guest,
) -> Delivery {
    let pushed = push(storage, file, guest).await;
    let told =
        Delivery { computer_id: computer.id.to_string(), outcome: String::new(), path: None, error: None };
    match pushed {
        Ok((outcome, path)) => {
            let outcome = match outcome {
                PutOutcome::Created => "created",
                PutOutcome::Exists => "exists",
            };
            // Unremembered it would only be offered again, and then found to exist.
            if let Err(error) = store.delivered(file.id, computer.id, outcome).await {
                tracing::warn!(computer = %computer.id, file = %file.id, %error, "a delivery was not remembered");
            }
            Delivery { outcome: outcome.to_owned(), path: Some(path), ..told }
        }
        Err(error) => {
            tracing::warn!(computer = %computer.id, file = %file.id, %error, "a file was not delivered");
            Delivery { outcome: "failed".to_owned(), error: Some(error.message), ..told }
        }
    }
}

async fn push(storage: &Storage, file: &File, guest: &Guest) -> Result<(PutOutcome, String)> {
    let name = FileName::parse(&file.filename)?;
    let path = storage.path(Kind::File, file.id.0);
    let blob = tokio::fs::File::open(&path).await.map_err(|error| storage::failed("open", &path, &error))?;
    let result =
        guest.put_file(&name, file.id, Body::from_stream(ReaderStream::new(blob)), PUSH_TIMEOUT).await?;
    Ok((result.outcome, format!("/root/Desktop/{}", file.filename)))
}

/// Delivers what a computer has not been given yet. What does not go in time, to a guest that is slow on purpose, say,
/// is offered again at the next start.
///
/// # Errors
/// When the store fails, a file could not be delivered (the rest was tried), or time ran out.
pub async fn deliver_pending(
    store: &Store,
    storage: &Storage,
    computer: &Computer,
    guest: &Guest,
) -> Result<()> {
    let mut failures = 0;
    let pending = store.undelivered(computer.id, computer.workspace).await?;
    let delivering = async {
        for file in &pending {
            let told = deliver(store, storage, file, computer, guest).await;
            failures += usize::from(told.outcome == "failed");
        }
    };
    if tokio::time::timeout(PENDING_TIMEOUT, delivering).await.is_err() {
        return Err(Error::timed_out("the computer did not take its files in time"));
    }
    if failures == 0 {
        Ok(())
    } else {
        Err(Error::unavailable(format!("{failures} files were not delivered")))
    }
}
