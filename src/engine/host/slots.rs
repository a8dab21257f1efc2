//! Which user ids and which network does a running machine have? Those of its slot, a number that is its own on the
//! whole host, whichever controller made it.
//!
//! A claim is a symbolic link `slots/<number>` whose text names the boot and the machine's folder: it appears at once
//! and whole. Claims of an earlier boot, and of machines that no longer exist, count as free.

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use super::layout::{Folder, remove_if_there};
use super::{cgroup, lock, process};
use crate::{EngineError, EngineResult};
use hotdesk_base::ids::ComputerId;

/// What all controllers of a host share. Not `/run/hotdesk`: a service manager removes that one with the service,
/// and the machines outlive it.
const HOST_DIR: &str = "/run/hotdesk-engine";

/// The host-wide folder, made when missing. Others may pass through it: the staging area is inside.
pub(super) fn host_dir() -> io::Result<PathBuf> {
    let path = PathBuf::from(HOST_DIR);
    fs::DirBuilder::new().recursive(true).mode(0o755).create(&path)?;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path.join("slots"))?;
    Ok(path)
}

/// Claims a slot below `limit`: the one that the machine holds already, else `wanted` when it is free, else the lowest.
pub(super) fn claim(folder: &Folder, limit: u16, wanted: Option<u16>) -> EngineResult<u16> {
    const STEP: &str = "claim a slot";
    let failed = |error: io::Error| EngineError::failed(STEP, format!("{HOST_DIR}: {error}"));
    let host = host_dir().map_err(failed)?;
    let _held = lock::host(&host).map_err(failed)?;
    let boot = process::boot_id().map_err(failed)?;
    let mut taken = vec![false; usize::from(limit)];
    for claim in claims(&host).map_err(failed)? {
        if claim.boot == boot && claim.machine == folder.path && claim.slot < limit {
            return Ok(claim.slot);
        }
        if claim.machine == folder.path || claim.is_abandoned(&boot) {
            remove_if_there(&link(&host, claim.slot)).map_err(failed)?;
        } else if let Some(entry) = taken.get_mut(usize::from(claim.slot)) {
            *entry = true;
        }
    }
    let lowest = || taken.iter().position(|taken| !taken).and_then(|free| u16::try_from(free).ok());
    let free = wanted.filter(|slot| taken.get(usize::from(*slot)) == Some(&false)).or_else(lowest);
    let Some(slot) = free else {
        return Err(EngineError::NoCapacity(format!("all {limit} slots of this host are taken")));
    };
    let text = format!("{boot} {}", folder.path.display());
    std::os::unix::fs::symlink(text, link(&host, slot)).map_err(failed)?;
    Ok(slot)
}

/// The slot that the machine holds.
pub(super) fn held(folder: &Folder) -> EngineResult<Option<u16>> {
    let failed = |error: io::Error| EngineError::failed("read the slots", format!("{HOST_DIR}: {error}"));
    let host = host_dir().map_err(failed)?;
    let claims = claims(&host).map_err(failed)?;
    Ok(claims.into_iter().find(|claim| claim.machine == folder.path).map(|claim| claim.slot))
}

/// Gives the machine's slot back.
pub(super) fn release(folder: &Folder) -> EngineResult<()> {
    let failed = |error: io::Error| EngineError::failed("release the slot", format!("{HOST_DIR}: {error}"));
    let host = host_dir().map_err(failed)?;
    let _held = lock::host(&host).map_err(failed)?;
    for claim in claims(&host).map_err(failed)?.into_iter().filter(|claim| claim.machine == folder.path) {
        remove_if_there(&link(&host, claim.slot)).map_err(failed)?;
    }
    Ok(())
}

/// Who holds a slot.
#[derive(Debug)]
pub(super) struct Claim {
    pub(super) slot: u16,
    /// The boot of the host in which it was claimed.
    pub(super) boot: String,
    /// The machine's folder.
    pub(super) machine: PathBuf,
}

impl Claim {
    /// The machine that holds it.
    pub(super) fn id(&self) -> Option<ComputerId> {
        self.machine.file_name()?.to_str()?.parse().ok()
    }

    /// Whether nobody will ever release it: its boot is over, or its machine's folder is gone and nothing of it runs.
    pub(super) fn is_abandoned(&self, boot: &str) -> bool {
        self.boot != boot || abandoned(&self.machine)
    }
}

/// Every claim on this host, whichever controller made it.
pub(super) fn all() -> EngineResult<Vec<Claim>> {
    let failed = |error: io::Error| EngineError::failed("read the slots", format!("{HOST_DIR}: {error}"));
    claims(&host_dir().map_err(failed)?).map_err(failed)
}

/// Removes a claim that nobody will release. Only under the host's lock.
pub(super) fn remove(slot: u16) -> io::Result<()> {
    remove_if_there(&link(&host_dir()?, slot))
}

fn link(host: &Path, slot: u16) -> PathBuf {
    host.join("slots").join(format!("{slot:05}"))
}

fn claims(host: &Path) -> io::Result<Vec<Claim>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(host.join("slots"))? {
        let entry = entry?;
        let Some(slot) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let text = match fs::read_link(entry.path()) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        let Some((boot, machine)) = text.to_str().and_then(|text| text.split_once(' ')) else { continue };
        found.push(Claim { slot, boot: boot.to_owned(), machine: PathBuf::from(machine) });
    }
    Ok(found)
}

/// Whether nobody will ever release a claim: its machine's folder is gone and nothing of it runs.
fn abandoned(machine: &Path) -> bool {
    let id = machine.file_name().and_then(|name| name.to_str()).and_then(|name| name.parse().ok());
    let runs = id.is_some_and(|id: ComputerId| !cgroup::folders(id).is_empty());
    !machine.exists() && !runs
}
