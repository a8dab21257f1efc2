//! Where on the host is what belongs to a machine? One folder per machine, readable by root alone.
//!
//! ```text
//! <state>/machines/<id>/machine.json   what it is; written before anything else of it
//!                      /disk.img       its disk: ext4 in a sparse file, holding the overlay's upper/ and work/
//!                      /snapshots/     its disk as it was, and what ran then (`machinery/kept.rs`)
//!                      /bundle/        the OCI runtime's description of the current boot
//!                      /runtime.log    what the OCI runtime complained of at the current boot
//!                      /agent.sock     where its agent answers
//!                      /agent          its agent's executable, or a file system with it, where saved memory may refer to it
//!                      /seed           what a virtual machine is told at its boot
//!                      /qmp.sock, /line.in, /line.out    where QEMU and the guest's process 1 take requests
//!                      /memory*        its saved memory (`memory.rs`)
//!                      /away.json      that its disk and memory are in storage (`away.rs`)
//!                      /arriving/      what of them was fetched so far
//! <state>/runtime/                     the OCI runtime's own records
//! <state>/agent/<hash>                 the guests' executable, or a file system with it, by content
//! <state>/trash/                       machines being destroyed
//! ```
//! Nothing that a guest can write is opened by path: its files are mounted nowhere in the controller's own view.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::command::host_error;
use crate::{Change, EngineError, EngineResult, MachineSpec};
use hotdesk_base::ids::ComputerId;

/// A unix socket's path is at most 107 bytes; this is what `/machines/<id>/agent.sock` leaves of it.
const LONGEST_STATE_DIR: usize = 107 - "/machines/".len() - 36 - "/agent.sock".len();

/// The controller's state folder.
#[derive(Clone, Debug)]
pub(super) struct StateDir {
    root: PathBuf,
}

/// One machine's folder.
#[derive(Clone, Debug)]
pub(super) struct Folder {
    /// Whose machine it is.
    pub(super) id: ComputerId,
    /// The folder itself.
    pub(super) path: PathBuf,
}

/// `machine.json`: what a machine is.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub(super) struct Record {
    /// The computer that it belongs to.
    pub(super) computer: uuid::Uuid,
    /// vCPUs.
    pub(super) cpu: f64,
    /// Memory in bytes.
    pub(super) memory_bytes: u64,
    /// Disk in bytes.
    pub(super) disk_bytes: u64,
    /// Megabits a second each way, 0 without a bound; records of earlier versions lack it.
    #[serde(default)]
    pub(super) bandwidth_mbps: u32,
}

impl Record {
    /// What is remembered of a spec.
    pub(super) fn of(spec: &MachineSpec) -> Self {
        let MachineSpec { id, cpu, memory_bytes, disk_bytes, bandwidth_mbps } = *spec;
        Self { computer: id.0, cpu, memory_bytes, disk_bytes, bandwidth_mbps }
    }

    /// The record after a change. Disks never shrink.
    pub(super) fn changed(&self, change: Change) -> EngineResult<Self> {
        let mut after = self.clone();
        match change {
            Change::Cpu(cpu) => after.cpu = cpu,
            Change::Memory(bytes) => after.memory_bytes = bytes,
            Change::Disk(bytes) if bytes < self.disk_bytes => {
                let detail =
                    format!("{bytes} bytes is less than {}, and disks never shrink", self.disk_bytes);
                return Err(EngineError::failed("grow the disk", detail));
            }
            Change::Disk(bytes) => after.disk_bytes = bytes,
            Change::Bandwidth(mbps) => after.bandwidth_mbps = mbps,
        }
        Ok(after)
    }
}

impl StateDir {
    /// Makes the folders.
    pub(super) fn open(path: &Path) -> EngineResult<Self> {
        const STEP: &str = "open the state folder";
        private_folder(path).map_err(host_error(STEP, path))?;
        let root = fs::canonicalize(path).map_err(host_error(STEP, path))?;
        if root.as_os_str().len() > LONGEST_STATE_DIR {
            let detail =
                format!("{}: longer than {LONGEST_STATE_DIR} bytes, too long for sockets", root.display());
            return Err(EngineError::failed(STEP, detail));
        }
        let this = Self { root };
        for folder in [this.machines(), this.runtime(), this.agents(), this.trash()] {
            private_folder(&folder).map_err(host_error(STEP, &folder))?;
        }
        Ok(this)
    }

    pub(super) fn runtime(&self) -> PathBuf {
        self.root.join("runtime")
    }

    pub(super) fn agents(&self) -> PathBuf {
        self.root.join("agent")
    }

    pub(super) fn trash(&self) -> PathBuf {
        self.root.join("trash")
    }

    pub(super) fn machines(&self) -> PathBuf {
        self.root.join("machines")
    }

    pub(super) fn folder(&self, id: ComputerId) -> Folder {
        Folder { id, path: self.machines().join(id.to_string()) }
    }

    /// Every machine that has a folder.
    pub(super) fn list(&self) -> EngineResult<Vec<ComputerId>> {
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
    pub(super) fn record(&self) -> PathBuf {
        self.path.join("machine.json")
    }

    pub(super) fn disk(&self) -> PathBuf {
        self.path.join("disk.img")
    }

    /// Where a disk that is being made or copied is until it is whole.
    pub(super) fn fresh_disk(&self) -> PathBuf {
        self.path.join("disk.new")
    }

    pub(super) fn snapshots(&self) -> PathBuf {
        self.path.join("snapshots")
    }

    pub(super) fn bundle(&self) -> PathBuf {
        self.path.join("bundle")
    }

    pub(super) fn boot_config(&self) -> PathBuf {
        self.bundle().join("config.json")
    }

    pub(super) fn runtime_log(&self) -> PathBuf {
        self.path.join("runtime.log")
    }

    pub(super) fn agent(&self) -> PathBuf {
        self.path.join("agent")
    }

    /// What a virtual machine is told at its boot: a disk's worth of small files.
    pub(super) fn seed(&self) -> PathBuf {
        self.path.join("seed")
    }

    /// QEMU's monitor.
    pub(super) fn monitor(&self) -> PathBuf {
        self.path.join("qmp.sock")
    }

    /// The line to a virtual machine's process 1. QEMU adds `.in` and `.out` for its two ways.
    pub(super) fn line(&self) -> PathBuf {
        self.path.join("line")
    }

    pub(super) fn line_in(&self) -> PathBuf {
        self.path.join("line.in")
    }

    pub(super) fn line_out(&self) -> PathBuf {
        self.path.join("line.out")
    }

    pub(super) fn memory(&self) -> PathBuf {
        self.path.join("memory")
    }

    pub(super) fn fresh_memory(&self) -> PathBuf {
        self.path.join("memory.new")
    }

    pub(super) fn used_memory(&self) -> PathBuf {
        self.path.join("memory.used")
    }

    /// Says that disk and memory are in storage, or have come back and may not be on the host's disk yet.
    pub(super) fn away(&self) -> PathBuf {
        self.path.join("away.json")
    }

    pub(super) fn arriving(&self) -> PathBuf {
        self.path.join("arriving")
    }

    pub(super) fn socket(&self) -> PathBuf {
        self.path.join("agent.sock")
    }

    /// Whether create came to its end here: the disk gets its name last.
    pub(super) fn is_whole(&self) -> EngineResult<bool> {
        let disk = self.disk();
        disk.try_exists().map_err(host_error("look for the disk", &disk))
    }

    /// Remembers what the machine is.
    pub(super) fn write_record(&self, record: &Record) -> EngineResult<()> {
        const STEP: &str = "write the machine's record";
        let text = serde_json::to_vec_pretty(record).map_err(|error| EngineError::failed(STEP, error))?;
        write_durably(&self.record(), &text).map_err(host_error(STEP, &self.record()))
    }

    /// Lets the record say what the machine is started as: its size may have changed since.
    pub(super) fn keep_record(&self, spec: &MachineSpec) -> EngineResult<()> {
        let record = Record::of(spec);
        if self.read_record()? == record { Ok(()) } else { self.write_record(&record) }
    }

    /// What the machine is.
    pub(super) fn read_record(&self) -> EngineResult<Record> {
        const STEP: &str = "read the machine's record";
        let path = self.record();
        let text = fs::read(&path).map_err(host_error(STEP, &path))?;
        serde_json::from_slice(&text)
            .map_err(|error| EngineError::failed(STEP, format!("{}: {error}", path.display())))
    }
}

/// A folder for root alone, with its parents.
pub(super) fn private_folder(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Writes a file so that after a crash it holds the old text or the new, on the disk before this returns.
pub(super) fn write_durably(path: &Path, text: &[u8]) -> io::Result<()> {
    let parent = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    let fresh = path.with_extension("new");
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&fresh)?;
    file.write_all(text)?;
    file.sync_all()?;
    fs::rename(&fresh, path)?;
    sync_folder(parent)
}

/// Brings a folder's entries to the disk.
pub(super) fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// Removes a file; one that is not there is removed already.
pub(super) fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
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
            cpu: 0.5,
            memory_bytes: 1 << 30,
            disk_bytes: 8 << 30,
            bandwidth_mbps: 100,
        });
        folder.write_record(&record).unwrap();
        assert_eq!(folder.read_record().unwrap(), record);
        assert_eq!(state.list().unwrap(), [id]);
        assert!(!folder.is_whole().unwrap());
    }

    #[test]
    fn a_state_folder_too_long_for_sockets_is_refused() {
        let temp = tempfile::tempdir().unwrap();
        let error = StateDir::open(&temp.path().join("x".repeat(80))).unwrap_err().to_string();
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
