//! What of a machine's hardware changes while it runs?

use super::layout::{Folder, Record};
use super::runtime::Kind;
use super::{Inner, bandwidth, disk, quota, slots};
use crate::{Change, Effect, EngineResult};

impl Inner {
    /// Changes a machine that runs. On error it is as before.
    pub(super) fn apply(&self, folder: &Folder, before: &Record, change: Change) -> EngineResult<Effect> {
        match change {
            // A kernel of its own has been told its memory, and keeps what it knows of a disk.
            Change::Memory(_) | Change::Disk(_) if self.runtime.kind() == Kind::Gvisor => {
                Ok(Effect::AtNextStart)
            }
            Change::Cpu(cpu) => quota::set_cpu(folder.id, cpu).map(|()| Effect::Live),
            Change::Memory(bytes) => quota::set_memory(folder.id, bytes).map(|()| Effect::Live),
            Change::Disk(bytes) => disk::grow_live(&folder.disk(), bytes),
            Change::Bandwidth(mbps) => {
                let pid = self.state_of(folder.id)?.map(|state| state.pid).filter(|pid| *pid != 0);
                let slot = slots::held(folder)?.filter(|_| self.config.network.enabled);
                // A machine without a network sends and receives nothing, whatever the bound.
                let (Some(pid), Some(slot)) = (pid, slot) else { return Ok(Effect::Live) };
                bandwidth::limit(slot, pid, mbps).inspect_err(|_| {
                    if let Err(error) = bandwidth::limit(slot, pid, before.bandwidth_mbps) {
                        tracing::warn!(computer = %folder.id, %error, "one way of a guest's network has another bound");
                    }
                })?;
                Ok(Effect::Live)
            }
        }
    }
}
