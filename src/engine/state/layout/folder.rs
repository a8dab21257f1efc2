//! The folder of one machine: its files, and the key that encrypts it.

use std::fs::File;
use std::io;
use std::path::PathBuf;

use super::CLIENT_SOCKETS;
use crate::host::command::host_error;
use crate::host::syscalls::fscrypt::{self, KeyIdentifier, KeyStatus};
use crate::{EngineError, EngineResult};
use hotdesk_base::ids::ComputerId;

/// One machine's folder.
#[derive(Clone, Debug)]
pub(crate) struct Folder {
    /// The machine's id.
    pub(crate) id: ComputerId,
    /// The folder itself.
    pub(crate) path: PathBuf,
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
}
