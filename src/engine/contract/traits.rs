//! The interface between the controller and whatever runs a computer.
//!
//! ```text
//!            create             start                     suspend
//!   Absent ----------> Stopped -------> Running --------------------> Suspended -- evict --> Suspended
//!      ^                 |  ^------------|  ^--------- resume -----------|  |   (on host)     (evicted)
//!      |---- destroy ----|       stop                                       |  ^                  |
//!                        ^--------------- discard_memory -------------------|  |-- finish_fetch --|
//! ```

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::time::Duration;

use async_trait::async_trait;
use uuid::Uuid;

use crate::{
    Boot, Change, DiskWatch, Effect, Endpoint, EngineError, EngineFindings, EngineResult, Extents, FileKey,
    HostObservation, LeftoverRecord, MachineSpec, Observation, Offers, SavedFile, SavedState, Snapshot,
};
use hotdesk_base::ids::{ComputerId, LayerId};
use hotdesk_domain::computer::isolation::Isolation;
use hotdesk_domain::computer::template::network::egress::EgressPolicy;
use hotdesk_domain::host::outage::{HostOutage, HostState};

/// Something that makes and runs machines. Every operation is idempotent and may fail with
/// [`EngineError::Failed`] at any step, or with [`EngineError::NoCapacity`] when the host runs short.
#[async_trait]
pub trait Engine: Debug + Send + Sync + 'static {
    /// The isolations that it offers, and what machines of each can do beyond the operations that every engine has.
    fn offers(&self) -> &Offers;

    /// Returns a digest of what a boot with this isolation depends on besides the machine's hardware: the program that runs
    /// guests, the image, and the agent. A machine begins only from memory that was saved with the same inputs.
    ///
    /// # Errors
    /// `Failed` when one of these cannot be read, or the isolation is not offered.
    async fn boot_inputs(&self, isolation: Isolation) -> EngineResult<String>;

    /// Returns a digest that identifies the guest image. Layers fit only the image over which they were made.
    ///
    /// # Errors
    /// `Failed` when the image cannot be read.
    async fn image_id(&self) -> EngineResult<String>;

    /// Gives the host's kernel keys of encrypted machines; it loses them at a reboot. Until then, calls on these machines fail,
    /// except [`Engine::destroy`]. Keys that it has are left alone. Needs [`Capabilities::encrypt`].
    async fn add_keys(&self, _keys: &[FileKey]) -> EngineResult<()> {
        Err(EngineError::Unsupported("encrypt files of machines"))
    }

    /// Makes the folder of a new machine, in which everything is encrypted with a key: disk, snapshots, saved memory, records.
    /// Then `create`, `copy_disk`, `fork` or `launch` makes the machine. Needs [`Capabilities::encrypt`].
    ///
    /// # Errors
    /// `Failed` when the machine has files that are not encrypted with this key.
    async fn encrypt(&self, _id: ComputerId, _key: &FileKey) -> EngineResult<()> {
        Err(EngineError::Unsupported("encrypt files of machines"))
    }

    /// Takes the keys from the host's kernel whose machines all do not run, so that files of these cannot be read until
    /// [`Engine::add_keys`]. Call it when no other call follows.
    async fn remove_unused_keys(&self) -> EngineResult<()> {
        Ok(())
    }

    /// Makes a machine, after the computer's row is stored. On return its disk exists and [`Engine::observe`]
    /// returns `Stopped`.
    ///
    /// # Errors
    /// `NoCapacity` when the host's disk is nearly full; [`Engine::destroy`] removes what was made.
    async fn create(&self, spec: &MachineSpec) -> EngineResult<()>;

    /// Does the same on this host, one of [`Engine::hosts`]. A machine that exists stays where it is. An engine without hosts
    /// of its own makes the machine on this host.
    ///
    /// # Errors
    /// Those of [`Engine::create`].
    async fn create_on(&self, spec: &MachineSpec, _host: &str) -> EngineResult<()> {
        self.create(spec).await
    }

    /// Returns the hosts among which machines can be placed, in ascending order of their names; none where every machine is on
    /// the host of the engine. A host that does not answer is listed, too.
    ///
    /// # Errors
    /// `Failed` when nobody can list them.
    async fn hosts(&self) -> EngineResult<Vec<HostObservation>> {
        Ok(Vec::new())
    }

    /// Returns the host of a machine; `None` without such a machine, and where [`Engine::hosts`] has none.
    ///
    /// # Errors
    /// `Failed` when nobody can say.
    async fn host_of(&self, _id: ComputerId) -> EngineResult<Option<String>> {
        Ok(None)
    }

    /// Moves a machine that is `Stopped` or `Suspended` to another host, with its disk, snapshots and saved memory. On return it
    /// is there, as it was. A machine that is there already is left alone. A repeated call waits for the end of an interrupted
    /// one.
    ///
    /// # Errors
    /// `Absent`; `Failed` while it runs, or when a host does not answer. The machine is on one of the two hosts then, and whole.
    async fn move_machine(&self, _id: ComputerId, _to: &str) -> EngineResult<()> {
        Err(EngineError::Unsupported("move machines between hosts"))
    }

    /// Boots a machine and returns the address of its agent, which may still be starting. A machine that runs
    /// with the same generation is left alone. Another isolation than before takes effect.
    ///
    /// # Errors
    /// `Absent` without a disk; `Failed` when another generation runs or memory is saved. Nothing runs then
    /// that did not run before; mounts may be left for `stop` or `destroy`.
    async fn start(&self, spec: &MachineSpec, boot: &Boot) -> EngineResult<Endpoint>;

    /// Asks the guest to shut down and kills it after `grace` (later while it still writes back). On return
    /// nothing of it runs; its disk is kept and flushed.
    async fn stop(&self, id: ComputerId, grace: Duration) -> EngineResult<()>;

    /// Kills the machine if it runs and removes everything of it from the host. Called by delete and by the
    /// undo of a create.
    async fn destroy(&self, id: ComputerId) -> EngineResult<()>;

    /// Returns the state of a machine. Reads only.
    async fn observe(&self, id: ComputerId) -> EngineResult<Observation>;

    /// Checks what the host must have for the next boot of a machine, or for a rollback and the boot after it.
    /// The machine may run: a caller asks before it ends it. Changes nothing.
    ///
    /// # Errors
    /// `NoCapacity`; `Damaged` when the snapshot is missing.
    async fn check_capacity(&self, _id: ComputerId, _rollback_to: Option<Uuid>) -> EngineResult<()> {
        Ok(())
    }

    /// Returns every machine in this engine's state folder, in ascending order, whether a row knows it or
    /// not.
    async fn list(&self) -> EngineResult<Vec<ComputerId>>;

    /// Waits until the machine no longer runs; returns at once when it does not. The computer's runner learns
    /// of a crash by it, so it must cost nothing while it waits.
    async fn wait_stopped(&self, id: ComputerId) -> EngineResult<()>;

    /// Maintains the running machines: moves those that are bound to CPUs of the host from busy ones to idle ones, and
    /// replaces helper processes that have ended. The controller calls it every few seconds; it measures from one call to
    /// the next.
    ///
    /// # Errors
    /// `Failed` when control groups cannot be read or written; machines run as before.
    async fn maintain(&self) -> EngineResult<()> {
        Ok(())
    }

    /// Looks at the host's free space, freezes machines that grow while it is nearly used up, and thaws them when there is
    /// space again. The controller calls it again after [`DiskWatch::next`].
    ///
    /// # Errors
    /// `Failed` when the host cannot be measured; machines stay as they are.
    async fn watch_disk(&self) -> EngineResult<DiskWatch> {
        Ok(DiskWatch { free: u64::MAX, frozen: 0, next: Duration::from_secs(60) })
    }

    /// Whether a machine's processes are frozen because the host's disk is nearly full. It can be stopped and destroyed.
    fn is_frozen(&self, _id: ComputerId) -> bool {
        false
    }

    /// Whether [`Engine::watch_disk`] killed a machine since the last call, because it still grew while it was frozen.
    fn take_killed(&self, _id: ComputerId) -> bool {
        false
    }

    /// Saves memory and ends the machine. Needs [`Capabilities::suspend`](crate::Capabilities). On return nothing of the machine
    /// runs, memory and disk are synced to the host's disk, and [`Engine::observe`] returns `Suspended`.
    ///
    /// # Errors
    /// The machine runs on; where that is not possible it is `Stopped`. Nothing is left of the attempt.
    async fn suspend(&self, _id: ComputerId) -> EngineResult<()> {
        Err(EngineError::Unsupported("save memory"))
    }

    /// Continues a suspended machine and labels it with `boot.generation`. Its agent still has the token of
    /// the boot that was saved, until `Guest::renew` gives it `boot.token`. A machine that runs with the same
    /// generation is left alone.
    ///
    /// Saved memory is used once: it is dropped before the guest runs, because the disk changes from then on.
    /// Until that moment `observe` returns `Suspended`, and resume can be repeated.
    ///
    /// # Errors
    /// `Damaged` when saved memory is not whole; nothing was booted then and nothing removed.
    async fn resume(&self, _spec: &MachineSpec, _boot: &Boot) -> EngineResult<Endpoint> {
        Err(EngineError::Unsupported("continue from saved memory"))
    }

    /// Removes saved memory, for a stop or restart of a suspended computer. On return `observe` returns
    /// `Stopped`. A machine without saved memory is left alone.
    async fn discard_memory(&self, _id: ComputerId) -> EngineResult<()> {
        Ok(())
    }

    /// Returns the saved state of a suspended machine; `None` for any other. Reads only.
    async fn saved_state(&self, _id: ComputerId) -> EngineResult<Option<SavedState>> {
        Ok(None)
    }

    /// Reads at most `most` bytes of a saved file's data from an offset on; no extents mean the end. Needs
    /// [`Capabilities::evict`](crate::Capabilities). The saved state must be on this host, and nobody may resume the machine
    /// meanwhile.
    async fn read_saved(
        &self,
        _id: ComputerId,
        _file: &str,
        _from: u64,
        _most: usize,
    ) -> EngineResult<Extents> {
        Err(EngineError::Unsupported("read saved state"))
    }

    /// Removes the saved state from the host, once a copy is whole elsewhere. On return it takes no space,
    /// `observe` still returns `Suspended`, and [`Engine::saved_state`] is
    /// [`SavedLocation::Evicted`](crate::SavedLocation). A repeated call finishes an interrupted one and
    /// removes what was fetched of a state whose fetch did not finish.
    async fn evict(&self, _id: ComputerId) -> EngineResult<()> {
        Err(EngineError::Unsupported("evict saved state"))
    }

    /// Writes data of a file of an evicted state, with the file's length; pieces may come in any order.
    async fn write_saved(&self, _id: ComputerId, _file: &SavedFile, _data: Extents) -> EngineResult<()> {
        Err(EngineError::Unsupported("fetch saved state"))
    }

    /// Installs a fetched state after its last piece was written. On return the machine is `Suspended` and
    /// its state is [`SavedLocation::Fetched`](crate::SavedLocation), or it is `Stopped` when its memory was
    /// not fetched.
    ///
    /// # Errors
    /// `Damaged` when a file is missing; the state stays evicted.
    async fn finish_fetch(&self, _id: ComputerId, _with_memory: bool) -> EngineResult<()> {
        Err(EngineError::Unsupported("fetch saved state"))
    }

    /// Syncs a fetched state to the host's disk, so that a power cut does not lose it; the machine may run by
    /// now. A machine that fetched nothing is left alone.
    async fn sync_fetched(&self, _id: ComputerId) -> EngineResult<()> {
        Ok(())
    }

    /// Changes one dimension of a running or stopped machine, after the intent is stored. Returns whether the
    /// change is in effect.
    ///
    /// # Errors
    /// The dimension is as before.
    async fn resize(&self, _id: ComputerId, _change: Change) -> EngineResult<Effect> {
        Err(EngineError::Unsupported("change a machine's hardware"))
    }

    /// Changes the egress policy of a running or stopped machine, after it is stored. On return it is in effect: connections to
    /// destinations that the policy refuses are cut. A machine that has the policy already is left alone.
    ///
    /// # Errors
    /// `Absent`; `Failed`: the machine has the earlier policy. Where the name resolution of the new one does not begin, that is
    /// no error: the machine resolves no names, until [`Engine::maintain`] begins it.
    async fn set_egress(&self, _id: ComputerId, _policy: Option<&EgressPolicy>) -> EngineResult<()> {
        Err(EngineError::Unsupported("restrict the network of machines"))
    }

    /// Makes the machine `to` with a copy of the disk of `from`, for a clone; after the new computer's row is
    /// stored. The copy shows the disk at one moment of this call, and `to` is `Stopped`. A source that runs
    /// (needs [`Capabilities::copy_while_running`](crate::Capabilities)) has its file systems flushed first and continues.
    /// `to.disk_bytes` is at least the source's.
    ///
    /// # Errors
    /// `Absent` without a source; `destroy(to)` removes what was made.
    async fn copy_disk(&self, _from: ComputerId, _to: &MachineSpec) -> EngineResult<()> {
        Err(EngineError::Unsupported("copy a disk"))
    }

    /// Makes the machine `to` with disk and memory of one moment of the running `from`. Needs
    /// [`Capabilities::memory_snapshot`](crate::Capabilities). On return `to` is `Suspended` and `from` continues.
    ///
    /// When [`Engine::resume`] of `to` returns, it has its own link address and machine-id; its agent renews
    /// the rest.
    async fn fork(&self, _from: ComputerId, _to: &MachineSpec) -> EngineResult<()> {
        Err(EngineError::Unsupported("copy memory"))
    }

    /// Makes the machine `to` from a snapshot with memory of `from`, which may do anything meanwhile. Needs
    /// [`Capabilities::memory_snapshot`](crate::Capabilities). On return `to` is `Suspended` and independent of the snapshot and
    /// of `from`.
    ///
    /// # Errors
    /// `Damaged` when `from` has no such snapshot, or one without memory.
    async fn launch(&self, _from: ComputerId, _snapshot: Uuid, _to: &MachineSpec) -> EngineResult<()> {
        Err(EngineError::Unsupported("copy memory"))
    }

    /// Takes a snapshot of the disk at one moment, with memory if `memory`, after the snapshot's row is
    /// stored. An existing snapshot is left alone. The machine continues.
    async fn snapshot(&self, _id: ComputerId, _snapshot: Uuid, _memory: bool) -> EngineResult<Snapshot> {
        Err(EngineError::Unsupported("take snapshots"))
    }

    /// Replaces a machine's disk, and memory if the snapshot has it, by those of a snapshot. The machine must
    /// not run; evicted state is not fetched. On return it is `Suspended` when the snapshot holds memory,
    /// else `Stopped`. The snapshot stays.
    ///
    /// # Errors
    /// The machine is as before.
    async fn rollback(&self, _id: ComputerId, _snapshot: Uuid) -> EngineResult<()> {
        Err(EngineError::Unsupported("take snapshots"))
    }

    /// Removes a snapshot; a missing one counts as removed.
    async fn remove_snapshot(&self, _id: ComputerId, _snapshot: Uuid) -> EngineResult<()> {
        Ok(())
    }

    /// Returns the snapshots of a machine on the host, in ascending order, whether a row knows them or not.
    async fn snapshots(&self, _id: ComputerId) -> EngineResult<Vec<Uuid>> {
        Ok(Vec::new())
    }

    /// Makes a read-only layer from what a stopped machine has written to its disk, without the layers below it and without
    /// what belongs to one machine only: its identity and temporary files (docs/engines/container.md, "Layers"). Returns the
    /// bytes of its files on the host's disk. An existing layer is left alone. The machine stays `Stopped`.
    ///
    /// # Errors
    /// `Absent`; `NoCapacity` when the host's disk has too little space; `Failed` when the machine is not stopped, or its disk
    /// was written by a virtual machine, so that the host must not read it. Nothing is left of the attempt.
    async fn keep_layer(&self, _id: ComputerId, _layer: LayerId) -> EngineResult<u64> {
        Err(EngineError::Unsupported("make layers"))
    }

    /// Returns the digest of an imported image (`hotdesk image import`); `None` when the host has none of this name.
    ///
    /// # Errors
    /// `Failed` when its record cannot be read.
    async fn base_id(&self, _name: &str) -> EngineResult<Option<String>> {
        Ok(None)
    }

    /// Makes a read-only layer that takes the place of the guest image: it has the files of an imported image and hides those
    /// below. Returns the bytes of its files. An existing layer is left alone.
    ///
    /// # Errors
    /// `Failed` when the host has no image of this name and [`Engine::base_id`]; `NoCapacity` when its disk has too little space.
    /// Nothing is left of the attempt.
    async fn keep_base(&self, _name: &str, _id: &str, _layer: LayerId) -> EngineResult<u64> {
        Err(EngineError::Unsupported("make layers of imported images"))
    }

    /// Makes a read-only layer whose only file is the list of a template's programs
    /// ([`PROGRAMS_FILE`](hotdesk_domain::computer::template::build::PROGRAMS_FILE)), without a machine. `below` are the layers
    /// below it, the lowest first. Returns the bytes of its files; `None` when only a machine can write the file, for example
    /// because its folder is a symbolic link. An existing layer is left alone.
    ///
    /// # Errors
    /// `NoCapacity` when the host's disk has too little space; `Failed` when a layer below cannot be read. Nothing is left of the
    /// attempt.
    async fn keep_programs(
        &self,
        _list: &str,
        _below: &[LayerId],
        _layer: LayerId,
    ) -> EngineResult<Option<u64>> {
        Ok(None)
    }

    /// Removes a layer; a missing one counts as removed.
    ///
    /// # Errors
    /// `Failed` while a machine of this host has it, or while the record of an encrypted machine cannot be read because its
    /// key is missing.
    async fn remove_layer(&self, _layer: LayerId) -> EngineResult<()> {
        Ok(())
    }

    /// Returns the layers on the host, in ascending order, whether a row knows them or not.
    async fn layers(&self) -> EngineResult<Vec<LayerId>> {
        Ok(Vec::new())
    }

    /// Checks whether this host can run the engines, the default first. Only the quick checks run, which take
    /// milliseconds and change nothing, unless the check is `thorough`: the others take seconds to minutes
    /// ([`checks`](crate::checks)) and try the real operations.
    ///
    /// # Errors
    /// `Failed` when the checks cannot be run. A check that finds a fault is no error.
    async fn check_host(&self, _thorough: bool) -> EngineResult<Vec<EngineFindings>> {
        Ok(Vec::new())
    }

    /// Finds what none of the computers in `owned` owns, at most [`MAX_LEFTOVERS`](crate::MAX_LEFTOVERS),
    /// while operations run. It leaves out what an operation may just be making or removing: trash,
    /// unfinished files and layers, and machines that stand still. Reads only. A machine that was made after
    /// `owned` was read is found too, so look twice.
    ///
    /// # Errors
    /// `Failed` when a folder, the mounts, the control groups or the packet rules cannot be read.
    async fn find_leftovers(&self, _owned: &BTreeSet<ComputerId>) -> EngineResult<Vec<LeftoverRecord>> {
        Ok(Vec::new())
    }

    /// Looks which hosts answer. The controller calls it every few seconds, and before it observes machines for the first time.
    async fn watch_hosts(&self) {}

    /// Since when the host of a machine does not answer, as the last [`Engine::watch_hosts`] saw it; `None` while it answers, and
    /// with an engine on one host. The machine may still run, so nothing may begin it elsewhere.
    fn host_outage(&self, _id: ComputerId) -> Option<HostOutage> {
        None
    }

    /// Returns what the cluster says of a host now; `None` when it has no host of this name.
    ///
    /// # Errors
    /// `Failed` when nobody answers.
    async fn host_state(&self, _name: &str) -> EngineResult<Option<HostState>> {
        Ok(None)
    }

    /// Makes or refreshes a copy of a machine's disk and snapshots on a second host, and returns that host. `present` is the host
    /// of the last refresh; hosts of `besides` are chosen only where there is no other. The machine may run; the replica never
    /// does. Needs [`Capabilities::replicate`](crate::Capabilities).
    ///
    /// # Errors
    /// `Absent`; `Failed` when no second host answers, or the copy fails. The replica has its earlier state then. `Damaged` when
    /// it cannot be refreshed: the caller forgets it, removes it, and calls again.
    async fn replicate(
        &self,
        _id: ComputerId,
        _present: Option<&str>,
        _besides: &BTreeSet<String>,
    ) -> EngineResult<String> {
        Err(EngineError::Unsupported("replicate machines"))
    }

    /// Returns the machines that have a replica, in ascending order, whether a row knows them or not.
    async fn replicas(&self) -> EngineResult<Vec<ComputerId>> {
        Ok(Vec::new())
    }

    /// Removes the replica of a machine; a missing one counts as removed. One on a host that does not answer stays for a later
    /// call.
    async fn remove_replica(&self, _id: ComputerId) -> EngineResult<()> {
        Ok(())
    }

    /// Makes the replica the machine, with the state of its last refresh, after the operator has confirmed that the machine's
    /// host is gone. On return it is `Stopped`, and the earlier one is never started again: it is stopped when its host returns.
    /// A repeated call finishes an interrupted one.
    ///
    /// # Errors
    /// `Absent` without a replica; `Failed` when the host of the machine is not offline. The machine is as before.
    async fn begin_from_replica(&self, _id: ComputerId) -> EngineResult<()> {
        Err(EngineError::Unsupported("replicate machines"))
    }
}
