//! Documents that the API of Incus takes for instances of computers: creations, copies, boots and changes of size.

mod instance;
mod names;
mod snapshot;

use std::net::Ipv4Addr;

use serde_json::{Map, Value, json};

use crate::incus::settings::IncusSettings;
use crate::{Boot, Change, MachineSpec};
use hotdesk_base::ids::ComputerId;
use hotdesk_domain::computer::isolation::Isolation;
use instance::{ADDRESS, BASE_DEVICE, GENERATION, ISOLATION};
pub(super) use instance::{
    AGENT, AGENT_PROGRAM, BASE, COMPUTER, FAILED, FENCED, FROM, IMAGE_AGENT, IMAGE_BASE, IMAGE_BYTES,
    IMAGE_ID, IMAGE_OWNER, Instance, LAUNCHER, MADE, MOVING, OWNER, PUBLICATION, Power, SAVED, STATE,
};
pub(super) use names::{
    id_of, id_of_path, machine_of, name, name_of_path, path_of, replica_name, replica_of, snapshot_name,
    snapshot_of_path, state_name, state_of_path,
};
pub(super) use snapshot::{SNAPSHOT, SnapshotLabel};

/// Folder in an instance with the token of its agent.
pub(super) const BOOT_FOLDER: &str = "/var/lib/hotdesk-boot";
/// Socket of the agent in an instance.
pub(super) const AGENT_SOCKET: &str = "/run/hotdesk/agent.sock";

const NIC: &str = "eth0";
/// Start of the names of volumes with guest images; characters of the build's digest follow.
const BASE_PREFIX: &str = "hotdesk-base-";
const BASE_DIGITS: usize = 16;
const BASE_DESCRIPTION: &str = "guest image of hotdesk";
/// Key of a volume whose files several instances see with user ids of their own.
const SHIFTED: &str = "security.shifted";
/// Most processes and threads of a computer.
const MAX_PROCESSES: &str = "4096";
/// Capabilities of guest root, as of computers in containers.
const CAPABILITIES: &str =
    "audit_write chown dac_override fowner fsetid kill net_bind_service setgid setpcap setuid sys_chroot";
const ENVIRONMENT: [&str; 4] = [
    "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME=/root",
    "LANG=C.UTF-8",
    "container=hotdesk",
];

/// The network of a computer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct GuestAddress {
    pub(super) address: Ipv4Addr,
    pub(super) prefix: u8,
    /// Gateway and name server.
    pub(super) gateway: Ipv4Addr,
}

/// What a boot begins from. Only instances with gVisor begin from memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BootMode {
    FromDisk,
    FromMemory,
}

impl BootMode {
    /// The word for it on the command line of the launcher.
    pub(super) fn verb(self) -> &'static str {
        match self {
            Self::FromDisk => "start",
            Self::FromMemory => "resume",
        }
    }
}

/// Document of a new instance over an image.
pub(super) fn create(
    settings: &IncusSettings,
    spec: &MachineSpec,
    owner: &str,
    image: &ImageRecord,
    network: Option<&GuestAddress>,
) -> Value {
    let mut config = fixed_config(spec.isolation);
    config.extend(labels(spec.id, owner, network));
    config.extend(limits(spec));
    if spec.isolation == Isolation::Sandbox {
        config.insert(ISOLATION.to_owned(), json!(spec.isolation.name()));
    }
    let mut devices = devices(settings, spec, image.bytes, network);
    if let Some(volume) = &image.base {
        // Each instance has user ids of its own: the volume is mounted with those (`security.shifted`).
        devices[BASE_DEVICE] = json!({
            "type": "disk", "pool": settings.pool, "source": volume, "path": BASE, "readonly": "true",
        });
    }
    json!({
        "name": name(spec.id, 0),
        "type": "container",
        "profiles": [],
        "source": { "type": "image", "fingerprint": image.fingerprint },
        "config": config,
        "devices": devices,
    })
}

/// Document of an instance without a network, which is never started: its member fetches and unpacks the image for it.
pub(super) fn temporary(pool: &str, name: &str, owner: &str, fingerprint: &str) -> Value {
    json!({
        "name": name,
        "type": "container",
        "profiles": [],
        "source": { "type": "image", "fingerprint": fingerprint },
        "config": { "boot.autostart": "false", PUBLICATION: owner },
        "devices": { "root": { "type": "disk", "path": "/", "pool": pool } },
    })
}

/// A published image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ImageRecord {
    pub(super) fingerprint: String,
    /// Bytes of its files.
    pub(super) bytes: u64,
    /// Name of the volumes with the guest image, where the image has only the launcher.
    pub(super) base: Option<String>,
}

/// Name of the volumes with the guest image of this build.
pub(super) fn base_name(build: &str) -> String {
    let digits: String = build.chars().take(BASE_DIGITS).collect();
    format!("{BASE_PREFIX}{digits}")
}

/// Whether a volume has a guest image, by its name.
pub(super) fn is_base_name(name: &str) -> bool {
    name.starts_with(BASE_PREFIX)
}

/// Document of a volume with a guest image that a member copies from another one.
pub(super) fn base_copy(pool: &str, name: &str, from: &str) -> Value {
    json!({
        "name": name,
        "type": "custom",
        "content_type": "filesystem",
        "description": BASE_DESCRIPTION,
        "config": { SHIFTED: "true" },
        "source": { "type": "copy", "pool": pool, "name": name, "location": from, "volume_only": true },
    })
}

/// Change that labels a volume with a guest image as whole. A change without a description would remove it.
pub(super) fn base_label() -> Value {
    json!({ "description": BASE_DESCRIPTION, "config": { MADE: "1" } })
}

/// Index of a backup from which Incus makes a volume with a guest image (`backup/index.yaml`; JSON is YAML, too). The name of the
/// volume is that of the upload.
pub(super) fn base_index(pool: &str) -> Value {
    json!({
        "name": "base",
        "backend": "dir",
        "pool": pool,
        "type": "custom",
        "optimized": false,
        "optimized_header": false,
        "snapshots": [],
        "config": {
            "volume": {
                "name": "base",
                "type": "custom",
                "content_type": "filesystem",
                "description": BASE_DESCRIPTION,
                "config": { SHIFTED: "true" },
            },
        },
    })
}

/// Document of an instance with a copy of another's disk, or of that of a snapshot. It is not whole until a later change labels
/// it. `memory` is the generation whose memory is on the disk, if the copy continues from that.
pub(super) fn copy(
    settings: &IncusSettings,
    spec: &MachineSpec,
    owner: &str,
    (from, source): (&str, &Instance),
    network: Option<&GuestAddress>,
    memory: Option<u64>,
) -> Value {
    // The server copies the other keys of the source, with the image's properties and the labels of agent and isolation.
    let mut config = fixed_config(spec.isolation);
    config.extend(labels(spec.id, owner, network));
    config.extend(limits(spec));
    for absent in [MADE, GENERATION, SAVED, MOVING, SNAPSHOT] {
        config.insert(absent.to_owned(), json!(""));
    }
    if let Some(generation) = memory {
        config.insert(SAVED.to_owned(), json!(generation.to_string()));
    }
    for (key, value) in &source.config {
        let is_of_source = key.starts_with("volatile.") || config.contains_key(key);
        if !is_of_source {
            config.insert(key.clone(), json!(value));
        }
    }
    let mut devices = devices(settings, spec, source.image_bytes(), network);
    if let Some(base) = source.devices.get(BASE_DEVICE) {
        devices[BASE_DEVICE] = json!(base);
    }
    json!({
        "name": name(spec.id, 0),
        "type": "container",
        "profiles": [],
        "source": { "type": "copy", "source": from, "instance_only": true },
        "config": config,
        "devices": devices,
    })
}

/// Document of a replica: a copy of an instance with its snapshots, or the refresh of that copy. It has no network, and is no
/// whole machine. Between members, the server takes only the configuration and devices that the document has.
pub(super) fn replica(
    replica: &str,
    owner: &str,
    (from, source): (&str, &Instance),
    id: ComputerId,
) -> Value {
    let mut config = fixed_config(source.isolation());
    config.extend(labels(id, owner, None));
    for absent in [MADE, SAVED, STATE, FAILED, FROM] {
        config.insert(absent.to_owned(), json!(""));
    }
    for (key, value) in &source.config {
        if !key.starts_with("volatile.") && !config.contains_key(key) {
            config.insert(key.clone(), json!(value));
        }
    }
    let mut devices = json!(source.devices);
    if source.devices.contains_key(NIC) {
        devices[NIC] = json!({ "type": "none" });
    }
    json!({
        "name": replica,
        "type": "container",
        "architecture": source.architecture,
        "profiles": [],
        // Without a replica, a refresh makes it.
        "source": { "type": "copy", "source": from, "instance_only": false, "refresh": true },
        "config": config,
        "devices": devices,
    })
}

/// Change of a stopped instance before a boot: all that the spec says, and the generation. The memory that a boot from the disk
/// does not use is none from then on. `init_args` is the first process of an image with an agent of its own.
pub(super) fn boot(
    settings: &IncusSettings,
    spec: &MachineSpec,
    (boot, mode): (&Boot, BootMode),
    instance: &Instance,
    network: Option<&GuestAddress>,
    init_args: Option<&[String]>,
) -> Value {
    let mut config = fixed_config(spec.isolation);
    config.extend(limits(spec));
    config.insert("raw.lxc".to_owned(), json!(raw_lxc(spec, (boot, mode), network, init_args)));
    if spec.isolation == Isolation::Sandbox && mode == BootMode::FromDisk {
        config.insert(SAVED.to_owned(), json!(""));
    }
    config.insert(GENERATION.to_owned(), json!(boot.generation.to_string()));
    // Of a move that has ended.
    config.insert(MOVING.to_owned(), json!(""));
    let address = network.map(|network| network.address.to_string()).unwrap_or_default();
    config.insert(ADDRESS.to_owned(), json!(address));
    let mut devices = devices(settings, spec, instance.image_bytes(), network);
    if network.is_none() && instance.devices.contains_key(NIC) {
        // A change cannot remove a device.
        devices[NIC] = json!({ "type": "none" });
    }
    json!({ "config": config, "devices": devices })
}

/// Change of a superseded instance, whose computer goes on in another: it never starts again, and its address is free on its member.
pub(super) fn fence(instance: &Instance, time: &str) -> Value {
    let mut change = json!({ "config": { FENCED: time } });
    if instance.devices.contains_key(NIC) {
        change["devices"] = json!({ NIC: { "type": "none" } });
    }
    change
}

/// Change of one dimension of a running instance; `None` when the instance has nothing to change.
pub(super) fn resize(instance: &Instance, change: Change) -> Option<Value> {
    let with = |device: &str, values: &[(&str, Option<String>)]| {
        let mut device_config = instance.devices.get(device)?.clone();
        for (key, value) in values {
            match value {
                Some(value) => device_config.insert((*key).to_owned(), value.clone()),
                None => device_config.remove(*key),
            };
        }
        Some(json!({ "devices": { device: device_config } }))
    };
    match change {
        Change::Cpu(cpu) => Some(json!({ "config": { "limits.cpu.allowance": allowance(cpu) } })),
        Change::Memory(bytes) => Some(json!({ "config": { "limits.memory": bytes.to_string() } })),
        Change::Disk(bytes) => {
            let size = bytes.saturating_add(instance.image_bytes()).to_string();
            with("root", &[("size", Some(size))])
        }
        Change::Bandwidth(mbps) => {
            let limit = (mbps > 0).then(|| bandwidth(mbps));
            with(NIC, &[("limits.ingress", limit.clone()), ("limits.egress", limit)])
        }
    }
}

/// Configuration of every computer, whatever its size.
fn fixed_config(isolation: Isolation) -> Map<String, Value> {
    // gVisor mounts file systems of its own.
    let nests = if isolation == Isolation::Sandbox { "true" } else { "false" };
    let fixed = [
        ("boot.autostart", "false"),
        // User ids that no other instance has.
        ("security.idmap.isolated", "true"),
        ("security.privileged", "false"),
        ("security.nesting", nests),
        // The guest would read the labels.
        ("security.guestapi", "false"),
        ("limits.memory.swap", "false"),
        ("limits.processes", MAX_PROCESSES),
    ];
    fixed.into_iter().map(|(key, value)| (key.to_owned(), json!(value))).collect()
}

fn labels(id: ComputerId, owner: &str, network: Option<&GuestAddress>) -> Map<String, Value> {
    let address = network.map(|network| network.address.to_string()).unwrap_or_default();
    let labels = [(OWNER, owner.to_owned()), (COMPUTER, id.to_string()), (ADDRESS, address)];
    labels.into_iter().map(|(key, value)| (key.to_owned(), json!(value))).collect()
}

fn limits(spec: &MachineSpec) -> Map<String, Value> {
    let limits =
        [("limits.memory", spec.memory_bytes.to_string()), ("limits.cpu.allowance", allowance(spec.cpu))];
    limits.into_iter().map(|(key, value)| (key.to_owned(), json!(value))).collect()
}

/// Share of CPU time: milliseconds of each 100.
fn allowance(cpu: f64) -> String {
    // The clamp makes the cast exact.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let milliseconds = (cpu * 100.0).round().clamp(1.0, 6_553_600.0) as u32;
    format!("{milliseconds}ms/100ms")
}

fn bandwidth(mbps: u32) -> String {
    format!("{mbps}Mbit")
}

fn devices(
    settings: &IncusSettings,
    spec: &MachineSpec,
    image_bytes: u64,
    network: Option<&GuestAddress>,
) -> Value {
    // Saved memory is on the same disk.
    let memory = if spec.isolation == Isolation::Sandbox { spec.memory_bytes } else { 0 };
    let size = spec.disk_bytes.saturating_add(image_bytes).saturating_add(memory).to_string();
    let mut devices = json!({ "root": { "type": "disk", "path": "/", "pool": settings.pool, "size": size } });
    if let Some(network) = network {
        let mut nic = json!({
            "type": "nic",
            "name": NIC,
            "network": settings.network,
            "ipv4.address": network.address.to_string(),
            "security.mac_filtering": "true",
            "security.ipv4_filtering": "true",
            // Rules of a bridge hold at its border only: this keeps computers of one member apart.
            "security.port_isolation": "true",
        });
        if spec.bandwidth_mbps > 0 {
            nic["limits.ingress"] = json!(bandwidth(spec.bandwidth_mbps));
            nic["limits.egress"] = json!(bandwidth(spec.bandwidth_mbps));
        }
        devices[NIC] = nic;
    }
    devices
}

/// Configuration of LXC that Incus has no keys for.
fn raw_lxc(
    spec: &MachineSpec,
    (boot, mode): (&Boot, BootMode),
    network: Option<&GuestAddress>,
    init_args: Option<&[String]>,
) -> String {
    let (run, shared) = (spec.memory_bytes / 8, spec.memory_bytes / 2);
    let is_sandbox = spec.isolation == Isolation::Sandbox;
    let init = if is_sandbox {
        format!("{LAUNCHER} launcher {} --generation {}", mode.verb(), boot.generation)
    } else if let Some(args) = init_args {
        args.join(" ")
    } else {
        format!(
            "{AGENT_PROGRAM} init -- --listen unix:{AGENT_SOCKET} --token-file {BOOT_FOLDER}/token --resolution {}",
            boot.resolution
        )
    };
    let mut lines = vec![
        format!("lxc.init.cmd = {init}"),
        // Process 1 of a computer ends by this signal.
        "lxc.signal.halt = SIGTERM".to_owned(),
        format!("lxc.uts.name = {}", spec.id.hostname()),
        // tmpfs counts towards the guest's memory; these limits keep some of it free.
        format!("lxc.mount.entry = tmpfs run tmpfs nosuid,nodev,mode=755,size={run},create=dir 0 0"),
        "lxc.mount.entry = tmpfs run/hotdesk tmpfs nosuid,nodev,noexec,mode=700,size=1m,create=dir 0 0"
            .to_owned(),
        "lxc.no_new_privs = 1".to_owned(),
    ];
    // The programs of a sandbox see files of gVisor, and only gVisor has the capabilities of the instance.
    if !is_sandbox {
        lines.push(format!(
            "lxc.mount.entry = tmpfs dev/shm tmpfs nosuid,nodev,noexec,mode=1777,size={shared},create=dir 0 0"
        ));
        lines.push(format!("lxc.cap.keep = {CAPABILITIES}"));
    }
    lines.extend(ENVIRONMENT.map(|variable| format!("lxc.environment = {variable}")));
    if let Some(GuestAddress { address, prefix, gateway }) = network {
        lines.push(format!("lxc.net.0.ipv4.address = {address}/{prefix}"));
        lines.push(format!("lxc.net.0.ipv4.gateway = {gateway}"));
    }
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use hotdesk_base::secret::Secret;
    use hotdesk_domain::desktop::resolution::Resolution;
    use uuid::Uuid;

    fn spec(cpu: f64, bandwidth_mbps: u32) -> MachineSpec {
        MachineSpec {
            id: ComputerId(Uuid::from_u128(0x1111)),
            isolation: Isolation::Shared,
            cpu,
            memory_bytes: 4 << 30,
            disk_bytes: 1000,
            bandwidth_mbps,
            layers: Vec::new(),
            egress: None,
        }
    }

    fn network() -> GuestAddress {
        let (address, gateway) = (Ipv4Addr::new(10, 77, 2, 1), Ipv4Addr::new(10, 77, 0, 1));
        GuestAddress { address, prefix: 16, gateway }
    }

    fn settings() -> IncusSettings {
        IncusSettings { pool: "local".to_owned(), network: "desk0".to_owned(), ..IncusSettings::default() }
    }

    fn instance(text: Value) -> Instance {
        serde_json::from_value(text).unwrap()
    }

    #[test]
    fn a_new_instance_is_unprivileged_and_bounded() {
        let image = ImageRecord { fingerprint: "f".to_owned(), bytes: 500, base: None };
        let made = create(&settings(), &spec(1.5, 0), "own", &image, Some(&network()));
        let config = &made["config"];
        for (key, expected) in [
            ("security.idmap.isolated", "true"),
            ("security.privileged", "false"),
            ("security.guestapi", "false"),
            ("limits.memory", "4294967296"),
            ("limits.cpu.allowance", "150ms/100ms"),
            (OWNER, "own"),
            (COMPUTER, "00000000-0000-0000-0000-000000001111"),
            (ADDRESS, "10.77.2.1"),
        ] {
            assert_eq!(config[key], expected, "{key}");
        }
        assert!(config.get(MADE).is_none() && config.get(GENERATION).is_none());
        assert_eq!(made["devices"]["root"]["size"], "1500");
        assert_eq!(made["devices"]["eth0"]["security.port_isolation"], "true");
        assert!(made["devices"]["eth0"].get("limits.egress").is_none());
        assert!(made["devices"].get("base").is_none(), "the image is in the root");
        let limited = create(&settings(), &spec(0.25, 10), "own", &image, Some(&network()));
        assert_eq!(limited["devices"]["eth0"]["limits.egress"], "10Mbit");
        assert_eq!(limited["config"]["limits.cpu.allowance"], "25ms/100ms");
        let alone = create(&settings(), &spec(1.0, 10), "own", &image, None);
        assert!(alone["devices"].get("eth0").is_none());
    }

    #[test]
    fn a_volume_with_a_guest_image_is_copied_by_its_name_and_mounted_with_the_user_ids_of_each_instance() {
        let made = base_copy("local", "hotdesk-base-1", "m1");
        assert_eq!(
            (&made["name"], &made["source"]["name"]),
            (&json!("hotdesk-base-1"), &json!("hotdesk-base-1"))
        );
        assert_eq!((&made["source"]["location"], &made["source"]["pool"]), (&json!("m1"), &json!("local")));
        let index = base_index("local");
        for config in [&made["config"], &index["config"]["volume"]["config"]] {
            assert_eq!(config[SHIFTED], "true");
            assert!(config.get(MADE).is_none(), "it is not whole yet");
        }
        assert_eq!(base_label()["config"][MADE], "1");
        assert!(!is_base_name("desk-data"));
    }

    #[test]
    fn a_temporary_instance_is_no_computer_and_has_no_network() {
        let made = temporary("local", "hotdesk-image-1", "own", "f");
        assert_eq!((&made["config"][PUBLICATION], made["config"].get(OWNER)), (&json!("own"), None));
        assert_eq!(made["devices"].as_object().map(Map::len), Some(1));
        assert_eq!(made["devices"]["root"]["pool"], "local");
    }

    #[test]
    fn a_boot_writes_its_generation_and_no_secret() {
        let boot_inputs = Boot {
            generation: 7,
            token: Secret::new("a-token-of-this-boot"),
            resolution: Resolution::default(),
        };
        let own = instance(json!({"status": "Stopped", "config": {"image.hotdesk.bytes": "500"}}));
        let disk = BootMode::FromDisk;
        let change = boot(&settings(), &spec(1.0, 0), (&boot_inputs, disk), &own, Some(&network()), None);
        assert_eq!(change["config"][GENERATION], "7");
        assert_eq!(change["devices"]["root"]["size"], "1500");
        assert!(!change.to_string().contains("a-token-of-this-boot"));
        let raw = change["config"]["raw.lxc"].as_str().unwrap();
        for line in [
            "lxc.signal.halt = SIGTERM",
            "lxc.no_new_privs = 1",
            "lxc.net.0.ipv4.address = 10.77.2.1/16",
            "lxc.net.0.ipv4.gateway = 10.77.0.1",
            "lxc.uts.name = hotdesk-00000000",
        ] {
            assert!(raw.lines().any(|it| it == line), "{line} in {raw}");
        }
        assert_eq!(change["config"][ADDRESS], "10.77.2.1");
        let linked = instance(json!({"status": "Stopped", "devices": {"eth0": {"type": "nic"}}}));
        let alone = boot(&settings(), &spec(1.0, 0), (&boot_inputs, disk), &linked, None, None);
        assert!(!alone["config"]["raw.lxc"].as_str().unwrap().contains("lxc.net"));
        assert_eq!(alone["devices"]["eth0"], json!({"type": "none"}));
    }

    #[test]
    fn a_sandbox_boots_by_its_launcher_and_has_room_for_its_memory() {
        let sandbox = MachineSpec { isolation: Isolation::Sandbox, ..spec(1.0, 0) };
        let base = base_name("0123456789abcdef0123");
        let image = ImageRecord { fingerprint: "f".to_owned(), bytes: 500, base: Some(base.clone()) };
        let made = create(&settings(), &sandbox, "own", &image, None);
        let volume = json!({
            "type": "disk", "pool": "local", "source": "hotdesk-base-0123456789abcdef", "path": "/base",
            "readonly": "true",
        });
        assert_eq!((made["devices"]["base"].clone(), is_base_name(&base)), (volume, true));
        assert_eq!(made["config"]["security.nesting"], "true");
        assert_eq!(made["config"]["security.privileged"], "false");
        assert_eq!(made["config"][ISOLATION], "sandbox");
        assert_eq!(made["devices"]["root"]["size"], (1500_u64 + (4 << 30)).to_string());
        let boot_inputs = Boot {
            generation: 7,
            token: Secret::new("a-token-of-this-boot"),
            resolution: Resolution::default(),
        };
        let own = instance(json!({"status": "Stopped"}));
        for (mode, verb, saved) in
            [(BootMode::FromDisk, "start", json!("")), (BootMode::FromMemory, "resume", Value::Null)]
        {
            let change = boot(&settings(), &sandbox, (&boot_inputs, mode), &own, None, None);
            let raw = change["config"]["raw.lxc"].as_str().unwrap();
            let init = format!("lxc.init.cmd = {LAUNCHER} launcher {verb} --generation 7");
            assert!(raw.lines().any(|line| line == init), "{raw}");
            assert!(!raw.contains("lxc.cap.keep"), "{raw}");
            // Memory that a boot continues from counts until it is used.
            assert_eq!(change["config"][SAVED], saved);
            // The volume of the instance's own build stays.
            assert!(change["devices"].get("base").is_none());
        }
    }

    #[test]
    fn a_copy_has_the_image_of_its_source_and_no_boot_of_it() {
        let source = instance(json!({
            "status": "Running",
            "config": {
                "image.hotdesk.bytes": "500", "volatile.uuid": "u", AGENT: "digest", MADE: "1", GENERATION: "3",
                ADDRESS: "10.77.2.9", "limits.memory": "1", SNAPSHOT: "of the source",
            },
            "devices": {"base": {"type": "disk", "source": "hotdesk-base-1"}, "root": {"type": "disk"}},
        }));
        let from = name(ComputerId::random(), 0);
        let copied = |memory| {
            copy(&settings(), &spec(1.0, 0), "own", (from.as_str(), &source), Some(&network()), memory)
        };
        let (made, with_memory) = (copied(None), copied(Some(3)));
        assert_eq!((&with_memory["config"][SAVED], &with_memory["config"][MADE]), (&json!("3"), &json!("")));
        let config = &made["config"];
        for (key, expected) in [
            (MADE, ""),
            (GENERATION, ""),
            (SAVED, ""),
            (SNAPSHOT, ""),
            (AGENT, "digest"),
            (ADDRESS, "10.77.2.1"),
            ("limits.memory", "4294967296"),
            ("image.hotdesk.bytes", "500"),
        ] {
            assert_eq!(config[key], expected, "{key}");
        }
        assert!(config.get("volatile.uuid").is_none());
        assert_eq!(made["source"]["source"], from);
        assert_eq!(made["devices"]["root"]["size"], "1500");
        assert_eq!(made["devices"]["base"]["source"], "hotdesk-base-1");
        // The labels are empty in an instance that is being made.
        let fresh = instance(json!({"status": "Stopped", "config": {MADE: "", GENERATION: ""}}));
        assert!(!fresh.is_made() && fresh.generation().is_none());
    }

    #[test]
    fn a_superseded_instance_keeps_no_address() {
        let label = json!({ FENCED: "now" });
        let nic = instance(json!({"status": "Stopped", "config": {}, "devices": {"eth0": {"type": "nic"}}}));
        assert_eq!(fence(&nic, "now"), json!({"config": label, "devices": {"eth0": {"type": "none"}}}));
        let bare = instance(json!({"status": "Stopped", "config": {}, "devices": {}}));
        assert_eq!(fence(&bare, "now"), json!({ "config": label }));
    }

    #[test]
    fn a_replica_is_no_machine_and_has_no_network() {
        let source = instance(json!({
            "status": "Running",
            "architecture": "x86_64",
            "config": {MADE: "1", "image.hotdesk.bytes": "500", "volatile.uuid": "u", ADDRESS: "10.77.2.9"},
            "devices": {"root": {"type": "disk", "pool": "desks"}, "eth0": {"type": "nic"}},
        }));
        let id = ComputerId::random();
        let (from, to) = (name(id, 0), replica_name(id, 1));
        let made = replica(&to, "own", (from.as_str(), &source), id);
        assert_eq!((&made["name"], &made["source"]["source"]), (&json!(to), &json!(from)));
        assert_eq!((&made["source"]["refresh"], &made["architecture"]), (&json!(true), &json!("x86_64")));
        assert_eq!((&made["config"][MADE], &made["config"]["boot.autostart"]), (&json!(""), &json!("false")));
        assert_eq!(
            (&made["config"][ADDRESS], &made["config"]["image.hotdesk.bytes"]),
            (&json!(""), &json!("500"))
        );
        assert!(made["config"].get("volatile.uuid").is_none());
        let devices = json!({"root": {"type": "disk", "pool": "desks"}, "eth0": {"type": "none"}});
        assert_eq!(made["devices"], devices);
    }

    #[test]
    fn a_resize_changes_one_dimension() {
        let own = instance(json!({
            "status": "Running",
            "config": {"image.hotdesk.bytes": "500"},
            "devices": {
                "root": {"type": "disk", "size": "1500"},
                "eth0": {"type": "nic", "limits.egress": "5Mbit", "limits.ingress": "5Mbit"},
            },
        }));
        let of = |change| resize(&own, change);
        assert_eq!(of(Change::Cpu(2.0)), Some(json!({"config": {"limits.cpu.allowance": "200ms/100ms"}})));
        assert_eq!(of(Change::Memory(9)), Some(json!({"config": {"limits.memory": "9"}})));
        let disk = json!({"devices": {"root": {"type": "disk", "size": "2500"}}});
        assert_eq!(of(Change::Disk(2000)), Some(disk));
        let unlimited = json!({"devices": {"eth0": {"type": "nic"}}});
        assert_eq!(of(Change::Bandwidth(0)), Some(unlimited));
        let alone = instance(json!({"status": "Running"}));
        assert_eq!(resize(&alone, Change::Bandwidth(10)), None);
    }
}
