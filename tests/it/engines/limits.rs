//! Is the kernel told of a machine's limits, under whichever version of control groups this host has? (That they hold:
//! `hostile`.)

use std::fs;
use std::time::{Duration, Instant};

use hotdesk::engine::container::{ContainerEngine, DiskSpeed, NetworkConfig, probe};
use hotdesk::engine::{Engine, MachineSpec};

use super::conformance::{GRACE, a_machine, boot};
use super::guest::Guest;
use super::host::Containers;
use crate::harness::host::control_groups;

/// What the machine's groups say under the first of these names that one of them has.
pub fn setting(id: &str, names: [&str; 2]) -> String {
    let groups = control_groups(id);
    let found = names.iter().flat_map(|name| groups.iter().map(move |group| group.join(name)));
    let found: Vec<_> = found.filter(|path| path.exists()).collect();
    assert!(!found.is_empty(), "none of {names:?} in {groups:?}");
    fs::read_to_string(&found[0]).expect("a setting").trim().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_kernel_is_told_of_every_limit_at_every_start() {
    let Some(bench) = Containers::lonely() else { return };
    let spec = MachineSpec { cpu: 0.5, ..a_machine() };
    let (mut spec, id, _) = bench.running(spec).await;
    let name = id.to_string();
    assert_eq!(setting(&name, ["memory.max", "memory.limit_in_bytes"]), (512 << 20).to_string());
    // Version 2 counts swap apart from memory, version 1 both together.
    let swap = setting(&name, ["memory.swap.max", "memory.memsw.limit_in_bytes"]);
    assert!(swap == "0" || swap == (512 << 20).to_string(), "{swap}");
    assert_eq!(setting(&name, ["pids.max", "pids.max"]), "4096");
    let quota = setting(&name, ["cpu.max", "cpu.cfs_quota_us"]);
    assert_eq!(quota.split(' ').next(), Some("50000"), "{quota}");

    // Another size holds from the next start.
    bench.engine.stop(id, GRACE).await.expect("stopped");
    (spec.cpu, spec.memory_bytes) = (2.0, 768 << 20);
    bench.engine.start(&spec, &boot(2)).await.expect("started");
    assert_eq!(setting(&name, ["memory.max", "memory.limit_in_bytes"]), (768 << 20).to_string());
    let quota = setting(&name, ["cpu.max", "cpu.cfs_quota_us"]);
    assert_eq!(quota.split(' ').next(), Some("200000"), "{quota}");
}

/// How long a script takes.
async fn took(guest: &Guest, script: &str) -> Duration {
    let begun = Instant::now();
    guest.says(script).await;
    begun.elapsed()
}

/// Has an engine bound the speed of its machines' disks; false, with the reason printed, where this host cannot.
fn bound(bench: &mut Containers, speed: DiskSpeed) -> bool {
    bench.config.disk_speed = speed;
    let able = probe::probe(&bench.config).into_iter().find(|it| it.what == "bound on disk speed");
    if let Some(unable) = able.filter(|it| !it.ok) {
        println!("skipped: {}", unable.detail);
        return false;
    }
    bench.engine = ContainerEngine::open(bench.config.clone()).expect("an engine");
    true
}

/// The guest's kernel asks the host for content through the page cache, whatever a program wants: what is not in that comes from
/// the disk, and what is synced goes there in the guest's name.
#[tokio::test(flavor = "multi_thread")]
async fn a_disk_over_gvisor_is_no_quicker_than_it_may_be() {
    let Some(mut bench) = Containers::gvisor(NetworkConfig::disabled()) else { return };
    if !bound(&mut bench, DiskSpeed { mb_per_second: 4, ops_per_second: 0 }) {
        return;
    }
    let (spec, id, guest) = bench.running(a_machine()).await;
    // Each block is synced before the next, so that nobody else writes any of it back.
    let writing = took(&guest, "dd if=/dev/zero of=/root/data bs=1M count=12 oflag=dsync").await;
    println!("written in {writing:?}");
    assert!(writing > Duration::from_secs(2), "{writing:?}");
    // A stop takes the disk, and with it what of it is in the page cache.
    bench.engine.stop(id, GRACE).await.expect("stopped");
    let guest = Guest::at(&bench.engine.start(&spec, &boot(2)).await.expect("started"));
    guest.answers().await;
    let reading = took(&guest, "dd if=/root/data of=/dev/null bs=1M").await;
    println!("read in {reading:?}");
    // Three seconds, less what the kernel lets pass at once.
    assert!(reading > Duration::from_secs(2), "{reading:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_is_no_quicker_than_it_may_be() {
    let Some(mut bench) = Containers::lonely() else { return };
    let write = "dd if=/dev/zero of=/root/data bs=1M count=12 oflag=direct conv=fsync";
    let read = "dd if=/root/data of=/dev/null bs=1M iflag=direct";
    let small = "dd if=/dev/zero of=/root/small bs=4k count=150 oflag=direct";
    for (mb_per_second, ops_per_second, bounded) in [(4, 0, [write, read]), (0, 50, [small, small])] {
        if !bound(&mut bench, DiskSpeed { mb_per_second, ops_per_second }) {
            return;
        }
        let (_, _, guest) = bench.running(a_machine()).await;
        for script in bounded {
            let took = took(&guest, script).await;
            println!("{mb_per_second} MB/s, {ops_per_second} ops/s: {took:?}: {script}");
            // Three seconds, less what the kernel lets pass at once.
            assert!(took > Duration::from_secs(2), "{took:?}: {script}");
        }
    }
}
