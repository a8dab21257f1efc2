//! Imported images (`hotdesk image import`): their folder, its locks, and the layers that are made of them.
//!
//! ```text
//!   .<random>.new  -- sync, rename or exchange -->  <name>  -- rename -->  .<name>.gone  -- lock, remove
//! ```
//! Locks are those of folders (flock(2)). Imports and removals hold the one of all images. A layer is made under a shared lock of
//! the image's own folder, which may lose its name meanwhile, and is removed only under the exclusive one.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{
    CWD, FileType, FlockOperation, Mode, RenameFlags, XattrFlags, flock, lsetxattr, mknodat, renameat_with,
    syncfs,
};
use serde::{Deserialize, Serialize};

use super::{MAKE, TIMEOUT, bytes, complete, remove_tree, try_lock, unfinished};
use crate::driver::GuestDriver;
use crate::host::command::{check_status, host_error, run_with_timeout, tool};
use crate::host::files::private_folder;
use crate::state::disk;
use crate::state::layout::{BASES, StateDir};
use crate::{EngineError, EngineResult};
use hotdesk_base::ids::{ComputerId, LayerId};

/// Record of an imported image, in its folder.
pub const BASE_RECORD: &str = "base.json";

/// What [`BASE_RECORD`] says.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct BaseRecord {
    /// Digest of the image's content.
    pub id: String,
    /// Where it was imported from.
    pub source: String,
    /// The distribution's name for itself.
    pub system: String,
    /// Bytes of its files.
    pub bytes: u64,
}

const CHANGE: &str = "change the imported images";

/// The folder of the imported images, locked.
#[derive(Debug)]
pub struct BaseFolder {
    path: PathBuf,
    lock: File,
}

impl BaseFolder {
    /// Opens the folder of a data folder, which is made when it is missing, waits for its lock, and removes what interrupted
    /// imports and removals left. Blocks.
    ///
    /// # Errors
    /// `Failed` when the disk fails.
    pub fn lock(data_dir: &Path) -> EngineResult<Self> {
        let path = data_dir.join(BASES);
        let failed = host_error(CHANGE, &path);
        private_folder(&path).map_err(&failed)?;
        let lock = File::open(&path).map_err(&failed)?;
        flock(&lock, FlockOperation::LockExclusive).map_err(|error| failed(error.into()))?;
        let this = Self { path, lock };
        this.remove_unfinished()?;
        Ok(this)
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Gives a folder with an image, which is in this folder, its name. An earlier image of this name gets the temporary name;
    /// [`discard`] removes it. Blocks.
    ///
    /// # Errors
    /// `Failed` when the disk fails.
    pub fn publish(&self, fresh: &Path, name: &str) -> EngineResult<()> {
        let path = self.path.join(name);
        let failed = host_error(CHANGE, &path);
        File::open(fresh).and_then(|folder| Ok(syncfs(folder)?)).map_err(&failed)?;
        match renameat_with(CWD, fresh, CWD, &path, RenameFlags::EXCHANGE) {
            Ok(()) => {}
            Err(rustix::io::Errno::NOENT) => fs::rename(fresh, &path).map_err(&failed)?,
            Err(error) => return Err(failed(error.into())),
        }
        self.lock.sync_all().map_err(failed)
    }

    /// Removes an image, and returns whether there was one of this name. An interruption leaves the whole image, or none of this
    /// name. Blocks.
    ///
    /// # Errors
    /// `Failed` when the disk fails.
    pub fn remove(&self, name: &str) -> EngineResult<bool> {
        let (path, gone) = (self.path.join(name), self.path.join(format!(".{name}.gone")));
        let failed = host_error(CHANGE, &path);
        match fs::rename(&path, &gone) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(failed(error)),
        }
        self.lock.sync_all().map_err(failed)?;
        discard(&gone).map(|()| true)
    }

    /// Removes what has a temporary name: the lock excludes others.
    fn remove_unfinished(&self) -> EngineResult<()> {
        let failed = host_error(CHANGE, &self.path);
        for entry in fs::read_dir(&self.path).map_err(&failed)? {
            let path = entry.map_err(&failed)?.path();
            if path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b".")) {
                discard(&path)?;
            }
        }
        Ok(())
    }
}

/// Removes the folder of an image without a name, when no layer is made of it any more; a missing one counts as removed. Blocks.
///
/// # Errors
/// `Failed` when the disk fails.
pub fn discard(path: &Path) -> EngineResult<()> {
    let failed = host_error(CHANGE, path);
    let folder = match File::open(path) {
        Ok(folder) => folder,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed(error)),
    };
    flock(&folder, FlockOperation::LockExclusive).map_err(|error| failed(error.into()))?;
    remove_tree(CHANGE, path)
}

/// Removes what interrupted imports and removals left, unless an import or a removal runs. Blocks.
pub(in crate::driver) fn remove_unfinished(state: &StateDir) -> EngineResult<()> {
    let path = state.root().join(BASES);
    match try_lock(&path)? {
        Some(lock) => BaseFolder { path, lock }.remove_unfinished(),
        None => Ok(()),
    }
}

/// [`crate::Engine::base_id`]. Blocks.
pub(in crate::driver) fn id(state: &StateDir, name: &str) -> EngineResult<Option<String>> {
    let path = state.base(name)?.join(BASE_RECORD);
    let failed = host_error("read the record of an imported image", &path);
    let text = match fs::read(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    let record: BaseRecord = serde_json::from_slice(&text).map_err(|error| failed(error.into()))?;
    Ok(Some(record.id))
}

/// [`crate::Engine::keep_base`]. Blocks.
pub(in crate::driver) fn keep<M: GuestDriver>(
    engine: &M,
    name: &str,
    id: &str,
    layer: LayerId,
) -> EngineResult<u64> {
    let state = engine.state();
    if let Some(bytes) = bytes(state, layer)? {
        return Ok(bytes);
    }
    let base = open(state, name, id)?;
    // Links need no bytes. How many folders need an inode is not known.
    disk::check_free(&state.layers(), 0, 0)?;
    let image = engine.host().settings.image.join("rootfs");
    // No machine has this id: the copy has the lock of the layer's own folder.
    let fresh = unfinished(state, layer, ComputerId::random());
    complete(state, layer, &fresh, |rootfs| {
        let lock =
            try_lock(&fresh)?.ok_or_else(|| EngineError::failed(MAKE, "another process has its lock"))?;
        let mut cp = tool("cp");
        // The child enters the open folder, whatever its name is by now.
        cp.current_dir(format!("/proc/self/fd/{}", base.as_raw_fd()));
        // Files of both are never changed, so they are links.
        cp.args([
            "--recursive",
            "--no-dereference",
            "--link",
            "--preserve=mode,ownership,timestamps,links,xattr",
        ])
        .args(["--no-target-directory", "--", "rootfs"])
        .arg(rootfs)
        .stdin(lock);
        let (status, _, complaint) = run_with_timeout(MAKE, &mut cp, None, TIMEOUT)?;
        check_status(MAKE, status, &complaint)?;
        hide_below(rootfs, &image).map_err(host_error(MAKE, rootfs))
    })
}

/// Opens the folder of the image with this name and this id, under a shared lock.
fn open(state: &StateDir, name: &str, id: &str) -> EngineResult<File> {
    let path = state.base(name)?;
    let failed = host_error(MAKE, &path);
    let replaced = || {
        EngineError::failed(MAKE, format!("the imported image {name} has been replaced or removed meanwhile"))
    };
    let folder = match File::open(&path) {
        Ok(folder) => folder,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(replaced()),
        Err(error) => return Err(failed(error)),
    };
    match flock(&folder, FlockOperation::NonBlockingLockShared) {
        Ok(()) => {}
        Err(rustix::io::Errno::WOULDBLOCK) => return Err(replaced()),
        Err(error) => return Err(failed(error.into())),
    }
    // It may have lost its name before the lock, and files after that.
    let found = self::id(state, name)?;
    let (named, own) = (fs::metadata(&path).map_err(&failed)?, folder.metadata().map_err(&failed)?);
    if found.as_deref() == Some(id) && (named.dev(), named.ino()) == (own.dev(), own.ino()) {
        return Ok(folder);
    }
    Err(replaced())
}

/// Makes a layer hide all files of the image below: its folders are opaque for an overlay, and other names of the image are
/// whiteouts (docs/engines/container.md, "Layers").
fn hide_below(rootfs: &Path, image: &Path) -> io::Result<()> {
    for entry in fs::read_dir(rootfs)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            lsetxattr(entry.path(), "trusted.overlay.opaque", b"y", XattrFlags::empty())?;
        }
    }
    for entry in fs::read_dir(image)? {
        let hidden = rootfs.join(entry?.file_name());
        if let Err(error) = fs::symlink_metadata(&hidden) {
            if error.kind() != io::ErrorKind::NotFound {
                return Err(error);
            }
            mknodat(CWD, &hidden, FileType::CharacterDevice, Mode::empty(), 0)?;
        }
    }
    Ok(())
}
