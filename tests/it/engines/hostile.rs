//! Container engine with a hostile root in the guest: isolation (T1, T15) and limits (T22; docs/security.md).

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use hotdesk::base::wait;
use hotdesk::engine::{NetworkConfig, Observation};

use super::conformance::{END_TIMEOUT, EngineFixture, GRACE, boot, expect_running, machine_spec};
use super::host::ContainerFixture;

/// Shell commands of a hostile root. Each line must fail.
const SHELL_ATTEMPTS: &str = "
unshare --mount true
unshare --user true
unshare --net true
unshare --pid --fork true
unshare --ipc --uts --cgroup true
nsenter --mount=/proc/self/ns/mnt true
mount -t tmpfs none /mnt
mount -t proc none /mnt
mount -t cgroup none /mnt
mount --bind / /mnt
mount -o remount,rw /proc/sys
mount -o remount,rw /sys
umount /usr/bin/hotdesk
umount /proc/kcore
mknod /tmp/null c 1 3
mknod /tmp/disk b 7 0
echo h > /proc/sysrq-trigger
echo core > /proc/sys/kernel/core_pattern
echo 1 > /proc/sys/kernel/panic
echo 1 > /proc/sys/user/max_user_namespaces
echo 0 > /proc/sys/net/ipv4/ip_forward
echo -1000 > /proc/self/oom_score_adj
echo 1 > /sys/kernel/mm/ksm/run
test -n \"$(head -c 1 /proc/kcore)\"
test -n \"$(head -c 1 /proc/keys)\"
test -n \"$(ls -A /sys/fs/cgroup)\"
test -n \"$(ls -A /sys/firmware)\"
for folder in /sys/block /sys/class/block /sys/dev/block /sys/devices/virtual/block; do ls -A $folder; done | grep .
ls /dev/loop0 || ls /dev/kvm || ls /dev/mem || ls /dev/fuse || ls /dev/net/tun
hostname other
date -s 2001-01-01
dmesg
swapon /dev/zero
ip link set lo down
ip link add dummy0 type dummy
echo x > /usr/bin/hotdesk
mv /usr/bin/hotdesk /tmp/
rm /etc/machine-id
";

/// System calls of a hostile root: name, number, up to three arguments on x86-64, and the expected error.
const SYSCALL_ATTEMPTS: [(&str, u32, [i64; 3], i32); 25] = [
    ("ptrace", 101, [0, 0, 0], 1),
    ("mount", 165, [0, 0, 0], 1),
    ("pivot_root", 155, [0, 0, 0], 1),
    ("setns", 308, [0, 0, 0], 1),
    ("unshare(CLONE_NEWUSER)", 272, [0x1000_0000, 0, 0], 1),
    ("unshare(CLONE_NEWTIME)", 272, [0x80, 0, 0], 1),
    ("clone(CLONE_NEWUSER)", 56, [0x1000_0011, 0, 0], 1),
    ("clone3", 435, [0, 0, 0], 38),
    ("bpf", 321, [0, 0, 0], 1),
    ("perf_event_open", 298, [0, 0, 0], 1),
    ("userfaultfd", 323, [0, 0, 0], 1),
    ("io_uring_setup", 425, [1, 0, 0], 1),
    ("keyctl", 250, [0, 0, 0], 1),
    ("add_key", 248, [0, 0, 0], 1),
    ("open_by_handle_at", 304, [0, 0, 0], 1),
    ("init_module", 175, [0, 0, 0], 1),
    ("kexec_load", 246, [0, 0, 0], 1),
    ("open_tree", 428, [0, 0, 0], 1),
    ("socket(AF_VSOCK)", 41, [40, 1, 0], 1),
    ("socket(AF_PACKET)", 41, [17, 3, 0], 1),
    ("socket(IPPROTO_MPTCP)", 41, [2, 1, 262], 1),
    ("socket(IPPROTO_SCTP)", 41, [2, 1, 132], 1),
    ("socket(NETLINK_NETFILTER)", 41, [16, 3, 12], 1),
    ("socket(NETLINK_GENERIC)", 41, [16, 3, 16], 1),
    ("io_setup", 206, [1, 0, 0], 38),
];

#[tokio::test(flavor = "multi_thread")]
async fn hostile_root_is_refused_everything_that_leads_out() {
    let Some(fixture) = ContainerFixture::without_network() else { return };
    let (_, id, guest) = fixture.start_machine(machine_spec()).await;
    for script in SHELL_ATTEMPTS.lines().filter(|line| !line.is_empty()) {
        let output = guest.sh(script).await;
        assert_ne!(output.code, 0, "{script} succeeded: {}", output.text);
        assert_ne!(output.code, 127, "{script} must be executable: {}", output.text);
    }
    if cfg!(target_arch = "x86_64") {
        for (name, number, [a, b, c], error) in SYSCALL_ATTEMPTS {
            let script = format!(
                "python3 -c 'import ctypes; libc = ctypes.CDLL(None, use_errno=True); \
                 print(libc.syscall({number}, {a}, {b}, {c}), ctypes.get_errno())'"
            );
            assert_eq!(guest.run(&script).await, format!("-1 {error}"), "{name}");
        }
    }
    expect_running(&*fixture.engine, id, 1).await.wait_until_ready().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_root_has_few_capabilities_a_filter_and_no_way_to_gain_more() {
    let Some(fixture) = ContainerFixture::without_network() else { return };
    let (_, _, guest) = fixture.start_machine(machine_spec()).await;
    let field = async |name: &str| guest.run(&format!("grep {name}: /proc/1/status | cut -f2")).await;
    // AUDIT_WRITE, CHOWN, DAC_OVERRIDE, FOWNER, FSETID, KILL, NET_BIND_SERVICE, SETGID, SETPCAP, SETUID,
    // SYS_CHROOT.
    let expected: u64 = [29, 0, 1, 3, 4, 5, 10, 6, 8, 7, 18].iter().map(|bit| 1_u64 << bit).sum();
    for set in ["CapBnd", "CapEff", "CapPrm"] {
        assert_eq!(field(set).await, format!("{expected:016x}"), "{set}");
    }
    for set in ["CapInh", "CapAmb"] {
        assert_eq!(field(set).await, format!("{:016x}", 0), "{set}");
    }
    assert_eq!(field("NoNewPrivs").await, "1");
    assert_eq!(field("Seccomp").await, "2");
    let bounds = "cd /proc/sys/user && cat max_inotify_instances max_inotify_watches max_user_namespaces";
    assert_eq!(guest.run(bounds).await, "512\n262144\n0");
    assert_eq!(
        guest
            .run("cat /proc/self/uid_map | tr -s ' '")
            .await
            .split(' ')
            .filter(|word| !word.is_empty())
            .nth(2),
        Some("65536")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guest_inherits_its_socket_and_no_other_descriptor() {
    let Some(fixture) = ContainerFixture::without_network() else { return };
    // Descriptors without close-on-exec; the guest must not inherit them.
    let leaked: Vec<_> = (0..5).map(|_| fs::File::open("/etc/passwd").expect("a file")).collect();
    for file in &leaked {
        rustix::io::fcntl_setfd(file, rustix::io::FdFlags::empty()).expect("leaked");
    }
    let (_, _, guest) = fixture.start_machine(machine_spec()).await;
    drop(leaked);
    let listed = guest.run("for fd in /proc/1/fd/*; do echo \"${fd##*/} $(readlink $fd)\"; done").await;
    for line in listed.lines() {
        // The output is trimmed, so the last line may lack its empty target.
        let (number, target) = line.split_once(' ').unwrap_or((line, ""));
        let number: u32 = number.parse().expect("a number");
        match number {
            // The descriptor was closed while the list was created.
            _ if target.is_empty() => {}
            0..=2 => assert_eq!(target, "/dev/null", "{listed}"),
            // Descriptor 3 is the agent's socket; higher ones are opened by the agent for this request.
            _ => assert!(target.starts_with("socket:") || target.starts_with("pipe:"), "{listed}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ordinary_programs_work_within_the_walls() {
    let Some(fixture) = ContainerFixture::without_network() else { return };
    let (_, _, guest) = fixture.start_machine(machine_spec()).await;
    for script in [
        "python3 -c 'import threading; t = threading.Thread(target=print); t.start(); t.join()'",
        "python3 -c 'import multiprocessing as m; print(m.Pool(2).map(abs, [-1]))'",
        "python3 -c 'import socket; [socket.socket(f, socket.SOCK_STREAM) for f in (socket.AF_INET, socket.AF_INET6, socket.AF_UNIX)]'",
        "python3 -c 'import os; os.memfd_create(\"x\"); os.pidfd_open(os.getpid())'",
        "python3 -c 'import pty; pty.spawn([\"true\"])'",
        "mkfifo /tmp/pipe && chown 1000 /tmp/pipe && chmod 4755 /tmp/pipe",
        "su -s /bin/sh nobody -c 'test $(id -u) = 65534'",
        "chroot / true",
        "echo x > /dev/null && head -c 1 /dev/urandom > /tmp/byte && test -w /dev/shm && test -w /run",
        "echo 10.1.2.3 friend >> /etc/hosts && getent hosts friend",
        "ln -sf /etc/hosts /root/link && cp -a /etc/skel /root/skel && rm -r /root/skel /opt",
        "ip addr show lo | grep -q 127.0.0.1",
        "setsid sleep 0 && nice -n 5 true",
        "rm -rf /usr/share/doc && ! test -e /usr/share/doc",
    ] {
        guest.run(script).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_processes_and_shared_memory_are_bounded() {
    let Some(fixture) = ContainerFixture::without_network() else { return };
    let (spec, id, guest) = fixture.start_machine(machine_spec()).await;
    let memory_test =
        guest.sh(&format!("python3 -c 'print(len(bytearray({})))'", spec.memory_bytes * 2)).await;
    assert!(
        memory_test.code == 137 || memory_test.code == -9,
        "must be killed by the OOM killer: {memory_test:?}"
    );
    let disk_test = guest.sh("dd if=/dev/zero of=/dev/shm/x bs=1M count=400").await;
    assert!(disk_test.text.contains("No space left"), "{disk_test:?}");
    guest.run("rm /dev/shm/x").await;
    let disk_test = guest.sh("dd if=/dev/zero of=/run/x bs=1M count=400").await;
    assert!(disk_test.text.contains("No space left"), "{disk_test:?}");
    guest.run("rm /run/x").await;

    let bomb = "python3 -c '
import threading
threading.stack_size(65536)
stop, started = threading.Event(), 0
try:
    while started < 5000:
        threading.Thread(target=stop.wait).start(); started += 1
except RuntimeError: pass
stop.set(); print(started)'";
    let started: u32 = guest.run(bomb).await.parse().expect("a number");
    assert!((3500..4096).contains(&started), "{started} threads");
    assert_eq!(guest.run("ulimit -c").await, "0");
    expect_running(&*fixture.engine, id, 1).await.wait_until_ready().await;
}

/// The kernel shows names and numbers of the host's disks there, and with them files of other guests.
#[tokio::test(flavor = "multi_thread")]
async fn a_guest_over_gvisor_sees_no_disk_of_the_host() {
    let Some(fixture) = ContainerFixture::gvisor(NetworkConfig::disabled()) else { return };
    let (_, _, guest) = fixture.start_machine(machine_spec()).await;
    let attempts: Vec<&str> = SHELL_ATTEMPTS.lines().filter(|line| line.contains("/sys/block")).collect();
    assert_eq!(attempts.len(), 1);
    let output = guest.run_failing(attempts[0]).await;
    assert!(!output.contains("loop"), "{output}");
}

#[tokio::test(flavor = "multi_thread")]
async fn t22_a_process_opens_no_more_files_than_its_guest_has_places_for() {
    let Some(fixture) = ContainerFixture::without_network() else { return };
    let (_, _, guest) = fixture.start_machine(machine_spec()).await;
    let open_all = "python3 -c '
import os, resource
_, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
opened = 0
try:
    while True: os.open(\"/dev/null\", os.O_RDONLY); opened += 1
except OSError as error: print(opened, error.errno)
try: resource.setrlimit(resource.RLIMIT_NOFILE, (hard + 1, hard + 1))
except (ValueError, OSError): print(\"bounded\")'";
    let output = guest.run(open_all).await;
    let words: Vec<&str> = output.split_whitespace().collect();
    let [opened, error, "bounded"] = words[..] else { panic!("{output}") };
    let opened: u32 = opened.parse().expect("a number");
    // EMFILE; a few are open before.
    assert!((1000..65_536).contains(&opened) && error == "24", "{output}");
    assert_eq!(guest.run("cat /etc/hostname >/dev/null; echo open").await, "open", "others go on");
}

#[tokio::test(flavor = "multi_thread")]
async fn half_a_cpu_is_half_a_cpu() {
    let Some(fixture) = ContainerFixture::without_network() else { return };
    let mut spec = machine_spec();
    spec.cpu = 0.5;
    let (_, _, guest) = fixture.start_machine(spec).await;
    let cpu_test = "python3 -c '
import time
begun, used = time.monotonic(), time.process_time()
while time.monotonic() - begun < 3: pass
print((time.process_time() - used) / (time.monotonic() - begun))'";
    let share: f64 = guest.run(cpu_test).await.parse().expect("a number");
    assert!(share < 0.6, "{share} of a core, expected at most half");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_is_bounded_and_gives_back_what_was_deleted() {
    let Some(fixture) = ContainerFixture::without_network() else { return };
    let (spec, id, guest) = fixture.start_machine(machine_spec()).await;
    let disk = fixture.folder(id).join("disk.img");
    let spent = || fs::metadata(&disk).expect("the disk").blocks() * 512;
    let fresh = spent();
    assert!(fresh < 32 << 20, "a new disk occupies {fresh} bytes");
    let disk_test = guest.sh("dd if=/dev/urandom of=/root/big bs=1M; sync").await;
    assert!(disk_test.text.contains("No space left on device"), "{disk_test:?}");
    assert_eq!(fs::metadata(&disk).expect("the disk").len(), spec.disk_bytes);
    assert!(spent() <= spec.disk_bytes && spent() > spec.disk_bytes / 2, "{}", spent());
    guest.run("rm /root/big; sync").await;
    let released =
        wait::until(Duration::from_secs(30), || async { (spent() < fresh + (32 << 20)).then_some(()) });
    assert!(released.await.is_some(), "{} bytes must be released", spent());
    guest.store("note", "space again").await;
}

/// Attempts to replace mount points of the next boot, and the folders above them. A link in such a place
/// would let the guest choose what the boot mounts over.
const REPLACE_ATTEMPTS: &str = "
rm -f /etc/hosts
mv /etc/resolv.conf /etc/other
ln -sfn /tmp/elsewhere /etc/hostname
python3 -c 'import os; os.rename(\"/etc\", \"/etc.old\")'
python3 -c 'import os; os.rename(\"/usr\", \"/usr.old\")'
python3 -c 'import os; os.rename(\"/usr/bin\", \"/usr/bin.old\")'
python3 -c 'import os; os.rename(\"/run\", \"/run.old\")'
python3 -c 'import os; os.rename(\"/dev\", \"/dev.old\")'
";

#[tokio::test(flavor = "multi_thread")]
async fn a_guest_cannot_replace_what_is_mounted_over_and_breaks_only_itself() {
    let Some(fixture) = ContainerFixture::without_network() else { return };
    let (spec, id, guest) = fixture.start_machine(machine_spec()).await;
    for script in REPLACE_ATTEMPTS.lines().filter(|line| !line.is_empty()) {
        let output = guest.run_failing(script).await;
        assert!(output.contains("busy") || output.contains("cross-device"), "{script}: {output}");
    }
    // Without the dynamic loader no program of the guest runs.
    guest.run("rm -rf /lib64 /usr/lib64 /usr/lib/*/ld-linux* || true").await;
    fixture.engine.stop(id, GRACE).await.expect("stopped");
    fixture.engine.start(&spec, &boot(2)).await.expect("the start succeeds, although the guest cannot run");
    let ended = tokio::time::timeout(END_TIMEOUT, fixture.engine.wait_stopped(id)).await;
    ended.expect("the waiter learns that the first process ended").expect("no error");
    assert_eq!(fixture.engine.observe(id).await.expect("an observation"), Observation::Stopped);
    fixture.engine.destroy(id).await.expect("destroyed");
    fixture.expect_removed(id);
}
