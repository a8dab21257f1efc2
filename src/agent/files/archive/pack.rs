//! How does a folder leave as one stream? As a tar that is made while it is sent, link by link and never through one.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use tar::{Builder, EntryType, Header};
use tokio::runtime::Handle;
use tokio::sync::mpsc;

use super::paths::{FOLDER, enter};
use super::{errno, not_a_folder, paths};
use hotdesk_domain::error::Result;

/// Entries in one archive.
const MAX_ENTRIES: u64 = 1_000_000;
/// Deepest folder that is entered; a descriptor is open for each.
const MAX_DEPTH: usize = 200;
/// Bytes of a piece of the stream.
const PIECE: usize = 64 * 1024;
/// Pieces that wait for the client.
pub const WAITING_PIECES: usize = 8;
/// Longest time that a client may take for a piece: a thread and open folders wait for it.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(60);

/// Opens the folder that is to be packed; its path as well.
///
/// # Errors
/// `Invalid` (`not_a_folder`); `NotFound`; `Forbidden`.
pub fn open(home: &Path, path: &str) -> Result<(OwnedFd, PathBuf)> {
    paths::look(home, path, |full| match rustix::fs::open(full, FOLDER, Mode::empty()) {
        Ok(folder) => Ok((folder, full.to_owned())),
        Err(Errno::NOTDIR) => Err(not_a_folder(path)),
        Err(error) => Err(errno(path, error)),
    })
}

/// Sends a folder's tar; entries have paths relative to the folder. Sockets, FIFOs and devices are left out, other file
/// systems inside are not entered. A failure ends the stream as broken, so that nobody takes a part for the whole.
pub fn pack(folder: &OwnedFd, sender: mpsc::Sender<io::Result<Bytes>>, handle: Handle) {
    let stream =
        Outlet { sender: sender.clone(), handle: handle.clone(), buffer: BytesMut::with_capacity(PIECE) };
    let packed = rustix::fs::fstat(folder).map_err(io::Error::from).and_then(|facts| {
        let mut packing = Packing { tar: Builder::new(stream), entries: 0, device: facts.st_dev };
        packing.all_in(folder, Path::new(""), 0)?;
        packing.tar.into_inner()?.flush()
    });
    if let Err(error) = packed {
        tracing::info!(%error, "an archive was not finished");
        // The client may be what failed.
        let _gone = handle.block_on(tokio::time::timeout(CLIENT_TIMEOUT, sender.send(Err(error))));
    }
}

struct Packing {
    tar: Builder<Outlet>,
    entries: u64,
    device: u64,
}

impl Packing {
    fn all_in(&mut self, folder: &OwnedFd, prefix: &Path, depth: usize) -> io::Result<()> {
        if depth >= MAX_DEPTH {
            return Err(io::Error::other(format!("{}: folders deeper than {MAX_DEPTH}", prefix.display())));
        }
        let mut names: Vec<Vec<u8>> = Vec::new();
        let mut entries = Dir::read_from(folder)?;
        while let Some(read) = entries.read() {
            let read = read?;
            let name = read.file_name().to_bytes();
            if !matches!(name, b"." | b"..") {
                names.push(name.to_owned());
            }
            if names.len() as u64 + self.entries > MAX_ENTRIES {
                return Err(io::Error::other(format!("more than {MAX_ENTRIES} entries")));
            }
        }
        drop(entries);
        names.sort_unstable();
        for name in names {
            self.entries += 1;
            let name = Path::new(std::ffi::OsStr::from_bytes(&name));
            match self.one(folder, name, &prefix.join(name), depth) {
                // It went, or became something else, while we were packing.
                Err(error)
                    if matches!(
                        error.raw_os_error().map(Errno::from_raw_os_error),
                        Some(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::NXIO)
                    ) => {}
                done => done?,
            }
        }
        Ok(())
    }

    fn one(&mut self, folder: &OwnedFd, name: &Path, path: &Path, depth: usize) -> io::Result<()> {
        let facts = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
        match FileType::from_raw_mode(facts.st_mode) {
            FileType::Directory => {
                let inside = enter(folder, name)?;
                self.tar.append_data(&mut header(&facts, EntryType::Directory, 0), path, io::empty())?;
                if facts.st_dev == self.device {
                    self.all_in(&inside, path, depth + 1)?;
                }
            }
            FileType::RegularFile => {
                let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let file = rustix::fs::openat(folder, name, flags, Mode::empty())?;
                let facts = rustix::fs::fstat(&file)?;
                if FileType::from_raw_mode(facts.st_mode) == FileType::RegularFile {
                    let size = u64::try_from(facts.st_size).unwrap_or_default();
                    let content = Exactly { file: File::from(file), left: size };
                    self.tar.append_data(&mut header(&facts, EntryType::Regular, size), path, content)?;
                }
            }
            FileType::Symlink => {
                let target = rustix::fs::readlinkat(folder, name, Vec::new())?;
                let target = Path::new(std::ffi::OsStr::from_bytes(target.as_bytes()));
                self.tar.append_link(&mut header(&facts, EntryType::Symlink, 0), path, target)?;
            }
            FileType::Fifo
            | FileType::Socket
            | FileType::CharacterDevice
            | FileType::BlockDevice
            | FileType::Unknown => {}
        }
        Ok(())
    }
}

fn header(facts: &Stat, kind: EntryType, size: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_size(size);
    header.set_mode(facts.st_mode & 0o7777);
    header.set_uid(u64::from(facts.st_uid));
    header.set_gid(u64::from(facts.st_gid));
    header.set_mtime(u64::try_from(facts.st_mtime).unwrap_or_default());
    header
}

/// As many bytes as the header said: a file that grows is cut, one that shrinks is filled with zeros, as GNU tar does.
struct Exactly {
    file: File,
    left: u64,
}

impl Read for Exactly {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let most = into.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        if most == 0 {
            return Ok(0);
        }
        let mut length = self.file.read(&mut into[..most])?;
        if length == 0 {
            into[..most].fill(0);
            length = most;
        }
        self.left -= length as u64;
        Ok(length)
    }
}

/// Where the tar goes: in pieces to whoever sends them on.
struct Outlet {
    sender: mpsc::Sender<io::Result<Bytes>>,
    handle: Handle,
    buffer: BytesMut,
}

impl Write for Outlet {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let length = bytes.len().min(PIECE - self.buffer.len());
        self.buffer.extend_from_slice(&bytes[..length]);
        if self.buffer.len() == PIECE {
            self.flush()?;
        }
        Ok(length)
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let piece = std::mem::replace(&mut self.buffer, BytesMut::with_capacity(PIECE)).freeze();
        let sending = tokio::time::timeout(CLIENT_TIMEOUT, self.sender.send(Ok(piece)));
        match self.handle.block_on(sending) {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(io::Error::new(io::ErrorKind::BrokenPipe, "the client left")),
            Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, "the client takes nothing")),
        }
    }
}
