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
) -> io::Result<()> {
    let sources = outputs.into_iter().map(|(path, file)| Ok(Source { fifo: open_fifo(path)?, file }));
    let mut sources = sources.collect::<io::Result<Vec<_>>>()?;
    let wakeup = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
    let wake = wakeup.try_clone()?;
    let builder = thread::Builder::new().name("service output".to_owned());
    let thread = builder.spawn(move || {
        if let Err(error) = add_until(&wakeup, &mut sources) {
            tracing::error!(%error, "the output of services is not read any more");
        }
    })?;
    let stop = tasks.stopping();
    let _task = tasks.spawn("service output", async move {
        stop.cancelled().await;
        if let Err(error) = rustix::io::write(&wake, &1_u64.to_ne_bytes()) {
            tracing::error!(%error, "could not end the thread of the output of services");
            return;
        }
        if !matches!(hotdesk_base::tasks::spawn_blocking(|| thread.join()).await, Ok(Ok(()))) {
            tracing::error!("the thread of the output of services panicked");
        }
    });
    Ok(())
}

/// Adds output until there is a wake-up, and then what is there at that moment.
fn add_until(wakeup: &OwnedFd, sources: &mut [Source]) -> io::Result<()> {
    let mut buffer = vec![0; CHUNK];
    // Also a service that writes nothing has its file.
    sources.iter_mut().for_each(|source| source.file.add(&[]));
    loop {
        let (is_woken, ready) = wait(wakeup, sources)?;
        for (source, _) in sources.iter_mut().zip(ready).filter(|(_, is_ready)| *is_ready) {
            match source.fifo.read(&mut buffer) {
                Ok(length) => source.file.add(&buffer[..length]),
                Err(error)
                    if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
                Err(error) => return Err(error),
            }
        }
        if is_woken {
            return Ok(());
        }
        thread::sleep(PAUSE);
    }
}

/// Waits for a wake-up or output. Returns which of them there are.
fn wait(wakeup: &OwnedFd, sources: &[Source]) -> io::Result<(bool, Vec<bool>)> {
    let watched = |fd| PollFd::new(fd, PollFlags::POLLIN);
    let fifos = sources.iter().map(|source| watched(source.fifo.as_fd()));
    let mut fds: Vec<PollFd<'_>> = std::iter::once(watched(wakeup.as_fd())).chain(fifos).collect();
    match poll(&mut fds, PollTimeout::NONE) {
        Ok(_) => {}
        Err(Errno::EINTR) => return Ok((false, Vec::new())),
        Err(error) => return Err(error.into()),
    }
    let mut ready = fds.iter().map(|fd| fd.any().unwrap_or(false));
    let is_woken = ready.next().unwrap_or(false);
    Ok((is_woken, ready.collect()))
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
            let tasks = Tasks::new();
            let paths: Vec<_> = names.iter().map(|name| self.at(name)).collect();
            let outputs =
                paths.iter().map(|path| (path.as_path(), OutputFile::plain(path.with_extension("log"))));
            begin(outputs, &tasks).unwrap();
            tasks
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
