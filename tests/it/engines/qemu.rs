//! Does the engine of virtual machines keep the contract? Real guests boot here, emulated where the host has no KVM that works.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hotdesk::base::ids::ComputerId;
use hotdesk::base::wait;
use hotdesk::engine::qemu::{QemuConfig, QemuEngine};
use hotdesk::engine::{Engine, EngineError, MachineSpec, NetworkConfig, Observation};
use serde_json::Value;

use super::conformance::{Bench, GRACE, a_machine, boot, keeps_its_promises, runs};
use super::guest::Guest;
use crate::harness::controller::{image, no_computers_here};
use crate::harness::host::left_of;

const FAKE_AGENT: &str = include_str!("fake_agent.py");

/// Where `packaging/vm/build` puts the guests' kernel.
pub fn kernel() -> PathBuf {
    let cache = std::env::var("HOTDESK_CACHE").unwrap_or_else(|_| "/var/cache/hotdesk".to_owned());
    PathBuf::from(cache).join("vm")
}

/// Why no virtual machine can run here, if none can.
pub fn no_machines_here() -> Option<String> {
    if let Some(reason) = no_computers_here() {
        return Some(reason);
    }
    if !PathBuf::from("/usr/bin/qemu-system-x86_64").exists() {
        return Some("skipped: qemu-system-x86_64 is not installed (packaging/dev/deps test)".to_owned());
    }
    let kernel = kernel();
    if !kernel.join("kernel").exists() {
        return Some(format!("skipped: no kernel for guests at {} (packaging/vm/build)", kernel.display()));
    }
    None
}

/// An engine on a state folder of its own. Whatever a failed test leaves in it is destroyed at its end.
pub struct Machines {
    pub config: QemuConfig,
    pub engine: QemuEngine,
    _folder: tempfile::TempDir,
}

/// The settings of an engine over a state folder, whose guests run the tests' agent and have no network.
pub fn settings(state: PathBuf) -> QemuConfig {
    let mut config = QemuConfig::new(state, kernel(), image(), env!("CARGO_BIN_EXE_hotdesk"));
    config.network = NetworkConfig::disabled();
    // Each test is a process, and would try the host's processors anew; `qemu_desktop` does.
    config.emulate = true;
    config.init_args =
        Some(["/usr/bin/python3", "-I", "-c", &one_line(FAKE_AGENT)].map(str::to_owned).to_vec());
    config
}

impl Machines {
    /// An engine whose guests have no network; `None`, with the reason printed, where they cannot run.
    pub fn lonely() -> Option<Self> {
        Self::with(|_| {})
    }

    /// An engine whose settings differ from the usual.
    pub fn with(differ: impl FnOnce(&mut QemuConfig)) -> Option<Self> {
        let folder = tempfile::Builder::new().prefix("hotdesk-").tempdir().expect("a temporary folder");
        Self::at(folder.path().join("state"), folder, differ)
    }

    /// An engine on a state folder in `folder`, which goes with it.
    pub fn at(
        state: PathBuf,
        folder: tempfile::TempDir,
        differ: impl FnOnce(&mut QemuConfig),
    ) -> Option<Self> {
        if let Some(reason) = no_machines_here() {
            eprintln!("{reason}");
            return None;
        }
        let mut config = settings(state);
        differ(&mut config);
        let engine = QemuEngine::open(config.clone()).expect("an engine");
        Some(Self { config, engine, _folder: folder })
    }

    fn root(&self) -> PathBuf {
        fs::canonicalize(&self.config.state_dir).expect("the state folder")
    }

    pub fn folder(&self, id: ComputerId) -> PathBuf {
        self.root().join("machines").join(id.to_string())
    }

    /// Creates and starts a machine; it, its id and its agent, which answers.
    pub async fn running(&self, spec: MachineSpec) -> (MachineSpec, ComputerId, Guest) {
        self.engine.create(&spec).await.expect("created");
        let guest = Guest::at(&self.engine.start(&spec, &boot(1)).await.expect("started"));
        guest.answers().await;
        let id = spec.id;
        (spec, id, guest)
    }

    /// Asks a machine's QEMU for something, as the engine does.
    pub fn asks_qemu(&self, id: ComputerId, command: &str) -> Value {
        let stream = UnixStream::connect(self.folder(id).join("qmp.sock")).expect("its monitor");
        stream.set_read_timeout(Some(GRACE)).expect("a bound");
        let mut lines = BufReader::new(stream);
        for command in ["qmp_capabilities", command] {
            let text = format!("{{\"execute\": {command:?}, \"id\": {command:?}}}\n");
            lines.get_mut().write_all(text.as_bytes()).expect("asked");
        }
        // Events, a greeting and another answer come before it.
        for line in lines.lines() {
            let mut told: Value = serde_json::from_str(&line.expect("an answer")).expect("JSON");
            if told["id"] == command {
                return told["return"].take();
            }
        }
        panic!("QEMU has gone");
    }
}

/// A program as a literal of one line: arguments of a virtual machine's first command have no more.
fn one_line(program: &str) -> String {
    format!("exec({})", serde_json::Value::from(program))
}

impl Bench for Machines {
    fn engine(&self) -> Arc<dyn Engine> {
        Arc::new(self.engine.clone())
    }

    fn reopened(&self) -> Arc<dyn Engine> {
        Arc::new(QemuEngine::open(self.config.clone()).expect("an engine"))
    }

    fn nothing_is_left_of(&self, id: ComputerId) {
        let text = id.to_string();
        assert_eq!(left_of(&text), None);
        assert!(!self.root().join("machines").join(&text).exists(), "its folder");
        assert_eq!(fs::read_dir(self.root().join("trash")).expect("trash").count(), 0, "trash");
    }
}

impl Drop for Machines {
    fn drop(&mut self) {
        let engine = self.engine.clone();
        let cleaned = std::thread::spawn(move || {
            let runtime = tokio::runtime::Runtime::new().expect("a runtime");
            runtime.block_on(async {
                for id in engine.list().await.expect("a list") {
                    engine.destroy(id).await.expect("destroyed");
                }
            });
        });
        assert!(cleaned.join().is_ok() || std::thread::panicking(), "the clean-up failed");
    }
}

keeps_its_promises!(Machines::lonely());
keeps_its_promises!(Machines::lonely(), copies);

/// Turns one bit of the saved memory in a folder over; done twice, it is as before.
pub fn damage_one_bit(memory: &Path) {
    let part = ["memory.zst", "memory"].map(|name| memory.join(name)).into_iter().find(|part| part.exists());
    let part = part.expect("the memory");
    let mut bytes = fs::read(&part).expect("memory");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&part, &bytes).expect("damaged");
}

/// What QEMU's own process may do on its host.
fn process_of(id: ComputerId) -> String {
    let pids = crate::harness::host::processes(&id.to_string());
    assert_eq!(pids.len(), 1, "one process: {pids:?}");
    format!("/proc/{}", pids[0])
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guest_has_a_kernel_of_its_own_and_its_qemu_little_of_the_host() {
    let Some(bench) = Machines::with(|config| config.network = NetworkConfig::default()) else { return };
    let (engine, spec) = (bench.engine(), a_machine());
    engine.create(&spec).await.expect("created");
    let guest = Guest::at(&engine.start(&spec, &boot(1)).await.expect("started"));
    guest.answers().await;
    assert!(guest.says("uname -r").await.ends_with("cloud-amd64"));
    assert_eq!(
        guest.says("id -u; cat /proc/1/comm; hostname").await,
        format!("0\nhotdesk\n{}", spec.id.hostname())
    );
    assert_eq!(guest.says("stat -c '%a %u' /run/hotdesk/token").await, "400 0");
    let kilobytes: u64 =
        guest.says("sed -n 's/MemTotal: *\\([0-9]*\\) kB/\\1/p' /proc/meminfo").await.parse().expect("kB");
    assert!((380_000..=512 << 10).contains(&kilobytes), "{kilobytes}");
    // The agent's address is the slot's; the guest knows another, and reaches neither its host nor other guests.
    let Observation::Running { address: Some(address), .. } = engine.observe(spec.id).await.expect("seen")
    else {
        panic!("an address expected");
    };
    assert!(!guest.says("ip -4 address show dev eth0").await.contains(&address.to_string()));
    guest.refuses("timeout 3 bash -c ': </dev/tcp/192.0.0.1/22'").await;
    guest.refuses("timeout 3 bash -c ': </dev/tcp/10.213.0.1/22'").await;

    let process = process_of(spec.id);
    let status = fs::read_to_string(format!("{process}/status")).expect("a process");
    let says = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name)).expect("a line");
        line.split_whitespace().skip(1).map(str::to_owned).collect::<Vec<_>>().join(" ")
    };
    assert!(
        says("Uid:").split(' ').all(|uid| uid.parse::<u32>().is_ok_and(|uid| uid >= 1_000_000)),
        "{status}"
    );
    assert_eq!((says("CapEff:").as_str(), says("NoNewPrivs:").as_str()), ("0000000000000000", "1"));
    assert_eq!(says("Seccomp:"), "2");
    assert_eq!(fs::read_dir(format!("{process}/root")).expect("its root").count(), 0, "an empty folder");
    let own = fs::read_link("/proc/self/ns/net").expect("a namespace");
    assert_ne!(fs::read_link(format!("{process}/ns/net")).expect("a namespace"), own);
    let arguments = fs::read_to_string(format!("{process}/cmdline")).expect("its arguments");
    assert!(!arguments.contains("token"), "{arguments}");
    engine.destroy(spec.id).await.expect("destroyed");
    bench.nothing_is_left_of(spec.id);
}

#[tokio::test(flavor = "multi_thread")]
async fn damaged_memory_is_never_continued_and_what_stands_goes_on() {
    let Some(bench) = Machines::lonely() else { return };
    let (engine, spec) = (bench.engine(), a_machine());
    engine.create(&spec).await.expect("created");
    let guest = Guest::at(&engine.start(&spec, &boot(1)).await.expect("started"));
    guest.answers().await;
    assert_eq!(guest.count().await, 1);
    // As a controller leaves it that died while it saved: the guest stands, and nothing whole is there.
    let folder = bench.folder(spec.id);
    fs::create_dir(folder.join("memory.new")).expect("a folder");
    let early = tokio::time::timeout(Duration::from_millis(500), engine.stopped(spec.id)).await;
    assert!(early.is_err(), "it runs still");
    let swept = wait::until(Duration::from_secs(60), || async {
        (!folder.join("memory.new").exists()).then_some(())
    });
    assert!(swept.await.is_some(), "it is kept");
    assert_eq!(guest.count().await, 2);

    engine.suspend(spec.id).await.expect("suspended");
    let memory = folder.join("memory");
    damage_one_bit(&memory);
    let refused = engine.resume(&spec, &boot(2)).await.expect_err("damaged");
    assert!(matches!(refused, EngineError::Damaged(_)), "{refused}");
    assert_eq!(engine.observe(spec.id).await.expect("seen"), Observation::Suspended { generation: 1 });
    damage_one_bit(&memory);
    Guest::at(&engine.resume(&spec, &boot(2)).await.expect("resumed")).answers().await;
    assert_eq!(runs(&*engine, spec.id, 2).await.count().await, 3, "memory is kept");
    engine.stop(spec.id, GRACE).await.expect("stopped");
    engine.destroy(spec.id).await.expect("destroyed");
    bench.nothing_is_left_of(spec.id);
}
