//! What is a virtual machine made of, as QEMU is told? Its command line, as a pure function.

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::link;
use crate::{DiskSpeed, MachineSpec};
use hotdesk_base::ids::ComputerId;

/// What processors guests have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Accelerator {
    /// The host's own, by its kernel.
    Kvm,
    /// Emulated.
    Tcg,
}

/// The largest computer's processors; more can be given to one at its start, not added while it runs.
const MOST_CPUS: u32 = 16;
/// To how much memory a machine that runs can grow; address space of the host's, not memory.
const MOST_MEMORY_MIB: u64 = 64 * 1024;
/// What virtio-mem gives and takes at once, in MiB: its own default on such hosts.
pub(super) const MEMORY_STEP_MIB: u64 = 2;
/// Translated code that is kept, in MiB: a desktop's fits; QEMU's own choice would be a quarter of the host's memory.
const CODE_MIB: u64 = 256;
/// What QEMU takes beside the guest's memory and its translated code, and a share of the host's cache for its disk.
const OWN_MIB: u64 = 256;
/// How the guest's own disk is opened, by every layer of it: what the guest frees goes back to the host.
const WRITABLE: &str = "discard=unmap,detect-zeroes=off";
/// Processes and threads of one QEMU: a thread for each processor, and those that wait for disks (at most 64).
pub(super) const MOST_PROCESSES: u64 = 192;

/// What `-cpu` says where processors are emulated. Without the two flags of fast string moves the kernel clears and copies pages by
/// words and not by bytes, which QEMU does one by one: 5 GB/s instead of 0.8. Pages are found in four steps, not in five.
const EMULATED: &str = "max,erms=off,fsrm=off,la57=off";

/// Hardware as a guest knows it, which saved memory needs again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Hardware {
    pub(super) accelerator: Accelerator,
    /// What its processors can do, as `-cpu` says it; what earlier versions saved does not tell.
    #[serde(default)]
    pub(super) processor: Option<String>,
    /// Processors at the boot.
    pub(super) cpus: u32,
    /// Processors that were added since.
    pub(super) added_cpus: Vec<u32>,
    /// Memory at the boot.
    pub(super) memory_mib: u64,
    /// Memory that was added since; what earlier versions saved does not tell.
    #[serde(default)]
    pub(super) added_mib: Option<u64>,
    /// Its link address.
    pub(super) mac: String,
}

impl Hardware {
    /// What a machine boots with.
    pub(super) fn of(spec: &MachineSpec, accelerator: Accelerator) -> Self {
        let processor = match accelerator {
            Accelerator::Kvm => "host",
            Accelerator::Tcg => EMULATED,
        };
        Self {
            accelerator,
            processor: Some(processor.to_owned()),
            cpus: cpus(spec.cpu),
            added_cpus: Vec::new(),
            memory_mib: spec.memory_bytes >> 20,
            added_mib: Some(0),
            mac: mac(spec.id),
        }
    }

    /// The memory that a guest of this hardware has, whatever size it is to have; in bytes, `None` where nobody knows.
    pub(super) fn memory_bytes(&self) -> Option<u64> {
        self.added_mib.map(|added| (self.memory_mib + added) << 20)
    }

    /// To how many processors it can grow while it runs.
    pub(super) fn most_cpus(&self) -> u32 {
        self.cpus.max(MOST_CPUS)
    }

    /// What can be added to its memory.
    pub(super) fn most_more_mib(&self) -> u64 {
        MOST_MEMORY_MIB.saturating_sub(self.memory_mib).max(MEMORY_STEP_MIB)
    }

    /// What `-cpu` says; to earlier versions it was all that the accelerator can do.
    fn processor(&self) -> &str {
        self.processor.as_deref().unwrap_or(match self.accelerator {
            Accelerator::Kvm => "host",
            Accelerator::Tcg => "max",
        })
    }

    /// The device that a further processor is.
    pub(super) fn cpu_driver(&self) -> &'static str {
        match self.accelerator {
            Accelerator::Kvm => "host-x86_64-cpu",
            Accelerator::Tcg => "max-x86_64-cpu",
        }
    }
}

/// Whole processors for a share of them.
pub(super) fn cpus(cpu: f64) -> u32 {
    // Bounded first: the cast is exact.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    {
        cpu.ceil().clamp(1.0, 255.0) as u32
    }
}

/// What of the host's memory a machine of that size may take.
pub(super) fn host_memory(memory_bytes: u64) -> u64 {
    memory_bytes + ((CODE_MIB + OWN_MIB) << 20)
}

/// A computer's own link address, of those that anybody may give (IEEE 802c).
pub(super) fn mac(id: ComputerId) -> String {
    let [first, second, third, fourth, fifth, ..] = *id.0.as_bytes();
    format!("52:{first:02x}:{second:02x}:{third:02x}:{fourth:02x}:{fifth:02x}")
}

/// One start of QEMU.
#[derive(Debug)]
pub(super) struct Start<'a> {
    pub(super) id: ComputerId,
    pub(super) hardware: &'a Hardware,
    /// The folder with the kernel.
    pub(super) kernel: &'a Path,
    pub(super) image: &'a Path,
    pub(super) agent: &'a Path,
    pub(super) seed: &'a Path,
    pub(super) disk: &'a Path,
    pub(super) monitor: &'a Path,
    pub(super) line: &'a Path,
    /// How fast the guest may read and write its own disk.
    pub(super) speed: DiskSpeed,
    /// Where QEMU locks itself in.
    pub(super) empty: &'a Path,
    /// The host's user that it becomes.
    pub(super) user: u32,
    /// Whether it waits for saved memory instead of booting.
    pub(super) continues: bool,
}

/// QEMU's arguments.
pub(super) fn arguments(start: &Start<'_>) -> Vec<String> {
    let hardware = start.hardware;
    let mut all = Vec::new();
    let mut add = |option: &str, value: String| all.extend([option.to_owned(), value]);
    add("-name", format!("{},debug-threads=off", start.id));
    add("-machine", "q35,vmport=off,graphics=off".to_owned());
    let (accelerator, kernel_options) = match hardware.accelerator {
        Accelerator::Kvm => ("kvm".to_owned(), ""),
        // Emulated processors do not guess ahead: the kernel need not guard against what that would leak.
        Accelerator::Tcg => {
            (format!("tcg,thread=multi,tb-size={CODE_MIB}"), " mitigations=off no_timer_check")
        }
    };
    add("-accel", accelerator);
    add("-cpu", hardware.processor().to_owned());
    let (cpus, most) = (hardware.cpus, hardware.most_cpus());
    add("-smp", format!("cpus={cpus},maxcpus={most},sockets=1,cores={most},threads=1"));
    let (memory, more) = (hardware.memory_mib, hardware.most_more_mib());
    add("-m", format!("size={memory}M,slots=1,maxmem={}M", (memory + more).next_multiple_of(1024)));
    add("-object", format!("memory-backend-ram,id=more,size={more}M,reserve=off"));
    add("-device", "virtio-mem-pci,id=more0,memdev=more,requested-size=0".to_owned());
    for core in &hardware.added_cpus {
        add(
            "-device",
            format!("{},id=cpu{core},socket-id=0,core-id={core},thread-id=0", hardware.cpu_driver()),
        );
    }
    add("-kernel", text(&start.kernel.join("kernel")));
    add("-initrd", text(&start.kernel.join("initrd")));
    // A kernel that panics starts again at once, which `-no-reboot` makes the end; memory that is added can be taken again.
    let options = "console=ttyS0 quiet panic=-1 memhp_default_state=online_movable random.trust_cpu=on";
    add("-append", format!("{options}{kernel_options}"));
    let bounded = start.speed != DiskSpeed::default();
    for (name, node, path, options) in [
        ("image", "image", start.image, "read-only=on"),
        ("agent", "agent", start.agent, "read-only=on"),
        ("seed", "seed", start.seed, "read-only=on"),
        ("disk", if bounded { "unbounded" } else { "disk" }, start.disk, WRITABLE),
    ] {
        let path = text(path).replace(',', ",,");
        add(
            "-blockdev",
            format!("driver=raw,node-name={node},{options},file.driver=file,file.filename={path}"),
        );
        if node != name {
            add("-object", throttle(start.speed).to_string());
            add(
                "-blockdev",
                format!("driver=throttle,node-name={name},throttle-group=speed,{WRITABLE},file={node}"),
            );
        }
        add("-device", format!("virtio-blk-pci,drive={name},serial={name},id={name}0"));
    }
    add("-netdev", format!("tap,id=net,ifname={},script=no,downscript=no", link::TAP));
    add("-device", format!("virtio-net-pci,netdev=net,mac={},romfile=", hardware.mac));
    add("-device", "virtio-rng-pci".to_owned());
    add("-device", "virtio-serial-pci,max_ports=2".to_owned());
    add("-chardev", format!("pipe,id=line,path={}", text(start.line).replace(',', ",,")));
    add("-device", "virtserialport,chardev=line,name=hotdesk,nr=1".to_owned());
    // The last words of the guest's kernel, in QEMU's memory: a guest fills no disk of its host's.
    add("-chardev", "ringbuf,id=console,size=65536".to_owned());
    add("-serial", "chardev:console".to_owned());
    add("-qmp", format!("unix:{},server=on,wait=off", text(start.monitor).replace(',', ",,")));
    add("-rtc", "base=utc".to_owned());
    // Denying `elevateprivileges` would forbid `-runas`, and `spawn` `-daemonize`. After these nothing is left to gain: no
    // ability, no new privilege, and no program in the empty folder.
    add("-sandbox", "on,obsolete=deny,resourcecontrol=deny".to_owned());
    add("-runas", format!("{0}:{0}", start.user));
    add("-chroot", text(start.empty));
    add("-display", "none".to_owned());
    if start.continues {
        add("-incoming", "defer".to_owned());
    }
    for option in ["-nodefaults", "-no-user-config", "-no-reboot", "-daemonize"] {
        all.push(option.to_owned());
    }
    if start.continues {
        all.push("-S".to_owned());
    }
    all
}

/// QEMU's own throttle: nothing gets past it, unlike past those of control groups, which do not see what the host's page cache
/// writes back.
fn throttle(speed: DiskSpeed) -> Value {
    let (bytes, operations) = (u64::from(speed.mb_per_second) * 1_000_000, speed.ops_per_second);
    // 0 is without a bound to QEMU too.
    let limits =
        json!({ "bps-read": bytes, "bps-write": bytes, "iops-read": operations, "iops-write": operations });
    json!({ "qom-type": "throttle-group", "id": "speed", "limits": limits })
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn a_machine() -> MachineSpec {
        MachineSpec {
            id: ComputerId::random(),
            cpu: 1.0,
            memory_bytes: 512 << 20,
            disk_bytes: 1 << 30,
            bandwidth_mbps: 0,
        }
    }

    fn told(speed: DiskSpeed) -> String {
        let spec = a_machine();
        let (hardware, at) = (Hardware::of(&spec, Accelerator::Tcg), Path::new("/a,b"));
        let start = Start {
            id: spec.id,
            hardware: &hardware,
            kernel: at,
            image: at,
            agent: at,
            seed: at,
            disk: at,
            monitor: at,
            line: at,
            speed,
            empty: at,
            user: 7,
            continues: false,
        };
        arguments(&start).join(" ")
    }

    #[test]
    fn a_disk_with_a_bound_has_it_between_itself_and_the_guest() {
        let free = told(DiskSpeed::default());
        assert!(free.contains("node-name=disk,discard=unmap") && !free.contains("throttle"), "{free}");
        assert!(free.contains("filename=/a,,b"), "a comma ends nothing");
        let bounded = told(DiskSpeed { mb_per_second: 4, ops_per_second: 0 });
        assert!(bounded.contains("driver=throttle,node-name=disk,throttle-group=speed"), "{bounded}");
        assert!(bounded.contains("file=unbounded"), "{bounded}");
        assert!(bounded.contains(r#""bps-read":4000000,"bps-write":4000000,"iops-read":0"#), "{bounded}");
    }

    #[test]
    fn a_guest_has_what_it_booted_with_and_what_was_added() {
        let boot = Hardware::of(&a_machine(), Accelerator::Tcg);
        assert_eq!(boot.memory_bytes(), Some(512 << 20));
        let grown = Hardware { added_mib: Some(256), ..boot.clone() };
        assert_eq!(grown.memory_bytes(), Some(768 << 20));
        let mut earlier = serde_json::to_value(&boot).unwrap();
        earlier.as_object_mut().unwrap().remove("added_mib");
        earlier.as_object_mut().unwrap().remove("processor");
        let earlier: Hardware = serde_json::from_value(earlier).unwrap();
        assert_eq!(earlier.memory_bytes(), None);
        assert_eq!((earlier.processor(), boot.processor()), ("max", EMULATED));
    }
}
