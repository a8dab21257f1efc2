//! Opening of a file to which output of a service is added.
//!
//! Root opens the file, because the service's user may not write to its folder. Other users may: no link of theirs is
//! followed, and a file that has a second name elsewhere is refused.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use rustix::fs::{Mode, OFlags, openat};

use super::without_top_link;
use crate::files::paths::{FOLDER, Parents, open_inside};

/// Flags to open a file at its end. Neither a FIFO without a reader nor a device is waited for.
const APPEND: OFlags = OFlags::WRONLY
    .union(OFlags::APPEND)
    .union(OFlags::CREATE)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::CLOEXEC);
/// Mode of a new file, less the umask: other users may read the log.
const MODE: Mode = Mode::from_raw_mode(0o644);

/// Opens a file at its end, and makes it when it is missing.
///
/// # Errors
/// When its folder is missing, it is behind a link, it is no regular file and no device, or it has a second name.
pub(super) fn append_to(path: &Path) -> io::Result<File> {
    let (Some(name), Some(parent)) = (path.file_name(), path.parent()) else {
        return Err(io::ErrorKind::IsADirectory.into());
    };
    let parent = without_top_link(parent)?;
    let root = rustix::fs::open("/", FOLDER, Mode::empty())?;
    let inside = parent.strip_prefix("/").map_err(io::Error::other)?;
    let folder = open_inside(root, inside, Parents::Required, &parent.to_string_lossy())
        .map_err(|error| io::Error::other(error.message))?;
    let file = File::from(openat(&folder, name, APPEND, MODE)?);
    let facts = file.metadata()?;
    // A device, such as /dev/null, is root's.
    let is_own = facts.is_file() && facts.nlink() == 1 || facts.file_type().is_char_device();
    if !is_own {
        return Err(io::Error::other("it is no regular file, or has a second name (a hard link)"));
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_file_is_appended_to_through_no_link_that_a_user_can_make() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let at = |name: &str| root.join(name);
        for name in ["logs", "elsewhere"] {
            fs::create_dir(at(name)).unwrap();
        }
        for text in ["one\n", "two\n"] {
            append_to(&at("logs/a b.log")).unwrap().write_all(text.as_bytes()).unwrap();
        }
        assert_eq!(fs::read_to_string(at("logs/a b.log")).unwrap(), "one\ntwo\n");
        append_to(Path::new("/dev/null")).unwrap().write_all(b"x").unwrap();

        fs::write(at("elsewhere/victim"), "as it was").unwrap();
        symlink(at("elsewhere/victim"), at("logs/link")).unwrap();
        symlink(at("elsewhere/new"), at("logs/dangling")).unwrap();
        symlink(at("elsewhere"), at("folder")).unwrap();
        fs::hard_link(at("elsewhere/victim"), at("logs/second")).unwrap();
        nix::unistd::mkfifo(&at("logs/fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        for name in [
            "logs/link",
            "logs/dangling",
            "folder/victim",
            "folder/new",
            "logs/second",
            "logs/fifo",
            "logs",
            "none/x",
            "logs/../logs/x",
        ] {
            assert!(append_to(&at(name)).is_err(), "{name}");
        }
        assert_eq!(fs::read_to_string(at("elsewhere/victim")).unwrap(), "as it was");
        assert_eq!(fs::read_dir(at("elsewhere")).unwrap().count(), 1);
    }
}
