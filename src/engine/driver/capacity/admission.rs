//! Admission of disks by the size of the host's file system, and by the layers on the host.
//!
//! Disks are sparse, so their sum may exceed the host; it may not exceed it without bound (T20, docs/security.md).

use std::collections::BTreeSet;
use std::fs;
use std::sync::PoisonError;

use crate::driver::GuestDriver;
use crate::host::command::host_error;
use crate::state::disk;
use crate::state::layout::{Folder, Record, StateDir};
use crate::{EngineError, EngineResult, MAX_LAYERS, Shortage};
use hotdesk_domain::computer::disk_guard::over_promised;

/// Writes the record of a new machine, or of one whose disk grows, if the disks of all machines together fit and its layers
/// are there. Blocks.
///
/// # Errors
/// `NoCapacity` when they do not fit; `Failed` when a layer is missing. Nothing is written then.
pub(in crate::driver) fn admit<M: GuestDriver>(
    engine: &M,
    folder: &Folder,
    record: &Record,
) -> EngineResult<()> {
    let (host, state) = (engine.host(), engine.state());
    // Two admissions at once would not count each other, and a layer could be removed before a record names it.
    let _one = host.admission.lock().unwrap_or_else(PoisonError::into_inner);
    check_layers(state, record)?;
    let mut promised = record.disk_bytes;
    for id in state.list()?.into_iter().filter(|id| *id != folder.id) {
        promised = promised.saturating_add(promised_bytes(&state.folder(id)));
    }
    let (total, factor) = (disk::total_bytes(&state.machines())?, host.settings.disk_overcommit);
    if let Some(limit) = over_promised(promised, total, factor) {
        let [promised, limit, total] = [promised, limit, total].map(|bytes| bytes >> 30);
        let detail = format!(
            "all disks would be {promised} GiB, and {limit} GiB are allowed: {factor} times the {total} GiB of {}",
            state.machines().display()
        );
        return Err(EngineError::NoCapacity(Shortage::DiskSpace, detail));
    }
    folder.write_record(record)
}

/// Refuses a record with too many layers, with one that is not on the host, or with one twice.
fn check_layers(state: &StateDir, record: &Record) -> EngineResult<()> {
    const STEP: &str = "find the layers of the machine";
    let count = record.layers.len();
    if count > MAX_LAYERS {
        return Err(EngineError::failed(STEP, format!("{count} are more than {MAX_LAYERS}")));
    }
    let mut known = BTreeSet::new();
    for layer in record.layers() {
        if !known.insert(layer) {
            return Err(EngineError::failed(STEP, format!("{layer} is listed twice")));
        }
        let path = state.layer(layer);
        if !path.try_exists().map_err(host_error(STEP, &path))? {
            return Err(EngineError::failed(STEP, format!("{layer} is not on this host")));
        }
    }
    Ok(())
}

/// The size of a machine's disk. A machine that is being made or removed may have no record, and then counts by its
/// file, if it has one.
fn promised_bytes(folder: &Folder) -> u64 {
    let recorded = folder.read_record().map(|record| record.disk_bytes);
    recorded.unwrap_or_else(|_| fs::metadata(folder.disk()).map_or(0, |file| file.len()))
}
