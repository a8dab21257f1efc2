//! Leftovers: things on the host that no computer owns, and their removal by `hotdesk doctor --repair`.
//!
//! The search runs while no controller uses the state folder; [`beside_operations`] is the part that a
//! running one may report. In the state folder, a machine is a leftover when no row of the database names it.
//! Outside, all controllers of the host share what there is. There a claimed slot proves ownership: a machine
//! claims its slot before it takes anything else, and releases it last. The search never touches what a row
//! owns, in whatever state it is; the controller's next start repairs that. One exception: a machine that
//! something outside stopped or froze is listed and ended.

mod host;

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::driver::{layers, recovery};
use crate::host::cgroup;
use crate::host::command::host_error;
use crate::host::files::remove_if_there;
use crate::leftovers::host::HostResource;
use crate::state::layout::StateDir;
use crate::state::machine_lock::MachineLock;
use crate::{Engine, EngineError, EngineResult, HostSettings, LeftoverRecord, NetworkConfig};
use hotdesk_base::ids::ComputerId;

/// Most leftovers that a search beside running operations returns: far more than a person reads, and they fit
/// into one reply of the host helper.
pub const MAX_LEFTOVERS: usize = 1000;

/// One thing on the host that no computer owns, or a machine that stands still.
#[derive(Debug)]
pub struct Leftover {
    /// The kind of thing, for example `loop device`.
    pub kind: &'static str,
    /// Its path or name.
    pub location: String,
    /// Why no computer owns it.
    pub reason: &'static str,
    /// What [`Leftovers::remove`] does with it.
    pub remedy: &'static str,
    item: LeftoverItem,
}

impl Leftover {
    fn into_record(self) -> LeftoverRecord {
        let Self { kind, location, reason, remedy, item: _ } = self;
        LeftoverRecord { kind: kind.into(), location, reason: reason.into(), remedy: remedy.into() }
    }
}

#[derive(Debug)]
enum LeftoverItem {
    Machine(ComputerId),
    /// A machine that a row owns and that stands still.
    Stopped(ComputerId),
    /// A file, or a folder with its contents.
    Tree(PathBuf),
    /// An unfinished file of a machine that a row owns.
    Unfinished(ComputerId, PathBuf),
    Host(HostResource),
}

/// Search for leftovers in one state folder and on its host.
#[derive(Debug)]
pub struct Leftovers {
    engine: Arc<dyn Engine>,
    state: StateDir,
    network: NetworkConfig,
}

impl Leftovers {
    /// The search in the state folder of an engine that was opened with these settings.
    pub(crate) fn new(engine: Arc<dyn Engine>, settings: HostSettings) -> EngineResult<Self> {
        Ok(Self { engine, state: StateDir::open(&settings.state_dir)?, network: settings.network })
    }

    /// The engine that made the machines.
    pub fn engine(&self) -> &dyn Engine {
        &*self.engine
    }

    /// Finds what none of the computers in `owned` owns, in the order in which it can be removed. Changes
    /// nothing. Blocks.
    ///
    /// # Errors
    /// `Failed` when a folder, the mounts, the control groups or the packet rules cannot be read.
    pub fn find(&self, owned: &BTreeSet<ComputerId>) -> EngineResult<Vec<Leftover>> {
        let mut found = host::users_of_disks(&self.state, owned)?;
        found.extend(machines(&self.state, owned)?);
        found.extend(stopped(&self.state, owned)?);
        found.extend(records(&self.state, owned)?);
        found.extend(interrupted(&self.state)?);
        found.extend(unfinished(&self.state, owned)?);
        found.extend(host::unclaimed(&self.network, &self.state, owned)?);
        Ok(found)
    }

    /// Removes one leftover.
    ///
    /// # Errors
    /// `Failed` when a machine has claimed it since, or the kernel refuses; it is still there then.
    pub async fn remove(&self, leftover: &Leftover) -> EngineResult<()> {
        match &leftover.item {
            LeftoverItem::Machine(id) => self.engine.destroy(*id).await,
            LeftoverItem::Stopped(id) => self.engine.stop(*id, Duration::ZERO).await,
            LeftoverItem::Host(thing) => host::remove(thing, &self.network).await,
            LeftoverItem::Tree(path) => remove_path(path).map_err(host_error("remove a leftover", path)),
            LeftoverItem::Unfinished(id, path) => {
                let folder = self.state.folder(*id);
                let Some(_guard) = MachineLock::try_acquire(&folder)? else {
                    return Err(EngineError::failed(
                        "remove a leftover",
                        "another process works on its machine",
                    ));
                };
                remove_if_there(path).map_err(host_error("remove a leftover", path))
            }
        }
    }
}

/// The part of [`Leftovers::find`] that is true while operations run
/// ([`Engine::find_leftovers`](crate::Engine::find_leftovers)). It takes no lock of a machine. Blocks.
pub(crate) fn beside_operations(
    state: &StateDir,
    network: &NetworkConfig,
    owned: &BTreeSet<ComputerId>,
) -> EngineResult<Vec<LeftoverRecord>> {
    let mut found = host::users_of_disks(state, owned)?;
    found.extend(machines(state, owned)?);
    found.extend(records(state, owned)?);
    found.extend(host::unclaimed(network, state, owned)?);
    Ok(found.into_iter().take(MAX_LEFTOVERS).map(Leftover::into_record).collect())
}

/// Removes a file or a folder; a missing one counts as removed.
fn remove_path(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => fs::remove_dir_all(path),
        Ok(_) => remove_if_there(path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

fn machines(state: &StateDir, owned: &BTreeSet<ComputerId>) -> EngineResult<Vec<Leftover>> {
    let unowned = state.list()?.into_iter().filter(|id| !owned.contains(id));
    let leftover = |id| Leftover {
        kind: "machine",
        location: state.folder(id).path.display().to_string(),
        reason: "no computer has this id",
        remedy: "end its processes, remove its disk, release its slot and its network",
        item: LeftoverItem::Machine(id),
    };
    Ok(unowned.map(leftover).collect())
}

/// Machines that stand still. Without a controller nothing else would tell why they do not answer. The next controller
/// thaws those that the guard of the disk froze.
fn stopped(state: &StateDir, owned: &BTreeSet<ComputerId>) -> EngineResult<Vec<Leftover>> {
    let mut found = Vec::new();
    for id in owned {
        if !state.folder(*id).frozen().exists() && cgroup::stopped::is_stopped(*id)? {
            found.push(Leftover {
                kind: "stopped machine",
                location: state.folder(*id).path.display().to_string(),
                reason: "its processes were stopped or frozen from outside, and nothing of it answers",
                remedy: "end its processes; its disk stays, and the computer can be started",
                item: LeftoverItem::Stopped(*id),
            });
        }
    }
    Ok(found)
}

/// The OCI runtime's records of machines without a folder. `destroy` removes those of machines with one.
fn records(state: &StateDir, owned: &BTreeSet<ComputerId>) -> EngineResult<Vec<Leftover>> {
    let known: Vec<String> = state.list()?.iter().chain(owned).map(ComputerId::to_string).collect();
    let unowned = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        !known.iter().any(|id| name.contains(id))
    };
    let leftover = |path: PathBuf| Leftover {
        kind: "runtime record",
        location: path.display().to_string(),
        reason: "its machine is gone",
        remedy: "remove it",
        item: LeftoverItem::Tree(path),
    };
    Ok(entries(&state.runtime())?.into_iter().filter(unowned).map(leftover).collect())
}

/// Machines whose removal was interrupted, and copies of the agent and layers that are not complete.
fn interrupted(state: &StateDir) -> EngineResult<Vec<Leftover>> {
    let leftover = |kind, reason| {
        move |path: PathBuf| Leftover {
            kind,
            location: path.display().to_string(),
            reason,
            remedy: "remove it",
            item: LeftoverItem::Tree(path),
        }
    };
    let trash = entries(&state.trash())?.into_iter();
    let agents = entries(&state.agents())?.into_iter().filter(|path| path.ends_with("new"));
    let layers = layers::interrupted(state)?.into_iter();
    Ok(trash
        .map(leftover("trash", "its removal was interrupted"))
        .chain(agents.map(leftover("unfinished file", "its creation was interrupted")))
        .chain(layers.map(leftover("unfinished layer", "its creation or removal was interrupted")))
        .collect())
}

fn unfinished(state: &StateDir, owned: &BTreeSet<ComputerId>) -> EngineResult<Vec<Leftover>> {
    let mut found = Vec::new();
    for id in owned {
        let folder = state.folder(*id);
        // A locked machine is in use: a tool of a killed controller still runs.
        let Some(_guard) = MachineLock::try_acquire(&folder)? else { continue };
        found.extend(recovery::unfinished_files(&folder)?.into_iter().map(|path| Leftover {
            kind: "unfinished file",
            location: path.display().to_string(),
            reason: "its creation was interrupted, and nothing reads it",
            remedy: "remove it; the computer stays as it is",
            item: LeftoverItem::Unfinished(*id, path),
        }));
    }
    Ok(found)
}

fn entries(folder: &Path) -> EngineResult<Vec<PathBuf>> {
    let failed = host_error("look for leftovers", folder);
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(&failed)? {
        found.push(entry.map_err(&failed)?.path());
    }
    found.sort();
    Ok(found)
}
