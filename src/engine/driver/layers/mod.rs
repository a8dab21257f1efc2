//! Read-only layers of disks: made from what a stopped machine has written, of an imported image, or of one file, and shared by
//! machines that are made later.
//!
//! ```text
//!   <layer>.<machine>.new/rootfs  -- copy, sync, rename -->  <layer>  -- rename -->  <layer>.<number>.gone  -- remove
//! ```
//! The rename under the final name is last, so a layer is whole or not there. The task that makes one holds the lock of the machine
//! in the temporary name, or, without a machine, the lock of the temporary folder itself (flock(2)); so does the tool that copies, if
//! the controller dies. A layer is removed only while no record of a machine names it.

pub mod bases;
pub(super) mod programs;

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::PoisonError;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};

use crate::driver::GuestDriver;
use crate::host::command::{check_status, host_error, run_with_timeout, tool};
use crate::host::files::{private_folder, sync_folder};
use crate::host::loopdev;
use crate::state::layout::{Folder, StateDir};
use crate::state::machine_lock::MachineLock;
use crate::{Engine, EngineError, EngineResult, Observation};
use hotdesk_base::ids::{ComputerId, LayerId};
use hotdesk_base::time::phase::PhaseTimer;

const MAKE: &str = "make a layer";
const REMOVE: &str = "remove a layer";
/// Extensions of a layer that is being made or removed.
const UNFINISHED: &str = "new";
const GONE: &str = "gone";
/// For a tool that walks through the millions of files of a large layer on a slow disk.
const TIMEOUT: Duration = Duration::from_secs(600);

/// [`crate::Engine::keep_layer`].
pub(super) async fn keep<M: GuestDriver>(engine: &M, id: ComputerId, layer: LayerId) -> EngineResult<u64> {
    if let Some(bytes) = engine.blocking(move |engine| bytes(engine.state(), layer)).await? {
        return Ok(bytes);
    }
    let folder = engine.state().folder(id);
    let Some(guard) = MachineLock::acquire(&folder).await? else { return Err(EngineError::Absent) };
    match Engine::observe(engine, id).await? {
        Observation::Absent => return Err(EngineError::Absent),
        Observation::Running { .. } | Observation::Suspended { .. } => {
            let detail = format!("machine {id} runs, or its memory is saved: stop it first");
            return Err(EngineError::failed(MAKE, detail));
        }
        // One that ended by itself may still hold its disk.
        Observation::Stopped => engine.sweep(&folder).await?,
    }
    let plan = folder.clone();
    let (guard, made) = engine
        .blocking(move |engine| {
            let made = make(engine, &plan, layer, &guard);
            Ok((guard, made))
        })
        .await?;
    // The disk is free for the next operation on the machine.
    let released = loopdev::released(&folder.disk()).await;
    drop(guard);
    let bytes = made?;
    released.map(|()| bytes)
}

/// Makes a layer of a stopped machine. A failed attempt leaves nothing.
fn make<M: GuestDriver>(
    engine: &M,
    folder: &Folder,
    layer: LayerId,
    lock: &MachineLock,
) -> EngineResult<u64> {
    let fresh = unfinished(engine.state(), layer, folder.id);
    let _phase = PhaseTimer::begin(folder.id, "layer");
    complete(engine.state(), layer, &fresh, |rootfs| {
        let _phase = PhaseTimer::begin(folder.id, "layer copy");
        engine.copy_written(folder, rootfs, lock)
    })
}

/// Makes a layer in the folder `fresh`, and gives it its name. A failed attempt leaves nothing.
fn complete(
    state: &StateDir,
    layer: LayerId,
    fresh: &Path,
    fill: impl FnOnce(&Path) -> EngineResult<()>,
) -> EngineResult<u64> {
    let path = state.layer(layer);
    let failed = host_error(MAKE, fresh);
    remove_tree(REMOVE, fresh)?;
    private_folder(fresh).map_err(&failed)?;
    let made = fill(&rootfs(fresh)).and_then(|()| {
        // The files first, then the name.
        File::open(fresh)
            .and_then(|opened| rustix::fs::syncfs(opened).map_err(io::Error::from))
            .and_then(|()| fs::rename(fresh, &path))
            .and_then(|()| sync_folder(&state.layers()))
            .map_err(&failed)
    });
    if let Err(error) = made {
        if let Err(left) = remove_tree(REMOVE, fresh) {
            tracing::warn!(%layer, error = format_args!("{left:#}"), "an unfinished layer stays until the next start of the controller");
        }
        // Another machine may have become the same layer meanwhile.
        return bytes(state, layer)?.ok_or(error);
    }
    bytes(state, layer)?.ok_or_else(|| EngineError::failed(MAKE, format!("{layer} was removed at once")))
}

/// [`crate::Engine::remove_layer`]. Blocks.
pub(super) fn remove<M: GuestDriver>(engine: &M, layer: LayerId) -> EngineResult<()> {
    let state = engine.state();
    let path = state.layer(layer);
    let failed = host_error(REMOVE, &path);
    let gone = state.layers().join(format!("{layer}.{}.{GONE}", uuid::Uuid::new_v4().simple()));
    let one = engine.host().admission.lock().unwrap_or_else(PoisonError::into_inner);
    if !path.try_exists().map_err(&failed)? {
        return Ok(());
    }
    check_unused(state, layer)?;
    fs::rename(&path, &gone).and_then(|()| sync_folder(&state.layers())).map_err(&failed)?;
    drop(one);
    remove_tree(REMOVE, &gone)
}

/// Refuses the removal of a layer that a machine has, or may have.
fn check_unused(state: &StateDir, layer: LayerId) -> EngineResult<()> {
    for folder in state.list()?.into_iter().map(|id| state.folder(id)) {
        let id = folder.id;
        match folder.find_record()? {
            Some(record) if record.layers().any(|own| own == layer) => {
                let detail = format!("machine {id} has {layer}: destroy the machine first");
                return Err(EngineError::failed(REMOVE, detail));
            }
            Some(_) => {}
            None if folder.is_locked()? => {
                let detail = format!(
                    "machine {id} is encrypted and the kernel does not have its key, so it may have {layer}: start the \
                     controller, which adds the key"
                );
                return Err(EngineError::failed(REMOVE, detail));
            }
            // It is being made or removed.
            None => {}
        }
    }
    Ok(())
}

/// [`crate::Engine::layers`]. Blocks.
pub(super) fn all(state: &StateDir) -> EngineResult<Vec<LayerId>> {
    let named = |path: PathBuf| path.file_name()?.to_str()?.parse().ok();
    let mut found: Vec<LayerId> = entries(state)?.into_iter().filter_map(named).collect();
    found.sort();
    Ok(found)
}

/// Removes what interrupted attempts left. One whose machine or own folder is locked is still being made. Blocks.
pub(crate) fn remove_unfinished(state: &StateDir) -> EngineResult<()> {
    for path in interrupted(state)? {
        let _machine = match machine_of(&path).map(|id| state.folder(id)) {
            Some(folder) if folder.path.exists() => match MachineLock::try_acquire(&folder)? {
                Some(guard) => Some(guard),
                None => continue,
            },
            Some(_) | None => None,
        };
        if let Some(_own) = try_lock(&path)? {
            remove_tree(REMOVE, &path)?;
        }
    }
    Ok(())
}

/// Removes what an interrupted attempt left of a machine whose lock is held: after a crash the copy went on while the
/// start of the controller looked for it. Blocks.
pub(super) fn remove_unfinished_of(state: &StateDir, id: ComputerId) -> EngineResult<()> {
    let of_machine = |path: &&PathBuf| machine_of(path) == Some(id);
    interrupted(state)?.iter().filter(of_machine).try_for_each(|path| remove_tree(REMOVE, path))
}

/// What interrupted attempts left, and what is being made or removed now; sorted. Blocks.
pub(crate) fn interrupted(state: &StateDir) -> EngineResult<Vec<PathBuf>> {
    let unfinished = |path: &PathBuf| {
        path.extension().is_some_and(|extension| extension == UNFINISHED || extension == GONE)
    };
    Ok(entries(state)?.into_iter().filter(unfinished).collect())
}

/// The machine in the name of an unfinished layer.
fn machine_of(path: &Path) -> Option<ComputerId> {
    let name = path.file_name()?.to_str()?.strip_suffix(UNFINISHED)?.strip_suffix('.')?;
    name.rsplit_once('.')?.1.parse().ok()
}

fn unfinished(state: &StateDir, layer: LayerId, machine: ComputerId) -> PathBuf {
    state.layers().join(format!("{layer}.{machine}.{UNFINISHED}"))
}

/// The folder with the files of a layer.
fn rootfs(layer: &Path) -> PathBuf {
    layer.join("rootfs")
}

fn entries(state: &StateDir) -> EngineResult<Vec<PathBuf>> {
    let layers = state.layers();
    let failed = host_error("list the layers", &layers);
    let entries = fs::read_dir(&layers).map_err(&failed)?;
    let mut found: Vec<PathBuf> =
        entries.map(|entry| entry.map(|entry| entry.path())).collect::<io::Result<_>>().map_err(&failed)?;
    found.sort();
    Ok(found)
}

/// Bytes of a layer's files on the host's disk; `None` without the layer.
fn bytes(state: &StateDir, layer: LayerId) -> EngineResult<Option<u64>> {
    const STEP: &str = "measure a layer";
    let path = rootfs(&state.layer(layer));
    if !path.try_exists().map_err(host_error(STEP, &path))? {
        return Ok(None);
    }
    let mut du = tool("du");
    du.args(["--summarize", "--block-size=1"]).arg(&path);
    let (status, answer, complaint) = run_with_timeout(STEP, &mut du, None, TIMEOUT)?;
    check_status(STEP, status, &complaint)?;
    let bytes = answer.split_whitespace().next().and_then(|bytes| bytes.parse().ok());
    bytes.map(Some).ok_or_else(|| EngineError::failed(STEP, format!("du printed {answer:?}")))
}

/// Takes the lock of a folder; `None` when it is missing or another process has the lock.
fn try_lock(folder: &Path) -> EngineResult<Option<File>> {
    let failed = host_error("lock a folder", folder);
    let opened = match File::open(folder) {
        Ok(opened) => opened,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    match flock(&opened, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(opened)),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
        Err(error) => Err(failed(error.into())),
    }
}

/// Removes a folder; a missing one counts as removed. Guests and images choose how deep the folders of a layer are nested, and
/// `rm` needs no more memory and open files for deep ones. Blocks.
///
/// # Errors
/// `Failed` with this step.
pub fn remove_tree(step: &'static str, path: &Path) -> EngineResult<()> {
    let mut rm = tool("rm");
    rm.args(["--recursive", "--force", "--one-file-system", "--"]).arg(path);
    let (status, _, complaint) = run_with_timeout(step, &mut rm, None, TIMEOUT)?;
    check_status(step, status, &complaint)
}
