//! Standard streams of this program, read and written by threads that may block.
//!
//! The runtime does not wait for these threads at its end (`with_session` in `lib.rs`): a read of a terminal ends only
//! with its next line.

use std::io::{self, ErrorKind, Read, Write};

use bytes::Bytes;
use tokio::sync::mpsc;

/// Bytes of one read: the capacity of a pipe.
const CHUNK: usize = 64 * 1024;
/// Chunks that are read ahead: 2 MiB.
const READ_AHEAD: usize = 32;

/// Output stream of this program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputStream {
    /// Standard output.
    Out,
    /// Standard error.
    Err,
}

/// Reads standard input in chunks, until its end or a failure.
pub fn input() -> mpsc::Receiver<io::Result<Bytes>> {
    let (sender, receiver) = mpsc::channel(READ_AHEAD);
    // It ends with standard input, when the receiver is dropped, or with this program.
    let _thread = hotdesk_base::tasks::spawn_blocking(move || {
        let mut stdin = io::stdin().lock();
        loop {
            let mut chunk = vec![0; CHUNK];
            let read = match stdin.read(&mut chunk) {
                Ok(0) => return,
                Ok(length) => {
                    chunk.truncate(length);
                    Ok(chunk.into())
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => Err(error),
            };
            let failed = read.is_err();
            if sender.blocking_send(read).is_err() || failed {
                return;
            }
        }
    });
    receiver
}

/// Writes bytes and flushes them.
///
/// # Errors
/// `BrokenPipe` when the reader has gone; others when the write fails.
pub async fn write(stream: OutputStream, bytes: Bytes) -> io::Result<()> {
    let written = hotdesk_base::tasks::spawn_blocking(move || match stream {
        OutputStream::Out => {
            let mut out = io::stdout().lock();
            out.write_all(&bytes).and_then(|()| out.flush())
        }
        OutputStream::Err => io::stderr().lock().write_all(&bytes),
    });
    written.await.map_err(io::Error::other)?
}
