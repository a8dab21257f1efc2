//! Live resize of a container.

use crate::container::Inner;
use crate::container::runtime::RuntimeKind;
use crate::host::cgroup::limits;
use crate::host::{bandwidth, slots};
use crate::state::disk;
use crate::state::layout::{Folder, Record};
use crate::{Change, Effect, EngineResult};

impl Inner {
    /// Resizes a running machine. On error it is as before.
    pub(super) fn apply(&self, folder: &Folder, before: &Record, change: Change) -> EngineResult<Effect> {
        match change {
            // gVisor's kernel reads its memory size at boot and caches its view of the disk.
            Change::Memory(_) | Change::Disk(_) if self.runtime.kind() == RuntimeKind::Gvisor => {
                Ok(Effect::AtNextStart)
            }
            Change::Cpu(cpu) => limits::set_cpu(folder.id, cpu).map(|()| Effect::Live),
            Change::Memory(bytes) => limits::set_memory(folder.id, bytes).map(|()| Effect::Live),
            Change::Disk(bytes) => disk::grow_live(&folder.disk(), bytes),
            Change::Bandwidth(mbps) => {
                let pid = self.state_of(folder.id)?.map(|state| state.pid).filter(|pid| *pid != 0);
                let slot = slots::of_machine(&folder.path)?.filter(|_| self.config.network.enabled);
                // A machine without a network needs no limit.
                let (Some(pid), Some(slot)) = (pid, slot) else { return Ok(Effect::Live) };
                bandwidth::limit(slot, pid, mbps).inspect_err(|_| {
                    if let Err(error) = bandwidth::limit(slot, pid, before.bandwidth_mbps) {
                        tracing::warn!(computer = %folder.id, %error, "could not restore a guest's bandwidth limit; one direction has the new one");
                    }
                })?;
                Ok(Effect::Live)
            }
        }
    }
}
