//! Creation of a machine's control groups, for machines without an OCI runtime.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::EngineResult;
use crate::host::cgroup::{self, PARENT, limits};
use crate::host::command::host_error;
use hotdesk_base::ids::ComputerId;

/// Limits of one machine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ResourceLimits {
    /// CPU in cores.
    pub(crate) cpu: f64,
    /// Memory in bytes.
    pub(crate) memory_bytes: u64,
    /// Number of processes and threads.
    pub(crate) processes: u64,
}

/// Makes a machine's groups with their limits. Returns the `cgroup.procs` files: a process that writes its
/// pid to each is in the groups.
pub(crate) fn make(id: ComputerId, most: ResourceLimits) -> EngineResult<Vec<PathBuf>> {
    const STEP: &str = "make the control groups";
    let unified = cgroup::is_unified();
    let roots: Vec<PathBuf> = cgroup::roots().into_iter().filter(|root| unified || controls(root)).collect();
    for root in &roots {
        let parent = root.join(PARENT);
        let own = parent.join(id.to_string());
        let made = fs::create_dir_all(&parent)
            .and_then(|()| {
                if unified {
                    delegate_controllers(root).and_then(|()| delegate_controllers(&parent))
                } else {
                    Ok(())
                }
            })
            .and_then(|()| fs::create_dir_all(&own));
        made.map_err(host_error(STEP, &own))?;
        let pids = own.join("pids.max");
        if pids.exists() {
            fs::write(&pids, most.processes.to_string()).map_err(host_error(STEP, &pids))?;
        }
    }
    limits::set_cpu(id, most.cpu)?;
    limits::set_memory(id, most.memory_bytes)?;
    Ok(cgroup::folders(id).into_iter().map(|folder| folder.join("cgroup.procs")).collect())
}

/// Whether a hierarchy of version 1 has a controller that limits or freezes machines. Others may need settings
/// before they accept a process.
fn controls(root: &Path) -> bool {
    let name = root.file_name().unwrap_or_default().to_string_lossy();
    name.split(',').any(|controller| ["cpu", "freezer", "memory", "pids"].contains(&controller))
}

/// Enables the controllers for the children of a version 2 group.
fn delegate_controllers(folder: &Path) -> io::Result<()> {
    fs::write(folder.join("cgroup.subtree_control"), "+cpu +memory +pids")
}
