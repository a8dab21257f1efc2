//! What is on this host that no computer owns, why is it nobody's, and how does it go? For `hotdesk doctor --repair`, while no
//! controller uses the state folder.
//!
//! What is in the state folder belongs to it: nobody's is a machine that no row names. What lies outside, all controllers of
//! the host share: there a claimed slot is the proof of ownership, since a machine claims one before it takes anything else
//! and gives it back last. What a row owns is never touched, in whatever state it is: the controller's next start sees to it.

mod host;

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use self::host::HostThing;
use super::command::host_error;
use super::layout::{StateDir, remove_if_there};
use super::{Engine, EngineError, EngineResult, NetworkConfig, lock, unfinished};
use hotdesk_base::ids::ComputerId;

/// One thing that nobody owns.
#[derive(Debug)]
pub struct Leftover {
    /// What kind of thing it is.
    pub what: &'static str,
    /// Which one.
    pub place: String,
    /// Why it is nobody's.
    pub why: &'static str,
    /// What a repair does.
    pub remedy: &'static str,
    thing: Thing,
}

#[derive(Debug)]
enum Thing {
    Machine(ComputerId),
    /// A file or a folder with all that is in it.
    Tree(PathBuf),
    /// A file that is not whole, of a machine that a row owns.
    Unfinished(ComputerId, PathBuf),
    Host(HostThing),
}

/// Looks over a state folder and its host, and changes nothing until told to.
pub struct Leftovers {
    pub(super) engine: Arc<dyn Engine>,
    pub(super) state: StateDir,
    pub(super) network: NetworkConfig,
}

impl std::fmt::Debug for Leftovers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Leftovers").field("state", &self.state).finish_non_exhaustive()
    }
}

impl Leftovers {
    /// The engine whose machines they are.
    pub fn engine(&self) -> &dyn Engine {
        &*self.engine
    }

    /// What is left that none of the computers in `owned` has a claim to, in the order in which it can go. Blocks.
    ///
    /// # Errors
    /// When the host cannot be looked at.
    pub fn find(&self, owned: &BTreeSet<ComputerId>) -> EngineResult<Vec<Leftover>> {
        let mut found = host::users_of_disks(&self.state, owned)?;
        found.extend(machines(&self.state, owned)?);
        found.extend(records(&self.state, owned)?);
        found.extend(unnamed(&self.state)?);
        found.extend(half_made(&self.state, owned)?);
        found.extend(host::unclaimed(&self.network, &self.state, owned)?);
        Ok(found)
    }

    /// Takes one of them away.
    ///
    /// # Errors
    /// When it does not go.
    pub async fn take_away(&self, leftover: &Leftover) -> EngineResult<()> {
        match &leftover.thing {
            Thing::Machine(id) => self.engine.destroy(*id).await,
            Thing::Host(thing) => host::take_away(thing, &self.network).await,
            Thing::Tree(path) => remove(path).map_err(host_error("remove what is left", path)),
            Thing::Unfinished(id, path) => {
                let folder = self.state.folder(*id);
                let Some(_held) = lock::free(&folder)? else {
                    return Err(EngineError::failed("remove what is left", "somebody works on its machine"));
                };
                remove_if_there(path).map_err(host_error("remove what is left", path))
            }
        }
    }
}

/// Removes a file or a folder; what is gone is removed.
fn remove(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => fs::remove_dir_all(path),
        Ok(_) => remove_if_there(path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

fn machines(state: &StateDir, owned: &BTreeSet<ComputerId>) -> EngineResult<Vec<Leftover>> {
    let nobodys = state.list()?.into_iter().filter(|id| !owned.contains(id));
    let told = |id| Leftover {
        what: "machine",
        place: state.folder(id).path.display().to_string(),
        why: "no computer has this id",
        remedy: "end what runs of it, remove its disk and all that it took of the host",
        thing: Thing::Machine(id),
    };
    Ok(nobodys.map(told).collect())
}

/// The OCI runtime's records of machines that are not there at all. Those of a machine that is there go with it.
fn records(state: &StateDir, owned: &BTreeSet<ComputerId>) -> EngineResult<Vec<Leftover>> {
    let known: Vec<String> = state.list()?.iter().chain(owned).map(ComputerId::to_string).collect();
    let nobodys = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        !known.iter().any(|id| name.contains(id))
    };
    let told = |path: PathBuf| Leftover {
        what: "runtime record",
        place: path.display().to_string(),
        why: "its machine is gone",
        remedy: "remove it",
        thing: Thing::Tree(path),
    };
    Ok(entries(&state.runtime())?.into_iter().filter(nobodys).map(told).collect())
}

/// What has no name that anybody would look for: machines on their way out, and an agent's executable that is half copied.
fn unnamed(state: &StateDir) -> EngineResult<Vec<Leftover>> {
    let told = |what, why| {
        move |path: PathBuf| Leftover {
            what,
            place: path.display().to_string(),
            why,
            remedy: "remove it",
            thing: Thing::Tree(path),
        }
    };
    let trash = entries(&state.trash())?.into_iter();
    let agents = entries(&state.agents())?.into_iter().filter(|path| path.ends_with("new"));
    Ok(trash
        .map(told("trash", "its removal was cut short"))
        .chain(agents.map(told("unfinished file", "its making was cut short")))
        .collect())
}

fn half_made(state: &StateDir, owned: &BTreeSet<ComputerId>) -> EngineResult<Vec<Leftover>> {
    let mut found = Vec::new();
    for id in owned {
        let folder = state.folder(*id);
        // Somebody works on it: a tool of a controller that was killed.
        let Some(_held) = lock::free(&folder)? else { continue };
        found.extend(unfinished::files(&folder)?.into_iter().map(|path| Leftover {
            what: "unfinished file",
            place: path.display().to_string(),
            why: "its making was cut short, and nothing ever reads it",
            remedy: "remove it; the computer stays as it is",
            thing: Thing::Unfinished(*id, path),
        }));
    }
    Ok(found)
}

fn entries(folder: &Path) -> EngineResult<Vec<PathBuf>> {
    let failed = host_error("look for what is left", folder);
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(&failed)? {
        found.push(entry.map_err(&failed)?.path());
    }
    found.sort();
    Ok(found)
}
