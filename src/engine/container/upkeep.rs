//! Upkeep of running containers: balance over the host's CPUs, and a new lxcfs for one that has ended.

use std::collections::BTreeSet;
use std::fs;

use crate::EngineResult;
use crate::container::ContainerEngine;
use crate::container::lxcfs::{self, ResourceFiles};
use crate::container::runtime::RuntimeKind;
use crate::driver::GuestDriver;
use crate::host::cgroup;
use crate::host::cgroup::balance::{self, CpuTimes};
use crate::state::layout::Folder;
use crate::state::machine_lock::MachineLock;
use hotdesk_base::ids::ComputerId;

/// What upkeep remembers from one call to the next.
#[derive(Debug, Default)]
pub(super) struct UpkeepState {
    cpu_times: CpuTimes,
    /// Machines whose lxcfs could not be replaced, or that do not run. They are left alone until they boot.
    unserved: BTreeSet<ComputerId>,
}

impl UpkeepState {
    /// Forgets what it knows of a machine, which boots.
    pub(super) fn forget(&mut self, id: ComputerId) {
        self.unserved.remove(&id);
    }
}

impl ContainerEngine {
    /// [`crate::Engine::maintain`]. Blocks.
    pub(super) fn maintain_machines(&self) -> EngineResult<()> {
        if self.runtime.kind() == RuntimeKind::Gvisor {
            return Ok(());
        }
        let own = self.host().machines_of(self.runtime.isolation())?;
        if lxcfs::is_installed() {
            for id in &own {
                if let Err(error) = self.replace_lxcfs(&self.state().folder(*id)) {
                    tracing::warn!(computer = %id, error = format_args!("{error:#}"), "the guest has no lxcfs until it is restarted");
                    self.upkeep().unserved.insert(*id);
                }
            }
        }
        balance::balance(&mut self.upkeep().cpu_times, &own.into_iter().collect())
    }

    /// Starts a new lxcfs for a running machine that has none.
    fn replace_lxcfs(&self, folder: &Folder) -> EngineResult<()> {
        let id = folder.id;
        if self.upkeep().unserved.contains(&id) || !folder.boot_config().exists() || has_lxcfs(folder) {
            return Ok(());
        }
        // A locked machine boots or ends.
        let Some(_guard) = MachineLock::try_acquire(folder)? else { return Ok(()) };
        let Some(state) = self.state_of(id)?.filter(|state| state.status == "running") else {
            self.upkeep().unserved.insert(id);
            return Ok(());
        };
        let files = ResourceFiles::launch(&folder.lxcfs_pid())?;
        files.attach_to(state.pid)?;
        files.join(id)?;
        tracing::info!(computer = %id, "a new lxcfs serves the guest, which had none");
        Ok(())
    }
}

/// Whether the lxcfs of a machine runs.
fn has_lxcfs(folder: &Folder) -> bool {
    let text = fs::read_to_string(folder.lxcfs_pid()).unwrap_or_default();
    text.trim().parse().is_ok_and(|pid| cgroup::contains(folder.id, pid))
}
