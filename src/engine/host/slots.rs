//! Slots: numbers unique on the host, from which running machines of all controllers take user ids and
//! addresses.
//!
//! A claim is a symbolic link `slots/<number>` whose text is the host's boot id and the machine's folder.
//! Creating a link is atomic. Claims of an earlier boot, and of machines that no longer exist, count as free.

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use crate::host::files::remove_if_there;
use crate::host::{cgroup, lock, process};
use crate::{EngineError, EngineResult, Shortage};
use hotdesk_base::ids::ComputerId;

/// The folder that all controllers of a host share. Not `/run/hotdesk`: a service manager removes that one
/// with the service, and machines outlive the service.
const HOST_DIR: &str = "/run/hotdesk-engine";

/// Returns the host-wide folder, made when missing. Others may traverse it, because the staging area is
/// inside.
pub(crate) fn host_dir() -> io::Result<PathBuf> {
    let path = PathBuf::from(HOST_DIR);
    fs::DirBuilder::new().recursive(true).mode(0o755).create(&path)?;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path.join("slots"))?;
    Ok(path)
}

/// Claims a slot below `limit` for the machine whose folder is `machine`: the one that it holds, else
/// `wanted` if it is free, else the lowest free one.
///
/// # Errors
/// `NoCapacity` when all are taken.
pub(crate) fn claim(machine: &Path, limit: u16, wanted: Option<u16>) -> EngineResult<u16> {
    const STEP: &str = "claim a slot";
    let failed = |error: io::Error| EngineError::failed(STEP, format!("{HOST_DIR}: {error}"));
    let host = host_dir().map_err(failed)?;
    let _guard = lock::host(&host).map_err(failed)?;
    let boot = process::boot_id().map_err(failed)?;
    let mut taken = vec![false; usize::from(limit)];
    for claim in claims(&host).map_err(failed)? {
        if claim.boot == boot && claim.machine == machine && claim.slot < limit {
            return Ok(claim.slot);
        }
        if claim.machine == machine || claim.is_abandoned(&boot) {
            remove_if_there(&link(&host, claim.slot)).map_err(failed)?;
        } else if let Some(entry) = taken.get_mut(usize::from(claim.slot)) {
            *entry = true;
        }
    }
    let lowest = || taken.iter().position(|taken| !taken).and_then(|free| u16::try_from(free).ok());
    let free = wanted.filter(|slot| taken.get(usize::from(*slot)) == Some(&false)).or_else(lowest);
    let Some(slot) = free else {
        return Err(EngineError::NoCapacity(
            Shortage::Slots,
            format!("all {limit} slots of this host are taken"),
        ));
    };
    let text = format!("{boot} {}", machine.display());
    std::os::unix::fs::symlink(text, link(&host, slot)).map_err(failed)?;
    Ok(slot)
}

/// The slot of the machine whose folder is `machine`.
pub(crate) fn of_machine(machine: &Path) -> EngineResult<Option<u16>> {
    let failed = |error: io::Error| EngineError::failed("read the slots", format!("{HOST_DIR}: {error}"));
    let host = host_dir().map_err(failed)?;
    let claims = claims(&host).map_err(failed)?;
    Ok(claims.into_iter().find(|claim| claim.machine == machine).map(|claim| claim.slot))
}

/// Releases the slot of the machine whose folder is `machine`.
pub(crate) fn release(machine: &Path) -> EngineResult<()> {
    let failed = |error: io::Error| EngineError::failed("release the slot", format!("{HOST_DIR}: {error}"));
    let host = host_dir().map_err(failed)?;
    let _guard = lock::host(&host).map_err(failed)?;
    for claim in claims(&host).map_err(failed)?.into_iter().filter(|claim| claim.machine == machine) {
        remove_if_there(&link(&host, claim.slot)).map_err(failed)?;
    }
    Ok(())
}

/// A claimed slot.
#[derive(Debug)]
pub(crate) struct Claim {
    pub(crate) slot: u16,
    /// The boot of the host in which it was claimed.
    pub(crate) boot: String,
    /// The machine's folder.
    pub(crate) machine: PathBuf,
}

impl Claim {
    /// The id of the machine that holds it.
    pub(crate) fn id(&self) -> Option<ComputerId> {
        self.machine.file_name()?.to_str()?.parse().ok()
    }

    /// Whether no machine will release it: the host has rebooted since, or its machine's folder is gone and
    /// no process runs.
    pub(crate) fn is_abandoned(&self, boot: &str) -> bool {
        self.boot != boot || abandoned(&self.machine)
    }
}

/// Every claim on this host, whichever controller made it.
pub(crate) fn all() -> EngineResult<Vec<Claim>> {
    let failed = |error: io::Error| EngineError::failed("read the slots", format!("{HOST_DIR}: {error}"));
    claims(&host_dir().map_err(failed)?).map_err(failed)
}

/// Removes an abandoned claim. Needs the host's lock.
pub(crate) fn remove(slot: u16) -> io::Result<()> {
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

/// Whether the machine's folder is gone and none of its processes runs.
fn abandoned(machine: &Path) -> bool {
    let id = machine.file_name().and_then(|name| name.to_str()).and_then(|name| name.parse().ok());
    let runs = id.is_some_and(|id: ComputerId| !cgroup::folders(id).is_empty());
    !machine.exists() && !runs
}
