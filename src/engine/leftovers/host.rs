//! Leftovers outside of the state folder: mounts, loop devices, control groups, slots, network interfaces,
//! and members of the packet rules' sets. All controllers of a host share these.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use rustix::mount::{UnmountFlags, unmount};

use crate::host::addresses::NetworkConfig;
use crate::host::command::{TIMEOUT, check_status, host_error, run_with_timeout, tool};
use crate::host::slots::{self, Claim};
use crate::host::{cgroup, lock, loopdev, network, process, syscalls};
use crate::leftovers::{Leftover, LeftoverItem};
use crate::state::layout::StateDir;
use crate::{EngineError, EngineResult};
use hotdesk_base::ids::ComputerId;

const STEP: &str = "look for leftovers";

#[derive(Debug)]
pub(super) enum HostResource {
    Mount(PathBuf),
    LoopDevice(PathBuf),
    ControlGroup(ComputerId),
    /// A claim, with its interface and its members of the rules' sets.
    Slot(u16),
    Interface(u16),
    Listed(u16),
}

fn leftover(kind: &'static str, location: String, reason: &'static str, resource: HostResource) -> Leftover {
    let remedy = match &resource {
        HostResource::Mount(_) => "unmount it",
        HostResource::LoopDevice(_) => "detach its file",
        HostResource::ControlGroup(_) => "kill its processes and remove it",
        HostResource::Slot(_) => "release it",
        HostResource::Interface(_) => "remove it",
        HostResource::Listed(_) => "remove it from the packet rules",
    };
    Leftover { kind, location, reason, remedy, item: LeftoverItem::Host(resource) }
}

/// Mounts and loop devices of unowned disks of this state folder, and mounts inside its folders. Machines
/// mount nothing on the host. A running machine holds its loop device through its own mounts; the removal of
/// the machine frees it.
pub(super) fn users_of_disks(state: &StateDir, owned: &BTreeSet<ComputerId>) -> EngineResult<Vec<Leftover>> {
    let failed = |error: io::Error| EngineError::failed(STEP, error);
    let ours = [state.machines(), state.trash()];
    let running = cgroup::machines().map_err(failed)?;
    let devices: Vec<PathBuf> = loopdev::all()
        .map_err(failed)?
        .into_iter()
        .filter(|(_, backing)| {
            ours.iter().any(|place| is_unowned_disk(Path::new(backing), place, owned, &running))
        })
        .map(|(device, _)| device)
        .collect();
    let mounts = fs::read_to_string("/proc/self/mountinfo").map_err(failed)?;
    let mut found = Vec::new();
    for (point, source) in mounts.lines().filter_map(mount) {
        let inside =
            ours.iter().any(|place| point.strip_prefix(place).is_ok_and(|rest| is_unowned(rest, owned)));
        if inside || devices.contains(&source) {
            let why = "no computer owns what it shows, and machines mount nothing on the host";
            found.push(leftover("mount", point.display().to_string(), why, HostResource::Mount(point)));
        }
    }
    // The newest mount lies on top and must go first.
    found.reverse();
    found.extend(devices.into_iter().map(|device| {
        let why = "no computer owns its disk, and no machine uses it";
        leftover("loop device", device.display().to_string(), why, HostResource::LoopDevice(device))
    }));
    Ok(found)
}

/// Whether a loop device's file is an unowned disk below `place`, of a machine that does not run.
fn is_unowned_disk(
    backing: &Path,
    place: &Path,
    owned: &BTreeSet<ComputerId>,
    running: &BTreeSet<ComputerId>,
) -> bool {
    backing.strip_prefix(place).is_ok_and(|rest| {
        is_unowned(rest, owned) && !machine_of(rest).is_some_and(|id| running.contains(&id))
    })
}

/// Whether a path is below the folder of a machine that no computer owns.
fn is_unowned(rest: &Path, owned: &BTreeSet<ComputerId>) -> bool {
    machine_of(rest).is_some_and(|id| !owned.contains(&id))
}

/// The machine whose folder a path is below. Its id is the first part; in the trash a suffix follows it after
/// a dot.
fn machine_of(rest: &Path) -> Option<ComputerId> {
    rest.iter().next()?.to_str()?.split('.').next()?.parse().ok()
}

/// The mount point and the source in a line of proc_pid_mountinfo(5).
fn mount(line: &str) -> Option<(PathBuf, PathBuf)> {
    let (own, shared) = line.split_once(" - ")?;
    Some((unescape(own.split(' ').nth(4)?), unescape(shared.split(' ').nth(1)?)))
}

/// Decodes the octal escapes in a path of proc_pid_mountinfo(5).
fn unescape(text: &str) -> PathBuf {
    PathBuf::from(
        text.replace("\\040", " ").replace("\\011", "\t").replace("\\012", "\n").replace("\\134", "\\"),
    )
}

/// Control groups, slots, interfaces and set members without a claimed slot. The claims are listed last: a
/// machine of another controller that starts meanwhile has its claim by then.
pub(super) fn unclaimed(
    network: &NetworkConfig,
    state: &StateDir,
    owned: &BTreeSet<ComputerId>,
) -> EngineResult<Vec<Leftover>> {
    let failed = |error: io::Error| EngineError::failed(STEP, error);
    let groups = cgroup::machines().map_err(failed)?;
    let interfaces = interfaces().map_err(failed)?;
    let listed = listed(network)?;
    let (claims, boot) = (slots::all()?, process::boot_id().map_err(failed)?);
    let here: BTreeSet<ComputerId> = state.list()?.into_iter().chain(owned.iter().copied()).collect();
    let (abandoned, kept): (Vec<_>, Vec<_>) =
        claims.into_iter().partition(|claim| is_abandoned(claim, &boot, state, &here));
    let taken: BTreeSet<u16> = kept.iter().map(|claim| claim.slot).collect();
    let claimed: BTreeSet<ComputerId> = kept.iter().filter_map(Claim::id).collect();

    let groups = groups.into_iter().filter(|id| !claimed.contains(id) && !here.contains(id)).map(|id| {
        let why = "no machine of this host has claimed a slot with this id";
        leftover("control group", cgroup::path(id), why, HostResource::ControlGroup(id))
    });
    let claims = abandoned.iter().map(|claim| {
        let place = format!("{} for {}", claim.slot, claim.machine.display());
        leftover(
            "slot",
            place,
            "the machine that claimed it is gone, or the host has rebooted since",
            HostResource::Slot(claim.slot),
        )
    });
    let gone: BTreeSet<u16> = abandoned.iter().map(|claim| claim.slot).collect();
    let free = |slot: &u16| !taken.contains(slot) && !gone.contains(slot);
    let interfaces = interfaces.into_iter().filter(free).map(|slot| {
        leftover(
            "network interface",
            network::veth(slot),
            "no machine has claimed its slot",
            HostResource::Interface(slot),
        )
    });
    let listed = listed.into_iter().filter(|(slot, _)| free(slot)).map(|(slot, member)| {
        leftover("packet rule", member, "no machine has claimed its slot", HostResource::Listed(slot))
    });
    Ok(groups.chain(claims).chain(interfaces).chain(listed).collect())
}

/// Whether no machine will release a slot: [`Claim::is_abandoned`], or its machine belongs to this state
/// folder and has neither a folder nor a row.
fn is_abandoned(claim: &Claim, boot: &str, state: &StateDir, here: &BTreeSet<ComputerId>) -> bool {
    let ours = claim.machine.starts_with(state.machines());
    claim.is_abandoned(boot) || ours && claim.id().is_none_or(|id| !here.contains(&id))
}

/// The slots that have a network interface.
fn interfaces() -> io::Result<BTreeSet<u16>> {
    let mut found = BTreeSet::new();
    for entry in fs::read_dir("/sys/class/net")? {
        found.extend(slot_of(&entry?.file_name().to_string_lossy()));
    }
    Ok(found)
}

fn slot_of(interface: &str) -> Option<u16> {
    let digits = interface.strip_prefix("hotdesk").filter(|digits| digits.len() == 4)?;
    u16::from_str_radix(digits, 16).ok()
}

/// The slots with an address or interface in the packet rules, each with the set member.
fn listed(network: &NetworkConfig) -> EngineResult<Vec<(u16, String)>> {
    let mut found = Vec::new();
    for set in ["guests", "trusted", "filtered"] {
        let mut nft = tool("nft");
        nft.args(["list", "set", "inet", "hotdesk", set]);
        let (status, answer, complaint) = run_with_timeout(STEP, &mut nft, None, TIMEOUT)?;
        if complaint.contains("No such file or directory") {
            continue;
        }
        check_status(STEP, status, &complaint)?;
        found.extend(
            members(&answer, network).into_iter().map(|(slot, member)| (slot, format!("{member} in {set}"))),
        );
    }
    Ok(found)
}

/// The members of a set in the output of `nft list set` that belong to a slot of this network.
fn members(listing: &str, network: &NetworkConfig) -> Vec<(u16, String)> {
    let Some((_, rest)) = listing.split_once("elements = {") else { return Vec::new() };
    let elements = rest.split('}').next().unwrap_or_default().split(',');
    let slot = |member: &str| match member.parse::<Ipv4Addr>() {
        Ok(address) => network.slot_of(address),
        Err(_) => slot_of(member),
    };
    let named = elements.map(|member| member.trim().trim_matches('"').to_owned());
    named.filter_map(|member| Some((slot(&member)?, member))).collect()
}

/// Removes one of them if no machine has claimed it since. The host lock keeps new claims out meanwhile.
pub(super) async fn remove(resource: &HostResource, network: &NetworkConfig) -> EngineResult<()> {
    const STEP: &str = "remove a leftover";
    let failed = |error: io::Error| EngineError::failed(STEP, error);
    match resource {
        HostResource::Mount(point) => {
            unmount(point, UnmountFlags::NOFOLLOW).map_err(|error| host_error(STEP, point)(error.into()))
        }
        HostResource::LoopDevice(device) => {
            let opened: File =
                OpenOptions::new().read(true).open(device).map_err(host_error(STEP, device))?;
            syscalls::release_loop(&opened).map_err(host_error(STEP, device))
        }
        HostResource::ControlGroup(id) => {
            let _guard = lock::host(&slots::host_dir().map_err(failed)?).map_err(failed)?;
            if slots::all()?.iter().any(|claim| claim.id() == Some(*id) && claim.machine.exists()) {
                return Err(EngineError::failed(STEP, format!("machine {id} has started since")));
            }
            cgroup::clear(*id).await
        }
        HostResource::Slot(slot) | HostResource::Interface(slot) | HostResource::Listed(slot) => {
            let _guard = lock::host(&slots::host_dir().map_err(failed)?).map_err(failed)?;
            if slots::all()?.iter().any(|claim| claim.slot == *slot && claim.machine.exists()) {
                return Err(EngineError::failed(STEP, format!("slot {slot} has been claimed since")));
            }
            network::detach(*slot)?;
            network::remove_from_sets(network, *slot)?;
            slots::remove(*slot).map_err(failed)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_and_members_are_read_as_the_host_writes_them() {
        let line = "73 28 7:3 / /var/a\\040b rw,relatime shared:9 - ext4 /dev/loop3 rw";
        assert_eq!(mount(line), Some((PathBuf::from("/var/a b"), PathBuf::from("/dev/loop3"))));
        assert_eq!(mount("nothing of the kind"), None);
        let listing = "table inet hotdesk {\n\tset guests {\n\t\ttype ipv4_addr\n\t\telements = { 10.213.0.2, 10.213.1.6,\n\
                       \t\t\t     192.0.2.1 }\n\t}\n}\n";
        let known = members(listing, &NetworkConfig::default());
        assert_eq!(known, [(0, "10.213.0.2".to_owned()), (65, "10.213.1.6".to_owned())]);
        let listing = "table inet hotdesk {\n\tset trusted {\n\t\ttype ifname\n\t\telements = { \"hotdesk000a\", \"eth0\" }\n\t}\n}\n";
        assert_eq!(members(listing, &NetworkConfig::default()), [(10, "hotdesk000a".to_owned())]);
        assert!(
            members(
                "table inet hotdesk {\n\tset trusted {\n\t\ttype ifname\n\t}\n}\n",
                &NetworkConfig::default()
            )
            .is_empty()
        );
    }

    #[test]
    fn only_disks_below_this_folder_without_owner_and_user_are_leftovers() {
        let (owned, running, gone) = (ComputerId::random(), ComputerId::random(), ComputerId::random());
        let place = Path::new("/data/machines");
        let (rows, live) = (BTreeSet::from([owned]), BTreeSet::from([running]));
        for (backing, expected) in [
            (format!("/data/machines/{gone}/disk.img"), true),
            (format!("/data/machines/{gone}/disk.img (deleted)"), true),
            (format!("/data/machines/{gone}.0123/disk.img"), true),
            (format!("/data/machines/{owned}/disk.img"), false),
            (format!("/data/machines/{running}/disk.img"), false),
            ("/data/machines/of-a-person/disk.img".to_owned(), false),
            (format!("/other/machines/{gone}/disk.img"), false),
            ("/var/backup.img".to_owned(), false),
        ] {
            assert_eq!(is_unowned_disk(Path::new(&backing), place, &rows, &live), expected, "{backing}");
        }
    }
}
