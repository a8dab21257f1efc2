//! Checks of this host for what every engine needs, with remedies. Each check tries the real operation.

use std::path::Path;

use nix::sched::{CloneFlags, unshare};

use crate::host::command::{TIMEOUT, run, run_with, run_with_timeout, tool};
use crate::host::{bandwidth, network};
use crate::state::disk;
use crate::{EngineError, EngineResult, Finding, Shortage};

/// Free bytes below which a host soon cannot make computers.
const COMFORTABLE_SPACE: u64 = 10 << 30;

/// The result of one check; the remedy only when it failed.
pub(crate) fn finding(what: &'static str, outcome: EngineResult<String>, remedy: &'static str) -> Finding {
    match outcome {
        Ok(detail) => Finding { what, ok: true, detail, remedy: "" },
        Err(error) => Finding { what, ok: false, detail: format!("{error:#}"), remedy },
    }
}

/// Whether this process runs as root.
pub(crate) fn root() -> Finding {
    let user = nix::unistd::geteuid();
    let outcome = if user.is_root() {
        Ok("yes".into())
    } else {
        Err(EngineError::failed("be root", format!("user {user}")))
    };
    finding("root", outcome, "run hotdesk serve as root")
}

/// Whether the tools for disks are installed.
pub(crate) fn disk_tools() -> Finding {
    let installed = ["e2fsck", "resize2fs", "mkfs.ext4", "fsfreeze"].into_iter().try_for_each(|program| {
        let mut command = tool(program);
        // The status does not matter: only a missing program is an error here.
        command.arg("-V");
        run_with_timeout("look for the disk tools", &mut command, None, TIMEOUT).map(drop)
    });
    let outcome = installed.map(|()| "mkfs.ext4, e2fsck, resize2fs, fsfreeze".into());
    finding("disk tools", outcome, "apt install e2fsprogs (1.47 or newer) util-linux")
}

/// Whether the guest image is built.
pub(crate) fn guest_image(image: &Path) -> Finding {
    let rootfs = image.join("rootfs");
    let outcome = if rootfs.join("usr/bin").is_dir() {
        Ok(rootfs.display().to_string())
    } else {
        Err(EngineError::failed("find the guest image", format!("{} has no usr/bin", rootfs.display())))
    };
    finding("guest image", outcome, "run `hotdesk image build`, or set the engine's image to its folder")
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
    outcome.map(|_| format!("veth and nftables; net.ipv4.ip_forward is {}", network::forwarding()))
}

/// Whether there is space for computers under the state folder.
pub(crate) fn free_space(state: &Path) -> EngineResult<String> {
    let free = disk::free_bytes(state)?;
    let text = format!("{} GiB under {}", free >> 30, state.display());
    if free >= COMFORTABLE_SPACE { Ok(text) } else { Err(EngineError::NoCapacity(Shortage::DiskSpace, text)) }
}
