//! Non-blocking pseudo-terminal: a master of `portable-pty` polled by tokio.

use std::fs::File;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;

use nix::errno::Errno;
use nix::fcntl::OFlag;
use portable_pty::{MasterPty, PtySize, native_pty_system};
use tokio::io::unix::AsyncFd;

use hotdesk_domain::desktop::terminal::TerminalSize;

/// Handle that changes the size of a terminal. Separate from [`Master`], because it is not `Sync`.
pub struct TerminalResizer(Box<dyn MasterPty + Send>);

/// Master end, for reading and writing.
#[derive(Debug)]
pub struct Master(AsyncFd<OwnedFd>);

/// A new pseudo-terminal.
pub struct Pty {
    pub master: Master,
    pub resizer: TerminalResizer,
    /// End for the shell.
    pub slave: OwnedFd,
}

/// Opens a pseudo-terminal. Needs a tokio runtime.
///
/// # Errors
/// When the kernel has no pseudo-terminal left.
pub fn open(size: TerminalSize) -> io::Result<Pty> {
    let pair = native_pty_system().openpty(pty_size(size)).map_err(io::Error::other)?;
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
    Ok(Pty { master: Master(master), resizer: TerminalResizer(pair.master), slave: slave.into() })
}

fn pty_size(size: TerminalSize) -> PtySize {
    PtySize { rows: size.rows, cols: size.cols, pixel_width: 0, pixel_height: 0 }
}

impl TerminalResizer {
    /// Changes the size; the foreground program gets SIGWINCH.
    ///
    /// # Errors
    /// When the ioctl fails.
    pub fn resize(&self, size: TerminalSize) -> io::Result<()> {
        self.0.resize(pty_size(size)).map_err(io::Error::other)
    }
}

impl Master {
    /// Reads all available bytes and waits for the first one; 0 when no process has the other end open.
    /// Cancel-safe: a cancelled call has read nothing.
    ///
    /// # Errors
    /// When a read fails for another reason than the closed other end.
    pub async fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut length = 0;
        loop {
            let mut ready = self.0.readable().await?;
            while length < buffer.len() {
                match ready.try_io(|fd| Ok(rustix::io::read(fd, &mut buffer[length..])?)) {
                    Ok(Ok(0)) => return Ok(length),
                    Ok(Ok(more)) => length += more,
                    // EIO: no process has the other end open (pty(7)).
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

    /// Writes as many bytes as the terminal accepts and waits until it accepts some; returns their number.
    /// Cancel-safe.
    ///
    /// # Errors
    /// When no process has the other end open.
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
