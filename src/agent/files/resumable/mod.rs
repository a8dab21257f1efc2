//! Resumable uploads (tus 1.0.0): a file is sent in any number of requests, and the client asks for the
//! offset to continue.

pub mod header;
mod store;

use std::collections::HashMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hotdesk_http::extract::Body;
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::paths::Parents;
use super::write::receive::receive;
use super::{blocking, file_error};
use hotdesk_base::tasks::Tasks;
use hotdesk_base::time::UnixMillis;
use hotdesk_base::wait;
use hotdesk_domain::error::{Error, Kind, Result};
use hotdesk_domain::error_code::ErrorCode;
use store::Store;

/// Largest upload in bytes; usually the disk is full first.
pub const MAX_BYTES: u64 = 1 << 40;
/// How long an earlier request may take to release an upload: often its connection is dead and has not
/// noticed.
const TAKEOVER_TIMEOUT: Duration = Duration::from_secs(5);
/// Interval between removals of expired uploads.
const SWEEP_PAUSE: Duration = Duration::from_secs(3600);

/// Progress of an upload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UploadState {
    /// Bytes that are stored.
    pub offset: u64,
    /// Total bytes.
    pub length: u64,
    /// `Upload-Metadata` unchanged.
    pub metadata: String,
    /// Time of expiry.
    pub expires_at: UnixMillis,
}

/// The resumable uploads.
#[derive(Clone, Debug)]
pub struct Uploads(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    home: PathBuf,
    /// Uploads that a request uses, with the token that stops its writing.
    busy: Mutex<HashMap<Uuid, CancellationToken>>,
}

/// Exclusive use of an upload, until this is dropped.
struct WriteClaim {
    uploads: Uploads,
    id: Uuid,
    stop: CancellationToken,
}

impl Drop for WriteClaim {
    fn drop(&mut self) {
        self.uploads.0.busy.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.id);
    }
}

impl Uploads {
    /// The uploads stored in a home folder.
    pub fn new(home: &Path) -> Self {
        Self(Arc::new(Inner { home: home.to_owned(), busy: Mutex::default() }))
    }

    /// Starts a task that regularly removes expired uploads.
    pub fn start_cleanup(&self, tasks: &Tasks) {
        let (uploads, stop) = (self.clone(), tasks.stopping());
        let _task = tasks.spawn("uploads sweep", async move {
            loop {
                let home = uploads.0.home.clone();
                let swept = blocking(move || Store::open(&home, Parents::Required)?.remove_expired()).await;
                match swept {
                    Ok(()) => {}
                    // The folder does not exist: nothing was uploaded yet.
                    Err(error) if error.kind == Kind::NotFound => {}
                    Err(error) => {
                        tracing::warn!(error = format_args!("{error:#}"), "cannot remove expired uploads")
                    }
                }
                tokio::select! {
                    () = stop.cancelled() => break,
                    () = tokio::time::sleep(SWEEP_PAUSE) => {}
                }
            }
        });
    }

    /// Creates an upload.
    ///
    /// # Errors
    /// `TooLarge`; `Conflict` (`already_exists`); `Unavailable` (`disk_full`, `too_many_uploads`); `Invalid`
    /// for bad metadata. Nothing is stored then.
    pub async fn create(&self, length: u64, metadata: String) -> Result<(Uuid, UploadState)> {
        if length > MAX_BYTES {
            return Err(Error::too_large(format!("the file is larger than {MAX_BYTES} bytes")));
        }
        let home = self.0.home.clone();
        let id = Uuid::new_v4();
        let create = move || Store::open(&home, Parents::Create)?.create(id, length, metadata);
        Ok((id, blocking(create).await?))
    }

    /// Progress of an upload. Stops an earlier request that still writes, so that the offset stays true until
    /// the client continues there.
    ///
    /// # Errors
    /// `NotFound` (`upload_expired` when it expired); `Conflict` (`upload_busy`); the error for which a
    /// complete upload has no name yet.
    pub async fn state(&self, id: Uuid) -> Result<UploadState> {
        let claim = self.claim(id).await?;
        let home = self.0.home.clone();
        blocking(move || {
            let _claim = claim;
            open_existing(&home)?.state(id)
        })
        .await
    }

    /// Appends a body to an upload whose offset is `offset`; `declared` is the body's length, if known. Stops
    /// an earlier request that still writes. Received bytes are stored also when the body ends early.
    ///
    /// # Errors
    /// `Conflict` (`offset_mismatch` with the current `offset`, `already_exists`, `upload_busy`); `TooLarge`;
    /// `Unavailable` (`disk_full`); `NotFound`; `Invalid` when the body ends early.
    pub async fn append(
        &self,
        id: Uuid,
        offset: u64,
        declared: Option<u64>,
        slot: OwnedSemaphorePermit,
        body: Body,
    ) -> Result<UploadState> {
        let claim = self.claim(id).await?;
        let home = self.0.home.clone();
        receive(body, claim.stop.clone(), move |mut pieces| {
            let (_claim, _slot) = (claim, slot);
            let store = open_existing(&home)?;
            let state = store.state(id)?;
            if state.offset != offset {
                let there = i64::try_from(state.offset).unwrap_or(i64::MAX);
                let what = format!("the upload is {there} bytes long, not {offset}");
                return Err(Error::conflict(what).code(ErrorCode::OffsetMismatch).number("offset", there));
            }
            let missing = state.length - offset;
            let too_long = || Error::too_large("the body is longer than the rest of Upload-Length");
            if declared.is_some_and(|declared| declared > missing) {
                return Err(too_long());
            }
            let Some(mut file) = store.bytes(id)? else { return Ok(state) };
            let mut left = missing;
            let ended = loop {
                match pieces.piece() {
                    Ok(Some(piece)) if piece.len() as u64 > left => break Err(too_long()),
                    Ok(Some(piece)) => {
                        file.write_all(&piece).map_err(|error| file_error("the upload", &error))?;
                        left -= piece.len() as u64;
                    }
                    Ok(None) => break Ok(()),
                    Err(error) => break Err(error),
                }
            };
            file.sync_data().map_err(|error| file_error("the upload", &error))?;
            ended?;
            store.state(id)
        })
        .await
    }

    /// Removes an upload; the file of a complete one stays.
    ///
    /// # Errors
    /// `NotFound`; `Conflict` (`upload_busy`).
    pub async fn remove(&self, id: Uuid) -> Result<()> {
        let claim = self.claim(id).await?;
        let home = self.0.home.clone();
        blocking(move || {
            let _claim = claim;
            let store = open_existing(&home)?;
            if !store.contains(id)? {
                return Err(Error::not_found("No such upload"));
            }
            store.remove(id)
        })
        .await
    }

    async fn claim(&self, id: Uuid) -> Result<WriteClaim> {
        let claimed = wait::until(TAKEOVER_TIMEOUT, || {
            let claimed = self.try_claim(id);
            async move { claimed }
        });
        claimed
            .await
            .ok_or_else(|| Error::conflict("another request is using the upload").code(ErrorCode::UploadBusy))
    }

    fn try_claim(&self, id: Uuid) -> Option<WriteClaim> {
        let mut busy = self.0.busy.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(earlier) = busy.get(&id) {
            earlier.cancel();
            return None;
        }
        let stop = CancellationToken::new();
        busy.insert(id, stop.clone());
        Some(WriteClaim { uploads: self.clone(), id, stop })
    }
}

/// Opens the store; `NotFound` when nothing was uploaded yet.
fn open_existing(home: &Path) -> Result<Store> {
    Store::open(home, Parents::Required).map_err(|error| {
        if error.kind == Kind::NotFound { Error::not_found("No such upload") } else { error }
    })
}
