//! Log files of a template's programs. Root opens them, and users of the computer may write to their folders.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use hotdesk_wire::programs::service::ServiceLog;

mod append;
mod follower;
mod output_file;
mod output_reader;
mod reader;
pub(super) mod tai64n;

pub(super) use follower::{LogFollowers, unreadable};
pub(super) use output_file::OutputFile;
pub(super) use output_reader::{OutputReader, begin as begin_output};
pub(super) use reader::LogReader;

/// Returns the last `most` bytes of a file.
pub(super) fn tail(path: &Path, most: u64) -> io::Result<ServiceLog> {
    let mut file = open(path)?;
    let length = file.metadata()?.len();
    let start = length.saturating_sub(most);
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes)?;
    Ok(ServiceLog { text: String::from_utf8_lossy(&bytes).into_owned(), truncated: start > 0 })
}

/// Attempts to open a file: a rotation may rename it between its opening and the look at its path, six times a second at most.
const OPEN_ATTEMPTS: usize = 3;

/// Opens a file by the path that it really has. Users of the computer may write to its folder: the agent, which is root, reads nothing
/// that they put there but a file of its own name. A FIFO would not open, and a link may lead to a file that they cannot read.
fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    for _ in 0..OPEN_ATTEMPTS {
        let file = File::options().read(true).custom_flags(flags.bits().cast_signed()).open(path)?;
        let real = fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
        if file.metadata()?.is_file() && real == without_top_link(path)? {
            return Ok(file);
        }
    }
    Err(io::Error::other("it is no regular file, or behind a symbolic link, which is not followed"))
}

/// Resolves the first component of an absolute path: links in `/`, such as `/bin`, are those of root.
pub(super) fn without_top_link(path: &Path) -> io::Result<PathBuf> {
    let mut parts = path.components();
    let top: PathBuf = parts.by_ref().take(2).collect();
    Ok(top.canonicalize()?.join(parts.as_path()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_and_fifos_are_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("logs")).unwrap();
        fs::write(at("logs/file"), "secret\n").unwrap();
        std::os::unix::fs::symlink(at("logs/file"), at("link")).unwrap();
        std::os::unix::fs::symlink(at("logs"), at("folder")).unwrap();
        nix::unistd::mkfifo(&at("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        for name in ["link", "folder/file", "fifo", "logs"] {
            assert!(open(&at(name)).is_err(), "{name}");
        }
        assert!(open(&at("logs/file")).is_ok());
    }

    #[test]
    fn the_end_of_a_file_is_read() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), "0123456789").unwrap();
        let read = |most| tail(file.path(), most).map(|log| (log.text, log.truncated)).unwrap();
        assert_eq!(read(4), ("6789".to_owned(), true));
        assert_eq!(read(10), ("0123456789".to_owned(), false));
    }
}
