//! Copy of what a stopped container has written, for a layer that other machines share.
//!
//! The disk's file system is mounted read-only in a namespace of its own, and coreutils' `cp` copies the overlay's upper folder
//! as it is: whiteouts, opaque folders, owners and modes, links, devices, sparse files, attributes. Then what belongs to one
//! machine is removed from the copy. No path leads through a symbolic link of the guest.

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, openat2, statat, unlinkat};
use rustix::io::Errno;

use crate::container::stage;
use crate::host::command::{check_status, host_error, run_with_timeout, tool};
use crate::state::layout::Folder;
use crate::state::machine_lock::MachineLock;
use crate::state::{disk, raw_disk};
use crate::{EngineError, EngineResult};

const STEP: &str = "copy a machine's files to a layer";
const CLEAN: &str = "remove a machine's identity from a layer";
/// For a copy of 60 GB at the 60 MB/s of a slow disk, and half of that for many small files.
const TIMEOUT: Duration = Duration::from_secs(1800);

/// Most files of a layer. `cp` and the tool that makes a disk of it for virtual machines remember each hard link with its path,
/// and a layer takes as many inodes of the host. A full installation of a desktop with its compilers has 300,000.
const MAX_FILES: u64 = 1_000_000;

/// Files by which a machine is known, in their folder. A name that ends with `*` stands for all that begin like it. The agent
/// and the host make them anew for each machine (`system/identity` of the agent, `state/boot_files.rs`).
const IDENTITY: [(&str, &[&str]); 6] = [
    ("etc", &["machine-id"]),
    ("etc/ssh", &["ssh_host_*", "hotdesk-new-*"]),
    ("var/lib/dbus", &["machine-id"]),
    // Seeds of the random pool (systemd-random-seed(8), and Debian's init script).
    ("var/lib/systemd", &["random-seed", "credential.secret"]),
    ("var/lib/urandom", &["random-seed"]),
    ("root", &[".Xauthority", ".ICEauthority"]),
];
/// Folders whose contents a boot may remove (file-hierarchy(7)). They stay, with their modes.
const TEMPORARY: [&str; 3] = ["tmp", "var/tmp", "run"];

/// Copies what a stopped machine has written to the folder `to`, without its identity. Blocks.
pub(in crate::container) fn copy_written(folder: &Folder, to: &Path, lock: &MachineLock) -> EngineResult<()> {
    raw_disk::check_readable(folder)?;
    stage::with_disk(&folder.disk(), |disk| {
        let upper = disk.join("upper");
        if !upper.try_exists().map_err(host_error(STEP, &upper))? {
            // It never booted.
            return fs::create_dir(to)
                .and_then(|()| fs::set_permissions(to, fs::Permissions::from_mode(0o755)))
                .map_err(host_error(STEP, to));
        }
        let parent = to.parent().unwrap_or(to);
        disk::check_free(parent, disk::used_bytes(disk)?, count_files(disk)?)?;
        copy_tree(&upper, to, lock)
    })?;
    remove_identity(to)
}

/// The files of a disk, few enough for a layer.
fn count_files(disk: &Path) -> EngineResult<u64> {
    let stat = rustix::fs::statvfs(disk).map_err(|error| host_error(STEP, disk)(error.into()))?;
    let files = stat.f_files.saturating_sub(stat.f_ffree);
    if files > MAX_FILES {
        return Err(EngineError::failed(
            STEP,
            format!("the disk has {files} files, and a layer at most {MAX_FILES}"),
        ));
    }
    Ok(files)
}

/// Copies a tree of files that nothing changes. If the controller dies, `cp` holds the machine's lock until it ends.
fn copy_tree(from: &Path, to: &Path, lock: &MachineLock) -> EngineResult<()> {
    let mut cp = tool("cp");
    // Unlike `--archive`, the list makes an attribute that cannot be copied an error.
    cp.args(["--recursive", "--no-dereference", "--preserve=mode,ownership,timestamps,links,xattr"])
        .args(["--sparse=auto", "--no-target-directory", "--"])
        .arg(from)
        .arg(to)
        .stdin(lock.share().map_err(host_error(STEP, to))?);
    let (status, _, complaint) = run_with_timeout(STEP, &mut cp, None, TIMEOUT)?;
    check_status(STEP, status, &complaint)
}

/// Removes [`IDENTITY`] and the contents of [`TEMPORARY`] below `root`.
fn remove_identity(root: &Path) -> EngineResult<()> {
    let failed = |error: io::Error| host_error(CLEAN, root)(error);
    let opened = fs::File::open(root).map_err(failed)?;
    for (folder, names) in IDENTITY {
        if let Some(folder) = open_folder(&opened, folder).map_err(failed)? {
            remove_files(&folder, names).map_err(failed)?;
        }
    }
    for folder in TEMPORARY {
        if let Some(folder) = open_folder(&opened, folder).map_err(failed)? {
            empty(&folder)?;
        }
    }
    Ok(())
}

/// Opens a folder below `root` without following a symbolic link; `None` when there is none.
fn open_folder(root: impl AsFd, path: &str) -> io::Result<Option<OwnedFd>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
    match openat2(root, path, flags, Mode::empty(), resolve) {
        Ok(folder) => Ok(Some(folder)),
        Err(Errno::NOENT | Errno::LOOP | Errno::NOTDIR) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Removes the files with these names. Whiteouts stay: they hide what the image has under such a name.
fn remove_files(folder: &OwnedFd, names: &[&str]) -> io::Result<()> {
    let is_named = |name: &str| {
        names.iter().any(|wanted| match wanted.strip_suffix('*') {
            Some(start) => name.starts_with(start),
            None => name == *wanted,
        })
    };
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        if !entry.file_name().to_str().is_ok_and(is_named) {
            continue;
        }
        let found = statat(folder, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW)?;
        if FileType::from_raw_mode(found.st_mode).is_file() {
            unlinkat(folder, entry.file_name(), AtFlags::empty())?;
        }
    }
    Ok(())
}

/// Removes the contents of a folder. Guests choose how deep they are nested, and `find` needs no more memory and open files for
/// deep ones.
fn empty(folder: &OwnedFd) -> EngineResult<()> {
    let mut find = tool("find");
    // The child enters the open folder, wherever a path would lead by now.
    find.current_dir(format!("/proc/self/fd/{}", folder.as_raw_fd()));
    find.args([".", "-mindepth", "1", "-xdev", "-delete"]);
    let (status, _, complaint) = run_with_timeout(CLEAN, &mut find, None, TIMEOUT)?;
    check_status(CLEAN, status, &complaint)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, chown, symlink};
    use std::process::Command;

    use super::*;
    use crate::host::files::private_folder;
    use hotdesk_base::ids::ComputerId;

    fn is_root() -> bool {
        let is_root = nix::unistd::geteuid().is_root();
        if !is_root {
            hotdesk_capability::Capability::Root.skip("owners, whiteouts and capabilities of files");
        }
        is_root
    }

    fn write(path: &Path, text: &str) {
        private_folder(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn whiteout(path: &Path) {
        private_folder(path.parent().unwrap()).unwrap();
        let mode = Mode::from_raw_mode(0);
        rustix::fs::mknodat(rustix::fs::CWD, path, FileType::CharacterDevice, mode, 0).unwrap();
    }

    #[test]
    fn a_copy_has_everything_that_an_overlay_and_a_guest_can_store() {
        if !is_root() {
            return;
        }
        let temp = tempfile::tempdir().unwrap();
        let (from, to) = (temp.path().join("from"), temp.path().join("to"));
        write(&from.join("bin/ping"), "program");
        whiteout(&from.join("etc/gone"));
        write(&from.join("opaque/new"), "new");
        let folder = from.join("opaque");
        rustix::fs::lsetxattr(&folder, "trusted.overlay.opaque", b"y", rustix::fs::XattrFlags::empty())
            .unwrap();
        // cap_net_raw=ep (capabilities(7), VFS_CAP_REVISION_2).
        let capability = [1, 0, 0, 2, 0, 32, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let ping = from.join("bin/ping");
        rustix::fs::lsetxattr(&ping, "security.capability", &capability, rustix::fs::XattrFlags::empty())
            .unwrap();
        write(&from.join("bin/su"), "root's");
        chown(from.join("bin/su"), Some(12), Some(65_534)).unwrap();
        fs::set_permissions(from.join("bin/su"), fs::Permissions::from_mode(0o6755)).unwrap();
        fs::hard_link(from.join("bin/su"), from.join("bin/sudo")).unwrap();
        symlink("/etc/shadow", from.join("bin/link")).unwrap();
        for (name, kind) in [("pipe", FileType::Fifo), ("socket", FileType::Socket)] {
            rustix::fs::mknodat(rustix::fs::CWD, from.join(name), kind, Mode::from_raw_mode(0o600), 0)
                .unwrap();
        }
        fs::File::create(from.join("sparse")).unwrap().set_len(1 << 30).unwrap();
        let machine = Folder { id: ComputerId::random(), path: temp.path().to_owned() };
        let lock = MachineLock::try_acquire(&machine).unwrap().unwrap();

        copy_tree(&from, &to, &lock).unwrap();

        let data = |name: &str| fs::symlink_metadata(to.join(name)).unwrap();
        assert_eq!((data("etc/gone").mode() & 0o170_000, data("etc/gone").rdev()), (0o020_000, 0));
        let mut value = [0; 32];
        let read = rustix::fs::lgetxattr(to.join("opaque"), "trusted.overlay.opaque", &mut value).unwrap();
        assert_eq!(&value[..read], b"y");
        let read = rustix::fs::lgetxattr(to.join("bin/ping"), "security.capability", &mut value).unwrap();
        assert_eq!(value[..read], capability);
        let su = data("bin/su");
        assert_eq!((su.uid(), su.gid(), su.mode() & 0o7777, su.nlink()), (12, 65_534, 0o6755, 2));
        assert_eq!(su.ino(), data("bin/sudo").ino());
        assert_eq!(fs::read_link(to.join("bin/link")).unwrap(), Path::new("/etc/shadow"));
        for (name, kind) in [("pipe", 0o010_000), ("socket", 0o140_000)] {
            assert_eq!(data(name).mode() & 0o170_000, kind, "{name}");
        }
        assert!(data("sparse").len() == 1 << 30 && data("sparse").blocks() < 100);
    }

    #[test]
    fn the_identity_of_the_machine_and_its_temporary_files_are_not_in_a_layer() {
        if !is_root() {
            return;
        }
        let temp = tempfile::tempdir().unwrap();
        let at = |name: &str| temp.path().join(name);
        let removed = [
            "etc/machine-id",
            "etc/ssh/ssh_host_rsa_key",
            "etc/ssh/ssh_host_ed25519_key.pub",
            "var/lib/dbus/machine-id",
            "var/lib/systemd/random-seed",
            "root/.Xauthority",
            "tmp/build/deep/file",
            "var/tmp/.hidden",
            "run/pid",
        ];
        let kept =
            ["etc/hostname", "etc/ssh/sshd_config", "root/.profile", "usr/tmp/file", "home/user/tmp/x"];
        removed.iter().chain(&kept).for_each(|name| write(&at(name), "x"));
        fs::set_permissions(at("tmp"), fs::Permissions::from_mode(0o1777)).unwrap();
        whiteout(&at("etc/ssh/ssh_host_dsa_key"));
        remove_identity(temp.path()).unwrap();
        for name in removed {
            assert!(!at(name).exists(), "{name}");
        }
        for name in kept {
            assert!(at(name).exists(), "{name}");
        }
        assert_eq!(fs::metadata(at("tmp")).unwrap().mode() & 0o7777, 0o1777);
        assert!(fs::symlink_metadata(at("etc/ssh/ssh_host_dsa_key")).is_ok(), "it hides the image's key");
        remove_identity(temp.path()).unwrap();
    }

    #[test]
    fn t7_a_symbolic_link_of_the_guest_leads_to_nothing_of_the_host() {
        let temp = tempfile::tempdir().unwrap();
        let (root, host) = (temp.path().join("root"), temp.path().join("host"));
        for name in ["tmp/file", "machine-id", "lib/dbus/machine-id", "etc/machine-id"] {
            write(&host.join(name), "the host's");
        }
        fs::create_dir(&root).unwrap();
        symlink(&host, root.join("var")).unwrap();
        symlink(&host, root.join("etc")).unwrap();
        symlink(host.join("tmp"), root.join("tmp")).unwrap();
        symlink("/", root.join("run")).unwrap();
        remove_identity(&root).unwrap();
        for name in ["tmp/file", "machine-id", "lib/dbus/machine-id", "etc/machine-id"] {
            assert!(host.join(name).exists(), "{name}");
        }
        let found = Command::new("find").arg(&root).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&found.stdout).lines().count(), 5);
    }
}
