//! Layers with the list of a template's programs, which the host writes without a machine.
//!
//! An overlay shows the attributes of the highest layer that has a folder. So the folders above the file repeat those that a machine
//! would see without this layer. Where they are no ordinary folders, only a machine can write the file.

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

use rustix::fs::{lgetxattr, llistxattr};
use rustix::io::Errno;

use super::{MAKE, bytes, complete, try_lock, unfinished};
use crate::driver::GuestDriver;
use crate::host::command::host_error;
use crate::state::disk;
use crate::{EngineError, EngineResult};
use hotdesk_base::ids::{ComputerId, LayerId};
use hotdesk_domain::computer::template::build::PROGRAMS_FILE;

/// Inodes of such a layer: the file, and the folders above it with that of the layer itself.
const INODES: u64 = 8;
/// Longest list of the names of a folder's extended attributes. Ordinary folders have none, or those of an overlay.
const MAX_NAMES: usize = 4096;
/// Attribute of a folder that hides what layers below have under its name.
const OPAQUE: &str = "trusted.overlay.opaque";
/// Attributes of a folder that a layer above need not repeat: the kernel's notes about its copy, and [`OPAQUE`], which counts only
/// in its own layer (Documentation/filesystems/overlayfs.rst of the kernel).
const OF_OVERLAY: [&str; 4] =
    [OPAQUE, "trusted.overlay.origin", "trusted.overlay.impure", "trusted.overlay.uuid"];

/// Mode and owner of a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FolderAttributes {
    mode: u32,
    user: u32,
    group: u32,
}

/// Those of a folder that root makes.
const NEW_FOLDER: FolderAttributes = FolderAttributes { mode: 0o755, user: 0, group: 0 };

/// What a machine sees at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MergedEntry {
    Nothing,
    Folder(FolderAttributes),
    /// No folder, or one with more than mode and owner.
    Other,
}

/// [`crate::Engine::keep_programs`]. Blocks.
pub(in crate::driver) fn keep<M: GuestDriver>(
    engine: &M,
    list: &str,
    below: &[LayerId],
    layer: LayerId,
) -> EngineResult<Option<u64>> {
    let state = engine.state();
    if let Some(bytes) = bytes(state, layer)? {
        return Ok(Some(bytes));
    }
    let image = engine.host().settings.image.join("rootfs");
    let layers = below.iter().rev().map(|layer| super::rootfs(&state.layer(*layer)));
    let roots: Vec<PathBuf> = layers.chain([image]).collect();
    let file = Path::new(PROGRAMS_FILE.trim_start_matches('/'));
    let seen = folders_above(&roots, file).map_err(host_error(MAKE, &state.layer(layer)))?;
    let Some(folders) = seen else { return Ok(None) };
    disk::check_free(&state.layers(), list.len() as u64, INODES)?;
    // No machine has this id: the task has the lock of the layer's own folder.
    let fresh = unfinished(state, layer, ComputerId::random());
    let made = complete(state, layer, &fresh, |rootfs| {
        let _lock =
            try_lock(&fresh)?.ok_or_else(|| EngineError::failed(MAKE, "another process has its lock"))?;
        write(rootfs, &folders, file, list).map_err(host_error(MAKE, rootfs))
    });
    made.map(Some)
}

/// The folders above a file, the root folder first, with the attributes that machines with these root folders see, the highest
/// first. Returns `None` when one of them is no ordinary folder.
fn folders_above(roots: &[PathBuf], file: &Path) -> io::Result<Option<Vec<(PathBuf, FolderAttributes)>>> {
    let mut folders = Vec::new();
    for path in file.ancestors().skip(1) {
        let attributes = match look(roots, path)? {
            MergedEntry::Nothing => NEW_FOLDER,
            MergedEntry::Folder(attributes) => attributes,
            MergedEntry::Other => return Ok(None),
        };
        folders.push((path.to_owned(), attributes));
    }
    folders.reverse();
    Ok(Some(folders))
}

/// What machines with these root folders, the highest first, see at a path. No symbolic link is followed, and files of layers and
/// of the image do not change meanwhile.
fn look(roots: &[PathBuf], path: &Path) -> io::Result<MergedEntry> {
    for root in roots {
        let (mut place, mut hides, mut is_there) = (root.clone(), false, true);
        for name in path.components() {
            place.push(name);
            match fs::symlink_metadata(&place) {
                Ok(found) if found.is_dir() => hides |= is_opaque(&place)?,
                Ok(found) if found.file_type().is_char_device() && found.rdev() == 0 => {
                    return Ok(MergedEntry::Nothing);
                }
                Ok(_) => return Ok(MergedEntry::Other),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    is_there = false;
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        if is_there {
            return attributes(&place);
        }
        if hides {
            break;
        }
    }
    Ok(MergedEntry::Nothing)
}

fn attributes(folder: &Path) -> io::Result<MergedEntry> {
    let mut names = [0_u8; MAX_NAMES];
    let length = match llistxattr(folder, &mut names) {
        Ok(length) => length,
        Err(Errno::NOTSUP) => 0,
        Err(Errno::RANGE) => return Ok(MergedEntry::Other),
        Err(error) => return Err(error.into()),
    };
    let mut own = names[..length].split(|byte| *byte == 0).filter(|name| !name.is_empty());
    if own.any(|name| OF_OVERLAY.iter().all(|known| known.as_bytes() != name)) {
        return Ok(MergedEntry::Other);
    }
    let found = fs::symlink_metadata(folder)?;
    Ok(MergedEntry::Folder(FolderAttributes {
        mode: found.mode() & 0o7777,
        user: found.uid(),
        group: found.gid(),
    }))
}

fn is_opaque(folder: &Path) -> io::Result<bool> {
    let mut value = [0_u8; 8];
    match lgetxattr(folder, OPAQUE, &mut value) {
        Ok(length) => Ok(&value[..length] == b"y"),
        // A value that does not fit is not "y".
        Err(Errno::NODATA | Errno::NOTSUP | Errno::RANGE) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Writes the folders and the file. Everybody in a computer may read it.
fn write(rootfs: &Path, folders: &[(PathBuf, FolderAttributes)], file: &Path, list: &str) -> io::Result<()> {
    for (path, attributes) in folders {
        let folder = rootfs.join(path);
        fs::create_dir(&folder)?;
        chown(&folder, Some(attributes.user), Some(attributes.group))?;
        fs::set_permissions(&folder, fs::Permissions::from_mode(attributes.mode))?;
    }
    let file = rootfs.join(file);
    fs::write(&file, list)?;
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use rustix::fs::{CWD, FileType, Mode, XattrFlags, lsetxattr, mknodat};

    use super::*;

    const FILE: &str = "etc/hotdesk/programs.json";

    /// Root folders of three layers, the highest first: one is empty, one has `etc`, and one has `etc/hotdesk`.
    fn roots(temp: &Path) -> Vec<PathBuf> {
        let made = ["", "etc", "etc/hotdesk"].iter().enumerate().map(|(number, folder)| {
            let root = temp.join(number.to_string());
            fs::create_dir_all(root.join(folder)).unwrap();
            root
        });
        made.collect()
    }

    fn set_mode(folder: &Path, mode: u32) {
        fs::set_permissions(folder, fs::Permissions::from_mode(mode)).unwrap();
    }

    fn modes(roots: &[PathBuf]) -> Option<Vec<u32>> {
        let folders = folders_above(roots, Path::new(FILE)).unwrap()?;
        let paths: Vec<&str> = folders.iter().map(|(path, _)| path.to_str().unwrap()).collect();
        assert_eq!(paths, ["", "etc", "etc/hotdesk"]);
        Some(folders.iter().map(|(_, attributes)| attributes.mode).collect())
    }

    #[test]
    fn folders_have_the_attributes_of_the_highest_layer_that_has_them() {
        let temp = tempfile::tempdir().unwrap();
        let roots = roots(temp.path());
        set_mode(&roots[0], 0o711);
        set_mode(&roots[1].join("etc"), 0o2750);
        set_mode(&roots[2].join("etc"), 0o700);
        set_mode(&roots[2].join("etc/hotdesk"), 0o751);
        assert_eq!(modes(&roots), Some(vec![0o711, 0o2750, 0o751]));
        assert_eq!(modes(&roots[..2]), Some(vec![0o711, 0o2750, 0o755]), "a new folder");

        let to = temp.path().join("layer");
        let mut folders = folders_above(&roots, Path::new(FILE)).unwrap().unwrap();
        let own = fs::metadata(temp.path()).unwrap();
        for (_, attributes) in &mut folders {
            (attributes.user, attributes.group) = (own.uid(), own.gid());
        }
        write(&to, &folders, Path::new(FILE), "{}").unwrap();
        let mode = |path: &str| fs::metadata(to.join(path)).unwrap().mode() & 0o7777;
        assert_eq!(["", "etc", "etc/hotdesk", FILE].map(mode), [0o711, 0o2750, 0o751, 0o644]);
        assert_eq!(fs::read_to_string(to.join(FILE)).unwrap(), "{}");
    }

    #[test]
    fn t7_a_link_or_a_file_on_the_way_is_left_to_a_machine() {
        let temp = tempfile::tempdir().unwrap();
        let roots = roots(temp.path());
        assert!(modes(&roots).is_some());
        symlink("/", roots[0].join("etc")).unwrap();
        assert_eq!(modes(&roots), None);
        fs::remove_file(roots[0].join("etc")).unwrap();
        symlink("/tmp", roots[1].join("etc/hotdesk")).unwrap();
        assert_eq!(modes(&roots), None);
        fs::remove_file(roots[1].join("etc/hotdesk")).unwrap();
        fs::write(roots[1].join("etc/hotdesk"), "").unwrap();
        assert_eq!(modes(&roots), None);
        assert!(folders_above(&[temp.path().join("none")], Path::new(FILE)).is_err(), "a missing layer");
    }

    #[test]
    fn what_a_layer_hides_is_not_there() {
        if !nix::unistd::geteuid().is_root() {
            return hotdesk_capability::Capability::Root.skip("whiteouts and attributes of an overlay");
        }
        let temp = tempfile::tempdir().unwrap();
        let roots = roots(temp.path());
        set_mode(&roots[2].join("etc/hotdesk"), 0o700);
        let last = |expected: u32| assert_eq!(modes(&roots).unwrap()[2], expected);
        last(0o700);
        let attribute = |name: &str, value: &[u8]| {
            lsetxattr(roots[1].join("etc"), name, value, XattrFlags::empty()).unwrap();
        };
        attribute("trusted.overlay.origin", b"x");
        last(0o700);
        for other in [&b"x"[..], b"a longer value"] {
            attribute(OPAQUE, other);
            last(0o700);
        }
        attribute(OPAQUE, b"y");
        last(0o755);
        rustix::fs::lremovexattr(roots[1].join("etc"), OPAQUE).unwrap();
        let whiteout = roots[1].join("etc/hotdesk");
        mknodat(CWD, &whiteout, FileType::CharacterDevice, Mode::empty(), 0).unwrap();
        last(0o755);
        fs::remove_file(whiteout).unwrap();
        attribute("trusted.other", b"x");
        assert_eq!(modes(&roots), None, "an attribute that the new layer would hide");
    }
}
