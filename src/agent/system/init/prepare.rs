//! Creation of the folders and links that a computer needs before its agent starts.
//!
//! Existing entries are left unchanged.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, symlink};
use std::path::Path;

/// Folders and their modes. X servers create their sockets in `.X11-unix`; the session script writes its
/// state to `hotdesk-session`.
const FOLDERS: [(&str, u32); 6] = [
    ("tmp", 0o1777),
    ("tmp/.X11-unix", 0o1777),
    ("run/hotdesk-session", 0o700),
    ("root/Desktop", 0o755),
    ("root/Downloads", 0o755),
    ("home/user", 0o755),
];

/// Clients use both home folders (docs/api/files.md).
const LINKS: [(&str, &str); 2] =
    [("home/user/Desktop", "/root/Desktop"), ("home/user/Downloads", "/root/Downloads")];

/// Creates what is missing below `root`. Returns a log line for each failure; the computer boots all the
/// same.
pub fn prepare(root: &Path) -> Vec<String> {
    let folders = FOLDERS.iter().map(|(path, mode)| (*path, folder(&root.join(path), *mode)));
    let links = LINKS.iter().map(|(path, target)| (*path, link(&root.join(path), target)));
    let terminal = std::iter::once(("dev/tty", terminal(&root.join("dev/tty"))));
    folders
        .chain(links)
        .chain(terminal)
        .filter_map(|(path, made)| made.err().map(|error| format!("init: /{path}: {error}")))
        .collect()
}

fn folder(path: &Path, mode: u32) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    match DirBuilder::new().mode(mode).create(path) {
        // `mkdir` applies the umask to the mode.
        Ok(()) => fs::set_permissions(path, fs::Permissions::from_mode(mode)),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

fn link(path: &Path, target: &str) -> io::Result<()> {
    match symlink(target, path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Replaces gVisor's `/dev/tty`, whose EIO makes terminal programs exit, by a link to the standard error
/// stream. (Linux answers ENXIO to a process without a terminal.)
fn terminal(tty: &Path) -> io::Result<()> {
    let flags = rustix::fs::OFlags::RDWR | rustix::fs::OFlags::NOCTTY | rustix::fs::OFlags::CLOEXEC;
    match rustix::fs::open(tty, flags, rustix::fs::Mode::empty()) {
        Err(rustix::io::Errno::IO) => fs::remove_file(tty).and_then(|()| symlink("/proc/self/fd/2", tty)),
        Ok(_) | Err(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_entries_are_created_and_existing_ones_are_unchanged() {
        let root = tempfile::tempdir().unwrap();
        let at = |path: &str| root.path().join(path);
        assert_eq!(prepare(root.path()), Vec::<String>::new());
        for (path, mode) in FOLDERS {
            assert_eq!(fs::metadata(at(path)).unwrap().permissions().mode() & 0o7777, mode, "{path}");
        }
        assert_eq!(fs::read_link(at("home/user/Desktop")).unwrap(), Path::new("/root/Desktop"));

        fs::remove_file(at("home/user/Desktop")).unwrap();
        fs::create_dir(at("home/user/Desktop")).unwrap();
        fs::remove_dir(at("root/Downloads")).unwrap();
        fs::write(at("root/Downloads"), b"mine").unwrap();
        fs::set_permissions(at("root/Desktop"), fs::Permissions::from_mode(0o700)).unwrap();
        assert_eq!(prepare(root.path()), Vec::<String>::new());
        assert!(at("home/user/Desktop").is_dir());
        assert_eq!(fs::read(at("root/Downloads")).unwrap(), b"mine");
        assert_eq!(fs::metadata(at("root/Desktop")).unwrap().permissions().mode() & 0o777, 0o700);

        fs::remove_dir_all(at("run")).unwrap();
        fs::write(at("run"), b"").unwrap();
        let complaints = prepare(root.path());
        assert!(complaints.len() == 1 && complaints[0].contains("/run/hotdesk-session"), "{complaints:?}");
    }
}
