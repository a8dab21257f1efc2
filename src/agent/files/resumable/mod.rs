//! How does a large file arrive over a bad line? In as many requests as it takes (tus 1.0.0): what arrived is kept, and the
//! client asks how much that is.

pub mod header;
mod store;

use std::collections::HashMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::body::Body;
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::paths::Parents;
use super::receive::receive;
use super::{blocking, file_error};
use hotdesk_base::tasks::Tasks;
use hotdesk_base::wait;
use hotdesk_domain::error::{Error, Kind, Result};
use store::Store;

/// Largest upload; the disk is the bound that is met first.
pub const MAX_BYTES: u64 = 1 << 40;
/// How long an earlier request may take to let go of an upload: its connection is often dead without knowing it.
const TAKEOVER_TIMEOUT: Duration = Duration::from_secs(5);
/// Time between two looks for what has expired.
const SWEEP_PAUSE: Duration = Duration::from_secs(3600);

/// How far an upload is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// Bytes that are safe here.
    pub offset: u64,
    /// Bytes in all.
    pub length: u64,
    /// `Upload-Metadata` as it came.
    pub metadata: String,
    /// When it expires, in milliseconds since the Unix epoch.
    pub expires_ms: i64,
}

/// The uploads that can be resumed.
#[derive(Clone, Debug)]
pub struct Uploads(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    home: PathBuf,
    /// Uploads that a request is writing to, each with what stops that.
    busy: Mutex<HashMap<Uuid, CancellationToken>>,
}

/// The right to write to an upload.
struct Claim {
    uploads: Uploads,
    id: Uuid,
    stop: CancellationToken,
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.uploads.0.busy.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.id);
    }
}

impl Uploads {
    /// The uploads kept in a home folder.
    pub fn new(home: &Path) -> Self {
        Self(Arc::new(Inner { home: home.to_owned(), busy: Mutex::default() }))
    }

    /// Removes what has expired, from time to time, until the tasks end.
    pub fn sweep_in(&self, tasks: &Tasks) {
        let (uploads, stop) = (self.clone(), tasks.stopping());
        let _sweeping = tasks.spawn("uploads sweep", async move {
            loop {
                let home = uploads.0.home.clone();
                let swept = blocking(move || Store::open(&home, Parents::Needed)?.sweep()).await;
                match swept {
                    Ok(()) => {}
                    // Nothing was ever uploaded here.
                    Err(error) if error.kind == Kind::NotFound => {}
                    Err(error) => tracing::warn!(%error, "uploads could not be swept"),
                }
                tokio::select! {
                    () = stop.cancelled() => break,
                    () = tokio::time::sleep(SWEEP_PAUSE) => {}
                }
            }
        });
    }

    /// Begins an upload.
    ///
    /// # Errors
    /// `TooLarge`; `Conflict` (`already_exists`); `Unavailable` (`disk_full`, `too_many_uploads`); `Invalid`.
    pub async fn create(&self, length: u64, metadata: String) -> Result<(Uuid, State)> {
        if length > MAX_BYTES {
            return Err(Error::too_large(format!("the file is larger than {MAX_BYTES} bytes")));
        }
        let home = self.0.home.clone();
        let id = Uuid::new_v4();
        let create = move || Store::open(&home, Parents::Made)?.create(id, length, metadata);
        Ok((id, blocking(create).await?))
    }

    /// How far an upload is.
    ///
    /// # Errors
    /// `NotFound`; what kept a whole one from its name.
    pub async fn state(&self, id: Uuid) -> Result<State> {
        let home = self.0.home.clone();
        blocking(move || opened(&home)?.state(id)).await
    }

    /// Adds a body to an upload that is `offset` bytes long; `declared` is the body's length, where it is known. An
    /// earlier request that still writes to it is stopped. What arrives is kept, also when the body breaks off.
    ///
    /// # Errors
    /// `Conflict` (`offset_mismatch` with `offset`, `already_exists`); `TooLarge`; `Unavailable` (`disk_full`);
    /// `NotFound`.
    pub async fn append(
        &self,
        id: Uuid,
        offset: u64,
        declared: Option<u64>,
        slot: OwnedSemaphorePermit,
        body: Body,
    ) -> Result<State> {
        let claim = self.claim(id).await?;
        let home = self.0.home.clone();
        receive(body, claim.stop.clone(), move |mut pieces| {
            let (_claim, _slot) = (claim, slot);
            let store = opened(&home)?;
            let state = store.state(id)?;
            if state.offset != offset {
                let there = i64::try_from(state.offset).unwrap_or(i64::MAX);
                let what = format!("the upload is {there} bytes long, not {offset}");
                return Err(Error::conflict(what).code("offset_mismatch").number("offset", there));
            }
            let room = state.length - offset;
            let too_long = || Error::too_large("the body is longer than what Upload-Length leaves");
            if declared.is_some_and(|declared| declared > room) {
                return Err(too_long());
            }
            let Some(mut file) = store.bytes(id)? else { return Ok(state) };
            let mut left = room;
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

    /// Removes an upload; a finished file stays.
    ///
    /// # Errors
    /// `NotFound`.
    pub async fn remove(&self, id: Uuid) -> Result<()> {
        let claim = self.claim(id).await?;
        let home = self.0.home.clone();
        blocking(move || {
            let _claim = claim;
            let store = opened(&home)?;
            if !store.knows(id)? {
                return Err(Error::not_found("No such upload"));
            }
            store.forget(id)
        })
        .await
    }

    async fn claim(&self, id: Uuid) -> Result<Claim> {
        let claimed = wait::until(TAKEOVER_TIMEOUT, || {
            let claimed = self.try_claim(id);
            async move { claimed }
        });
        claimed.await.ok_or_else(|| Error::conflict("another request holds the upload").code("upload_busy"))
    }

    fn try_claim(&self, id: Uuid) -> Option<Claim> {
        let mut busy = self.0.busy.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(earlier) = busy.get(&id) {
            earlier.cancel();
            return None;
        }
        let stop = CancellationToken::new();
        busy.insert(id, stop.clone());
        Some(Claim { uploads: self.clone(), id, stop })
    }
}

/// The store, where something was uploaded before.
fn opened(home: &Path) -> Result<Store> {
    Store::open(home, Parents::Needed).map_err(|error| {
        if error.kind == Kind::NotFound { Error::not_found("No such upload") } else { error }
    })
}
