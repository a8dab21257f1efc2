//! Creation of a tar archive of a folder while it is sent. Links are stored and never followed.

use std::cmp::Ordering;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use tar::{Builder, EntryType, Header};
use tokio::runtime::Handle;
use tokio::sync::mpsc;

use crate::files::paths::{FOLDER, enter};
use crate::files::{errno, not_a_folder, paths};
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::error_code::ErrorCode;
use hotdesk_domain::filename::MAX_PATH;

/// Most entries of one archive.
const MAX_ENTRIES: u64 = 1_000_000;
/// Deepest folder level; each level needs an open file descriptor.
pub(super) const MAX_DEPTH: usize = 200;
/// Bytes of one piece of the stream.
const PIECE: usize = 64 * 1024;
/// Most pieces that wait for the client.
pub const WAITING_PIECES: usize = 8;
/// How long a client may take to read a piece: a thread and open folders wait for it.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(60);

/// Opens a folder for packer; returns also its path.
///
/// # Errors
/// `Invalid` (`not_a_folder`); `NotFound`; `Forbidden`.
pub fn open(home: &Path, path: &str) -> Result<(OwnedFd, PathBuf)> {
    paths::resolve(home, path, |full| match rustix::fs::open(full, FOLDER, Mode::empty()) {
        Ok(folder) => Ok((folder, full.to_owned())),
        Err(Errno::NOTDIR) => Err(not_a_folder(path)),
        Err(error) => Err(errno(path, error)),
    })
}

/// Parses the path of an entry, relative to the folder; it may be empty.
///
/// # Errors
/// `Invalid` for an absolute or too long path, or one with `.`, `..` or NUL.
pub fn relative(path: &str) -> Result<PathBuf> {
    let is_plain = Path::new(path).components().all(|part| matches!(part, Component::Normal(_)));
    if !is_plain || path.len() > MAX_PATH || path.contains('\0') {
        let what = "after must be a path below the folder, without `.`, `..` or NUL, of at most 4096 bytes";
        return Err(Error::invalid(what).code(ErrorCode::InvalidRequest));
    }
    Ok(PathBuf::from(path))
}

/// Entries of a folder that an archive contains, as paths relative to the folder.
#[derive(Debug)]
pub enum ArchiveSelection {
    /// All that follow this path in the order of the archive; everything for an empty path.
    After(PathBuf),
    /// These, in this order, without the content of folders. Those that vanished are left out.
    Paths(Vec<PathBuf>),
}

/// Sends a folder's tar; entries have paths relative to the folder. Folders are sorted by the bytes of their
/// names, and a folder's content follows it. Sockets, FIFOs, devices and hotdesk's own files are left out, and
/// mounted file systems are not entered. A failure breaks the stream, so that the client does not take a part
/// for the whole.
pub fn pack(
    folder: &OwnedFd,
    selection: &ArchiveSelection,
    sender: mpsc::Sender<io::Result<Bytes>>,
    handle: Handle,
) {
    let stream = PieceWriter {
        sender: sender.clone(),
        handle: handle.clone(),
        buffer: BytesMut::with_capacity(PIECE),
    };
    let packed = rustix::fs::fstat(folder).map_err(io::Error::from).and_then(|facts| {
        let mut packer = Packer { tar: Builder::new(stream), entries: 0, device: facts.st_dev };
        match selection {
            ArchiveSelection::After(sent) => packer.add_folder(folder, Path::new(""), 0, sent)?,
            ArchiveSelection::Paths(paths) => {
                for path in paths {
                    unless_vanished(packer.add_path(folder, path))?;
                }
            }
        }
        packer.tar.into_inner()?.flush()
    });
    if let Err(error) = packed {
        tracing::info!(%error, "the download of an archive was aborted");
        // The client may be the cause.
        let _gone = handle.block_on(tokio::time::timeout(CLIENT_TIMEOUT, sender.send(Err(error))));
    }
}

struct Packer {
    tar: Builder<PieceWriter>,
    entries: u64,
    device: u64,
}

impl Packer {
    /// Adds the content of a folder that follows `sent`, a path relative to it.
    fn add_folder(&mut self, folder: &OwnedFd, prefix: &Path, depth: usize, sent: &Path) -> io::Result<()> {
        if depth >= MAX_DEPTH {
            return Err(io::Error::other(format!("{}: folders deeper than {MAX_DEPTH}", prefix.display())));
        }
        let names = sorted_names(folder, self.entries)?;
        let mut inside = sent.components();
        let sent = inside.next().map(|first| first.as_os_str().as_bytes());
        for name in names {
            self.entries += 1;
            // The content of a folder that was sent may have to follow.
            let inside = match sent.map(|sent| name.as_slice().cmp(sent)) {
                Some(Ordering::Less) => continue,
                Some(Ordering::Equal) => Some(inside.as_path()),
                Some(Ordering::Greater) | None => None,
            };
            let name = Path::new(OsStr::from_bytes(&name));
            unless_vanished(self.add_entry(folder, name, &prefix.join(name), depth, inside))?;
        }
        Ok(())
    }

    /// Adds an entry and its content; of an entry that was sent, the content that follows a path in it.
    fn add_entry(
        &mut self,
        folder: &OwnedFd,
        name: &Path,
        path: &Path,
        depth: usize,
        sent: Option<&Path>,
    ) -> io::Result<()> {
        let inside = match sent {
            Some(_) => Some(enter(folder, name)?),
            None => self.append(folder, name, path)?,
        };
        match inside {
            Some(inside) if rustix::fs::fstat(&inside)?.st_dev == self.device => {
                self.add_folder(&inside, path, depth + 1, sent.unwrap_or(Path::new("")))
            }
            _ => Ok(()),
        }
    }

    fn add_path(&mut self, folder: &OwnedFd, path: &Path) -> io::Result<()> {
        let (Some(name), Some(parent)) = (path.file_name(), path.parent()) else { return Ok(()) };
        let holder = enter(folder, ".")?;
        let holder = parent.iter().try_fold(holder, |holder, name| enter(&holder, name))?;
        self.append(&holder, Path::new(name), path)?;
        Ok(())
    }

    /// Appends an entry without its content; returns a folder opened.
    fn append(&mut self, folder: &OwnedFd, name: &Path, path: &Path) -> io::Result<Option<OwnedFd>> {
        let facts = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
        match FileType::from_raw_mode(facts.st_mode) {
            FileType::Directory => {
                let inside = enter(folder, name)?;
                self.tar.append_data(&mut header(&facts, EntryType::Directory, 0), path, io::empty())?;
                return Ok(Some(inside));
            }
            FileType::RegularFile => {
                let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let file = rustix::fs::openat(folder, name, flags, Mode::empty())?;
                let facts = rustix::fs::fstat(&file)?;
                if FileType::from_raw_mode(facts.st_mode) == FileType::RegularFile {
                    let size = u64::try_from(facts.st_size).unwrap_or_default();
                    let content = FixedSizeReader { file: File::from(file), left: size };
                    self.tar.append_data(&mut header(&facts, EntryType::Regular, size), path, content)?;
                }
            }
            FileType::Symlink => {
                let target = rustix::fs::readlinkat(folder, name, Vec::new())?;
                let target = Path::new(OsStr::from_bytes(target.as_bytes()));
                self.tar.append_link(&mut header(&facts, EntryType::Symlink, 0), path, target)?;
            }
            FileType::Fifo
            | FileType::Socket
            | FileType::CharacterDevice
            | FileType::BlockDevice
            | FileType::Unknown => {}
        }
        Ok(None)
    }
}

/// Names in a folder, in the order of an archive that has `entries` already, without hotdesk's own files.
pub(super) fn sorted_names(folder: &OwnedFd, entries: u64) -> io::Result<Vec<Vec<u8>>> {
    let path = std::fs::read_link(format!("/proc/self/fd/{}", folder.as_raw_fd()))?;
    let mut names: Vec<Vec<u8>> = Vec::new();
    let mut found = Dir::read_from(folder)?;
    while let Some(read) = found.read() {
        let read = read?;
        let name = read.file_name().to_bytes();
        if !matches!(name, b"." | b"..") && !paths::is_reserved(&path.join(OsStr::from_bytes(name))) {
            names.push(name.to_owned());
        }
        if names.len() as u64 + entries > MAX_ENTRIES {
            return Err(io::Error::other(format!("more than {MAX_ENTRIES} entries")));
        }
    }
    names.sort_unstable();
    Ok(names)
}

/// Accepts that an entry vanished or changed its type meanwhile.
pub(super) fn unless_vanished(added: io::Result<()>) -> io::Result<()> {
    match added {
        Err(error)
            if matches!(
                error.raw_os_error().map(Errno::from_raw_os_error),
                Some(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::NXIO)
            ) =>
        {
            Ok(())
        }
        done => done,
    }
}

/// Header of an entry, without its path.
pub(super) fn header(facts: &Stat, kind: EntryType, size: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_size(size);
    header.set_mode(facts.st_mode & 0o7777);
    header.set_uid(u64::from(facts.st_uid));
    header.set_gid(u64::from(facts.st_gid));
    header.set_mtime(u64::try_from(facts.st_mtime).unwrap_or_default());
    header
}

/// Reader of exactly the size in the header: a file that grows is cut, one that shrinks is filled with zeros,
/// as in GNU tar.
struct FixedSizeReader {
    file: File,
    left: u64,
}

impl Read for FixedSizeReader {
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

/// Writer that sends the tar in pieces.
struct PieceWriter {
    sender: mpsc::Sender<io::Result<Bytes>>,
    handle: Handle,
    buffer: BytesMut,
}

impl Write for PieceWriter {
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
            Ok(Err(_)) => Err(io::Error::new(io::ErrorKind::BrokenPipe, "the client disconnected")),
            Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, "the client does not read")),
        }
    }
}
