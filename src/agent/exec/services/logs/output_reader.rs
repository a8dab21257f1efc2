//! Thread that reads the output of all services and adds it to their files.
//!
//! ```text
//! service --- stdout, stderr ---> services/NAME/output (FIFO) --- one thread of the agent ---> file
//! ```
//! While no agent runs, output waits in the FIFO, which its service holds open, too: a write beyond its capacity (64 KiB,
//! pipe(7)) blocks the service until the next agent reads. Only the output of a service that ends meanwhile is lost.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::OFlags;

use super::output_file::OutputFile;
use hotdesk_base::tasks::Tasks;

/// Most bytes that are read of a service before the others' turn: the capacity of a pipe. One buffer of it serves all.
const CHUNK: usize = 64 * 1024;
/// Pause after each turn. Lines that come one by one are written together, and an endless writer is limited to 6 MB/s, and so
/// the processor time that it costs: then its pipe is full, and it waits.
const PAUSE: Duration = Duration::from_millis(10);
/// Longest wait of a flush: a disk that does not write holds up its reader no longer.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(5);

/// Handle of the thread; clones share it.
#[derive(Clone, Debug)]
pub(in crate::exec::services) struct OutputReader(Arc<ReaderState>);

#[derive(Debug)]
struct ReaderState {
    /// An eventfd that begins a turn without output.
    wakeup: OwnedFd,
    turns: Mutex<TurnCounts>,
    /// Notified after each turn, and when the thread has ended.
    ended: Condvar,
}

/// Turns of the thread. Each adds what services had written when it began: a pipe has no more than [`CHUNK`].
#[derive(Debug, Default)]
struct TurnCounts {
    begun: u64,
    ended: u64,
    /// Whether the next turn is the last one.
    stops: bool,
    /// Whether the thread has ended.
    is_over: bool,
}

/// Output of a service on its way to a file.
struct Source {
    fifo: File,
    file: OutputFile,
}

/// Opens the FIFO of a service for reading and writing, so that it has no end while no service writes.
fn open_fifo(path: &Path) -> io::Result<File> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let fifo = File::options().read(true).write(true).custom_flags(flags).open(path)?;
    if fifo.metadata()?.file_type().is_fifo() {
        return Ok(fifo);
    }
    Err(io::Error::other("it is no FIFO"))
}

/// Begins to add the output from each FIFO to its file. The thread ends with `tasks`, after it has added what it has read.
///
/// # Errors
/// When a FIFO cannot be opened, or there is no thread.
pub(in crate::exec::services) fn begin<'a>(
    outputs: impl IntoIterator<Item = (&'a Path, OutputFile)>,
    tasks: &Tasks,
) -> io::Result<OutputReader> {
    let sources = outputs.into_iter().map(|(path, file)| Ok(Source { fifo: open_fifo(path)?, file }));
    let mut sources = sources.collect::<io::Result<Vec<_>>>()?;
    let wakeup = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
    let state = ReaderState { wakeup, turns: Mutex::default(), ended: Condvar::new() };
    let reader = OutputReader(Arc::new(state));
    let own = reader.clone();
    let builder = thread::Builder::new().name("service output".to_owned());
    let thread = builder.spawn(move || {
        if let Err(error) = own.add_output(&mut sources) {
            tracing::error!(%error, "the output of services is not read any more");
        }
        own.turns().is_over = true;
        own.0.ended.notify_all();
    })?;
    let (stop, stopped) = (tasks.stopping(), reader.clone());
    let _task = tasks.spawn("service output", async move {
        stop.cancelled().await;
        stopped.turns().stops = true;
        if let Err(error) = stopped.wake() {
            tracing::error!(%error, "could not end the thread of the output of services");
            return;
        }
        if !matches!(hotdesk_base::tasks::spawn_blocking(|| thread.join()).await, Ok(Ok(()))) {
            tracing::error!("the thread of the output of services panicked");
        }
    });
    Ok(reader)
}

impl OutputReader {
    fn turns(&self) -> MutexGuard<'_, TurnCounts> {
        self.0.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self) -> io::Result<()> {
        rustix::io::write(&self.0.wakeup, &1_u64.to_ne_bytes())?;
        Ok(())
    }

    /// Waits until what services have written so far is in their files. Blocks, for at most [`FLUSH_TIMEOUT`].
    pub(in crate::exec::services) fn flush(&self) {
        let turns = self.turns();
        // One that has begun may have read a FIFO already.
        let next = turns.begun + 1;
        if let Err(error) = self.wake() {
            tracing::error!(%error, "could not wake the thread of the output of services");
            return;
        }
        let is_waiting = |turns: &mut TurnCounts| turns.ended < next && !turns.is_over;
        drop(self.0.ended.wait_timeout_while(turns, FLUSH_TIMEOUT, is_waiting));
    }

    /// Begins a turn. Returns whether it is the last one.
    fn begin_turn(&self) -> bool {
        let mut turns = self.turns();
        // Wake-ups until here are for this turn. Without one there is nothing to read.
        let _ = rustix::io::read(&self.0.wakeup, &mut [0; 8]);
        turns.begun += 1;
        turns.stops
    }

    fn end_turn(&self) {
        let mut turns = self.turns();
        turns.ended = turns.begun;
        self.0.ended.notify_all();
    }

    /// Adds output until the thread is to stop, and then what is there at that moment.
    fn add_output(&self, sources: &mut [Source]) -> io::Result<()> {
        let mut buffer = vec![0; CHUNK];
        // Also a service that writes nothing has its file.
        sources.iter_mut().for_each(|source| source.file.add(&[]));
        loop {
            wait(&self.0.wakeup, sources)?;
            let is_last = self.begin_turn();
            for source in sources.iter_mut() {
                match source.fifo.read(&mut buffer) {
                    Ok(length) => source.file.add(&buffer[..length]),
                    Err(error)
                        if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                    }
                    Err(error) => return Err(error),
                }
            }
            self.end_turn();
            if is_last {
                return Ok(());
            }
            thread::sleep(PAUSE);
        }
    }
}

/// Waits for a wake-up or output.
fn wait(wakeup: &OwnedFd, sources: &[Source]) -> io::Result<()> {
    let watched = |fd| PollFd::new(fd, PollFlags::POLLIN);
    let fifos = sources.iter().map(|source| watched(source.fifo.as_fd()));
    let mut fds: Vec<PollFd<'_>> = std::iter::once(watched(wakeup.as_fd())).chain(fifos).collect();
    match poll(&mut fds, PollTimeout::NONE) {
        Ok(_) | Err(Errno::EINTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;
    use std::path::PathBuf;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use hotdesk_base::wait;
    use nix::sys::stat::Mode;

    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(30);

    struct Folder(tempfile::TempDir);

    impl Folder {
        fn at(&self, name: &str) -> PathBuf {
            self.0.path().canonicalize().unwrap().join(name)
        }

        /// The output of a service as its run script opens it.
        fn service(&self, name: &str) -> File {
            let fifo = self.at(name);
            nix::unistd::mkfifo(&fifo, Mode::S_IRUSR | Mode::S_IWUSR).unwrap();
            File::options().read(true).write(true).open(fifo).unwrap()
        }

        fn read(&self, names: &[&str]) -> Tasks {
            self.begin(names).0
        }

        fn begin(&self, names: &[&str]) -> (Tasks, OutputReader) {
            let tasks = Tasks::new();
            let paths: Vec<_> = names.iter().map(|name| self.at(name)).collect();
            let outputs =
                paths.iter().map(|path| (path.as_path(), OutputFile::plain(path.with_extension("log"))));
            let reader = begin(outputs, &tasks).unwrap();
            (tasks, reader)
        }

        async fn until(&self, log: &str, text: &str) {
            let seen =
                || async { fs::read_to_string(self.at(log)).is_ok_and(|found| found == text).then_some(()) };
            assert!(wait::until(TIMEOUT, seen).await.is_some(), "{log} must have {text:?}");
        }
    }

    #[tokio::test]
    async fn output_waits_for_the_next_agent() {
        let folder = Folder(tempfile::tempdir().unwrap());
        let mut service = folder.service("web");
        let first = folder.read(&["web"]);
        service.write_all(b"one\n").unwrap();
        folder.until("web.log", "one\n").await;
        assert!(first.drain(TIMEOUT).await.is_empty());
        service.write_all(b"two\n").unwrap();
        assert_eq!(fs::read_to_string(folder.at("web.log")).unwrap(), "one\n");
        let second = folder.read(&["web"]);
        service.write_all(b"three\n").unwrap();
        folder.until("web.log", "one\ntwo\nthree\n").await;
        assert!(second.drain(TIMEOUT).await.is_empty());
    }

    #[tokio::test]
    async fn a_flood_delays_no_other_output_and_what_came_before_the_end_is_written() {
        let folder = Folder(tempfile::tempdir().unwrap());
        let (mut flood, mut quiet) = (folder.service("flood"), folder.service("quiet"));
        let tasks = folder.read(&["flood", "quiet"]);
        let ended = Arc::new(AtomicBool::new(false));
        let is_ended = Arc::clone(&ended);
        let writer = thread::spawn(move || {
            let mut written = 0;
            while !is_ended.load(Ordering::Relaxed) {
                flood.write_all(&[b'x'; CHUNK]).unwrap();
                written += CHUNK;
            }
            (written, flood)
        });
        for count in 1..=3 {
            quiet.write_all(b"line\n").unwrap();
            folder.until("quiet.log", &"line\n".repeat(count)).await;
        }
        ended.store(true, Ordering::Relaxed);
        let (written, _flood) = tokio::task::spawn_blocking(|| writer.join().unwrap()).await.unwrap();
        let log = folder.at("flood.log");
        let is_written = || async { (fs::metadata(&log).ok()?.len() == written as u64).then_some(()) };
        assert!(wait::until(TIMEOUT, is_written).await.is_some(), "all {written} bytes must be written");
        quiet.write_all(b"last\n").unwrap();
        assert!(tasks.drain(TIMEOUT).await.is_empty());
        assert!(fs::read_to_string(folder.at("quiet.log")).unwrap().ends_with("last\n"));
    }

    #[tokio::test]
    async fn after_a_flush_the_file_has_what_was_written_before() {
        let folder = Folder(tempfile::tempdir().unwrap());
        let mut service = folder.service("web");
        let (tasks, reader) = folder.begin(&["web"]);
        let flush = || {
            let reader = reader.clone();
            tokio::task::spawn_blocking(move || reader.flush())
        };
        for count in 1..=20 {
            service.write_all(b"line\n").unwrap();
            flush().await.unwrap();
            assert_eq!(fs::read_to_string(folder.at("web.log")).unwrap(), "line\n".repeat(count));
        }
        // Without output it ends, too, and so it does when the thread has ended.
        flush().await.unwrap();
        assert!(tasks.drain(TIMEOUT).await.is_empty());
        let began = std::time::Instant::now();
        flush().await.unwrap();
        assert!(began.elapsed() < FLUSH_TIMEOUT, "nothing is waited for");
    }

    #[test]
    fn only_a_fifo_is_read() {
        let folder = Folder(tempfile::tempdir().unwrap());
        fs::write(folder.at("file"), "").unwrap();
        let _service = folder.service("fifo");
        std::os::unix::fs::symlink("fifo", folder.at("link")).unwrap();
        for (name, expected) in [("file", false), ("link", false), ("none", false), ("fifo", true)] {
            assert_eq!(open_fifo(&folder.at(name)).is_ok(), expected, "{name}");
        }
    }
}
