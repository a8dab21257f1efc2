//! Layout of the state folder: one folder per machine, readable by root alone.
//!
//! ```text
//! <state>/machines/<id>/machine.json   its record; written before anything else
//!                      /disk.img       its disk: ext4 in a sparse file, with the overlay's folders
//!                      /raw-disk       present once a virtual machine has written the disk (`state/raw_disk.rs`)
//!                      /snapshots/     its snapshots (`driver/snapshot_files.rs`)
//!                      /bundle/        the OCI runtime's description of the current boot
//!                      /runtime.log    messages of the OCI runtime at the current boot
//!                      /frozen         marks that its processes are frozen (`driver/capacity/disk_guard.rs`)
//!                      /lxcfs.pid      process id of its lxcfs, while that runs
//!                      /name-proxy.json    settings of its name proxy, which has a lock on it (`host/network/name_proxy`)
//!                      /agent.sock     its agent's socket
//!                      /agent          the agent of saved memory: an executable or a file system
//!                      /seed           boot files of a virtual machine (`qemu/seed.rs`)
//!                      /qmp.sock       QEMU's monitor
//!                      /line.in, /line.out    control port of the guest's process 1 (`qemu/control_port.rs`)
//!                      /memory*        its saved memory (`state/memory.rs`)
//!                      /away.json      eviction record: disk and memory are in storage (`state/evicted.rs`)
//!                      /arriving/      files of an unfinished fetch
//! <state>/runtime/                     records of the OCI runtime
//! <state>/agent/<hash>                 the agent for guests: an executable or a file system
//! <state>/sockets/<id>                 its agent's socket for a controller that is not root (`client_sockets.rs`)
//! <state>/layers/<id>/rootfs           a read-only layer of disks, as the upper folder of an overlay (`driver/layers`)
//!                    /rootfs.ext4      the same as a disk, once a virtual machine has needed it (`qemu/images.rs`)
//! <state>/layers/<id>.*                a layer that is being made or removed
//! <state>/bases/<name>/base.json       record of an imported image (`hotdesk image import`)
//!                     /rootfs          its files; layers have links to them
//! <state>/bases/.*                     an image that is being imported or removed
//! <state>/trash/                       machines that are being destroyed
//! ```
//! The controller opens nothing by path that a guest can write: the files of guests are mounted nowhere in
//! its namespace. Layers hold files that guests wrote and cannot change any more; the tools that read them follow no symbolic
//! link, and no other user of the host can enter their folder.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::host::command::host_error;
use crate::host::files::{private_folder, write_durably};
use crate::host::syscalls::fscrypt::{self, KeyIdentifier, KeyStatus};
use crate::{Change, EngineError, EngineResult, MachineSpec};
use hotdesk_base::ids::{ComputerId, LayerId};
use hotdesk_domain::computer::isolation::Isolation;
use hotdesk_domain::computer::template::name::kebab;
use hotdesk_domain::computer::template::network::egress::EgressPolicy;

/// Longest path of the state folder: a unix socket's path is at most 107 bytes (unix(7)), less
/// `/machines/<id>/agent.sock`.
const LONGEST_STATE_DIR: usize = 107 - "/machines/".len() - 36 - "/agent.sock".len();

/// The step of reading a record.
const READ_RECORD: &str = "read the machine's record";

const CLIENT_SOCKETS: &str = "sockets";

/// Folder of the imported images in the data folder.
pub const BASES: &str = "bases";

/// The controller's state folder.
#[derive(Clone, Debug)]
pub(crate) struct StateDir {
    root: PathBuf,
}

/// One machine's folder.
#[derive(Clone, Debug)]
pub(crate) struct Folder {
    /// The machine's id.
    pub(crate) id: ComputerId,
    /// The folder itself.
    pub(crate) path: PathBuf,
}

/// `machine.json`: the id and sizes of a machine.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub(crate) struct Record {
    /// The computer that it belongs to.
    pub(crate) computer: uuid::Uuid,
    /// vCPUs.
    pub(crate) cpu: f64,
    /// Memory in bytes.
    pub(crate) memory_bytes: u64,
    /// Disk in bytes.
    pub(crate) disk_bytes: u64,
    /// Megabits a second each way, 0 for unlimited; records of earlier versions lack it.
    #[serde(default)]
    pub(crate) bandwidth_mbps: u32,
    /// The name of the isolation that what the host has of it belongs to; records of earlier versions lack it.
    #[serde(default)]
    pub(crate) isolation: Option<String>,
    /// Its read-only layers, the lowest first; records of earlier versions lack them.
    #[serde(default)]
    pub(crate) layers: Vec<uuid::Uuid>,
    /// The text of its egress policy; absent without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) egress: Option<String>,
}

impl Record {
    /// The record of a spec.
    pub(crate) fn of(spec: &MachineSpec) -> Self {
        let MachineSpec { id, isolation, cpu, memory_bytes, disk_bytes, bandwidth_mbps, .. } = *spec;
        let isolation = Some(isolation.name().to_owned());
        let layers = spec.layers.iter().map(|layer| layer.0).collect();
        let egress = spec.egress.as_ref().map(ToString::to_string);
        Self { computer: id.0, cpu, memory_bytes, disk_bytes, bandwidth_mbps, isolation, layers, egress }
    }

    /// Refuses a spec with other layers than these. What a machine has written only fits the layers it was written above.
    pub(crate) fn check_layers(&self, spec: &MachineSpec) -> EngineResult<()> {
        if spec.layers.iter().map(|layer| layer.0).eq(self.layers.iter().copied()) {
            return Ok(());
        }
        let list =
            |layers: Vec<String>| if layers.is_empty() { "none".to_owned() } else { layers.join(", ") };
        let own = list(self.layers.iter().map(ToString::to_string).collect());
        let wanted = list(spec.layers.iter().map(ToString::to_string).collect());
        let detail = format!(
            "machine {} has the layers {own}, and {wanted} were asked for: a machine and its copies keep the layers that \
             it was made with",
            self.computer
        );
        Err(EngineError::failed("use the disk with other layers", detail))
    }

    /// Its egress policy.
    ///
    /// # Errors
    /// `Failed` when the record has none that is valid.
    pub(crate) fn egress_policy(&self) -> EngineResult<Option<EgressPolicy>> {
        let parse = |text: &String| text.parse().map_err(|error| EngineError::failed(READ_RECORD, error));
        self.egress.as_ref().map(parse).transpose()
    }

    /// Its layers, the lowest first.
    pub(crate) fn layers(&self) -> impl Iterator<Item = LayerId> {
        self.layers.iter().copied().map(LayerId)
    }

    /// The isolation; `None` in records of earlier versions.
    pub(crate) fn isolation(&self) -> Option<Isolation> {
        self.isolation.as_deref().and_then(Isolation::parse)
    }

    /// The record after a change. Disks never shrink.
    pub(crate) fn changed(&self, change: Change) -> EngineResult<Self> {
        let mut after = self.clone();
        match change {
            Change::Cpu(cpu) => after.cpu = cpu,
            Change::Memory(bytes) => after.memory_bytes = bytes,
            Change::Disk(bytes) if bytes < self.disk_bytes => {
                let detail =
                    format!("{bytes} bytes is less than {}, and a disk cannot shrink", self.disk_bytes);
                return Err(EngineError::failed("grow the disk", detail));
            }
            Change::Disk(bytes) => after.disk_bytes = bytes,
            Change::Bandwidth(mbps) => after.bandwidth_mbps = mbps,
        }
        Ok(after)
    }
}

impl StateDir {
    /// Opens a state folder, making it and its sub-folders when missing.
    pub(crate) fn open(path: &Path) -> EngineResult<Self> {
        const STEP: &str = "open the state folder";
        private_folder(path).map_err(host_error(STEP, path))?;
        let root = fs::canonicalize(path).map_err(host_error(STEP, path))?;
        if root.as_os_str().len() > LONGEST_STATE_DIR {
            let detail =
                format!("{}: longer than {LONGEST_STATE_DIR} bytes, too long for sockets", root.display());
            return Err(EngineError::failed(STEP, detail));
        }
        let this = Self { root };
        for folder in [this.machines(), this.runtime(), this.agents(), this.layers(), this.trash()] {
            private_folder(&folder).map_err(host_error(STEP, &folder))?;
        }
        Ok(this)
    }

    pub(crate) fn runtime(&self) -> PathBuf {
        self.root.join("runtime")
    }

    pub(crate) fn agents(&self) -> PathBuf {
        self.root.join("agent")
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn trash(&self) -> PathBuf {
        self.root.join("trash")
    }

    pub(crate) fn machines(&self) -> PathBuf {
        self.root.join("machines")
    }

    pub(crate) fn layers(&self) -> PathBuf {
        self.root.join("layers")
    }

    /// The folder of a layer, which has the form of an image: `rootfs` and its disk.
    pub(crate) fn layer(&self, layer: LayerId) -> PathBuf {
        self.layers().join(layer.to_string())
    }

    /// The folder of an imported image.
    ///
    /// # Errors
    /// `Failed` for a text that is no name: it may come from a controller that is not trusted.
    pub(crate) fn base(&self, name: &str) -> EngineResult<PathBuf> {
        match kebab(name) {
            Ok(name) => Ok(self.root.join(BASES).join(name)),
            Err(fault) => Err(EngineError::failed("find an imported image", fault.message)),
        }
    }

    pub(crate) fn client_sockets(&self) -> PathBuf {
        self.root.join(CLIENT_SOCKETS)
    }

    /// Disk space for resumes.
    pub(crate) fn wake_reserve(&self) -> PathBuf {
        self.root.join("wake.reserve")
    }

    pub(crate) fn folder(&self, id: ComputerId) -> Folder {
        Folder { id, path: self.machines().join(id.to_string()) }
    }

    /// Every machine that has a folder, ascending.
    pub(crate) fn list(&self) -> EngineResult<Vec<ComputerId>> {
        let machines = self.machines();
        let failed = host_error("list the machines", &machines);
        let mut found = Vec::new();
        for entry in fs::read_dir(&machines).map_err(&failed)? {
            let name = entry.map_err(&failed)?.file_name();
            found.extend(name.to_str().and_then(|name| name.parse::<ComputerId>().ok()));
        }
        found.sort();
        Ok(found)
    }
}

impl Folder {
    pub(crate) fn record(&self) -> PathBuf {
        self.path.join("machine.json")
    }

    pub(crate) fn disk(&self) -> PathBuf {
        self.path.join("disk.img")
    }

    /// The mark of a disk that a virtual machine has written.
    pub(crate) fn raw_disk(&self) -> PathBuf {
        self.path.join("raw-disk")
    }

    /// A disk while it is made or copied.
    pub(crate) fn fresh_disk(&self) -> PathBuf {
        self.path.join("disk.new")
    }

    pub(crate) fn snapshots(&self) -> PathBuf {
        self.path.join("snapshots")
    }

    pub(crate) fn bundle(&self) -> PathBuf {
        self.path.join("bundle")
    }

    pub(crate) fn boot_config(&self) -> PathBuf {
        self.bundle().join("config.json")
    }

    pub(crate) fn runtime_log(&self) -> PathBuf {
        self.path.join("runtime.log")
    }

    pub(crate) fn lxcfs_pid(&self) -> PathBuf {
        self.path.join("lxcfs.pid")
    }

    /// Settings of its name proxy, while it runs with an egress policy.
    pub(crate) fn name_proxy(&self) -> PathBuf {
        self.path.join("name-proxy.json")
    }

    /// The mark of a machine whose processes are frozen because the host's disk is nearly full.
    pub(crate) fn frozen(&self) -> PathBuf {
        self.path.join("frozen")
    }

    pub(crate) fn agent(&self) -> PathBuf {
        self.path.join("agent")
    }

    /// The seed disk of a virtual machine: small files for one boot.
    pub(crate) fn seed(&self) -> PathBuf {
        self.path.join("seed")
    }

    /// QEMU's monitor.
    pub(crate) fn monitor(&self) -> PathBuf {
        self.path.join("qmp.sock")
    }

    /// The control port of a virtual machine's process 1. QEMU adds `.in` and `.out` for the two directions.
    pub(crate) fn line(&self) -> PathBuf {
        self.path.join("line")
    }

    pub(crate) fn line_in(&self) -> PathBuf {
        self.path.join("line.in")
    }

    pub(crate) fn line_out(&self) -> PathBuf {
        self.path.join("line.out")
    }

    pub(crate) fn memory(&self) -> PathBuf {
        self.path.join("memory")
    }

    pub(crate) fn fresh_memory(&self) -> PathBuf {
        self.path.join("memory.new")
    }

    pub(crate) fn used_memory(&self) -> PathBuf {
        self.path.join("memory.used")
    }

    /// The eviction record: disk and memory are in storage, or were fetched and may not be synced yet.
    pub(crate) fn away(&self) -> PathBuf {
        self.path.join("away.json")
    }

    pub(crate) fn arriving(&self) -> PathBuf {
        self.path.join("arriving")
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.path.join("agent.sock")
    }

    /// The link to its agent's socket for a controller that is not root, which may not enter the machine's folder.
    pub(crate) fn client_socket(&self) -> PathBuf {
        let state = self.path.ancestors().nth(2).unwrap_or(&self.path);
        state.join(CLIENT_SOCKETS).join(self.id.to_string())
    }

    /// Whether the create finished: the disk gets its name last.
    ///
    /// # Errors
    /// `Failed` also when the folder is encrypted and its key is missing: nothing in it can be found then.
    pub(crate) fn is_whole(&self) -> EngineResult<bool> {
        let disk = self.disk();
        let found = disk.try_exists().map_err(host_error("look for the disk", &disk))?;
        if !found && self.is_locked()? {
            return Err(self.key_missing());
        }
        Ok(found)
    }

    /// The key that encrypts the folder, and what the kernel has of it; `None` when it is not encrypted, or missing.
    pub(crate) fn key(&self) -> EngineResult<Option<(KeyIdentifier, KeyStatus)>> {
        let read = || -> io::Result<_> {
            let folder = File::open(&self.path)?;
            let Some(key) = fscrypt::key_of(&folder)? else { return Ok(None) };
            Ok(Some((key, fscrypt::key_status(&folder, key)?)))
        };
        match read() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            read => read.map_err(host_error("read how the machine's folder is encrypted", &self.path)),
        }
    }

    /// Whether the folder is encrypted and the kernel does not have its key.
    pub(crate) fn is_locked(&self) -> EngineResult<bool> {
        Ok(self.key()?.is_some_and(|(_, status)| status != KeyStatus::Present))
    }

    /// The error for a folder that [`Self::is_locked`].
    pub(crate) fn key_missing(&self) -> EngineError {
        let what =
            "it is encrypted, and the kernel does not have its key: start the controller, which adds it";
        EngineError::failed("open the machine's folder", format!("{}: {what}", self.path.display()))
    }

    /// Writes the record durably.
    pub(crate) fn write_record(&self, record: &Record) -> EngineResult<()> {
        const STEP: &str = "write the machine's record";
        let text = serde_json::to_vec_pretty(record).map_err(|error| EngineError::failed(STEP, error))?;
        write_durably(&self.record(), &text).map_err(host_error(STEP, &self.record()))
    }

    /// Updates the record to the spec that the machine starts with, if its sizes changed.
    ///
    /// # Errors
    /// `Failed` also when the spec has other layers.
    pub(crate) fn update_record(&self, spec: &MachineSpec) -> EngineResult<()> {
        let (before, record) = (self.read_record()?, Record::of(spec));
        before.check_layers(spec)?;
        if before == record { Ok(()) } else { self.write_record(&record) }
    }

    /// Reads the record; `None` when there is none, or when the folder is encrypted and its key is missing: nothing in it can
    /// be found then.
    pub(crate) fn find_record(&self) -> EngineResult<Option<Record>> {
        let path = self.record();
        let text = match fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            // The name of a file that was open may still be known.
            Err(error) if error.raw_os_error() == Some(nix::libc::ENOKEY) => return Ok(None),
            text => text.map_err(host_error(READ_RECORD, &path))?,
        };
        serde_json::from_slice(&text)
            .map(Some)
            .map_err(|error| EngineError::failed(READ_RECORD, format!("{}: {error}", path.display())))
    }

    /// Reads the record.
    pub(crate) fn read_record(&self) -> EngineResult<Record> {
        match self.find_record()? {
            Some(record) => Ok(record),
            None if self.is_locked()? => Err(self.key_missing()),
            None => {
                let detail = format!("{} is missing", self.record().display());
                Err(EngineError::failed(READ_RECORD, detail))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_survives_being_written_and_read() {
        let temp = tempfile::tempdir().unwrap();
        let state = StateDir::open(temp.path()).unwrap();
        let id = ComputerId::random();
        let folder = state.folder(id);
        private_folder(&folder.path).unwrap();
        let record = Record::of(&MachineSpec {
            id,
            isolation: Isolation::Vm,
            cpu: 0.5,
            memory_bytes: 1 << 30,
            disk_bytes: 8 << 30,
            bandwidth_mbps: 100,
            layers: vec![LayerId::random()],
            egress: Some("allow example.com 192.0.2.0/24".parse().unwrap()),
        });
        folder.write_record(&record).unwrap();
        assert_eq!(folder.read_record().unwrap(), record);
        assert_eq!(folder.read_record().unwrap().isolation(), Some(Isolation::Vm));
        assert_eq!(state.list().unwrap(), [id]);
        assert!(!folder.is_whole().unwrap());
    }

    #[test]
    fn a_machine_keeps_its_layers_in_their_order() {
        let [one, two] = [LayerId::random(), LayerId::random()];
        let spec = |layers: &[LayerId]| MachineSpec {
            id: ComputerId::random(),
            isolation: Isolation::Shared,
            cpu: 1.0,
            memory_bytes: 1,
            disk_bytes: 1,
            bandwidth_mbps: 0,
            layers: layers.to_vec(),
            egress: None,
        };
        let record = Record::of(&spec(&[one, two]));
        record.check_layers(&spec(&[one, two])).unwrap();
        for other in [&[][..], &[one], &[two, one]] {
            let refused = format!("{:#}", record.check_layers(&spec(other)).unwrap_err());
            assert!(refused.contains(&format!("has the layers {one}, {two}")), "{refused}");
        }
        Record::of(&spec(&[])).check_layers(&spec(&[])).unwrap();
        let earlier = serde_json::json!({"computer": uuid::Uuid::nil(), "cpu": 1.0, "memory_bytes": 1, "disk_bytes": 1});
        let earlier: Record = serde_json::from_value(earlier).unwrap();
        earlier.check_layers(&spec(&[])).unwrap();
    }

    #[test]
    fn a_state_folder_too_long_for_sockets_is_refused() {
        let temp = tempfile::tempdir().unwrap();
        let error = format!("{:#}", StateDir::open(&temp.path().join("x".repeat(80))).unwrap_err());
        assert!(error.contains("too long for sockets"), "{error}");
    }

    #[test]
    fn one_dimension_changes_and_a_disk_never_shrinks() {
        let before = Record {
            computer: uuid::Uuid::nil(),
            cpu: 1.0,
            memory_bytes: 4,
            disk_bytes: 8,
            bandwidth_mbps: 0,
            isolation: None,
            layers: Vec::new(),
            egress: None,
        };
        for (change, after) in [
            (Change::Cpu(2.0), Some(Record { cpu: 2.0, ..before.clone() })),
            (Change::Memory(3), Some(Record { memory_bytes: 3, ..before.clone() })),
            (Change::Disk(9), Some(Record { disk_bytes: 9, ..before.clone() })),
            (Change::Disk(8), Some(before.clone())),
            (Change::Disk(7), None),
            (Change::Bandwidth(5), Some(Record { bandwidth_mbps: 5, ..before.clone() })),
        ] {
            assert_eq!(before.changed(change).ok(), after, "{change:?}");
        }
    }
}
