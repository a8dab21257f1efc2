//! Seed disk of a virtual machine: the small files of one boot, with secrets, as a tar archive that only the
//! guest's root can read. The initial RAM disk unpacks it (`packaging/vm/init`).

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::net::Ipv4Addr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crate::host::command::host_error;
use crate::host::files::remove_if_there;
use crate::state::boot_files::BootFile;
use crate::{EngineError, EngineResult};

/// Its size in bytes. It is constant, because a resumed guest expects the disk that it had; ten times the
/// usual content.
const BYTES: usize = 64 * 1024;

/// Writes a machine's seed disk.
pub(super) fn write(path: &Path, files: &[BootFile]) -> EngineResult<()> {
    const STEP: &str = "write the seed disk";
    let failed = host_error(STEP, path);
    let text = archive(files).map_err(&failed)?;
    if text.len() != BYTES {
        return Err(EngineError::failed(STEP, format!("{} bytes do not fit into {BYTES}", text.len())));
    }
    remove_if_there(path)
        .and_then(|()| OpenOptions::new().write(true).create_new(true).mode(0o600).open(path))
        .and_then(|mut file| file.write_all(&text))
        .map_err(failed)
}

/// The files that only virtual machines need.
pub(super) fn vm_files(
    arguments: &[String],
    guest: Ipv4Addr,
    gateway: Ipv4Addr,
) -> EngineResult<Vec<BootFile>> {
    if arguments.iter().any(|argument| argument.contains('\n')) {
        return Err(EngineError::failed("write the guest's command", "an argument contains a newline"));
    }
    let file = |name, text| BootFile { name, text, mode: 0o400 };
    Ok(vec![
        file("arguments", arguments.iter().map(|argument| format!("{argument}\n")).collect()),
        file("address", format!("{guest}/30\n")),
        file("gateway", format!("{gateway}\n")),
    ])
}

fn archive(files: &[BootFile]) -> io::Result<Vec<u8>> {
    let mut archive = tar::Builder::new(Vec::with_capacity(BYTES));
    for file in files {
        let mut header = tar::Header::new_ustar();
        header.set_size(file.text.len() as u64);
        header.set_mode(file.mode);
        archive.append_data(&mut header, file.name, file.text.as_bytes())?;
    }
    let mut text = archive.into_inner()?;
    text.resize(text.len().max(BYTES), 0);
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn named(text: String) -> BootFile {
        BootFile { name: "token", text, mode: 0o400 }
    }

    #[test]
    fn a_seed_disk_is_private_and_has_a_constant_size() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("seed");
        for token in ["a", "another"] {
            write(&path, &[named(token.to_owned())]).unwrap();
            let data = std::fs::metadata(&path).unwrap();
            assert_eq!((data.len(), data.permissions().mode() & 0o777), (64 * 1024, 0o600));
        }
        let mut archive = tar::Archive::new(std::fs::File::open(&path).unwrap());
        let read = archive.entries().unwrap().next().unwrap().unwrap();
        assert_eq!((read.size(), read.header().mode().unwrap()), (7, 0o400));
        write(&path, &[named("x".repeat(BYTES))]).unwrap_err();
        vm_files(&["two\nlines".to_owned()], Ipv4Addr::LOCALHOST, Ipv4Addr::LOCALHOST).unwrap_err();
    }
}
