//! The OCI runtime's `config.json` for one boot of a machine, as a pure function.

use std::net::SocketAddr;
use std::path::Path;

use serde_json::{Value, json};

use crate::MachineSpec;
use crate::container::{lxcfs, seccomp, stage};
use crate::host::addresses::{Addresses, IDS_PER_MACHINE};
use crate::host::cgroup;
use crate::host::cgroup::limits::{CPU_PERIOD, cpu_limits};

/// Annotations of a container; the engine reads them back from the runtime's state.
pub(super) const GENERATION: &str = "hotdesk.generation";
pub(super) const HOST_BOOT: &str = "hotdesk.host-boot";
pub(super) const ADDRESS: &str = "hotdesk.address";
/// The address of the agent if it has no unix socket.
pub(super) const AGENT: &str = "hotdesk.agent";
/// The image's folder; a resume needs the same.
pub(super) const IMAGE: &str = "hotdesk.image";

/// The network namespace of an instance of Incus: that of its first process.
const INSTANCE_NETWORK: &str = "/proc/1/ns/net";

/// Processes and threads of one guest. A desktop with many browser tabs has about 1500; a fork bomb fails
/// here.
const MAX_PROCESSES: u64 = 4096;
/// Open files per process, or of a whole guest under gVisor: enough for every desktop program, and within the usual
/// limits of hosts.
const OPEN_FILES: u64 = 65536;
/// Pseudo-terminals of one guest; the host has 4096 for all.
const TERMINALS: u32 = 512;
/// The kernel's out-of-memory killer prefers guests to the controller (0). Inside a guest it prefers
/// commands, to which the agent gives 500, to the agent and process 1, with which the guest would end. Nobody
/// there can lower a score.
const OOM_SCORE: i32 = 200;

/// Bounding set of the guest's root: what package managers, sshd and desktops need inside their namespaces.
const CAPABILITIES: [&str; 11] = [
    "CAP_AUDIT_WRITE",
    "CAP_CHOWN",
    "CAP_DAC_OVERRIDE",
    "CAP_FOWNER",
    "CAP_FSETID",
    "CAP_KILL",
    "CAP_NET_BIND_SERVICE",
    "CAP_SETGID",
    "CAP_SETPCAP",
    "CAP_SETUID",
    "CAP_SYS_CHROOT",
];
/// Of the first processes of a guest with a kernel of its own: the agent sets the host name after a fork. It drops it from
/// what its programs can have (`hotdesk agent --confine-admin`).
const HOSTNAME_CAPABILITY: &str = "CAP_SYS_ADMIN";

/// Paths that reveal data of the host.
const MASKED: [&str; 18] = [
    "/proc/acpi",
    "/proc/asound",
    "/proc/interrupts",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/proc/timer_list",
    "/proc/timer_stats",
    // Disks of other computers, with the paths of their images.
    "/sys/block",
    "/sys/class/block",
    "/sys/dev/block",
    "/sys/devices/virtual/block",
    "/sys/devices/virtual/powercap",
    "/sys/firmware",
    "/sys/fs/cgroup",
    "/sys/fs/ext4",
];

const READ_ONLY: [&str; 5] = ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"];

/// Where a container runs.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Placement {
    /// On a host, with user ids and a network of its own.
    Host {
        /// The host user id of the guest's root.
        first_id: u32,
    },
    /// Under gVisor in an instance of Incus, with the user ids and the network of the instance.
    Instance,
}

/// The inputs of one boot.
#[derive(Debug)]
pub(crate) struct BootPlan<'a> {
    pub(crate) spec: &'a MachineSpec,
    pub(crate) generation: u64,
    /// The first process and its arguments.
    pub(crate) args: Vec<String>,
    pub(crate) placement: Placement,
    /// The guest's network, when it has one.
    pub(crate) addresses: Option<Addresses>,
    /// The address of the agent if it has no unix socket: the guest runs under gVisor then.
    pub(crate) agent: Option<SocketAddr>,
    /// The image's folder.
    pub(crate) image: &'a Path,
    /// The host's boot id.
    pub(crate) host_boot: &'a str,
    /// The staging area, as a path for the runtime.
    pub(crate) stage: &'a Path,
    /// Whether the staging area has the files that show the computer's size.
    pub(crate) has_resource_files: bool,
    pub(crate) limits: HostLimits,
}

/// Limits of the host on what a container can request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HostLimits {
    /// The hard limit on open files: a higher one is refused without `CAP_SYS_RESOURCE`.
    pub(super) open_files: u64,
    /// The controller's own out-of-memory score: without `CAP_SYS_RESOURCE` it can only be raised.
    pub(super) oom_score: i32,
}

impl HostLimits {
    /// Limits of an instance of Incus, where gVisor applies the limit on open files and the score is that of any process.
    pub(crate) const INSTANCE: Self = Self { open_files: OPEN_FILES, oom_score: 0 };

    /// The limit on open files of a guest's processes.
    pub(super) fn max_open_files(&self) -> u64 {
        OPEN_FILES.min(self.open_files)
    }
}

/// The bundle's `config.json`.
pub(crate) fn config(plan: &BootPlan<'_>) -> Value {
    let id = plan.spec.id;
    let open_files = plan.limits.max_open_files();
    let own_kernel = plan.agent.map(|_| HOSTNAME_CAPABILITY);
    let capabilities: Vec<_> = CAPABILITIES.into_iter().chain(own_kernel).collect();
    let mut namespaces =
        ["mount", "pid", "ipc", "uts", "cgroup"].map(|kind| json!({ "type": kind })).to_vec();
    let mapping = match plan.placement {
        Placement::Host { first_id } => {
            namespaces.extend(["user", "network"].map(|kind| json!({ "type": kind })));
            json!([{ "containerID": 0, "hostID": first_id, "size": IDS_PER_MACHINE }])
        }
        Placement::Instance => {
            namespaces.push(json!({ "type": "network", "path": INSTANCE_NETWORK }));
            json!([])
        }
    };
    json!({
        "ociVersion": "1.0.2",
        "hostname": id.hostname(),
        "root": { "path": plan.stage.join("rootfs"), "readonly": false },
        "process": {
            "terminal": false,
            "user": { "uid": 0, "gid": 0 },
            "cwd": "/root",
            "args": plan.args,
            "env": [
                "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                "HOME=/root",
                "LANG=C.UTF-8",
                "container=hotdesk",
            ],
            "capabilities": {
                "bounding": capabilities, "effective": capabilities, "permitted": capabilities,
                "inheritable": [], "ambient": [],
            },
            "rlimits": [
                { "type": "RLIMIT_NOFILE", "hard": open_files, "soft": open_files },
                { "type": "RLIMIT_CORE", "hard": 0, "soft": 0 },
            ],
            "noNewPrivileges": true,
            "oomScoreAdj": OOM_SCORE.max(plan.limits.oom_score),
        },
        "mounts": mounts(plan),
        "annotations": {
            "hotdesk.computer": id.to_string(),
            GENERATION: plan.generation.to_string(),
            HOST_BOOT: plan.host_boot,
            ADDRESS: plan.addresses.map(|ends| ends.guest.to_string()).unwrap_or_default(),
            AGENT: plan.agent.map(|agent| agent.to_string()).unwrap_or_default(),
            IMAGE: plan.image,
        },
        "linux": {
            "namespaces": namespaces,
            "uidMappings": mapping,
            "gidMappings": mapping,
            "cgroupsPath": cgroup::path(id),
            "resources": resources(plan.spec),
            "seccomp": seccomp::profile(),
            "maskedPaths": MASKED,
            "readonlyPaths": READ_ONLY,
            // Allows unprivileged ping, because the guest has no raw sockets.
            "sysctl": { "net.ipv4.ping_group_range": "0 65535" },
        },
    })
}

fn mounts(plan: &BootPlan<'_>) -> Value {
    let memory = plan.spec.memory_bytes;
    let kernel = |target: &str, kind: &str, options: &[&str]| json!({ "destination": target, "type": kind, "source": kind, "options": options });
    let staged = |name: &str, target: &str, options: &[&str]| json!({ "destination": target, "type": "bind", "source": plan.stage.join(name), "options": options });
    // tmpfs counts towards the guest's memory; these limits keep some of it free.
    let shared_memory = format!("size={}", memory / 2);
    let run = format!("size={}", memory / 8);
    let terminals = format!("max={TERMINALS}");
    let locked = ["bind", "ro", "nosuid", "nodev", "noexec"];
    let editable = ["bind", "rw", "nosuid", "nodev", "noexec"];
    let mut mounts = vec![
        kernel("/proc", "proc", &["nosuid", "noexec", "nodev"]),
        kernel("/dev", "tmpfs", &["nosuid", "strictatime", "mode=755", "size=64k"]),
        kernel(
            "/dev/pts",
            "devpts",
            &["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5", &terminals],
        ),
        kernel("/dev/shm", "tmpfs", &["nosuid", "noexec", "nodev", "mode=1777", &shared_memory]),
        kernel("/dev/mqueue", "mqueue", &["nosuid", "noexec", "nodev"]),
        kernel("/sys", "sysfs", &["nosuid", "noexec", "nodev", "ro"]),
        kernel("/run", "tmpfs", &["nosuid", "nodev", "mode=755", &run]),
        staged("token", "/run/hotdesk/token", &locked),
        staged("limits.json", "/run/hotdesk/limits.json", &locked),
        staged("machine-id", "/etc/machine-id", &locked),
        staged("agent", "/usr/bin/hotdesk", &["bind", "ro", "nosuid", "nodev"]),
        staged("resolv.conf", "/etc/resolv.conf", &editable),
        staged("hosts", "/etc/hosts", &editable),
        staged("hostname", "/etc/hostname", &editable),
    ];
    if plan.agent.is_some() {
        // gVisor cannot save memory while a deleted file on the disk is open, which is common in /tmp.
        let temporary = format!("size={}", memory / 4);
        mounts.push(kernel("/tmp", "tmpfs", &["nosuid", "nodev", "mode=1777", &temporary]));
    }
    if plan.has_resource_files {
        let files = lxcfs::FILES
            .map(|(name, target)| staged(&format!("{}/{name}", stage::RESOURCE_FILES), target, &locked));
        mounts.extend(files);
    }
    Value::Array(mounts)
}

fn resources(spec: &MachineSpec) -> Value {
    let (quota, shares) = cpu_limits(spec.cpu);
    json!({
        "cpu": { "quota": quota, "period": CPU_PERIOD, "shares": shares },
        "memory": { "limit": spec.memory_bytes, "swap": spec.memory_bytes },
        "pids": { "limit": MAX_PROCESSES },
        "devices": [{ "allow": false, "access": "rwm" }],
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use hotdesk_base::ids::ComputerId;
    use hotdesk_domain::computer::isolation::Isolation;

    fn planned(cpu: f64, limits: HostLimits) -> Value {
        planned_with(cpu, limits, false)
    }

    fn planned_with(cpu: f64, limits: HostLimits, has_resource_files: bool) -> Value {
        placed(cpu, limits, has_resource_files, Placement::Host { first_id: 1_000_000 })
    }

    fn placed(cpu: f64, limits: HostLimits, has_resource_files: bool, placement: Placement) -> Value {
        let id = ComputerId::random();
        config(&BootPlan {
            spec: &MachineSpec {
                id,
                isolation: Isolation::Shared,
                cpu,
                memory_bytes: 1 << 30,
                disk_bytes: 8 << 30,
                bandwidth_mbps: 0,
                layers: Vec::new(),
                egress: None,
            },
            generation: 3,
            args: vec!["init".to_owned()],
            placement,
            addresses: None,
            agent: None,
            image: Path::new("/image"),
            host_boot: "boot",
            stage: Path::new("/stage"),
            has_resource_files,
            limits,
        })
    }

    #[test]
    fn shares_of_a_core_become_quotas() {
        let usual = HostLimits { open_files: 1 << 20, oom_score: 0 };
        for (cpu, quota, shares) in
            [(0.5, 50_000, 512), (1.0, 100_000, 1024), (8.0, 800_000, 8192), (0.0, 1000, 2)]
        {
            let resources = &planned(cpu, usual)["linux"]["resources"]["cpu"];
            assert_eq!((&resources["quota"], &resources["shares"]), (&json!(quota), &json!(shares)), "{cpu}");
        }
    }

    #[test]
    fn requests_stay_within_the_limits_of_the_host() {
        let process =
            |open_files, oom_score| planned(1.0, HostLimits { open_files, oom_score })["process"].clone();
        assert_eq!(process(20_000, 900)["rlimits"][0]["hard"], 20_000);
        assert_eq!(process(20_000, 900)["oomScoreAdj"], 900);
        assert_eq!(process(1 << 20, 0)["rlimits"][0]["hard"], OPEN_FILES);
        assert_eq!(process(1 << 20, -900)["oomScoreAdj"], OOM_SCORE);
    }

    #[test]
    fn files_that_show_the_size_are_bound_over_the_kernel_s_and_locked() {
        let limits = HostLimits { open_files: 1024, oom_score: 0 };
        let targets = |has_resource_files| {
            let config = planned_with(1.0, limits, has_resource_files);
            let mounts = config["mounts"].as_array().unwrap().clone();
            let staged = |mount: &&Value| {
                mount["source"].as_str().unwrap().starts_with("/stage/lxcfs/")
                    && mount["options"].as_array().unwrap().contains(&json!("ro"))
            };
            mounts.iter().filter(staged).map(|mount| mount["destination"].clone()).collect::<Vec<_>>()
        };
        assert_eq!(targets(false), Vec::<Value>::new());
        assert_eq!(targets(true), lxcfs::FILES.map(|(_, target)| json!(target)));
    }

    #[test]
    fn in_an_instance_the_guest_has_its_network_and_its_user_ids() {
        let config = placed(1.0, HostLimits::INSTANCE, false, Placement::Instance);
        let namespaces = config["linux"]["namespaces"].as_array().unwrap();
        assert!(namespaces.iter().all(|namespace| namespace["type"] != "user"));
        let network = namespaces.iter().find(|namespace| namespace["type"] == "network").unwrap();
        assert_eq!(network["path"], INSTANCE_NETWORK);
        assert_eq!(config["linux"]["uidMappings"], json!([]));
    }

    #[test]
    fn every_namespace_is_the_guest_s_own_and_nothing_of_the_host_is_named() {
        let config = planned(1.0, HostLimits { open_files: 1024, oom_score: 0 });
        let namespaces = config["linux"]["namespaces"].as_array().unwrap();
        assert_eq!(namespaces.len(), 7);
        assert!(namespaces.iter().all(|namespace| namespace.get("path").is_none()));
        let binds = config["mounts"].as_array().unwrap().iter().filter(|mount| mount["type"] == "bind");
        for bind in binds {
            assert!(bind["source"].as_str().unwrap().starts_with("/stage/"), "{bind}");
        }
    }
}
