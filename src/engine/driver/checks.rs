//! Checks of this host for what every engine needs, with remedies. Each check tries the real operation.

use std::borrow::Cow;
use std::fs;
use std::path::Path;
use std::process::Stdio;

use nix::sched::{CloneFlags, unshare};

use crate::host::command::{TIMEOUT, host_error, run, run_with, run_with_timeout, tool};
use crate::host::network::forwarding;
use crate::host::sandbox::GuestFile;
use crate::host::syscalls::fscrypt;
use crate::host::{bandwidth, network};
use crate::state::disk;
use crate::{EngineError, EngineResult, Finding, Shortage};

/// Free bytes below which a host soon cannot make computers.
const COMFORTABLE_SPACE: u64 = 10 << 30;

/// The step of [`open_files`].
const READ_OPEN_FILES: &str = "rely on the table of open files";
/// Bytes of kernel memory of an open file (`struct file` of Linux 6.1 has 232). They count as memory of its guest.
const OPEN_FILE_BYTES: u64 = 256;

/// One check of this host, which has not run yet.
pub struct Check<'a> {
    /// The thing that it checks.
    pub what: &'static str,
    /// Whether it takes milliseconds and changes nothing on the host.
    pub is_quick: bool,
    is_optional: bool,
    remedy: &'static str,
    examine: Box<dyn FnOnce() -> EngineResult<String> + 'a>,
}

impl<'a> Check<'a> {
    /// A check that tries the real operation. `examine` returns what it found.
    pub(crate) fn new(
        what: &'static str,
        remedy: &'static str,
        examine: impl FnOnce() -> EngineResult<String> + 'a,
    ) -> Self {
        Self { what, is_quick: false, is_optional: false, remedy, examine: Box::new(examine) }
    }

    /// The same check, marked as quick.
    pub(crate) fn quick(self) -> Self {
        Self { is_quick: true, ..self }
    }

    /// The same check, of something that computers can run without.
    pub(crate) fn optional(self) -> Self {
        Self { is_optional: true, ..self }
    }

    /// Runs the check; the finding has the remedy only when it failed.
    pub fn run(self) -> Finding {
        let Self { what, is_optional: optional, remedy, .. } = self;
        let (what, none) = (Cow::Borrowed(what), Cow::Borrowed(""));
        match (self.examine)() {
            Ok(detail) => Finding { what, ok: true, optional, detail, remedy: none },
            Err(error) => {
                let detail = format!("{error:#}");
                Finding { what, ok: false, optional, detail, remedy: Cow::Borrowed(remedy) }
            }
        }
    }
}

/// Whether this process runs as root.
pub(crate) fn root<'a>() -> Check<'a> {
    let is_root = || {
        let user = nix::unistd::geteuid();
        if user.is_root() {
            Ok("yes".into())
        } else {
            Err(EngineError::failed("be root", format!("user {user}")))
        }
    };
    Check::new("root", "run hotdesk serve as root", is_root).quick()
}

/// Whether this process may make namespaces. A container that has root but no `CAP_SYS_ADMIN` may not.
pub(crate) fn namespaces<'a>() -> Check<'a> {
    const STEP: &str = "make namespaces";
    let unshare = || {
        // The namespaces end with their thread.
        let flags = CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWPID | CloneFlags::CLONE_NEWNET;
        let tried = std::thread::spawn(move || unshare(flags)).join();
        tried
            .map_err(|_| EngineError::failed(STEP, "the thread panicked"))?
            .map_err(|error| EngineError::failed(STEP, error))?;
        Ok("mount, PID and network namespaces".into())
    };
    Check::new(
        "namespaces",
        "run hotdesk serve as root on the host itself, or in a privileged container",
        unshare,
    )
    .quick()
}

/// Whether the tools for disks are installed, and the sandbox for those that read what guests wrote works. `user` is the
/// host's user id of a guest.
pub(crate) fn disk_tools<'a>(user: u32) -> Check<'a> {
    Check::new("disk tools", "apt install e2fsprogs (1.47 or newer) util-linux", move || {
        find_disk_tools(user)
    })
}

fn find_disk_tools(user: u32) -> EngineResult<String> {
    const STEP: &str = "look for the disk tools";
    // The status does not matter: only a missing program is an error here.
    for program in ["mkfs.ext4", "fsfreeze"] {
        run_with_timeout(STEP, tool(program).arg("-V"), None, TIMEOUT)?;
    }
    let file = tempfile::NamedTempFile::new().map_err(|error| EngineError::failed(STEP, error))?;
    for program in ["e2fsck", "resize2fs"] {
        GuestFile { path: file.path(), user }.run_tool(STEP, program, &["-V"], Stdio::null(), TIMEOUT)?;
    }
    Ok("mkfs.ext4, fsfreeze; e2fsck, resize2fs in a sandbox".into())
}

/// Whether the guest image is built.
pub(crate) fn guest_image(image: &Path) -> Check<'_> {
    let remedy = "run `hotdesk image build`, or set the engine's image to its folder";
    let find = || {
        let rootfs = image.join("rootfs");
        if rootfs.join("usr/bin").is_dir() {
            return Ok(rootfs.display().to_string());
        }
        Err(EngineError::failed("find the guest image", format!("{} has no usr/bin", rootfs.display())))
    };
    Check::new("guest image", remedy, find).quick()
}

/// Loads the packet rules and makes a veth pair in a new network namespace.
pub(crate) fn packets() -> EngineResult<String> {
    const STEP: &str = "try a guest's network";
    let tried = std::thread::spawn(|| {
        unshare(CloneFlags::CLONE_NEWNET).map_err(|error| EngineError::failed(STEP, error))?;
        let mut pair = tool("ip");
        pair.args(["link", "add", "hotdeskffff", "type", "veth", "peer", "name", "eth0"]);
        run(STEP, pair)?;
        let mut limited = tool("tc");
        limited.args(["qdisc", "replace", "dev", "hotdeskffff", "root"]).args(bandwidth::queue(1));
        run(STEP, limited)?;
        let mut nft = tool("nft");
        nft.args(["-f", "-"]);
        run_with(STEP, nft, network::RULES)
    });
    let outcome = tried.join().unwrap_or_else(|_| Err(EngineError::failed(STEP, "the thread panicked")));
    outcome?;
    Ok(format!("veth and nftables; {}", forwarding::describe()?))
}

/// Whether there is space for computers under the state folder.
pub(crate) fn free_space(state: &Path) -> EngineResult<String> {
    let free = disk::free_bytes(state)?;
    let text = format!("{} GiB under {}", free >> 30, state.display());
    if free >= COMFORTABLE_SPACE { Ok(text) } else { Err(EngineError::NoCapacity(Shortage::DiskSpace, text)) }
}

/// Whether folders of machines can be encrypted.
pub(crate) fn encryption(state: &Path) -> Check<'_> {
    let remedy = "tune2fs -O encrypt DEVICE (ext4; it may be mounted) with a kernel that has CONFIG_FS_ENCRYPTION, or set encryption.computers = false";
    let look = move || {
        const STEP: &str = "encrypt computers";
        let machines = state.join("machines");
        if fscrypt::is_supported(&machines).map_err(host_error(STEP, &machines))? {
            return Ok(format!("fscrypt in {}", machines.display()));
        }
        let detail = format!("folders in {} cannot be encrypted (fscrypt)", machines.display());
        Err(EngineError::failed(STEP, detail))
    };
    Check::new("encryption", remedy, look).quick()
}

/// Whether the host's table of open files has a place for all that guests can open: their memory ends first.
pub(crate) fn open_files<'a>() -> Check<'a> {
    let remedy = "sysctl fs.file-max=9223372036854775807, which systemd sets at its start (all guests and the host share it)";
    Check::new("open files", remedy, || {
        let read = || -> std::io::Result<(u64, u64)> {
            let limit = fs::read_to_string("/proc/sys/fs/file-max")?;
            let memory = fs::read_to_string("/proc/meminfo")?;
            let kilobytes = memory.split_whitespace().nth(1).and_then(|text| text.parse::<u64>().ok());
            Ok((limit.trim().parse().map_err(std::io::Error::other)?, kilobytes.unwrap_or_default() << 10))
        };
        let (limit, memory_bytes) = read().map_err(|error| EngineError::failed(READ_OPEN_FILES, error))?;
        judge_open_files(limit, memory_bytes)
    })
    .optional()
}

/// Settings of all interfaces that would make those of guests take part in more than their own ARP.
const ARP_SETTINGS: [&str; 2] = ["arp_accept", "proxy_arp"];

/// Whether no setting of all interfaces lets guests add neighbours to the host's table, which all guests share.
pub(crate) fn neighbour_settings<'a>() -> Check<'a> {
    const STEP: &str = "rely on the table of neighbours";
    let remedy = "sysctl net.ipv4.conf.all.arp_accept=0 net.ipv4.conf.all.proxy_arp=0, and set them for single interfaces instead";
    let look = || {
        for name in ARP_SETTINGS {
            let path = Path::new("/proc/sys/net/ipv4/conf/all").join(name);
            let value = fs::read_to_string(&path).map_err(host_error(STEP, &path))?;
            if value.trim() != "0" {
                let detail = format!("net.ipv4.conf.all.{name} is {}: guests can fill it", value.trim());
                return Err(EngineError::failed(STEP, detail));
            }
        }
        Ok("guests add only themselves".into())
    };
    Check::new("neighbours", remedy, look).quick().optional()
}

/// Whether a table with `limit` entries is larger than the memory of the host can fill.
fn judge_open_files(limit: u64, memory_bytes: u64) -> EngineResult<String> {
    if limit >= memory_bytes / OPEN_FILE_BYTES {
        return Ok(format!("{limit} for the whole host, more than guests have memory for"));
    }
    let enough = limit.saturating_mul(OPEN_FILE_BYTES) >> 20;
    let detail =
        format!("{limit} for the whole host: one guest with {enough} MiB of memory can open them all");
    Err(EngineError::failed(READ_OPEN_FILES, detail))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_open_files_is_larger_than_the_memory_can_fill() {
        for (limit, gigabytes, sufficient) in [
            (9_223_372_036_854_775_807, 24, true),
            (2_466_170, 24, false),
            (100_663_296, 24, true),
            (100_663_295, 24, false),
        ] {
            let judged = judge_open_files(limit, gigabytes << 30);
            assert_eq!(judged.is_ok(), sufficient, "{limit}: {judged:?}");
        }
    }
}
