//! Host name and machine-id of the guest.

use std::fs::{self, File};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

use hotdesk_base::step_error::StepError;
use hotdesk_domain::computer::machine_identity::{self, SEED_BYTES};

/// Largest file that is read, in bytes: a usual `/etc/hosts` is a few hundred bytes, a block list some
/// hundred KB.
const MAX_FILE: u64 = 4 * 1024 * 1024;

/// Sets the host name in the kernel and in `/etc/hostname` and `/etc/hosts`. Tries both and returns the
/// failures.
pub(super) fn hostname(root: &Path, name: &str) -> Vec<StepError> {
    [in_kernel(name), in_files(root, name)].into_iter().filter_map(Result::err).collect()
}

fn in_kernel(name: &str) -> Result<(), StepError> {
    if nix::unistd::gethostname().is_ok_and(|now| now == name) {
        return Ok(());
    }
    nix::unistd::sethostname(name).map_err(StepError::at("sethostname"))
}

fn in_files(root: &Path, name: &str) -> Result<(), StepError> {
    rewrite(&root.join("etc/hostname"), |_| format!("{name}\n"))?;
    rewrite(&root.join("etc/hosts"), |old| machine_identity::hosts(old, name))
}

/// Writes the machine-id that is derived from a seed, also to D-Bus's own file unless that is a link. A
/// mounted machine-id comes from the host, which gives each computer another; D-Bus's file gets that one.
pub(super) fn machine_id(root: &Path, seed: &[u8; SEED_BYTES]) -> Result<(), StepError> {
    let path = root.join("etc/machine-id");
    let id = if is_mounted(&path) {
        fs::read_to_string(&path).map_err(StepError::at(path.display().to_string()))?
    } else {
        let id = machine_identity::machine_id(seed) + "\n";
        rewrite(&path, |_| id.clone())?;
        id
    };
    let bus = root.join("var/lib/dbus/machine-id");
    if fs::symlink_metadata(&bus).is_ok_and(|facts| facts.is_file()) {
        rewrite(&bus, |_| id.clone())?;
    }
    Ok(())
}

/// Whether a path is a mount point (proc_pid_mountinfo(5)).
fn is_mounted(path: &Path) -> bool {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    mounts.lines().any(|mount| mount.split(' ').nth(4).is_some_and(|point| Path::new(point) == path))
}

/// Rewrites a file in place, because it may be a mount point, which cannot be replaced by a rename. Skips a
/// file that has the content already.
fn rewrite(path: &Path, new: impl Fn(&str) -> String) -> Result<(), StepError> {
    let fail = StepError::at(path.display().to_string());
    // Follows no symbolic link and does not block on a FIFO.
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let mut old = String::new();
    match File::options().read(true).custom_flags(flags).open(path) {
        Ok(file) => {
            file.take(MAX_FILE + 1).read_to_string(&mut old).map_err(&fail)?;
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(fail(error)),
    }
    if old.len() as u64 > MAX_FILE {
        return Err(StepError::new(format!("{}: larger than {MAX_FILE} bytes", path.display())));
    }
    let new = new(&old);
    if new == old {
        return Ok(());
    }
    let mut open = File::options();
    open.write(true).create(true).truncate(true).mode(0o644).custom_flags(flags);
    open.open(path).and_then(|mut file| file.write_all(new.as_bytes())).map_err(fail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_get_the_new_names_and_other_lines_stay() {
        let root = tempfile::tempdir().unwrap();
        let at = |path: &str| root.path().join(path);
        fs::create_dir_all(at("etc")).unwrap();
        fs::create_dir_all(at("var/lib/dbus")).unwrap();
        fs::write(at("etc/hosts"), "127.0.0.1 localhost\n127.0.1.1 old\n").unwrap();
        fs::write(at("var/lib/dbus/machine-id"), "old\n").unwrap();
        in_files(root.path(), "new").unwrap();
        machine_id(root.path(), &[7; SEED_BYTES]).unwrap();
        let read = |path: &str| fs::read_to_string(at(path)).unwrap();
        assert_eq!(read("etc/hostname"), "new\n");
        assert_eq!(read("etc/hosts"), "127.0.0.1 localhost\n127.0.1.1 new\n");
        let id = machine_identity::machine_id(&[7; SEED_BYTES]) + "\n";
        assert_eq!((read("etc/machine-id"), read("var/lib/dbus/machine-id")), (id.clone(), id));
    }

    #[test]
    fn what_is_no_regular_file_is_reported_and_unchanged() {
        let root = tempfile::tempdir().unwrap();
        let at = |path: &str| root.path().join(path);
        fs::create_dir_all(at("etc")).unwrap();
        fs::write(at("mine"), "mine").unwrap();
        std::os::unix::fs::symlink(at("mine"), at("etc/hostname")).unwrap();
        assert!(in_files(root.path(), "new").unwrap_err().to_string().contains("/etc/hostname"));
        assert_eq!(fs::read_to_string(at("mine")).unwrap(), "mine");
        fs::remove_file(at("etc/hostname")).unwrap();
        nix::unistd::mkfifo(&at("etc/hosts"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        let refused = in_files(root.path(), "new").unwrap_err().to_string();
        assert!(refused.contains("/etc/hosts"), "{refused}");
    }
}
