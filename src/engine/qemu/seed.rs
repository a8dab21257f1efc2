//! What is a virtual machine told at its boot, and how? Small files, secrets among them, as an archive on a disk of its own that
//! only the guest's root reads; the initial RAM disk unpacks it (`packaging/vm/init`).

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::net::Ipv4Addr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crate::command::host_error;
use crate::layout::remove_if_there;
use crate::staged::StagedFile;
use crate::{EngineError, EngineResult};

/// Its size, always the same, because a guest that is continued expects the disk that it had; ten times what it holds.
const BYTES: usize = 64 * 1024;

/// Writes a machine's seed.
pub(super) fn write(path: &Path, files: &[StagedFile]) -> EngineResult<()> {
    const STEP: &str = "write what the guest is told";
    let failed = host_error(STEP, path);
    let text = archive(files).map_err(&failed)?;
    if text.len() != BYTES {
        return Err(EngineError::failed(STEP, format!("{} bytes do not fit", text.len())));
    }
    remove_if_there(path)
        .and_then(|()| OpenOptions::new().write(true).create_new(true).mode(0o600).open(path))
        .and_then(|mut file| file.write_all(&text))
        .map_err(failed)
}

/// The files that a machine needs beside those of every guest.
pub(super) fn own_files(
    arguments: &[String],
    guest: Ipv4Addr,
    gateway: Ipv4Addr,
) -> EngineResult<Vec<StagedFile>> {
    if arguments.iter().any(|argument| argument.contains('\n')) {
        return Err(EngineError::failed("tell the guest its command", "an argument has several lines"));
    }
    let file = |name, text| StagedFile { name, text, mode: 0o400 };
    Ok(vec![
        file("arguments", arguments.iter().map(|argument| format!("{argument}\n")).collect()),
        file("address", format!("{guest}/30\n")),
        file("gateway", format!("{gateway}\n")),
    ])
}

fn archive(files: &[StagedFile]) -> io::Result<Vec<u8>> {
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

    fn named(text: String) -> StagedFile {
        StagedFile { name: "token", text, mode: 0o400 }
    }

    #[test]
    fn a_seed_is_for_root_alone_and_always_as_long() {
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
        own_files(&["two\nlines".to_owned()], Ipv4Addr::LOCALHOST, Ipv4Addr::LOCALHOST).unwrap_err();
    }
}
