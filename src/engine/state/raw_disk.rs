//! Mark of a disk that a virtual machine has written. Its root can write any block, and a crafted file system can attack
//! the kernel that mounts it. So the host never mounts such a disk, whatever engine is configured later.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::host::command::host_error;
use crate::host::files::write_durably;
use crate::state::layout::Folder;
use crate::{EngineError, EngineResult};

const TEXT: &[u8] = b"A virtual machine has written disk.img. The host's kernel must not mount it.\n";
/// ext4's magic number, and its offset in bytes.
const MAGIC: u16 = 0xEF53;
const MAGIC_AT: u64 = 1080;

/// Marks a machine's disk, durably. Called before a virtual machine gets the disk. The mark stays as long as the
/// machine.
pub(crate) fn mark(folder: &Folder) -> EngineResult<()> {
    const STEP: &str = "mark the disk of a virtual machine";
    if is_marked(folder)? {
        return Ok(());
    }
    let path = folder.raw_disk();
    write_durably(&path, TEXT).map_err(host_error(STEP, &path))
}

/// Marks the disk of `target` if that of `source`, or one of its snapshots, may become its content. Called before the
/// copy.
pub(crate) fn inherit(source: &Folder, target: &Folder) -> EngineResult<()> {
    if is_marked(source)? { mark(target) } else { Ok(()) }
}

/// Refuses a marked disk.
pub(crate) fn check_mountable(folder: &Folder) -> EngineResult<()> {
    if !is_marked(folder)? {
        return Ok(());
    }
    let detail = format!(
        "{}: a virtual machine has written it, and a crafted file system could attack the kernel of this host; \
         start the computer as a virtual machine (isolation vm, engine qemu), and copy its files to a new one",
        folder.disk().display()
    );
    Err(EngineError::failed("mount the disk", detail))
}

/// Refuses to read a marked disk for a layer.
pub(crate) fn check_readable(folder: &Folder) -> EngineResult<()> {
    if is_marked(folder)? { Err(no_layer(folder)) } else { Ok(()) }
}

/// The error for a disk of which no layer can be made.
pub(crate) fn no_layer(folder: &Folder) -> EngineError {
    let detail = format!(
        "{}: it is the disk of a virtual machine, whose file system the host must not read; layers are made by computers \
         of isolation shared or sandbox, and virtual machines can use them",
        folder.disk().display()
    );
    EngineError::failed("make a layer", detail)
}

fn is_marked(folder: &Folder) -> EngineResult<bool> {
    let (path, agent) = (folder.raw_disk(), folder.agent());
    let failed = host_error("look for the mark of the disk", &path);
    // Version 0.1.0 set no mark; its virtual machines have an agent that is a file system.
    Ok(path.try_exists().map_err(&failed)? || is_ext4(&agent).map_err(&failed)?)
}

/// Whether a file has the magic number of ext4 (kernel documentation, ext4 disk layout, "The Super Block").
fn is_ext4(path: &Path) -> io::Result<bool> {
    let mut magic = [0; 2];
    match File::open(path).and_then(|file| file.read_exact_at(&mut magic, MAGIC_AT)) {
        Ok(()) => Ok(u16::from_le_bytes(magic) == MAGIC),
        Err(error) if [io::ErrorKind::NotFound, io::ErrorKind::UnexpectedEof].contains(&error.kind()) => {
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hotdesk_base::ids::ComputerId;

    #[test]
    fn copies_of_a_virtual_machine_s_disk_are_never_mounted() {
        let temp = tempfile::tempdir().unwrap();
        let [source, target] = [1, 2].map(|number| {
            let path = temp.path().join(number.to_string());
            std::fs::create_dir(&path).unwrap();
            Folder { id: ComputerId::random(), path }
        });
        inherit(&source, &target).unwrap();
        check_mountable(&target).unwrap();
        check_readable(&target).unwrap();
        for _ in 0..2 {
            mark(&source).unwrap();
            inherit(&source, &target).unwrap();
        }
        for folder in [&source, &target] {
            let refused = format!("{:#}", check_mountable(folder).unwrap_err());
            assert!(refused.contains("disk.img: a virtual machine has written it"), "{refused}");
            let refused = format!("{:#}", check_readable(folder).unwrap_err());
            assert!(refused.contains("isolation shared or sandbox"), "{refused}");
        }
    }

    #[test]
    fn a_machine_of_version_0_1_is_recognized_by_its_agent() {
        let temp = tempfile::tempdir().unwrap();
        let folder = Folder { id: ComputerId::random(), path: temp.path().to_owned() };
        for (agent, is_raw) in [(&b"\x7fELF"[..], false), (&[0; 4096], false), (&ext4(), true)] {
            std::fs::write(folder.agent(), agent).unwrap();
            assert_eq!(check_mountable(&folder).is_err(), is_raw);
        }
    }

    fn ext4() -> Vec<u8> {
        let mut disk = vec![0; 4096];
        disk[1080..1082].copy_from_slice(&[0x53, 0xEF]);
        disk
    }
}
