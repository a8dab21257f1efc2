//! Host resources of a machine, found by its id.

use std::fs;
use std::path::{Path, PathBuf};

/// The sorted names in a folder; empty when the folder does not exist.
pub fn names_in(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// The files behind the host's loop devices.
pub fn loop_files() -> Vec<String> {
    let backing = |device: String| fs::read_to_string(format!("/sys/block/{device}/loop/backing_file")).ok();
    names_in(Path::new("/sys/block")).into_iter().filter_map(backing).collect()
}

/// The backing files of a machine's loop devices.
pub fn loop_devices(id: &str) -> Vec<String> {
    loop_files().into_iter().filter(|file| file.contains(id)).collect()
}

/// The machine's control group in every hierarchy that has one.
pub fn control_groups(id: &str) -> Vec<PathBuf> {
    let root = Path::new("/sys/fs/cgroup");
    let hierarchies = names_in(root).into_iter().map(|name| root.join(name)).chain([root.to_owned()]);
    hierarchies.map(|root| root.join("hotdesk").join(id)).filter(|path| path.exists()).collect()
}

/// The roots of the control group hierarchies: one under version 2, several under version 1.
pub fn control_group_roots() -> Vec<PathBuf> {
    let root = Path::new("/sys/fs/cgroup");
    if root.join("cgroup.controllers").exists() {
        return vec![root.to_owned()];
    }
    let is_hierarchy = |path: &PathBuf| path.join("cgroup.procs").exists() && !path.is_symlink();
    names_in(root).into_iter().map(|name| root.join(name)).filter(is_hierarchy).collect()
}

/// Processes that are the kernel of a guest over gVisor.
pub fn gvisor_kernels(id: &str) -> Vec<u32> {
    let is_kernel = |pid: &u32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).any(|word| word == b"boot")
    };
    processes(id).into_iter().filter(is_kernel).collect()
}

/// Host processes of a machine, without zombies: the host's process 1 reaps those in its own time.
pub fn processes(id: &str) -> Vec<u32> {
    let own = format!("/hotdesk/{id}");
    let pids = names_in(Path::new("/proc")).into_iter().filter_map(|name| name.parse::<u32>().ok());
    pids.filter(|pid| super::process::alive(&pid.to_string()))
        .filter(|pid| fs::read_to_string(format!("/proc/{pid}/cgroup")).is_ok_and(|text| text.contains(&own)))
        .collect()
}

/// Host processes of a machine that are processes of its guest: without its lxcfs, which the guest does not see.
pub fn guest_processes(id: &str) -> Vec<u32> {
    let name = |pid: &u32| fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    processes(id).into_iter().filter(|pid| name(pid).trim() != "lxcfs").collect()
}

/// The slots whose claim contains `text`: a machine's id or its controller's folder.
pub fn slots(text: &str) -> Vec<u16> {
    let folder = Path::new("/run/hotdesk-engine/slots");
    let claimed = |name: &String| {
        fs::read_link(folder.join(name)).is_ok_and(|claim| claim.to_string_lossy().contains(text))
    };
    names_in(folder).into_iter().filter(claimed).filter_map(|name| name.parse().ok()).collect()
}

/// The ids of the machines that hold a slot for a controller's data folder.
pub fn machines_of(data: &Path) -> Vec<String> {
    let folder = Path::new("/run/hotdesk-engine/slots");
    let claims = names_in(folder).into_iter().filter_map(|name| fs::read_link(folder.join(name)).ok());
    let text = data.to_string_lossy().into_owned();
    claims
        .filter(|claim| claim.to_string_lossy().contains(&text))
        .filter_map(|claim| Some(claim.file_name()?.to_string_lossy().into_owned()))
        .collect()
}

/// Kills every host process of a machine.
pub fn kill(id: &str) {
    signal(id, nix::sys::signal::Signal::SIGKILL);
}

/// Stops every host process of a machine, so that nothing of it reacts.
pub fn stop_processes(id: &str) {
    signal(id, nix::sys::signal::Signal::SIGSTOP);
}

/// Continues every stopped host process of a machine.
pub fn continue_processes(id: &str) {
    signal(id, nix::sys::signal::Signal::SIGCONT);
}

fn signal(id: &str, signal: nix::sys::signal::Signal) {
    for pid in processes(id) {
        let pid = nix::unistd::Pid::from_raw(pid.cast_signed());
        let _gone = nix::sys::signal::kill(pid, signal);
    }
}

/// The first kind of host resource that a machine still has, described.
pub fn find_leftover(id: &str) -> Option<String> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").expect("mounts");
    let found = [
        ("mount", mounts.lines().filter(|line| line.contains(id)).map(str::to_owned).collect()),
        ("loop device", loop_devices(id)),
        ("control group", control_groups(id).iter().map(|path| path.display().to_string()).collect()),
        ("process", processes(id).iter().map(u32::to_string).collect()),
        ("slot", slots(id).iter().map(u16::to_string).collect::<Vec<String>>()),
    ];
    let leftover = found.into_iter().find(|(_, things)| !things.is_empty());
    leftover.map(|(kind, things)| format!("{kind} of {id}: {things:?}"))
}
