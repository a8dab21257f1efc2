//! How is a pseudo-terminal read and written without waiting on a thread? Its master end, made by `portable-pty`, under
//! the runtime's own polling.

use std::fs::File;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;

use nix::errno::Errno;
use nix::fcntl::OFlag;
use portable_pty::{MasterPty, PtySize, native_pty_system};
use tokio::io::unix::AsyncFd;

use hotdesk_domain::terminal::Size;

/// Who says how large the terminal is. Kept apart from what is read and written, because it is bound to one thread at a
/// time.
pub struct Ruler(Box<dyn MasterPty + Send>);

/// The end that is read and written here.
#[derive(Debug)]
pub struct Master(AsyncFd<OwnedFd>);

/// A fresh terminal.
pub struct Pty {
    pub master: Master,
    pub ruler: Ruler,
    /// The end that the shell gets.
    pub slave: OwnedFd,
}

/// Makes a terminal. Needs a runtime.
///
/// # Errors
/// When the kernel has none left.
pub fn open(size: Size) -> io::Result<Pty> {
    let pair = native_pty_system().openpty(measured(size)).map_err(io::Error::other)?;
    let name = pair.master.tty_name().ok_or_else(|| io::Error::other("the terminal has no name"))?;
    let flags = (OFlag::O_NOCTTY | OFlag::O_CLOEXEC).bits();
    let slave = File::options().read(true).write(true).custom_flags(flags).open(name)?;
    let number = pair.master.as_raw_fd().ok_or_else(|| io::Error::other("the terminal has no descriptor"))?;
    // SAFETY: the pair owns the descriptor and outlives this borrow of it.
    #[allow(unsafe_code)]
    let borrowed = unsafe { BorrowedFd::borrow_raw(number) };
    let master = borrowed.try_clone_to_owned()?;
    rustix::io::ioctl_fionbio(&master, true)?;
    // SAFETY: the descriptor is owned by what is registered, and nothing closes it before that is dropped.
    #[allow(unsafe_code)]
    let master = unsafe { AsyncFd::register(master) }?;
    Ok(Pty { master: Master(master), ruler: Ruler(pair.master), slave: slave.into() })
}

fn measured(size: Size) -> PtySize {
    PtySize { rows: size.rows, cols: size.cols, pixel_width: 0, pixel_height: 0 }
}

impl Ruler {
    /// Changes the size; the program in front is told (`SIGWINCH`).
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn resize(&self, size: Size) -> io::Result<()> {
        self.0.resize(measured(size)).map_err(io::Error::other)
    }
}

impl Master {
    /// Reads all that is there, waiting for the first of it; 0 once nobody holds the other end. Cancel-safe: nothing is
    /// taken before there is something to return.
    ///
    /// # Errors
    /// When the terminal breaks.
    pub async fn read(&self, room: &mut [u8]) -> io::Result<usize> {
        let mut length = 0;
        loop {
            let mut ready = self.0.readable().await?;
            while length < room.len() {
                match ready.try_io(|fd| Ok(rustix::io::read(fd, &mut room[length..])?)) {
                    Ok(Ok(0)) => return Ok(length),
                    Ok(Ok(more)) => length += more,
                    // Nobody holds the other end (pty(7)).
                    Ok(Err(error)) if error.raw_os_error() == Some(Errno::EIO as i32) => return Ok(length),
                    Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                    Ok(Err(error)) => return Err(error),
                    Err(_would_block) => break,
                }
            }
            if length > 0 {
                return Ok(length);
            }
        }
    }

    /// Writes as much as there is room for, waiting for the first of it. Cancel-safe.
    ///
    /// # Errors
    /// When nobody holds the other end.
    pub async fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            let mut ready = self.0.writable().await?;
            match ready.try_io(|fd| Ok(rustix::io::write(fd, bytes)?)) {
                Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(written) => return written,
                Err(_would_block) => {}
            }
        }
    }
}
