//! Creation of a tar archive of a folder while it is sent. Links are stored and never followed.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;
use tar::{Builder, EntryType};
use tokio::runtime::Handle;
use tokio::sync::mpsc;

use crate::files::archive::walk::{header, unless_vanished, walk};
use crate::files::paths::{FOLDER, enter};
use crate::files::{errno, not_a_folder, paths};
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::error_code::ErrorCode;
use hotdesk_domain::filename::MAX_PATH;

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

/// Sends a folder's tar; entries have paths relative to the folder, in the order of [`walk`]. Sockets, FIFOs and devices
/// are left out. A failure breaks the stream, so that the client does not take a part for the whole.
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
    let mut packer = Packer(Builder::new(stream));
    let packed = packer.add(folder, selection).and_then(|()| packer.0.into_inner()?.flush());
    if let Err(error) = packed {
        tracing::info!(%error, "the download of an archive was aborted");
        // The client may be the cause.
        let _gone = handle.block_on(tokio::time::timeout(CLIENT_TIMEOUT, sender.send(Err(error))));
    }
}

struct Packer(Builder<PieceWriter>);

impl Packer {
    fn add(&mut self, folder: &OwnedFd, selection: &ArchiveSelection) -> io::Result<()> {
        match selection {
            ArchiveSelection::After(sent) => walk(folder, &mut |holder, name, path| {
                if path > sent {
                    return self.append(holder, name, path);
                }
                // The content of a folder that was sent may have to follow.
                Ok(sent.starts_with(path).then(|| enter(holder, name)).transpose()?)
            }),
            ArchiveSelection::Paths(paths) => {
                paths.iter().try_for_each(|path| unless_vanished(self.add_path(folder, path)))
            }
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
                self.0.append_data(&mut header(&facts, EntryType::Directory, 0), path, io::empty())?;
                return Ok(Some(inside));
            }
            FileType::RegularFile => {
                let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let file = rustix::fs::openat(folder, name, flags, Mode::empty())?;
                let facts = rustix::fs::fstat(&file)?;
                if FileType::from_raw_mode(facts.st_mode) == FileType::RegularFile {
                    let size = u64::try_from(facts.st_size).unwrap_or_default();
                    let content = FixedSizeReader { file: File::from(file), left: size };
                    self.0.append_data(&mut header(&facts, EntryType::Regular, size), path, content)?;
                }
            }
            FileType::Symlink => {
                let target = rustix::fs::readlinkat(folder, name, Vec::new())?;
                let target = Path::new(OsStr::from_bytes(target.as_bytes()));
                self.0.append_link(&mut header(&facts, EntryType::Symlink, 0), path, target)?;
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
