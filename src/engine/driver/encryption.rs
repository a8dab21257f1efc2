//! Encryption of machines' folders by the host's file system (fscrypt).
//!
//! ```text
//!   encrypt: add the key, make the folder, set its policy --> create, copy_disk, fork or launch fill it
//!   host reboots: the kernel has no keys, folders are locked -- add_keys --> folders can be used
//!   controller ends -- remove_unused_keys --> folders of machines without processes are locked, if no other one uses the key
//! ```
//! Everything in a folder has its policy, also what is made later. A locked folder can be removed, and nothing else: names and
//! contents are unreadable. While its key is [`KeyStatus::Absent`], nothing of the machine runs, because no file is open.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::sync::{MutexGuard, PoisonError};

use crate::driver::{GuestDriver, recovery};
use crate::host::cgroup;
use crate::host::command::host_error;
use crate::host::files::{private_folder, sync_folder};
use crate::host::syscalls::fscrypt::{self, KeyIdentifier, KeyStatus};
use crate::state::layout::{Folder, StateDir};
use crate::state::machine_lock::MachineLock;
use crate::{EngineError, EngineResult, FileKey};
use hotdesk_base::ids::ComputerId;

const ENCRYPT: &str = "encrypt the machine's folder";

/// [`crate::Engine::add_keys`]. Blocks.
pub(super) fn add_keys<M: GuestDriver>(engine: &M, keys: &[FileKey]) -> EngineResult<()> {
    let state = engine.state();
    let mut locked = Vec::new();
    for folder in state.list()?.into_iter().map(|id| state.folder(id)) {
        if folder.is_locked()? {
            locked.push(folder);
        }
    }
    let guard = lock(engine);
    let mut known = BTreeSet::new();
    for folder in state.list()?.into_iter().map(|id| state.folder(id)) {
        known.extend(folder.key()?.map(|(key, _)| key));
    }
    for key in keys {
        let added = add_key(state, key)?;
        // The kernel's memory for keys is bounded, so only keys of machines may stay there.
        if !known.contains(&added) {
            remove(state, added)?;
        }
    }
    drop(guard);
    for folder in &locked {
        recovery::recover_machine(engine, folder)?;
    }
    Ok(())
}

/// [`crate::Engine::encrypt`]. Blocks.
pub(super) fn encrypt<M: GuestDriver>(engine: &M, id: ComputerId, key: &FileKey) -> EngineResult<()> {
    if !can_encrypt(engine) {
        return Err(EngineError::Unsupported("encrypt files of machines"));
    }
    let folder = engine.state().folder(id);
    let failed = host_error(ENCRYPT, &folder.path);
    let _guard = lock(engine);
    let key = add_key(engine.state(), key)?;
    private_folder(&folder.path)
        .and_then(|()| File::open(&folder.path))
        .and_then(|opened| fscrypt::set_policy(&opened, key))
        .and_then(|()| sync_folder(&engine.state().machines()))
        .map_err(failed)
}

/// [`crate::Engine::remove_unused_keys`]. Blocks.
pub(super) fn remove_unused_keys<M: GuestDriver>(engine: &M) -> EngineResult<()> {
    if !can_encrypt(engine) {
        // A key that all folders inherit belongs to another program.
        return Ok(());
    }
    let state = engine.state();
    let _guard = lock(engine);
    let mut used: BTreeMap<KeyIdentifier, bool> = BTreeMap::new();
    for folder in state.list()?.into_iter().map(|id| state.folder(id)) {
        if let Some((key, KeyStatus::Present)) = folder.key()? {
            *used.entry(key).or_default() |= is_used(&folder)?;
        }
    }
    for (key, _) in used.into_iter().filter(|(_, used)| !used) {
        remove(state, key)?;
    }
    Ok(())
}

fn can_encrypt<M: GuestDriver>(engine: &M) -> bool {
    engine.host().offers.default().capabilities.encrypt
}

/// Waits until no other call gives the kernel keys, or takes some. A removal must see the folder of a key that was just added.
fn lock<M: GuestDriver>(engine: &M) -> MutexGuard<'_, ()> {
    engine.host().keys.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether something of a machine runs, or an operation works on it.
fn is_used(folder: &Folder) -> EngineResult<bool> {
    Ok(cgroup::has_processes(folder.id) || MachineLock::try_acquire(folder)?.is_none())
}

/// Whether a folder is encrypted and nothing in it can be open, so that it can be removed like any other folder. Blocks.
pub(super) fn is_sealed<M: GuestDriver>(engine: &M, folder: &Folder) -> EngineResult<bool> {
    let _guard = lock(engine);
    match folder.key()? {
        None | Some((_, KeyStatus::Present)) => Ok(false),
        Some((_, KeyStatus::Absent)) => Ok(true),
        // Its files may have been closed since.
        Some((key, KeyStatus::OpenFiles)) => {
            remove(engine.state(), key)?;
            Ok(folder.key()?.is_some_and(|(_, status)| status == KeyStatus::Absent))
        }
    }
}

fn add_key(state: &StateDir, key: &FileKey) -> EngineResult<KeyIdentifier> {
    let (machines, raw) = (state.machines(), key.raw()?);
    let added = File::open(&machines).and_then(|folder| fscrypt::add_key(&folder, raw));
    added.map_err(host_error("give the kernel a key of machines", &machines))
}

fn remove(state: &StateDir, key: KeyIdentifier) -> EngineResult<()> {
    let machines = state.machines();
    let removed = File::open(&machines).and_then(|folder| fscrypt::remove_key(&folder, key));
    if !removed.map_err(host_error("take a key of machines from the kernel", &machines))? {
        tracing::warn!(
            "files of an encrypted computer that does not run are open: the kernel has their keys until it unmounts the file system, or until the next removal"
        );
    }
    Ok(())
}
