//! Privileges of the controller and the host helper, given up before either accepts anything. They cannot be regained.
//!
//! | process | user | capabilities | files (Landlock) | system calls |
//! |---|---|---|---|---|
//! | `hotdesk serve` beside a helper | `host.user` | none | writes to its store, reads [`READABLE`], executes nothing | as systemd limits them |
//! | `hotdesk host` | root | [`NEEDED`] | no limit | all but [`DENIED`] |
//!
//! The helper is not under Landlock: such a process may not mount (kernel, `Documentation/userspace-api/landlock.rst`), and the
//! helper and the OCI runtimes, which inherit its limits, mount the file systems of guests.

use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, BitFlags, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetStatus,
    path_beneath_rules,
};
use nix::libc;
use nix::unistd::{Gid, Uid, geteuid, setgroups, setresgid, setresuid};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capability_is_in_bounding_set, remove_capability_from_bounding_set,
    set_capabilities, set_no_new_privs,
};
use seccompiler::{SeccompAction, SeccompFilter, apply_filter};

use crate::failure::Outcome;
use hotdesk_controller::config::Config;
use hotdesk_engine::AgentClient;

/// Capabilities of the helper, which the programs that it starts inherit.
///
/// Owners and modes of files in disks and images; namespaces, mounts, loop devices and control groups (`SYS_ADMIN`); links,
/// addresses and packet rules; entering a guest's namespaces (`SYS_PTRACE`); limits of guests above its own; and the
/// capabilities that a guest's root has (`src/engine/container/oci.rs`), because a runtime cannot give what it lacks.
const NEEDED: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::DAC_READ_SEARCH)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::FSETID)
    .union(CapabilitySet::SETFCAP)
    .union(CapabilitySet::MKNOD)
    .union(CapabilitySet::SETUID)
    .union(CapabilitySet::SETGID)
    .union(CapabilitySet::SETPCAP)
    .union(CapabilitySet::KILL)
    .union(CapabilitySet::SYS_ADMIN)
    .union(CapabilitySet::SYS_CHROOT)
    .union(CapabilitySet::SYS_PTRACE)
    .union(CapabilitySet::SYS_RESOURCE)
    .union(CapabilitySet::NET_ADMIN)
    .union(CapabilitySet::NET_RAW)
    .union(CapabilitySet::NET_BIND_SERVICE)
    .union(CapabilitySet::AUDIT_WRITE);

/// System calls that neither the helper nor a program that it starts needs: kernels and their modules, restarts, swap, clocks,
/// accounting, ports of hardware, the kernel's log, and performance counters.
const DENIED: [libc::c_long; 20] = [
    libc::SYS_acct,
    libc::SYS_add_key,
    libc::SYS_clock_adjtime,
    libc::SYS_clock_settime,
    libc::SYS_delete_module,
    libc::SYS_finit_module,
    libc::SYS_init_module,
    libc::SYS_kexec_file_load,
    libc::SYS_kexec_load,
    libc::SYS_lookup_dcookie,
    libc::SYS_nfsservctl,
    libc::SYS_perf_event_open,
    libc::SYS_quotactl,
    libc::SYS_reboot,
    libc::SYS_settimeofday,
    libc::SYS_swapoff,
    libc::SYS_swapon,
    libc::SYS_syslog,
    libc::SYS_userfaultfd,
    libc::SYS_vhangup,
];

/// Those that only processors of personal computers have.
#[cfg(target_arch = "x86_64")]
const DENIED_HERE: [libc::c_long; 2] = [libc::SYS_ioperm, libc::SYS_iopl];
#[cfg(not(target_arch = "x86_64"))]
const DENIED_HERE: [libc::c_long; 0] = [];

/// Makes this process, which has one thread, one of the controller's user without capabilities.
///
/// # Errors
/// When it runs as another user that is not root, or the kernel refuses.
pub fn become_controller(client: AgentClient) -> Outcome<()> {
    let failed = |error: &dyn std::fmt::Display| format!("cannot give up privileges: {error}");
    let (uid, gid) = (Uid::from_raw(client.uid), Gid::from_raw(client.gid));
    if geteuid().is_root() {
        keep_capabilities(CapabilitySet::SETUID.union(CapabilitySet::SETGID), CapabilitySet::empty())?;
        setgroups(&[]).map_err(|error| failed(&error))?;
        setresgid(gid, gid, gid).map_err(|error| failed(&error))?;
        setresuid(uid, uid, uid).map_err(|error| failed(&error))?;
    } else if geteuid() != uid {
        return Err(format!(
            "this process has the user id {}, and host.user {}: start it as that user, or as root",
            geteuid(),
            client.uid
        )
        .into());
    }
    // Nothing is left to give up where systemd has done so, and its filter refuses the call.
    let none = CapabilitySet::empty();
    let none = CapabilitySets { effective: none, permitted: none, inheritable: none };
    if rustix::thread::capabilities(None).map_err(|error| failed(&error))? != none {
        set_capabilities(None, none).map_err(|error| failed(&error))?;
    }
    set_no_new_privs(true).map_err(|error| failed(&error))?;
    Ok(())
}

/// What a controller reads besides its store and the files that its configuration names: libraries, certificates of
/// authorities, name resolution, time zones, facts about itself and the host, and random numbers.
const READABLE: [&str; 9] = [
    "/dev",
    "/etc",
    "/lib",
    "/lib64",
    "/proc",
    "/run/systemd/resolve",
    "/sys",
    "/usr",
    "/var/lib/ca-certificates",
];
/// Where SQLite sorts what does not fit into memory.
const TEMPORARY: [&str; 2] = ["/tmp", "/var/tmp"];
/// The newest version of Landlock whose rights are limited; older kernels limit those that they know.
const LANDLOCK: ABI = ABI::V5;

/// Limits the files that this process, which has one thread, can open, and lets it execute none. Kernels without Landlock limit
/// nothing.
///
/// # Errors
/// When the kernel refuses.
pub fn limit_files(config: &Config) -> Outcome<()> {
    let failed = |error: &dyn std::fmt::Display| format!("cannot limit files (Landlock): {error}");
    let reads = AccessFs::ReadFile | AccessFs::ReadDir;
    let all = AccessFs::from_all(LANDLOCK);
    let writes: BitFlags<AccessFs> = all & !BitFlags::from(AccessFs::Execute);
    let read = READABLE.iter().map(PathBuf::from).chain(folders_of(&config.named_files()));
    let written =
        TEMPORARY.iter().map(PathBuf::from).chain([config.store_dir_of_client(), PathBuf::from("/dev/null")]);
    let status = Ruleset::default()
        .handle_access(all)
        .and_then(Ruleset::create)
        .and_then(|rules| rules.add_rules(path_beneath_rules(read, reads)))
        .and_then(|rules| rules.add_rules(path_beneath_rules(written.chain(config.storage_folder()), writes)))
        .and_then(|rules| rules.restrict_self())
        .map_err(|error| failed(&error))?;
    if status.ruleset == RulesetStatus::NotEnforced {
        tracing::warn!(
            "this kernel has no Landlock: only permissions limit which files the controller opens"
        );
    }
    Ok(())
}

/// The folders of files, also behind links. A renewed file is another one in the same folder.
fn folders_of(files: &[&Path]) -> Vec<PathBuf> {
    let behind_links = files.iter().filter_map(|file| file.canonicalize().ok());
    let both: Vec<PathBuf> = files.iter().map(|file| file.to_path_buf()).chain(behind_links).collect();
    both.iter().filter_map(|file| file.parent()).map(Path::to_owned).collect()
}

/// Limits this process, which has one thread, to what the host helper needs.
///
/// # Errors
/// When it does not run as root, or the kernel refuses.
pub fn restrict_host_helper() -> Outcome<()> {
    if !geteuid().is_root() {
        return Err("`hotdesk host` makes machines, which needs root".to_owned().into());
    }
    keep_capabilities(NEEDED, NEEDED)?;
    set_no_new_privs(true).map_err(|error| format!("cannot give up privileges: {error}"))?;
    deny_system_calls().map_err(|error| format!("cannot limit system calls (seccomp): {error}").into())
}

/// Drops all capabilities but `needed`. Programs that this process executes can get those of `bounding` at most.
fn keep_capabilities(needed: CapabilitySet, bounding: CapabilitySet) -> Outcome<()> {
    let failed = |error: rustix::io::Errno| format!("cannot give up capabilities: {error}");
    // A kernel may know more capabilities than this program.
    for number in 0..u64::BITS {
        let capability = CapabilitySet::from_bits_retain(1 << number);
        if !bounding.contains(capability) && capability_is_in_bounding_set(capability).unwrap_or(false) {
            remove_capability_from_bounding_set(capability).map_err(failed)?;
        }
    }
    let held = rustix::thread::capabilities(None).map_err(failed)?;
    let kept = held.permitted.intersection(needed);
    let sets = CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() };
    set_capabilities(None, sets).map_err(failed)?;
    Ok(())
}

/// Installs a filter that answers EPERM. Calls of another architecture end the process, as they do in guests.
fn deny_system_calls() -> Result<(), seccompiler::Error> {
    let denied = DENIED.into_iter().chain(DENIED_HERE).map(|call| (call, Vec::new())).collect();
    let refusal = SeccompAction::Errno(libc::EPERM.unsigned_abs());
    let filter =
        SeccompFilter::new(denied, SeccompAction::Allow, refusal, std::env::consts::ARCH.try_into()?)?;
    let program: seccompiler::BpfProgram = filter.try_into()?;
    apply_filter(&program)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::Command;

    use super::*;

    #[test]
    fn a_controller_opens_its_store_and_no_other_folder() {
        let folder = tempfile::tempdir().unwrap();
        let config = Config { data_dir: folder.path().to_owned(), ..Config::default() };
        fs::create_dir(config.store_dir_of_client()).unwrap();
        // Landlock limits the thread that calls it.
        let limited = std::thread::spawn(move || {
            limit_files(&config).unwrap();
            if fs::read_dir("/").is_ok() {
                return hotdesk_capability::Capability::Host.skip("this kernel has no Landlock");
            }
            fs::write(config.store_dir_of_client().join("hotdesk.db"), "x").unwrap();
            assert!(fs::read("/etc/hosts").is_ok() && fs::read("/proc/self/status").is_ok());
            assert!(fs::write("/etc/hotdesk-test", "x").is_err() && fs::read_dir("/root").is_err());
            assert!(Command::new("/bin/true").status().is_err(), "it executes nothing");
        });
        limited.join().unwrap();
    }

    #[test]
    fn d15_a_process_under_landlock_may_not_mount_so_the_helper_is_not_under_it() {
        use rustix::mount::{MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_change, unmount};
        if !geteuid().is_root() {
            return hotdesk_capability::Capability::Root.skip("only root may mount");
        }
        let folder = tempfile::tempdir().unwrap();
        let tmpfs = || mount("tmpfs", folder.path(), "tmpfs", MountFlags::empty(), None);
        // Landlock and the mount namespace are those of the thread that calls them.
        std::thread::scope(|scope| {
            let limited = scope.spawn(|| {
                nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNS).unwrap();
                mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC).unwrap();
                tmpfs().unwrap();
                unmount(folder.path(), UnmountFlags::empty()).unwrap();
                // The least that a rule set can handle.
                let rules = Ruleset::default().handle_access(AccessFs::MakeFifo).unwrap().create().unwrap();
                if rules.restrict_self().unwrap().ruleset == RulesetStatus::NotEnforced {
                    return hotdesk_capability::Capability::Host.skip("this kernel has no Landlock");
                }
                assert_eq!(tmpfs(), Err(rustix::io::Errno::PERM));
            });
            limited.join().unwrap();
        });
    }

    #[test]
    fn files_of_the_configuration_are_read_where_they_are_and_behind_links() {
        let folder = tempfile::tempdir().unwrap();
        let (real, link) = (folder.path().join("live/key.pem"), folder.path().join("key.pem"));
        fs::create_dir(folder.path().join("live")).unwrap();
        fs::write(&real, "").unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        let found = folders_of(&[&link, Path::new("/nowhere/x")]);
        let real = real.canonicalize().unwrap();
        assert_eq!(found, [folder.path(), Path::new("/nowhere"), real.parent().unwrap()]);
    }

    #[test]
    fn the_helper_keeps_what_a_guest_s_root_needs() {
        // CAPABILITIES of src/engine/container/oci.rs.
        let guest = CapabilitySet::AUDIT_WRITE
            | CapabilitySet::CHOWN
            | CapabilitySet::DAC_OVERRIDE
            | CapabilitySet::FOWNER
            | CapabilitySet::FSETID
            | CapabilitySet::KILL
            | CapabilitySet::NET_BIND_SERVICE
            | CapabilitySet::SETGID
            | CapabilitySet::SETPCAP
            | CapabilitySet::SETUID
            | CapabilitySet::SYS_CHROOT;
        assert!(NEEDED.contains(guest));
        assert!(
            !NEEDED
                .intersects(CapabilitySet::SYS_MODULE | CapabilitySet::SYS_RAWIO | CapabilitySet::SYS_BOOT)
        );
    }
}
