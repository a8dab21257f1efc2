//! X connections whose waits have a deadline.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use x11rb::reexports::x11rb_protocol::xauth;
use x11rb::rust_connection::{DefaultStream, PollMode, RustConnection, Stream};
use x11rb::utils::RawFdContainer;

use super::fault::Outcome;

/// An x11rb connection over a [`DeadlineStream`].
pub(super) type Link = RustConnection<DeadlineStream>;

/// Timeout of one round trip: T17 (docs/security.md).
pub(super) const X_TIMEOUT: Duration = Duration::from_secs(2);
/// Longest single wait. When the machine was paused meanwhile, this counts as one wait, because the X server
/// was paused too.
const PIECE: Duration = Duration::from_millis(100);

/// Remaining time of all waits on one connection together.
#[derive(Clone, Debug)]
pub(super) struct Deadline(Arc<Mutex<Duration>>);

impl Deadline {
    /// Allows waits of `timeout` in total from now on.
    pub(super) fn allow(&self, timeout: Duration) {
        *self.left() = timeout;
    }

    /// Waits for at most [`PIECE`] of the remaining time. Returns whether the socket is ready, or `None` when
    /// no time is left.
    fn wait(&self, socket: &DefaultStream, wanted: PollFlags) -> io::Result<Option<bool>> {
        let piece = PIECE.min(*self.left());
        let timeout = Timespec::try_from(piece).map_err(io::Error::other)?;
        let began = Instant::now();
        let ready = match poll(&mut [PollFd::new(socket, wanted)], Some(&timeout)) {
            Ok(ready) => ready > 0,
            Err(rustix::io::Errno::INTR) => false,
            Err(error) => return Err(error.into()),
        };
        let mut left = self.left();
        *left = left.saturating_sub(began.elapsed().min(piece));
        Ok((ready || !piece.is_zero()).then_some(ready))
    }

    fn left(&self) -> MutexGuard<'_, Duration> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A socket to an X server whose waits end at the deadline.
#[derive(Debug)]
pub(super) struct DeadlineStream {
    socket: DefaultStream,
    deadline: Deadline,
    /// The last write found no space in the socket.
    full: AtomicBool,
}

impl DeadlineStream {
    fn note_full(&self, written: io::Result<usize>) -> io::Result<usize> {
        if written.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock) {
            self.full.store(true, Ordering::Relaxed);
        }
        written
    }
}

impl Stream for DeadlineStream {
    fn poll(&self, mode: PollMode) -> io::Result<()> {
        let mut wanted = PollFlags::empty();
        if mode.readable() {
            wanted |= PollFlags::IN;
        }
        if mode.writable() {
            // x11rb polls before it buffers each request. The socket nearly always has space, and the write
            // says when it has not.
            if !self.full.swap(false, Ordering::Relaxed) {
                return Ok(());
            }
            wanted |= PollFlags::OUT;
        }
        loop {
            match self.deadline.wait(&self.socket, wanted)? {
                Some(true) => return Ok(()),
                Some(false) => {}
                None if mode.writable() => {
                    // Part of a request may be sent already, so the stream is unusable.
                    return Err(io::Error::new(io::ErrorKind::BrokenPipe, "the X server does not read"));
                }
                None => return Err(io::ErrorKind::TimedOut.into()),
            }
        }
    }

    fn read(&self, buffer: &mut [u8], fds: &mut Vec<RawFdContainer>) -> io::Result<usize> {
        self.socket.read(buffer, fds)
    }

    fn write(&self, buffer: &[u8], fds: &mut Vec<RawFdContainer>) -> io::Result<usize> {
        self.note_full(self.socket.write(buffer, fds))
    }

    fn write_vectored(
        &self,
        buffers: &[io::IoSlice<'_>],
        fds: &mut Vec<RawFdContainer>,
    ) -> io::Result<usize> {
        self.note_full(self.socket.write_vectored(buffers, fds))
    }
}

impl AsFd for DeadlineStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Path of a display's socket.
pub(super) fn socket_path(display: u16) -> std::path::PathBuf {
    format!("/tmp/.X11-unix/X{display}").into()
}

/// Opens the socket of a display: the path first, then the abstract name (for a display of another mount
/// namespace).
pub(super) fn open_socket(display: u16) -> io::Result<UnixStream> {
    let path = socket_path(display);
    UnixStream::connect(&path).or_else(|error| {
        let name = SocketAddr::from_abstract_name(path.as_os_str().as_encoded_bytes())?;
        UnixStream::connect_addr(&name).map_err(|_| error)
    })
}

/// Connects to `:display`, with the user's X authority where there is one.
///
/// # Errors
/// `Broken` when the server refuses or does not exist, `Silent` when it does not answer within `timeout`.
pub(super) fn connect(display: u16, timeout: Duration) -> Outcome<(Link, Deadline)> {
    let (socket, (family, address)) = DefaultStream::from_unix_stream(open_socket(display)?)?;
    let deadline = Deadline(Arc::new(Mutex::new(timeout)));
    let stream = DeadlineStream { socket, deadline: deadline.clone(), full: AtomicBool::new(false) };
    // Without a readable authority file this tries without one; the server refuses if it needs one.
    let (name, data) = xauth::get_auth(family, &address, display).ok().flatten().unwrap_or_default();
    let link = RustConnection::connect_to_stream_with_auth_info(stream, 0, name, data)?;
    Ok((link, deadline))
}
