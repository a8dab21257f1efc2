//! Sandbox for a tool that reads what a guest wrote, such as `e2fsck` on a disk: a crafted file that takes the tool
//! over gains nothing.
//!
//! ```text
//!   thread: own namespaces --> root folder: /usr (read-only), /dev/null, /file --> no capabilities
//!      `-- tool: the user of the guest's root, resource limits, system call filter --> its program
//! ```
//! The tool has no network, sees no process, and opens no file of the host but installed programs. The guest's file
//! belongs to the tool's user while the tool runs. If the controller dies, the tool runs to its end, because an
//! interrupted one could leave the file damaged; the owner then stays, which matters to nobody: the file is in a folder
//! of root.

pub(crate) mod streams;
mod system_calls;

use std::ffi::CStr;
use std::fs::{self, File};
use std::io::{self, Read, Seek};
use std::os::unix::fs::{chown, symlink};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use nix::sched::{CloneFlags, unshare};
use nix::sys::resource::Resource;
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::io::Errno;
use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_bind, mount_change, mount_remount, unmount,
};
use rustix::process::{chdir, pivot_root};
use rustix::thread::{CapabilitySet, remove_capability_from_bounding_set};

use crate::host::command::{finish, host_error, spawn, tool};
use crate::host::syscalls::Priority;
use crate::host::{slots, syscalls};
use crate::{EngineError, EngineResult};

/// The path of the guest's file for the tool.
pub(crate) const FILE: &str = "/file";
/// Bytes of address space. `e2fsck` needs some hundred megabytes for millions of files; a crafted disk can ask for any
/// number.
const MAX_MEMORY: u64 = 1 << 30;
/// Open files: the tools need ten.
const MAX_OPEN_FILES: u64 = 32;
/// Bytes that a tool can print: more than one buffer of the C library.
const MAX_OUTPUT: u64 = 16 << 10;
/// Bytes of the output that go into an error text: enough for a few lines.
const MAX_TEXT: u64 = 2048;
/// The root folder holds a few mount points.
const ROOT_OPTIONS: &CStr = c"size=64k,nr_inodes=32,mode=0755";
/// The folders with installed programs and their libraries.
const PROGRAMS: [&str; 5] = ["usr", "bin", "sbin", "lib", "lib64"];
const LOCKED: MountFlags = MountFlags::NOSUID.union(MountFlags::NODEV).union(MountFlags::NOEXEC);

/// A file that a guest wrote.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GuestFile<'a> {
    pub(crate) path: &'a Path,
    /// The host's user id of the tools. No account of the host and no other machine may have it.
    pub(crate) user: u32,
}

impl GuestFile<'_> {
    /// Runs a tool on [`FILE`] to its end. Returns its status and the start of its output, without control
    /// characters. `stdin` is what the tool holds open. Blocks.
    ///
    /// # Errors
    /// `Failed` when the tool is not installed, the sandbox cannot be made, or the tool takes over `timeout`.
    pub(crate) fn run_tool(
        &self,
        step: &'static str,
        program: &str,
        arguments: &[&str],
        stdin: impl Into<Stdio> + Send,
        timeout: Duration,
    ) -> EngineResult<(ExitStatus, String)> {
        let failed = host_error(step, self.path);
        chown(self.path, Some(self.user), Some(self.user)).map_err(&failed)?;
        let outcome = std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().name("sandbox".to_owned());
            let thread =
                thread.spawn_scoped(scope, || self.isolated(step, program, arguments, stdin.into(), timeout));
            match thread.map(std::thread::ScopedJoinHandle::join) {
                Ok(Ok(outcome)) => outcome,
                Ok(Err(_)) => Err(EngineError::failed(step, "the thread of the sandbox panicked")),
                Err(error) => Err(failed(error)),
            }
        });
        let returned = chown(self.path, Some(0), Some(0)).map_err(&failed);
        outcome.and_then(|outcome| returned.map(|()| outcome))
    }

    /// [`Self::run_tool`] on this thread, which afterwards has no privileges and no files of the host.
    fn isolated(
        &self,
        step: &'static str,
        program: &str,
        arguments: &[&str],
        stdin: Stdio,
        timeout: Duration,
    ) -> EngineResult<(ExitStatus, String)> {
        let failed = |error: io::Error| EngineError::failed(step, format!("the sandbox: {error}"));
        let length = fs::metadata(self.path).map_err(host_error(step, self.path))?.len();
        let limits = vec![
            (Resource::RLIMIT_AS, MAX_MEMORY),
            (Resource::RLIMIT_CORE, 0),
            (Resource::RLIMIT_CPU, timeout.as_secs().max(1)),
            // A tool may write to the whole file, and not lengthen it.
            (Resource::RLIMIT_FSIZE, length),
            (Resource::RLIMIT_NOFILE, MAX_OPEN_FILES),
        ];
        let filter = system_calls::filter(step)?;
        let mut output = bounded_file().map_err(failed)?;
        let mut command = tool(program);
        command.args(arguments).uid(self.user).gid(self.user).stdin(stdin);
        // There is no list of mounts, and the file is mounted nowhere.
        command.env("EXT2FS_NO_MTAB_OK", "1");
        command.stdout(output.try_clone().map_err(failed)?).stderr(output.try_clone().map_err(failed)?);
        syscalls::confine(&mut command, limits, filter, Priority::Lowest);
        leave_host(self.path).map_err(failed)?;
        let mut child = spawn(step, &mut command)?;
        let status = finish(step, &mut child, timeout)?;
        Ok((status, text_of(&mut output).map_err(failed)?))
    }
}

/// Moves this thread to new namespaces, in which `file` and installed programs are the only files, and takes the
/// capabilities from the programs that it starts.
fn leave_host(file: &Path) -> io::Result<()> {
    let namespaces = CloneFlags::CLONE_NEWNS
        | CloneFlags::CLONE_NEWPID
        | CloneFlags::CLONE_NEWNET
        | CloneFlags::CLONE_NEWIPC
        | CloneFlags::CLONE_NEWUTS
        | CloneFlags::CLONE_NEWCGROUP;
    unshare(namespaces)?;
    // No mount of this thread propagates to the host.
    mount_change("/", MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC)?;
    let root = slots::host_dir()?.join("sandbox");
    fs::create_dir_all(&root)?;
    mount("tmpfs", &root, "tmpfs", LOCKED, ROOT_OPTIONS)?;
    for name in PROGRAMS {
        let (host, inside) = (Path::new("/").join(name), root.join(name));
        match fs::read_link(&host) {
            Ok(target) => symlink(target, &inside)?,
            Err(_) if host.is_dir() => {
                fs::create_dir(&inside)?;
                bind(&host, &inside, MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV)?;
            }
            Err(_) => {}
        }
    }
    fs::create_dir(root.join("dev"))?;
    for (host, name, flags) in [
        (Path::new("/dev/null"), "dev/null", MountFlags::NOSUID | MountFlags::NOEXEC),
        (file, "file", LOCKED),
    ] {
        let inside = root.join(name);
        File::create(&inside)?;
        bind(host, &inside, flags)?;
    }
    mount_remount(&root, MountFlags::BIND | MountFlags::RDONLY | LOCKED, c"")?;
    chdir(&root)?;
    // The earlier root is stacked on the new one, and then detached (pivot_root(2), "Notes").
    pivot_root(".", ".")?;
    unmount(".", UnmountFlags::DETACH)?;
    chdir("/")?;
    drop_capabilities()
}

/// Binds a file or folder of the host at `inside`.
fn bind(host: &Path, inside: &Path, flags: MountFlags) -> io::Result<()> {
    mount_bind(host, inside)?;
    mount_remount(inside, MountFlags::BIND | flags, c"").map_err(io::Error::from)
}

/// Empties the bounding set of this thread, so that no program that it starts has a capability again.
fn drop_capabilities() -> io::Result<()> {
    bound_capabilities(CapabilitySet::empty())
}

/// Limits the capabilities that programs of this thread can get to `kept`.
pub(crate) fn bound_capabilities(kept: CapabilitySet) -> io::Result<()> {
    let all = (0..u64::BITS).map(|number| CapabilitySet::from_bits_retain(1 << number));
    for capability in all.filter(|capability| !kept.contains(*capability)) {
        match remove_capability_from_bounding_set(capability) {
            Ok(()) => {}
            // The kernel has fewer.
            Err(Errno::INVAL) => break,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// A file in memory that does not grow beyond [`MAX_OUTPUT`].
fn bounded_file() -> io::Result<File> {
    let file = rustix::fs::memfd_create("hotdesk", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    rustix::fs::ftruncate(&file, MAX_OUTPUT)?;
    rustix::fs::fcntl_add_seals(&file, SealFlags::GROW | SealFlags::SEAL)?;
    Ok(file.into())
}

/// The text in a bounded file, on one line.
fn text_of(file: &mut File) -> io::Result<String> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.take(MAX_TEXT).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes).replace(char::is_control, " ");
    Ok(text.trim().to_owned())
}

#[cfg(test)]
mod tests;
