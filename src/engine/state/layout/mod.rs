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
//! <state>/disks/<hash>.img              an empty disk that machines get copies of (`state/disk/prepared.rs`)
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

use std::fs;
use std::path::{Path, PathBuf};

use crate::host::command::host_error;
use crate::host::files::private_folder;
use crate::{EngineError, EngineResult};
use hotdesk_base::ids::{ComputerId, LayerId};
use hotdesk_domain::computer::template::name::kebab;

mod folder;
mod record;

pub(crate) use folder::Folder;
pub(crate) use record::Record;

/// Longest path of the state folder: a unix socket's path is at most 107 bytes (unix(7)), less
/// `/machines/<id>/agent.sock`.
const LONGEST_STATE_DIR: usize = 107 - "/machines/".len() - 36 - "/agent.sock".len();

const CLIENT_SOCKETS: &str = "sockets";

/// Folder of the imported images in the data folder.
pub const BASES: &str = "bases";

/// The controller's state folder.
#[derive(Clone, Debug)]
pub(crate) struct StateDir {
    root: PathBuf,
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
        let folders =
            [this.machines(), this.disks(), this.runtime(), this.agents(), this.layers(), this.trash()];
        for folder in folders {
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

    /// Prepared empty disks.
    pub(crate) fn disks(&self) -> PathBuf {
        self.root.join("disks")
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_folder_too_long_for_sockets_is_refused() {
        let temp = tempfile::tempdir().unwrap();
        let error = format!("{:#}", StateDir::open(&temp.path().join("x".repeat(80))).unwrap_err());
        assert!(error.contains("too long for sockets"), "{error}");
    }
}
