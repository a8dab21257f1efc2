//! What is left outside the state folder, where all controllers of a host are at home: users of disks, control groups,
//! slots, network interfaces, members of the packet rules' sets?

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use rustix::mount::{UnmountFlags, unmount};

use super::{Leftover, Thing};
use crate::addresses::NetworkConfig;
use crate::command::{TIMEOUT, host_error, judge, run_patiently, tool};
use crate::layout::StateDir;
use crate::slots::{self, Claim};
use crate::{EngineError, EngineResult, cgroup, kernel, lock, loopdev, network, process};
use hotdesk_base::ids::ComputerId;

const STEP: &str = "look for what is left";

#[derive(Debug)]
pub(super) enum HostThing {
    Mount(PathBuf),
    LoopDevice(PathBuf),
    ControlGroup(ComputerId),
    /// A claim, with the interface and the members of the rules' sets that go with it.
    Slot(u16),
    Interface(u16),
    Listed(u16),
}

fn told(what: &'static str, place: String, why: &'static str, thing: HostThing) -> Leftover {
    let remedy = match &thing {
        HostThing::Mount(_) => "unmount it",
        HostThing::LoopDevice(_) => "take the file from it",
        HostThing::ControlGroup(_) => "end what runs in it and remove it",
        HostThing::Slot(_) => "give it back",
        HostThing::Interface(_) => "remove it",
        HostThing::Listed(_) => "take it out of the packet rules",
    };
    Leftover { what, place, why, remedy, thing: Thing::Host(thing) }
}

/// Mounts and loop devices of disks of this state folder that nobody owns, and mounts inside its folders. Machines mount
/// nothing on the host; what runs has its loop device by its own mounts and is left to the removal of its machine.
pub(super) fn users_of_disks(state: &StateDir, owned: &BTreeSet<ComputerId>) -> EngineResult<Vec<Leftover>> {
    let failed = |error: io::Error| EngineError::failed(STEP, error);
    let ours = [state.machines(), state.trash()];
    let running = cgroup::machines().map_err(failed)?;
    let devices: Vec<PathBuf> = loopdev::all()
        .map_err(failed)?
        .into_iter()
        .filter(|(_, backing)| {
            ours.iter().any(|place| nobodys_disk(Path::new(backing), place, owned, &running))
        })
        .map(|(device, _)| device)
        .collect();
    let mounts = fs::read_to_string("/proc/self/mountinfo").map_err(failed)?;
    let mut found = Vec::new();
    for (point, source) in mounts.lines().filter_map(mount) {
        let inside =
            ours.iter().any(|place| point.strip_prefix(place).is_ok_and(|rest| nobodys(rest, owned)));
        if inside || devices.contains(&source) {
            let why = "it shows what no computer owns, and machines mount nothing here";
            found.push(told("mount", point.display().to_string(), why, HostThing::Mount(point)));
        }
    }
    // The last mounted lies on top.
    found.reverse();
    found.extend(devices.into_iter().map(|device| {
        let why = "it shows a disk that no computer owns and no machine uses";
        told("loop device", device.display().to_string(), why, HostThing::LoopDevice(device))
    }));
    Ok(found)
}

/// Whether a loop device's file is a disk below `place` that no computer owns, of a machine of which nothing runs.
fn nobodys_disk(
    backing: &Path,
    place: &Path,
    owned: &BTreeSet<ComputerId>,
    running: &BTreeSet<ComputerId>,
) -> bool {
    backing
        .strip_prefix(place)
        .is_ok_and(|rest| nobodys(rest, owned) && !machine_of(rest).is_some_and(|id| running.contains(&id)))
}

/// Whether a path leads through the folder of a machine that no computer owns.
fn nobodys(rest: &Path, owned: &BTreeSet<ComputerId>) -> bool {
    machine_of(rest).is_some_and(|id| !owned.contains(&id))
}

/// The machine whose folder a path leads through: its id is the first part, or in the trash what that begins with.
fn machine_of(rest: &Path) -> Option<ComputerId> {
    rest.iter().next()?.to_str()?.split('.').next()?.parse().ok()
}

/// The mount point and the source that a line of mountinfo(5) tells.
fn mount(line: &str) -> Option<(PathBuf, PathBuf)> {
    let (own, shared) = line.split_once(" - ")?;
    Some((plain(own.split(' ').nth(4)?), plain(shared.split(' ').nth(1)?)))
}

/// A path as mountinfo(5) writes it, with blanks and the like as octal numbers.
fn plain(text: &str) -> PathBuf {
    PathBuf::from(
        text.replace("\\040", " ").replace("\\011", "\t").replace("\\012", "\n").replace("\\134", "\\"),
    )
}

/// What takes room of the host without a slot that is claimed for it. What is looked at is listed before the claims are: a
/// machine of another controller that comes up meanwhile has its claim by then.
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
        let why = "no machine of this host has claimed a slot under this id";
        told("control group", cgroup::path(id), why, HostThing::ControlGroup(id))
    });
    let claims = abandoned.iter().map(|claim| {
        let place = format!("{} for {}", claim.slot, claim.machine.display());
        told(
            "slot",
            place,
            "the machine that claimed it is gone, or the host was booted since",
            HostThing::Slot(claim.slot),
        )
    });
    let gone: BTreeSet<u16> = abandoned.iter().map(|claim| claim.slot).collect();
    let free = |slot: &u16| !taken.contains(slot) && !gone.contains(slot);
    let interfaces = interfaces.into_iter().filter(free).map(|slot| {
        told(
            "network interface",
            network::veth(slot),
            "nobody has claimed its slot",
            HostThing::Interface(slot),
        )
    });
    let listed = listed.into_iter().filter(|(slot, _)| free(slot)).map(|(slot, member)| {
        told("packet rule", member, "nobody has claimed its slot", HostThing::Listed(slot))
    });
    Ok(groups.chain(claims).chain(interfaces).chain(listed).collect())
}

/// Whether nobody will give a slot back: as for every controller, and for a machine of this state folder that is neither
/// there nor a computer's.
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

/// The slots whose address or interface the packet rules know, each with what they know of it.
fn listed(network: &NetworkConfig) -> EngineResult<Vec<(u16, String)>> {
    let mut found = Vec::new();
    for set in ["guests", "trusted"] {
        let mut nft = tool("nft");
        nft.args(["list", "set", "inet", "hotdesk", set]);
        let (status, answer, complaint) = run_patiently(STEP, &mut nft, None, TIMEOUT)?;
        if complaint.contains("No such file or directory") {
            continue;
        }
        judge(STEP, status, &complaint)?;
        found.extend(
            members(&answer, network).into_iter().map(|(slot, member)| (slot, format!("{member} in {set}"))),
        );
    }
    Ok(found)
}

/// The members of a set, as `nft list set` writes it, that belong to a slot of this network.
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

/// Takes one of them away, if it still is nobody's: whoever wants a slot waits meanwhile.
pub(super) async fn take_away(thing: &HostThing, network: &NetworkConfig) -> EngineResult<()> {
    const STEP: &str = "take away what is left";
    let failed = |error: io::Error| EngineError::failed(STEP, error);
    match thing {
        HostThing::Mount(point) => {
            unmount(point, UnmountFlags::NOFOLLOW).map_err(|error| host_error(STEP, point)(error.into()))
        }
        HostThing::LoopDevice(device) => {
            let opened: File =
                OpenOptions::new().read(true).open(device).map_err(host_error(STEP, device))?;
            kernel::release_loop(&opened).map_err(host_error(STEP, device))
        }
        HostThing::ControlGroup(id) => {
            let _held = lock::host(&slots::host_dir().map_err(failed)?).map_err(failed)?;
            if slots::all()?.iter().any(|claim| claim.id() == Some(*id) && claim.machine.exists()) {
                return Err(EngineError::failed(STEP, format!("machine {id} came up meanwhile")));
            }
            cgroup::clear(*id).await
        }
        HostThing::Slot(slot) | HostThing::Interface(slot) | HostThing::Listed(slot) => {
            let _held = lock::host(&slots::host_dir().map_err(failed)?).map_err(failed)?;
            if slots::all()?.iter().any(|claim| claim.slot == *slot && claim.machine.exists()) {
                return Err(EngineError::failed(STEP, format!("slot {slot} was claimed meanwhile")));
            }
            network::detach(*slot)?;
            network::unlist(network, *slot)?;
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
    fn a_disk_is_nobodys_only_below_this_folder_without_an_owner_or_a_user() {
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
            assert_eq!(nobodys_disk(Path::new(&backing), place, &rows, &live), expected, "{backing}");
        }
    }
}
