//! How does a machine's hardware change? At once for one that runs, where the kernel can; else at its next start, which
//! takes every size from the spec.

use super::layout::{Folder, Record};
use super::runtime::Kind;
use super::{ContainerEngine, Inner, bandwidth, disk, lock, quota, slots};
use crate::base::ids::ComputerId;
use crate::engine::{Change, Effect, EngineError, EngineResult, Observation};

impl ContainerEngine {
    /// [`crate::engine::Engine::resize`].
    pub(super) async fn change(&self, id: ComputerId, change: Change) -> EngineResult<Effect> {
        let folder = self.inner.state.folder(id);
        let Some(held) = lock::machine(&folder).await? else { return Err(EngineError::Absent) };
        self.blocking(move |inner| {
            let _held = held;
            let runs = match inner.observe(id)? {
                Observation::Absent => return Err(EngineError::Absent),
                Observation::Running { .. } => true,
                Observation::Stopped | Observation::Suspended { .. } => false,
            };
            let before = folder.read_record()?;
            let after = before.changed(change)?;
            if let Change::Disk(_) = change {
                disk::check_reserve(&folder.path)?;
            }
            folder.write_record(&after)?;
            if !runs {
                return Ok(Effect::AtNextStart);
            }
            inner.apply(&folder, &before, change).inspect_err(|_| {
                if let Err(error) = folder.write_record(&before) {
                    tracing::warn!(computer = %id, %error, "a machine's record says what did not come true");
                }
            })
        })
        .await
    }
}

impl Inner {
    /// Changes a machine that runs. On error it is as before.
    fn apply(&self, folder: &Folder, before: &Record, change: Change) -> EngineResult<Effect> {
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
