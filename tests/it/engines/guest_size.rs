//! The size that programs in a container see: CPUs, memory and disk of the computer, not of the host.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use hotdesk::base::ids::ComputerId;
use hotdesk::base::wait;
use hotdesk::engine::{Change, Effect};
use serde_json::json;

use super::conformance::{END_TIMEOUT, EngineFixture, GRACE, boot, machine_spec};
use super::guest::Guest;
use super::host::ContainerFixture;
use super::limits::cgroup_value;
use crate::cli::person::Shell;
use crate::harness::caller::id_of;
use crate::harness::capability::Capability;
use crate::harness::controller::{RunningController, gvisor, image, skip_reason};
use crate::harness::host::control_groups;

/// Prints what programs of a guest read, a name and a number in each line.
const FIGURES: &str = "
echo cpuinfo $(grep -c ^processor /proc/cpuinfo)
echo stat $(grep -c '^cpu[0-9]' /proc/stat)
echo nproc $(nproc)
echo lscpu $(lscpu | sed -n 's/^CPU(s): *//p')
echo configured $(getconf _NPROCESSORS_CONF)
echo python $(python3 -c 'import os; print(os.cpu_count())')
echo free $(free -b | sed -n 's/^Mem: *\\([0-9]*\\) .*/\\1/p')
echo swap $(free -b | sed -n 's/^Swap: *\\([0-9]*\\) .*/\\1/p')
echo top $(top -bn1 | sed -n 's/^MiB Mem : *\\([0-9]*\\).*/\\1/p')
echo df $(df --output=size -B1 / | tail -1)";

/// Names that count CPUs.
const CPU_COUNTS: [&str; 6] = ["cpuinfo", "stat", "nproc", "lscpu", "configured", "python"];

fn parse(figures: &str) -> BTreeMap<String, u64> {
    let line = |line: &str| {
        let (name, number) = line.split_once(' ').unwrap_or_else(|| panic!("no number: {figures}"));
        (name.to_owned(), number.parse().unwrap_or_else(|_| panic!("no number: {figures}")))
    };
    figures.lines().map(line).collect()
}

fn assert_size(figures: &str, cpus: u64, memory_bytes: u64) {
    let seen = parse(figures);
    for name in CPU_COUNTS {
        assert_eq!(seen[name], cpus, "{name}: {figures}");
    }
    assert_eq!((seen["free"], seen["top"], seen["swap"]), (memory_bytes, memory_bytes >> 20, 0), "{figures}");
}

/// Whether this host has lxcfs; prints the reason for a skip otherwise.
fn has_lxcfs() -> bool {
    let found = Path::new("/usr/bin/lxcfs").exists();
    if !found {
        Capability::Runc.skip("lxcfs is not installed (packaging/dev/deps test)");
    }
    found
}

fn fixture_with_lxcfs() -> Option<ContainerFixture> {
    has_lxcfs().then(ContainerFixture::without_network).flatten()
}

fn host_cpus() -> u64 {
    u64::try_from(std::thread::available_parallelism().expect("a number").get()).expect("fits")
}

/// The process id of a machine's lxcfs.
fn lxcfs_of(machine: &Path) -> u32 {
    let text = fs::read_to_string(machine.join("lxcfs.pid")).expect("the machine has an lxcfs");
    text.trim().parse().expect("a process id")
}

#[tokio::test(flavor = "multi_thread")]
async fn programs_see_the_computer_s_size_and_its_live_changes() {
    let Some(fixture) = fixture_with_lxcfs() else { return };
    if host_cpus() < 2 {
        return Capability::Host.skip("one CPU shows no difference");
    }
    let (mut spec, id, guest) = fixture.start_machine(machine_spec()).await;
    let before = guest.run(FIGURES).await;
    assert_size(&before, 1, 512 << 20);
    let disk = parse(&before)["df"];
    assert!(disk <= spec.disk_bytes && disk > spec.disk_bytes / 2, "{disk} of {}", spec.disk_bytes);

    for change in [Change::Cpu(2.0), Change::Memory(768 << 20)] {
        assert_eq!(fixture.engine.resize(id, change).await.expect("changed"), Effect::Live);
    }
    let grown = fixture.engine.resize(id, Change::Disk(1 << 30)).await.expect("changed");
    let after = guest.run(FIGURES).await;
    assert_size(&after, 2, 768 << 20);
    assert_eq!(parse(&after)["df"] > disk, grown == Effect::Live, "{after}");

    // A share of a core is one CPU.
    fixture.engine.stop(id, GRACE).await.expect("stopped");
    (spec.cpu, spec.memory_bytes, spec.disk_bytes) = (0.5, 512 << 20, 1 << 30);
    let guest = Guest::new(&fixture.engine.start(&spec, &boot(2)).await.expect("started"));
    guest.wait_until_ready().await;
    let restarted = guest.run(FIGURES).await;
    assert_size(&restarted, 1, 512 << 20);
    assert!(parse(&restarted)["df"] > disk, "{restarted}");
}

/// Prints the numbers of CPUs that a new shell and Python see, and the CPUs of an earlier process as bits.
const GVISOR_CPUS: &str = "echo $(nproc) $(python3 -c 'import os; print(len(os.sched_getaffinity(0)))') \
                           $(taskset -p $(pgrep -xo sleep) | grep -o '[^ ]*$')";

#[tokio::test(flavor = "multi_thread")]
async fn programs_over_gvisor_count_the_computer_s_cpus_also_after_a_live_change() {
    let Some(configuration) = gvisor() else { return };
    if host_cpus() < 2 {
        return Capability::Host.skip("one CPU shows no difference");
    }
    let controller = RunningController::boot_with(&configuration).await;
    let workspace = controller.workspace("demo").await;
    let id = id_of(&controller.computer(&workspace, "one").await);
    let sleeper =
        "setsid sleep 1000 >/dev/null 2>&1 </dev/null & until pgrep -x sleep >/dev/null; do true; done";
    controller.bash(&id, sleeper).await;
    assert_eq!(controller.bash(&id, GVISOR_CPUS).await.trim(), "1 1 1", "one CPU");
    let resized = controller.act(&id, "resize", json!({"vcpus": 2})).await;
    assert_eq!((resized.status, &resized.body["vcpus"]), (200, &json!(2)), "{}", resized.body);
    assert_eq!(controller.bash(&id, GVISOR_CPUS).await.trim(), "2 2 3", "two CPUs: bits 0 and 1");
}

#[tokio::test(flavor = "multi_thread")]
async fn machines_spread_over_cpus_and_busy_ones_do_not_share_one() {
    let Some(fixture) = fixture_with_lxcfs() else { return };
    if host_cpus() < 2 {
        return Capability::Host.skip("one CPU leaves no choice");
    }
    let (_, one, first) = fixture.start_machine(machine_spec()).await;
    let (_, other, second) = fixture.start_machine(machine_spec()).await;
    let cpus = |id: ComputerId| cgroup_value(&id.to_string(), ["cpuset.cpus", "cpuset.cpus"]);
    assert!(
        !cpus(one).contains(['-', ',']) && !cpus(other).contains(['-', ',']),
        "{} {}",
        cpus(one),
        cpus(other)
    );
    for id in [one, other] {
        for group in control_groups(&id.to_string()).iter().filter(|group| group.join("cpuset.cpus").exists())
        {
            fs::write(group.join("cpuset.cpus"), "0").expect("a CPU");
        }
    }
    for guest in [&first, &second] {
        guest.run("setsid sh -c 'while :; do :; done' >/dev/null 2>&1 </dev/null &").await;
    }
    // A controller that starts now knows nothing of the machines but what the kernel says.
    let engine = fixture.reopen();
    let apart = wait::until(END_TIMEOUT, || async {
        engine.maintain().await.expect("balanced");
        tokio::time::sleep(Duration::from_millis(500)).await;
        (cpus(one) != cpus(other)).then_some(())
    });
    assert!(apart.await.is_some(), "{} and {}", cpus(one), cpus(other));
    assert_eq!(first.run("nproc").await + &second.run("nproc").await, "11");
}

#[tokio::test(flavor = "multi_thread")]
async fn ages_of_processes_are_right_and_the_files_are_locked() {
    let Some(fixture) = fixture_with_lxcfs() else { return };
    let (_, _, guest) = fixture.start_machine(machine_spec()).await;
    let age: u64 = guest.run("ps -o etimes= -p 1").await.trim().parse().expect("seconds");
    assert!(age < 3600, "{age} s");
    for file in ["/proc/meminfo", "/proc/cpuinfo", "/proc/stat", "/sys/devices/system/cpu/online"] {
        guest.run_failing(&format!("echo x > {file}")).await;
        guest.run_failing(&format!("umount {file}")).await;
    }
    // Nothing else of lxcfs is in the guest, which would show the host's control groups.
    let roots =
        guest.run("sed -n 's/^[0-9]* [0-9]* [0-9:]* \\([^ ]*\\) .* fuse.*/\\1/p' /proc/self/mountinfo").await;
    assert!(roots.lines().count() >= 5, "{roots}");
    assert!(
        roots.lines().all(|root| root.starts_with("/proc/") || root.starts_with("/sys/devices/")),
        "{roots}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn one_lxcfs_serves_one_machine_and_ends_with_it() {
    let Some(fixture) = fixture_with_lxcfs() else { return };
    let (spec, id, _) = fixture.start_machine(machine_spec()).await;
    let pid = lxcfs_of(&fixture.folder(id));
    let group = fs::read_to_string(format!("/proc/{pid}/cgroup")).expect("lxcfs runs");
    for hierarchy in control_groups(&id.to_string()) {
        let members = fs::read_to_string(hierarchy.join("cgroup.procs")).expect("members");
        assert!(members.lines().any(|member| member == pid.to_string()), "{}: {group}", hierarchy.display());
    }
    fixture.engine.stop(id, GRACE).await.expect("stopped");
    let ended = wait::until(END_TIMEOUT, || async {
        (!crate::harness::process::alive(&pid.to_string())).then_some(())
    });
    assert!(ended.await.is_some(), "lxcfs {pid} must end with its machine");
    assert!(!fixture.folder(id).join("lxcfs.pid").exists());

    // A guest that ends by itself takes it along, before anybody sweeps.
    let guest = Guest::new(&fixture.engine.start(&spec, &boot(2)).await.expect("started"));
    guest.wait_until_ready().await;
    let pid = lxcfs_of(&fixture.folder(id)).to_string();
    guest.crash().await;
    let ended = wait::until(END_TIMEOUT, || async { (!crate::harness::process::alive(&pid)).then_some(()) });
    assert!(ended.await.is_some(), "lxcfs {pid} must end with its guest");
}

/// Hides lxcfs in its mount namespace, then runs a controller with a computer and removes both. IMAGE is the image.
const WITHOUT_LXCFS: &str = r#"set -e
for file in /usr/bin/lxcfs /usr/local/bin/lxcfs; do
    test ! -e $file || mount --bind /dev/null $file
done
hotdesk --json doctor --isolations shared --data-dir data --image "$IMAGE" >doctor || true
hotdesk serve --isolations shared --listen 127.0.0.1:0 --data-dir data --image "$IMAGE" >out 2>log &
service=$!
trap 'kill $service; wait $service; hotdesk purge --yes --data-dir data >&2' EXIT
until grep -q ^listening out; do kill -0 $service; sleep 0.05; done
export HOTDESK_API_KEY=$(sed -n 's/^account key.*: //p' out) HOTDESK_URL=$(sed -n 's/^listening on //p' out)
hotdesk workspaces create home >&2
hotdesk computers create desk --workspace home >&2
hotdesk bash desk 'grep -c fuse /proc/self/mountinfo; echo works'
"#;

#[tokio::test(flavor = "multi_thread")]
async fn without_lxcfs_computers_run_and_the_doctor_warns() {
    if let Some(skip) = skip_reason() {
        return skip.report();
    }
    let shell = Shell::new().env("IMAGE", image().to_str().expect("UTF-8"));
    fs::write(shell.file("script"), WITHOUT_LXCFS).expect("written");
    let line = "PATH=$PATH:/usr/sbin:/sbin unshare -m bash script";
    assert_eq!(shell.run_in_bash(line).await.expect_success(), "0\nworks\n");
    let text = fs::read_to_string(shell.file("doctor")).expect("findings");
    let doctor: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let all = doctor["findings"].as_array().expect("a list");
    let finding = all.iter().find(|it| it["what"] == "size shown in guests").expect("the finding");
    assert_eq!((&finding["ok"], &finding["optional"]), (&json!(false), &json!(true)), "{finding}");
    assert!(finding["mend"].as_str().expect("a remedy").contains("apt install lxcfs"), "{finding}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_size_is_shown_while_the_controller_is_down_and_after_it() {
    if !has_lxcfs() {
        return;
    }
    let Some((mut controller, _, id)) = RunningController::with_a_computer().await else { return };
    let total = "free -b | sed -n 's/^Mem: *\\([0-9]*\\) .*/\\1/p'";
    assert_eq!(controller.bash(&id, total).await.trim(), (4_u64 << 30).to_string());
    let pid = lxcfs_of(&controller.machine(&id)).to_string();
    controller.kill();
    assert!(crate::harness::process::alive(&pid), "lxcfs outlives the controller");
    controller.start_again().await;
    assert_eq!(controller.bash(&id, total).await.trim(), (4_u64 << 30).to_string());
    let resized = controller.post(&format!("/computers/{id}/resize"), json!({"mem_gb": 8})).await;
    assert_eq!(resized.status, 200, "{}", resized.body);
    assert_eq!(controller.bash(&id, total).await.trim(), (8_u64 << 30).to_string());

    let health = controller.get(&format!("/desktops/{id}/proxy/health")).await.body;
    assert_eq!(health["memory_total_bytes"], 8_u64 << 30, "{health}");

    // Without lxcfs the computer works. The controller notices its end and starts another, as often as it ends.
    for signal in ["-9", "-15"] {
        let pid = lxcfs_of(&controller.machine(&id)).to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().expect("kill").success());
        assert_eq!(
            controller.bash(&id, "nproc >/dev/null && ls / >/dev/null && echo works").await,
            "works\n"
        );
        let served = wait::until(END_TIMEOUT, || async {
            (controller.bash(&id, total).await.trim() == (8_u64 << 30).to_string()).then_some(())
        });
        assert!(served.await.is_some(), "{}", controller.log());
    }
    // The files are mounted one after another.
    let mounts =
        async || controller.bash(&id, "grep -c ' fuse' /proc/self/mountinfo").await.trim().to_owned();
    let all = wait::until(END_TIMEOUT, || async { (mounts().await == "9").then_some(()) });
    assert!(all.await.is_some(), "{} mounts: those of an ended lxcfs must not be left", mounts().await);
}
