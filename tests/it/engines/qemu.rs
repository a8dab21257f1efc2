//! QEMU engine: conformance, isolation and saved memory.
//!
//! The guests boot, emulated where the host has no usable KVM.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hotdesk::base::ids::ComputerId;
use hotdesk::base::wait;
use hotdesk::domain::computer::isolation::Isolation;
use hotdesk::engine::{
    Engine, EngineError, EngineKind, EngineSettings, HostSettings, MachineSpec, NetworkConfig, Observation,
    QemuSettings,
};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use super::conformance::{
    END_TIMEOUT, EngineFixture, GRACE, boot, conformance_tests, expect_running, machine_spec,
};
use super::guest::Guest;
use super::host::{container, open_engine};
use super::isolations::add_others;
use crate::harness::capability::{Capability, Skip};
use crate::harness::controller::{image, skip_reason};
use crate::harness::host::{find_leftover, processes};
use crate::harness::program::{link_agent, program, share_agent_disk};

const FAKE_AGENT: &str = include_str!("fake_agent.py");

/// Folder in which `packaging/vm/build` installs the guests' kernel.
pub fn kernel() -> PathBuf {
    let cache = std::env::var("HOTDESK_CACHE").unwrap_or_else(|_| "/var/cache/hotdesk".to_owned());
    PathBuf::from(cache).join("vm")
}

/// The reason why no virtual machine can run here, if there is one.
pub fn qemu_skip_reason() -> Option<Skip> {
    if let Some(skip) = skip_reason() {
        return Some(skip);
    }
    if !PathBuf::from("/usr/bin/qemu-system-x86_64").exists() {
        return Some(Skip::new(
            Capability::Qemu,
            "qemu-system-x86_64 is not installed (packaging/dev/deps test)",
        ));
    }
    let kernel = kernel();
    if !kernel.join("kernel").exists() {
        return Some(Skip::new(
            Capability::Qemu,
            format!("no kernel for guests at {} (packaging/vm/build)", kernel.display()),
        ));
    }
    None
}

/// A QEMU engine with its own state folder. Dropping it destroys all machines in the folder.
pub struct QemuFixture {
    pub config: EngineSettings,
    pub engine: Arc<dyn Engine>,
    _folder: tempfile::TempDir,
}

/// Configuration of an engine over a state folder, whose guests run the fake agent without network.
pub fn settings(state: PathBuf) -> EngineSettings {
    settings_with_program(state, "qemu-system-x86_64".to_owned())
}

/// [`settings`] with another program in the place of QEMU.
pub fn settings_with_program(state: PathBuf, qemu: String) -> EngineSettings {
    let mut host = HostSettings::new(state, image(), program());
    host.network = NetworkConfig::disabled();
    host.init_args =
        Some(["/usr/bin/python3", "-I", "-S", "-c", &one_line(FAKE_AGENT)].map(str::to_owned).to_vec());
    EngineSettings { host, kinds: vec![engine_with_program(qemu)] }
}

/// The engine of virtual machines.
pub fn engine() -> EngineKind {
    engine_with_program("qemu-system-x86_64".to_owned())
}

fn engine_with_program(program: String) -> EngineKind {
    // Each test is a process and would detect KVM again; `qemu_desktop` tests the detection.
    EngineKind::Qemu(QemuSettings { program, kernel: kernel(), emulate: true })
}

impl QemuFixture {
    /// Guests have no network. Prints the reason and returns `None` where virtual machines cannot run.
    pub fn without_network() -> Option<Self> {
        Self::with_config(|_| {})
    }

    /// With changes of the configuration.
    pub fn with_config(configure: impl FnOnce(&mut EngineSettings)) -> Option<Self> {
        let folder = tempfile::Builder::new().prefix("hotdesk-").tempdir().expect("a temporary folder");
        Self::in_folder(folder.path().join("state"), folder, configure)
    }

    /// Uses a given state folder in `folder`, and removes `folder` at the end.
    pub fn in_folder(
        state: PathBuf,
        folder: tempfile::TempDir,
        configure: impl FnOnce(&mut EngineSettings),
    ) -> Option<Self> {
        if let Some(skip) = qemu_skip_reason() {
            skip.report();
            return None;
        }
        let mut config = settings(state);
        configure(&mut config);
        let state = &config.host.state_dir;
        link_agent(state);
        share_agent_disk(state);
        let engine = open_engine(config.clone());
        share_agent_disk(state);
        Some(Self { config, engine, _folder: folder })
    }

    /// The same, beside the engines of all other isolations.
    pub fn beside_others(mut self) -> Self {
        add_others(&mut self.config, Isolation::Vm);
        self.engine = open_engine(self.config.clone());
        self
    }

    fn root(&self) -> PathBuf {
        fs::canonicalize(&self.config.host.state_dir).expect("the state folder")
    }

    pub fn folder(&self, id: ComputerId) -> PathBuf {
        self.root().join("machines").join(id.to_string())
    }

    /// Creates and starts a machine; returns its spec, its id and its ready agent.
    pub async fn start_machine(&self, spec: MachineSpec) -> (MachineSpec, ComputerId, Guest) {
        self.engine.create(&spec).await.expect("created");
        let guest = Guest::new(&self.engine.start(&spec, &boot(1)).await.expect("started"));
        guest.wait_until_ready().await;
        let id = spec.id;
        (spec, id, guest)
    }

    /// Sends a command to a machine's QEMU monitor, as the engine does; returns the result.
    pub fn qmp(&self, id: ComputerId, command: &str) -> Value {
        let stream = UnixStream::connect(self.folder(id).join("qmp.sock")).expect("the QEMU monitor");
        stream.set_read_timeout(Some(GRACE)).expect("a bound");
        let mut lines = BufReader::new(stream);
        for command in ["qmp_capabilities", command] {
            let text = format!("{{\"execute\": {command:?}, \"id\": {command:?}}}\n");
            lines.get_mut().write_all(text.as_bytes()).expect("the command is sent");
        }
        // Skip events, the greeting and other answers.
        for line in lines.lines() {
            let mut line: Value = serde_json::from_str(&line.expect("an answer")).expect("JSON");
            if line["id"] == command {
                return line["return"].take();
            }
        }
        panic!("QEMU closed the monitor");
    }
}

/// A program as a one-line literal, because arguments of a virtual machine's first command cannot contain
/// newlines.
fn one_line(program: &str) -> String {
    format!("exec({})", serde_json::Value::from(program))
}

impl EngineFixture for QemuFixture {
    fn engine(&self) -> Arc<dyn Engine> {
        Arc::clone(&self.engine)
    }

    fn reopen(&self) -> Arc<dyn Engine> {
        open_engine(self.config.clone())
    }

    fn disk(&self, id: ComputerId) -> Option<PathBuf> {
        Some(self.folder(id).join("disk.img"))
    }

    fn isolation(&self) -> Isolation {
        self.engine.offers().default().isolation
    }

    fn expect_removed(&self, id: ComputerId) {
        let text = id.to_string();
        assert_eq!(find_leftover(&text), None);
        assert!(!self.root().join("machines").join(&text).exists(), "the machine's folder");
        assert_eq!(fs::read_dir(self.root().join("trash")).expect("trash").count(), 0, "trash");
    }
}

impl Drop for QemuFixture {
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

conformance_tests!(QemuFixture::without_network().map(QemuFixture::beside_others));
conformance_tests!(QemuFixture::without_network().map(QemuFixture::beside_others), copies);
conformance_tests!(QemuFixture::without_network().map(QemuFixture::beside_others);
    a_machine_whose_processes_are_stopped_can_be_ended,
);

/// Flips one bit of the saved memory in a folder. A second call restores it.
pub fn flip_one_bit(memory: &Path) {
    let part = ["memory.zst", "memory"].map(|name| memory.join(name)).into_iter().find(|part| part.exists());
    let part = part.expect("the memory");
    let mut bytes = fs::read(&part).expect("memory");
    let offset = bytes.len() / 2;
    bytes[offset] ^= 1;
    fs::write(&part, &bytes).expect("damaged");
}

/// Path below `/proc` of a machine's QEMU.
fn process_of(id: ComputerId) -> String {
    let pids = processes(&id.to_string());
    assert_eq!(pids.len(), 1, "one process: {pids:?}");
    format!("/proc/{}", pids[0])
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guest_has_a_kernel_of_its_own_and_its_qemu_little_of_the_host() {
    let Some(fixture) = QemuFixture::with_config(|config| config.host.network = NetworkConfig::default())
    else {
        return;
    };
    let (engine, spec) = (fixture.engine(), machine_spec());
    engine.create(&spec).await.expect("created");
    let guest = Guest::new(&engine.start(&spec, &boot(1)).await.expect("started"));
    guest.wait_until_ready().await;
    assert!(guest.run("uname -r").await.ends_with("cloud-amd64"));
    assert_eq!(
        guest.run("id -u; cat /proc/1/comm; hostname").await,
        format!("0\nhotdesk\n{}", spec.id.hostname())
    );
    assert_eq!(guest.run("stat -c '%a %u' /run/hotdesk/token").await, "400 0");
    let kilobytes: u64 =
        guest.run("sed -n 's/MemTotal: *\\([0-9]*\\) kB/\\1/p' /proc/meminfo").await.parse().expect("kB");
    assert!((380_000..=512 << 10).contains(&kilobytes), "{kilobytes}");
    // The host's address for the agent is the slot's; the guest has another one and reaches neither host nor
    // other guests.
    let Observation::Running { address: Some(address), .. } =
        engine.observe(spec.id).await.expect("an observation")
    else {
        panic!("expected an address");
    };
    assert!(!guest.run("ip -4 address show dev eth0").await.contains(&address.to_string()));
    guest.run_failing("timeout 3 bash -c ': </dev/tcp/192.0.0.1/22'").await;
    guest.run_failing("timeout 3 bash -c ': </dev/tcp/10.213.0.1/22'").await;

    let process = process_of(spec.id);
    let status = fs::read_to_string(format!("{process}/status")).expect("a process");
    let run = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name)).expect("a line");
        line.split_whitespace().skip(1).map(str::to_owned).collect::<Vec<_>>().join(" ")
    };
    assert!(
        run("Uid:").split(' ').all(|uid| uid.parse::<u32>().is_ok_and(|uid| uid >= 1_000_000)),
        "{status}"
    );
    assert_eq!((run("CapEff:").as_str(), run("NoNewPrivs:").as_str()), ("0000000000000000", "1"));
    assert_eq!(run("Seccomp:"), "2");
    assert_eq!(
        fs::read_dir(format!("{process}/root")).expect("the root folder of the process").count(),
        0,
        "an empty folder"
    );
    let own = fs::read_link("/proc/self/ns/net").expect("a namespace");
    assert_ne!(fs::read_link(format!("{process}/ns/net")).expect("a namespace"), own);
    let arguments = fs::read_to_string(format!("{process}/cmdline")).expect("the arguments of the process");
    assert!(!arguments.contains("token"), "{arguments}");
    engine.destroy(spec.id).await.expect("destroyed");
    fixture.expect_removed(spec.id);
}

#[tokio::test(flavor = "multi_thread")]
async fn damaged_memory_is_never_continued_and_what_stands_goes_on() {
    let Some(fixture) = QemuFixture::without_network() else { return };
    let (engine, spec) = (fixture.engine(), machine_spec());
    engine.create(&spec).await.expect("created");
    let guest = Guest::new(&engine.start(&spec, &boot(1)).await.expect("started"));
    guest.wait_until_ready().await;
    assert_eq!(guest.count().await, 1);
    // Simulate a controller that died during a suspend: the guest is paused and no memory is complete.
    let folder = fixture.folder(spec.id);
    fs::create_dir(folder.join("memory.new")).expect("a folder");
    // The waiter removes the memory, so it must wait until then.
    let mut waiting = Box::pin(engine.wait_stopped(spec.id));
    let removed = tokio::select! {
        premature = &mut waiting => panic!("the guest still runs: {premature:?}"),
        removed = wait::until(END_TIMEOUT, || async {
            (!folder.join("memory.new").exists()).then_some(())
        }) => removed,
    };
    assert!(removed.is_some(), "the incomplete memory must be removed");
    let premature = tokio::time::timeout(Duration::from_millis(500), waiting).await;
    assert!(premature.is_err(), "the guest still runs");
    assert_eq!(guest.count().await, 2);

    engine.suspend(spec.id).await.expect("suspended");
    let memory = folder.join("memory");
    flip_one_bit(&memory);
    let refused = engine.resume(&spec, &boot(2)).await.expect_err("damaged");
    assert!(matches!(refused, EngineError::Damaged(_)), "{refused:#}");
    assert_eq!(
        engine.observe(spec.id).await.expect("an observation"),
        Observation::Suspended { generation: 1 }
    );
    flip_one_bit(&memory);
    Guest::new(&engine.resume(&spec, &boot(2)).await.expect("resumed")).wait_until_ready().await;
    assert_eq!(expect_running(&*engine, spec.id, 2).await.count().await, 3, "memory must be preserved");
    let limits = fs::read_to_string(format!("{}/limits", process_of(spec.id))).expect("limits of QEMU");
    let files = limits.lines().find(|line| line.starts_with("Max open files")).expect("a limit");
    assert!(files.split_whitespace().any(|word| word == "1024"), "{files}");
    engine.stop(spec.id, GRACE).await.expect("stopped");

    // The guest's root may have written any block, so the host's kernel never mounts the disk or a copy of it.
    let containers = open_engine(EngineSettings { kinds: vec![container("runc")], ..fixture.config.clone() });
    let copy = machine_spec();
    containers.copy_disk(spec.id, &copy).await.expect("copied");
    for machine in [&spec, &copy] {
        let refused = format!("{:#}", containers.start(machine, &boot(3)).await.expect_err("a raw disk"));
        assert!(refused.contains("a virtual machine has written it"), "{refused}");
    }
    engine.destroy(spec.id).await.expect("destroyed");
    fixture.expect_removed(spec.id);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_started_a_machine_is_not_taken_for_it_and_an_end_of_its_qemu_is_one_of_the_machine() {
    // The process has a lower pid than QEMU and ends while the guest boots.
    let folder = tempfile::tempdir().expect("a folder");
    let program = folder.path().join("qemu");
    let script = "#!/bin/sh\nsleep 1 </dev/null >/dev/null 2>&1 &\nexec qemu-system-x86_64 \"$@\"\n";
    fs::write(&program, script).expect("a script");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("the mode is set");
    let program = program.to_str().expect("text").to_owned();
    let replace = |config: &mut EngineSettings| {
        *config = settings_with_program(config.host.state_dir.clone(), program);
    };
    let Some(fixture) = QemuFixture::with_config(replace) else { return };
    let (_, id, _) = fixture.start_machine(machine_spec()).await;
    let alone = wait::until(END_TIMEOUT, || async {
        let [pid] = processes(&id.to_string())[..] else { return None };
        Some(pid)
    });
    let pid = alone.await.expect("the other process ends");
    expect_running(&*fixture.engine, id, 1).await.wait_until_ready().await;
    kill(Pid::from_raw(pid.cast_signed()), Signal::SIGKILL).expect("QEMU runs");
    let ended = tokio::time::timeout(END_TIMEOUT, fixture.engine.wait_stopped(id)).await;
    ended.expect("a waiter learns of the end").expect("no error");
    assert_eq!(fixture.engine.observe(id).await.expect("an observation"), Observation::Stopped);
    fixture.engine.stop(id, GRACE).await.expect("stopped");
    assert_eq!(find_leftover(&id.to_string()), None);
}
