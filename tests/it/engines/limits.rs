//! Kernel settings of a machine's limits, with both versions of control groups.
//!
//! The module `hostile` tests their effect.

use std::fs;
use std::time::{Duration, Instant};

use hotdesk::engine::{Check, DiskSpeed, MachineSpec, NetworkConfig, checks};

use super::conformance::{GRACE, boot, machine_spec};
use super::guest::Guest;
use super::host::{ContainerFixture, open_engine};
use crate::harness::capability::Capability;
use crate::harness::host::{control_groups, processes};

/// Content of the first file of these names that one of the machine's control groups has.
pub fn cgroup_value(id: &str, names: [&str; 2]) -> String {
    let groups = control_groups(id);
    let found = names.iter().flat_map(|name| groups.iter().map(move |group| group.join(name)));
    let found: Vec<_> = found.filter(|path| path.exists()).collect();
    assert!(!found.is_empty(), "none of {names:?} in {groups:?}");
    fs::read_to_string(&found[0]).expect("a setting").trim().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_kernel_is_told_of_every_limit_at_every_start() {
    let Some(fixture) = ContainerFixture::without_network() else { return };
    let spec = MachineSpec { cpu: 0.5, ..machine_spec() };
    let (mut spec, id, _) = fixture.start_machine(spec).await;
    let name = id.to_string();
    assert_eq!(cgroup_value(&name, ["memory.max", "memory.limit_in_bytes"]), (512 << 20).to_string());
    // Version 2 limits swap alone, version 1 memory and swap together.
    let swap = cgroup_value(&name, ["memory.swap.max", "memory.memsw.limit_in_bytes"]);
    assert!(swap == "0" || swap == (512 << 20).to_string(), "{swap}");
    assert_eq!(cgroup_value(&name, ["pids.max", "pids.max"]), "4096");
    let quota = cgroup_value(&name, ["cpu.max", "cpu.cfs_quota_us"]);
    assert_eq!(quota.split(' ').next(), Some("50000"), "{quota}");

    // Version 1 counts buffers of connections apart from memory.
    let tcp = || {
        let mut files = control_groups(&name).into_iter().map(|it| it.join("memory.kmem.tcp.limit_in_bytes"));
        files.find(|file| file.exists()).map(|file| fs::read_to_string(file).expect("a limit"))
    };
    if let Some(limit) = tcp() {
        assert_eq!(limit.trim(), (16 << 20).to_string());
    }

    // A new size applies at the next start.
    fixture.engine.stop(id, GRACE).await.expect("stopped");
    (spec.cpu, spec.memory_bytes) = (2.0, 768 << 20);
    fixture.engine.start(&spec, &boot(2)).await.expect("started");
    assert_eq!(cgroup_value(&name, ["memory.max", "memory.limit_in_bytes"]), (768 << 20).to_string());
    if let Some(limit) = tcp() {
        assert_eq!(limit.trim(), (24 << 20).to_string());
    }
    let quota = cgroup_value(&name, ["cpu.max", "cpu.cfs_quota_us"]);
    assert_eq!(quota.split(' ').next(), Some("200000"), "{quota}");
}

/// Duration of a script.
async fn script_duration(guest: &Guest, script: &str) -> Duration {
    let started = Instant::now();
    guest.run(script).await;
    started.elapsed()
}

/// Limits the disk speed of an engine. Prints the reason and returns false where the host does not support
/// it.
fn set_disk_speed(fixture: &mut ContainerFixture, speed: DiskSpeed) -> bool {
    fixture.config.host.disk_speed = speed;
    let check = checks(&fixture.config)
        .into_iter()
        .flat_map(|engine| engine.checks)
        .find(|it| it.what == "limit of disk speed");
    if let Some(failed) = check.map(Check::run).filter(|it| !it.ok) {
        Capability::Host.skip(failed.detail);
        return false;
    }
    fixture.engine = open_engine(fixture.config.clone());
    true
}

/// The guest's kernel reads through the host's page cache, even for direct I/O. Uncached data comes from the
/// disk, and synced data is written in the guest's name.
#[tokio::test(flavor = "multi_thread")]
async fn a_disk_over_gvisor_is_no_quicker_than_it_may_be() {
    let Some(mut fixture) = ContainerFixture::gvisor(NetworkConfig::disabled()) else { return };
    if !set_disk_speed(&mut fixture, DiskSpeed { mb_per_second: 4, ops_per_second: 0 }) {
        return;
    }
    let (spec, id, guest) = fixture.start_machine(machine_spec()).await;
    // gVisor's kernel opens the host's files for all programs of the guest.
    for pid in processes(&id.to_string()) {
        let limits = fs::read_to_string(format!("/proc/{pid}/limits")).unwrap_or_default();
        let files = limits.lines().find(|line| line.starts_with("Max open files")).unwrap_or_default();
        let most = files.split_whitespace().nth(4).and_then(|number| number.parse::<u64>().ok());
        assert!(limits.is_empty() || most.is_some_and(|most| most <= 65536), "{pid}: {files}");
    }
    // Sync each block before the next, so that no other process writes it back.
    let write_duration =
        script_duration(&guest, "dd if=/dev/zero of=/root/data bs=1M count=12 oflag=dsync").await;
    println!("written in {write_duration:?}");
    assert!(write_duration > Duration::from_secs(2), "{write_duration:?}");
    // A stop evicts the disk's data from the page cache.
    fixture.engine.stop(id, GRACE).await.expect("stopped");
    let guest = Guest::new(&fixture.engine.start(&spec, &boot(2)).await.expect("started"));
    guest.wait_until_ready().await;
    let read_duration = script_duration(&guest, "dd if=/root/data of=/dev/null bs=1M").await;
    println!("read in {read_duration:?}");
    // Three seconds, minus the burst that the kernel permits.
    assert!(read_duration > Duration::from_secs(2), "{read_duration:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_is_no_quicker_than_it_may_be() {
    let Some(mut fixture) = ContainerFixture::without_network() else { return };
    let write = "dd if=/dev/zero of=/root/data bs=1M count=12 oflag=direct conv=fsync";
    let read = "dd if=/root/data of=/dev/null bs=1M iflag=direct";
    let small = "dd if=/dev/zero of=/root/small bs=4k count=150 oflag=direct";
    for (mb_per_second, ops_per_second, bounded) in [(4, 0, [write, read]), (0, 50, [small, small])] {
        if !set_disk_speed(&mut fixture, DiskSpeed { mb_per_second, ops_per_second }) {
            return;
        }
        let (_, _, guest) = fixture.start_machine(machine_spec()).await;
        for script in bounded {
            let script_duration = script_duration(&guest, script).await;
            println!("{mb_per_second} MB/s, {ops_per_second} ops/s: {script_duration:?}: {script}");
            // Three seconds, minus the burst that the kernel permits.
            assert!(script_duration > Duration::from_secs(2), "{script_duration:?}: {script}");
        }
    }
}
