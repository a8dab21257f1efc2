//! Guard of the host's disk: freezes machines that grow before the host has no space left (T20, docs/security.md).
//!
//! Growth is what the machine's own disk file takes on the host, and what its kernel has not written to it yet. So the
//! guard knows who writes under every engine, and no other machine is frozen for it. The rules are in
//! `hotdesk_domain::computer::disk_guard`.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::time::Instant;

use crate::driver::GuestDriver;
use crate::host::cgroup;
use crate::host::command::host_error;
use crate::host::files::remove_if_there;
use crate::state::disk;
use crate::state::layout::Folder;
use crate::{DiskWatch, EngineResult};
use hotdesk_domain::computer::disk_guard::{GuardStep, next_look};

/// [`crate::Engine::watch_disk`]. Blocks.
pub(in crate::driver) fn look<M: GuestDriver>(engine: &M) -> EngineResult<DiskWatch> {
    let state = engine.state();
    let (mut stored, mut unwritten) = (BTreeMap::new(), 0_u64);
    for id in state.list()? {
        if !cgroup::has_processes(id) {
            continue;
        }
        let folder = state.folder(id);
        // A machine that is removed at this moment has no disk any more.
        let Ok(file) = fs::metadata(folder.disk()) else { continue };
        let allocated = file.blocks().saturating_mul(512);
        // The file cannot take more than its length.
        let pending = engine.unwritten_bytes(&folder).min(file.len().saturating_sub(allocated));
        unwritten = unwritten.saturating_add(pending);
        stored.insert(id, allocated.saturating_add(pending));
    }
    let free = disk::free_bytes(&state.machines())?.saturating_sub(unwritten);
    let guard = &engine.host().guard;
    guard.step(free, &stored, Instant::now(), |id, step| act(&state.folder(id), step, free));
    Ok(DiskWatch { free, frozen: guard.frozen(), next: next_look(free) })
}

/// Thaws a machine that an earlier controller left frozen. This one decides anew.
pub(in crate::driver) fn thaw_abandoned(folder: &Folder) {
    if !folder.frozen().exists() {
        return;
    }
    match unfreeze(folder) {
        Ok(()) => {
            tracing::info!(computer = %folder.id, "thawed a computer that an earlier controller left frozen");
        }
        Err(error) => {
            tracing::warn!(computer = %folder.id, error = format_args!("{error:#}"), "could not thaw a computer that an earlier controller left frozen; stop it");
        }
    }
}

fn act(folder: &Folder, step: GuardStep, free: u64) -> EngineResult<()> {
    let (id, free) = (folder.id, free >> 20);
    match step {
        GuardStep::Leave => Ok(()),
        GuardStep::Freeze => {
            if let Err(error) = fs::write(folder.frozen(), "") {
                tracing::warn!(computer = %id, %error, "could not mark a computer as frozen; a controller that is killed now leaves it so");
            }
            cgroup::stopped::freeze(id)?;
            tracing::warn!(computer = %id, free_mib = free, "the host's disk is nearly full: a computer that grows is frozen until there is space");
            Ok(())
        }
        GuardStep::Thaw => {
            unfreeze(folder)?;
            tracing::info!(computer = %id, free_mib = free, "the host's disk has space again: a frozen computer continues");
            Ok(())
        }
        GuardStep::Kill => {
            tracing::error!(computer = %id, free_mib = free, "the host's disk is nearly full: a computer that still grows is killed");
            cgroup::kill(id)
        }
    }
}

fn unfreeze(folder: &Folder) -> EngineResult<()> {
    cgroup::stopped::unfreeze(folder.id)?;
    let mark = folder.frozen();
    remove_if_there(&mark).map_err(host_error("remove the mark of a frozen machine", &mark))
}
