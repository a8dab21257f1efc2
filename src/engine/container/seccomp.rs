//! Seccomp profile of guests: the usual allow list of container engines, without what a desktop does not need
//! (mounting, tracing, namespaces, keyrings, BPF, io_uring, kernel modules, clocks).

use serde_json::{Value, json};

/// Names that are allowed with any arguments. The runtime skips names that the kernel or libseccomp does not
/// know.
const ALLOWED: &str = include_str!("seccomp.txt");

/// The `CLONE_NEW*` flags of sched.h that `clone` takes, and `CLONE_NEWTIME`, which only `unshare` takes.
const NEW_NAMESPACES: u64 = 0x7E02_0000;
const NEW_TIME_NAMESPACE: u64 = 0x80;
/// Socket families and their protocols; all others are excluded: vsock, which reaches the hypervisor, packet,
/// AF_ALG, and rare ones with little-reviewed code (MPTCP, SCTP, DCCP, most families of netlink).
const SOCKETS: [(u64, &[u64]); 4] = [(AF_UNIX, &[0]), (AF_INET, IP), (AF_INET6, IP), (AF_NETLINK, NETLINK)];
const AF_UNIX: u64 = 1;
const AF_INET: u64 = 2;
const AF_INET6: u64 = 10;
const AF_NETLINK: u64 = 16;
/// The default, ICMP (of ping), TCP, UDP, ICMPv6.
const IP: &[u64] = &[0, 1, 6, 17, 58];
/// Addresses and routes, socket statistics (`ss`), audit (sshd refuses sign-ins without an answer), and device
/// events (udev).
const NETLINK: &[u64] = &[0, 4, 9, 15];
/// `personality(2)`: Linux, 32-bit uname, no address randomization (debuggers, Wine), both, and the query.
const PERSONALITIES: [u64; 5] = [0x0, 0x0008, 0x2_0000, 0x2_0008, 0xffff_ffff];
const EPERM: u32 = 1;
const ENOSYS: u32 = 38;

/// The names on the list.
fn allowed() -> Vec<&'static str> {
    ALLOWED.lines().filter(|line| !line.starts_with('#')).flat_map(str::split_whitespace).collect()
}

/// The profile in the OCI runtime specification's form.
pub(super) fn profile() -> Value {
    let allow =
        |names: Value, args: Value| json!({ "names": names, "action": "SCMP_ACT_ALLOW", "args": args });
    let equals = |value: u64| json!([{ "index": 0, "value": value, "op": "SCMP_CMP_EQ" }]);
    let none_of =
        |mask: u64| json!([{ "index": 0, "value": mask, "valueTwo": 0, "op": "SCMP_CMP_MASKED_EQ" }]);
    let mut rules = vec![
        allow(json!(allowed()), json!([])),
        allow(json!(["clone"]), none_of(NEW_NAMESPACES)),
        allow(json!(["unshare"]), none_of(NEW_NAMESPACES | NEW_TIME_NAMESPACE)),
        // A filter cannot read the arguments of clone3. With ENOSYS, libraries fall back to clone. The kernel has
        // 65,536 contexts of asynchronous I/O for all guests and the host; programs have threads instead.
        json!({ "names": ["clone3", "io_setup"], "action": "SCMP_ACT_ERRNO", "errnoRet": ENOSYS }),
    ];
    for (family, protocols) in SOCKETS {
        rules.extend(protocols.iter().map(|protocol| {
            let is_this = json!([
                { "index": 0, "value": family, "op": "SCMP_CMP_EQ" },
                { "index": 2, "value": protocol, "op": "SCMP_CMP_EQ" },
            ]);
            allow(json!(["socket"]), is_this)
        }));
    }
    rules.extend(PERSONALITIES.map(|personality| allow(json!(["personality"]), equals(personality))));
    let architecture = if cfg!(target_arch = "aarch64") { "SCMP_ARCH_AARCH64" } else { "SCMP_ARCH_X86_64" };
    json!({
        "defaultAction": "SCMP_ACT_ERRNO",
        "defaultErrnoRet": EPERM,
        "architectures": [architecture],
        "syscalls": rules,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_has_each_needed_call_once_and_no_dangerous_one() {
        let names = allowed();
        let mut unique = names.clone();
        unique.sort_unstable();
        unique.dedup();
        assert_eq!(unique.len(), names.len(), "a name appears twice");
        for needed in
            ["execve", "openat", "futex", "memfd_create", "shmget", "epoll_wait", "statx", "socketpair"]
        {
            assert!(names.contains(&needed), "{needed}");
        }
        for dangerous in [
            "acct",
            "add_key",
            "bpf",
            "clock_settime",
            "clone",
            "clone3",
            "delete_module",
            "finit_module",
            "fsconfig",
            "fsmount",
            "fsopen",
            "init_module",
            "io_uring_setup",
            "ioperm",
            "iopl",
            "kcmp",
            "kexec_load",
            "keyctl",
            "lookup_dcookie",
            "mount",
            "mount_setattr",
            "move_mount",
            "open_by_handle_at",
            "open_tree",
            "perf_event_open",
            "pidfd_getfd",
            "pivot_root",
            "process_vm_readv",
            "process_vm_writev",
            "ptrace",
            "quotactl",
            "reboot",
            "request_key",
            "setns",
            "settimeofday",
            "socket",
            "swapon",
            "syslog",
            "umount2",
            "unshare",
            "userfaultfd",
            "vhangup",
        ] {
            assert!(!names.contains(&dangerous), "{dangerous}");
        }
    }
}
