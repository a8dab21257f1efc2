//! QEMU's command line for a virtual machine, as a pure function.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::qemu::link;
use crate::whole_cpus;
use crate::{DiskSpeed, MachineSpec};
use hotdesk_base::ids::ComputerId;

/// The processors of guests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Accelerator {
    /// The host's, through KVM.
    Kvm,
    /// Emulated by QEMU.
    Tcg,
}

/// Most processors that can be hot-plugged: those of the largest computer. A start can give more.
const MAX_CPUS: u32 = 16;
/// Memory in MiB to which a running machine can grow. It reserves address space of the host, not memory.
const MAX_MEMORY_MIB: u64 = 64 * 1024;
/// Block size of virtio-mem in MiB: its default on x86-64.
pub(super) const MEMORY_STEP_MIB: u64 = 2;
/// Cache of translated code in MiB: a desktop's code fits. QEMU's default is a quarter of the host's memory.
const TRANSLATION_CACHE_MIB: u64 = 256;
/// QEMU's own memory in MiB, with a share of the host's page cache for its disk.
const OVERHEAD_MIB: u64 = 256;
/// Options of every layer of the guest's disk: blocks that the guest frees return to the host.
const WRITABLE: &str = "discard=unmap,detect-zeroes=off";
const READ_ONLY: &str = "read-only=on";
/// Processes and threads of one QEMU: a thread per processor, and at most 64 for disk I/O.
pub(super) const MAX_PROCESSES: u64 = 192;

/// The `-cpu` option under emulation. Without `erms` and `fsrm` the guest's kernel clears and copies pages by
/// words, not by bytes, which QEMU emulates one by one: 5 GB/s instead of 0.8. Without `la57` page tables
/// have four levels, not five.
const EMULATED: &str = "max,erms=off,fsrm=off,la57=off";

/// The hardware of a guest; a resume needs the same.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Hardware {
    pub(super) accelerator: Accelerator,
    /// The `-cpu` option; records of earlier versions lack it.
    #[serde(default)]
    pub(super) processor: Option<String>,
    /// Processors at the boot.
    pub(super) cpus: u32,
    /// Numbers of the processors that were added since.
    pub(super) added_cpus: Vec<u32>,
    /// Memory at the boot in MiB.
    pub(super) memory_mib: u64,
    /// Memory in MiB that was added since; records of earlier versions lack it.
    #[serde(default)]
    pub(super) added_mib: Option<u64>,
    /// Its link address.
    pub(super) mac: String,
}

impl Hardware {
    /// The hardware for a boot.
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

    /// The present memory in bytes; `None` for a record of an earlier version.
    pub(super) fn memory_bytes(&self) -> Option<u64> {
        self.added_mib.map(|added| (self.memory_mib + added) << 20)
    }

    /// The number of processors to which it can grow while it runs.
    pub(super) fn max_cpus(&self) -> u32 {
        self.cpus.max(MAX_CPUS)
    }

    /// The memory in MiB that can be added while it runs.
    pub(super) fn max_added_mib(&self) -> u64 {
        MAX_MEMORY_MIB.saturating_sub(self.memory_mib).max(MEMORY_STEP_MIB)
    }

    /// The `-cpu` option; earlier versions used all features of the accelerator.
    fn processor(&self) -> &str {
        self.processor.as_deref().unwrap_or(match self.accelerator {
            Accelerator::Kvm => "host",
            Accelerator::Tcg => "max",
        })
    }

    /// The device driver of an added processor.
    pub(super) fn cpu_driver(&self) -> &'static str {
        match self.accelerator {
            Accelerator::Kvm => "host-x86_64-cpu",
            Accelerator::Tcg => "max-x86_64-cpu",
        }
    }
}

/// The number of processors of a machine, within what QEMU's machine type takes.
pub(super) fn cpus(cpu: f64) -> u32 {
    whole_cpus(cpu).min(255)
}

/// Bytes of the host's memory that a machine with this much guest memory may take.
pub(super) fn host_memory(memory_bytes: u64) -> u64 {
    memory_bytes + ((TRANSLATION_CACHE_MIB + OVERHEAD_MIB) << 20)
}

/// The link address of a computer, from the locally administered ones (IEEE 802c).
pub(super) fn mac(id: ComputerId) -> String {
    let [first, second, third, fourth, fifth, ..] = *id.0.as_bytes();
    format!("52:{first:02x}:{second:02x}:{third:02x}:{fourth:02x}:{fifth:02x}")
}

/// The inputs of QEMU's command line.
#[derive(Debug)]
pub(super) struct QemuLaunch<'a> {
    pub(super) id: ComputerId,
    pub(super) hardware: &'a Hardware,
    /// The folder with the kernel.
    pub(super) kernel: &'a Path,
    pub(super) image: &'a Path,
    pub(super) agent: &'a Path,
    pub(super) seed: &'a Path,
    pub(super) disk: &'a Path,
    /// The disks of its layers, the lowest first.
    pub(super) layers: &'a [PathBuf],
    pub(super) monitor: &'a Path,
    pub(super) line: &'a Path,
    /// Speed limit of the guest's disk.
    pub(super) speed: DiskSpeed,
    /// The empty folder for chroot.
    pub(super) empty: &'a Path,
    /// The host's user id that QEMU switches to.
    pub(super) user: u32,
    /// Whether it waits for saved memory instead of booting.
    pub(super) continues: bool,
}

/// QEMU's arguments.
pub(super) fn arguments(start: &QemuLaunch<'_>) -> Vec<String> {
    let hardware = start.hardware;
    let mut all = Vec::new();
    let mut add = |option: &str, value: String| all.extend([option.to_owned(), value]);
    add("-name", format!("{},debug-threads=off", start.id));
    add("-machine", "q35,vmport=off,graphics=off".to_owned());
    let (accelerator, kernel_options) = match hardware.accelerator {
        Accelerator::Kvm => ("kvm".to_owned(), ""),
        // Emulated processors do not speculate, so the guest's kernel needs no mitigations. Its tests of its
        // cryptography, which are for unusual hardware, take a seventh of the boot.
        Accelerator::Tcg => (
            format!("tcg,thread=multi,tb-size={TRANSLATION_CACHE_MIB}"),
            " mitigations=off no_timer_check cryptomgr.notests",
        ),
    };
    add("-accel", accelerator);
    add("-cpu", hardware.processor().to_owned());
    let (cpus, most) = (hardware.cpus, hardware.max_cpus());
    add("-smp", format!("cpus={cpus},maxcpus={most},sockets=1,cores={most},threads=1"));
    let (memory, more) = (hardware.memory_mib, hardware.max_added_mib());
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
    // A panic reboots at once, which `-no-reboot` turns into the end of QEMU. Movable memory can be removed
    // again.
    let options = "console=ttyS0 quiet panic=-1 memhp_default_state=online_movable random.trust_cpu=on";
    add("-append", format!("{options}{kernel_options}"));
    let throttled = start.speed != DiskSpeed::default();
    let layers: Vec<String> = (0..start.layers.len()).map(layer_name).collect();
    let layers = layers.iter().zip(start.layers).map(|(name, path)| {
        let name = name.as_str();
        (name, name, path.as_path(), READ_ONLY)
    });
    // Layers are last: saved memory of a machine without any refers to the addresses of the others.
    let disks = [
        ("image", "image", start.image, READ_ONLY),
        ("agent", "agent", start.agent, READ_ONLY),
        ("seed", "seed", start.seed, READ_ONLY),
        ("disk", if throttled { "unbounded" } else { "disk" }, start.disk, WRITABLE),
    ];
    for (name, node, path, options) in disks.into_iter().chain(layers) {
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
    // The guest's console goes to a ring buffer in memory, so that a guest cannot fill the host's disk.
    add("-chardev", "ringbuf,id=console,size=65536".to_owned());
    add("-serial", "chardev:console".to_owned());
    add("-qmp", format!("unix:{},server=on,wait=off", text(start.monitor).replace(',', ",,")));
    add("-rtc", "base=utc".to_owned());
    // `elevateprivileges=deny` would forbid `-runas`, and `spawn=deny` `-daemonize`. After both, QEMU has no
    // capability, cannot gain a privilege, and finds no program in its chroot.
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

/// The serial number by which the guest finds the disk of a layer (`packaging/vm/init`); 0 is the lowest.
fn layer_name(number: usize) -> String {
    format!("layer{number:02}")
}

/// QEMU's throttle covers all I/O. Throttles of control groups do not cover what the host's page cache writes
/// back.
fn throttle(speed: DiskSpeed) -> Value {
    let (bytes, operations) = (u64::from(speed.mb_per_second) * 1_000_000, speed.ops_per_second);
    // 0 means unlimited to QEMU too.
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
    use hotdesk_domain::computer::isolation::Isolation;

    fn a_machine() -> MachineSpec {
        MachineSpec {
            isolation: Isolation::Vm,
            id: ComputerId::random(),
            cpu: 1.0,
            memory_bytes: 512 << 20,
            disk_bytes: 1 << 30,
            bandwidth_mbps: 0,
            layers: Vec::new(),
            egress: None,
        }
    }

    fn command_line(speed: DiskSpeed) -> String {
        with_layers(speed, &[])
    }

    fn with_layers(speed: DiskSpeed, layers: &[PathBuf]) -> String {
        let spec = a_machine();
        let (hardware, at) = (Hardware::of(&spec, Accelerator::Tcg), Path::new("/a,b"));
        let start = QemuLaunch {
            id: spec.id,
            hardware: &hardware,
            kernel: at,
            image: at,
            agent: at,
            seed: at,
            disk: at,
            layers,
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
    fn a_speed_limit_is_a_throttle_between_the_disk_and_the_guest() {
        let free = command_line(DiskSpeed::default());
        assert!(free.contains("node-name=disk,discard=unmap") && !free.contains("throttle"), "{free}");
        assert!(free.contains("filename=/a,,b"), "a comma ends nothing");
        let bounded = command_line(DiskSpeed { mb_per_second: 4, ops_per_second: 0 });
        assert!(bounded.contains("driver=throttle,node-name=disk,throttle-group=speed"), "{bounded}");
        assert!(bounded.contains("file=unbounded"), "{bounded}");
        assert!(bounded.contains(r#""bps-read":4000000,"bps-write":4000000,"iops-read":0"#), "{bounded}");
    }

    #[test]
    fn layers_are_read_only_disks_in_their_order_behind_the_others() {
        let none = command_line(DiskSpeed::default());
        let layers: Vec<PathBuf> =
            (0..crate::MAX_LAYERS).map(|number| format!("/l/{number}").into()).collect();
        let all = with_layers(DiskSpeed::default(), &layers);
        let at = |text: &str| all.find(text).unwrap_or_else(|| panic!("{text} is not in {all}"));
        assert!(!none.contains("layer"), "{none}");
        assert!(
            at("drive=disk,") < at("node-name=layer00,read-only=on,file.driver=file,file.filename=/l/0 ")
        );
        assert!(at("serial=layer00,") < at("node-name=layer01,") && at("serial=layer15,") < at("-netdev"));
    }

    #[test]
    fn present_memory_is_that_of_the_boot_plus_what_was_added() {
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
