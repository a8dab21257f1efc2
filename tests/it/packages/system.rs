//! A system with systemd as its first process, for tests that install a package in it.
//!
//! ```text
//!   own control groups --> unshare: mounts, processes, network, host name, IPC, control groups
//!      `-- BOOT: overlay over packaging/dev/system-root --> /proc, /sys, /dev --> pivot_root --> systemd
//! ```
//! The drop kills systemd, with which the kernel ends everything else of the system.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::succeed;
use crate::harness::capability::{Capability, Skip};
use crate::harness::check_cleanup;
use crate::harness::controller::{image, skip_reason};
use crate::harness::host::control_group_roots;

/// Longest time of a step of systemd or hotdesk, on a busy machine.
const STEP_TIMEOUT: Duration = Duration::from_secs(60);
/// Pause between two looks at the state of the system.
const PAUSE: Duration = Duration::from_millis(50);

/// Joins the control groups `$4`, ..., and starts [`BOOT`] in namespaces of its own.
const ENTER: &str = r#"
set -eu
boot=$1 base=$2 folder=$3 image=$4
shift 4
for group; do echo $$ >"$group/cgroup.procs"; done
exec unshare --mount --uts --ipc --net --pid --cgroup --fork --kill-child sh -c "$boot" boot "$base" "$folder" "$image"
"#;

/// Makes the root folder of the system from `$1`, the packages' files, in the folder `$2` with the guest image `$3`, and becomes
/// systemd.
const BOOT: &str = r#"
set -eu
mounts=$(cat /proc/mounts)
mount -t overlay overlay -o "lowerdir=$1,upperdir=$2/upper,workdir=$2/work" "$2/root"
cd "$2/root"
mkdir -p var/lib/hotdesk var/cache/hotdesk/images/full
mount --bind "$2/data" var/lib/hotdesk
mount --bind -o ro "$3" var/cache/hotdesk/images/full

mount -t proc proc proc
# The kernel's settings belong to the machine, except those of namespaces for networks and users.
mount --bind proc/sys proc/sys
for part in net user; do mount --bind "proc/sys/$part" "proc/sys/$part"; done
mount -o remount,bind,ro proc/sys
# The kernel lets a guest mount its /proc where a whole one is visible (mount_too_revealing, fs/namespace.c), as on every host.
mkdir srv/proc
mount -t proc proc srv/proc
mount -t sysfs sysfs sys
if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
    mount -t cgroup2 cgroup2 sys/fs/cgroup
else
    mount -t tmpfs -o mode=755 tmpfs sys/fs/cgroup
    echo "$mounts" | while read -r _ target type options _; do
        case $type:$target in cgroup*:/sys/fs/cgroup/*) ;; *) continue ;; esac
        mkdir ".$target"
        mount -t "$type" -o "$options" "$type" ".$target"
    done
fi

mount -t tmpfs -o mode=755 tmpfs dev
for node in null zero full random urandom tty fuse loop-control; do cp -a "/dev/$node" dev/; done
for number in $(seq 0 127); do mknod -m 600 "dev/loop$number" b 7 "$number"; done
mkdir dev/pts dev/shm
mount -t devpts -o newinstance,ptmxmode=666,mode=620,gid=5 devpts dev/pts
ln -s pts/ptmx dev/ptmx
mount -t tmpfs -o mode=1777 tmpfs dev/shm

echo 0123456789abcdef0123456789abcdef >etc/machine-id
# Updates of packages and clean-ups of the host are not tested.
ln -s /dev/null etc/systemd/system/timers.target
pivot_root . .
umount -l .
mount --make-rshared /
exec env -i container=test PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd
"#;

/// A system that has booted.
pub struct System {
    /// The process `unshare`, whose only child is the system's first process.
    child: Child,
    groups: Vec<PathBuf>,
    _folder: tempfile::TempDir,
}

/// The folder with the packages' files, or the reason to skip.
fn base() -> Result<PathBuf, Skip> {
    if let Some(skip) = skip_reason() {
        return Err(skip);
    }
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/packaging/dev/system-root");
    let base = PathBuf::from(succeed(Command::new(script).arg("--path")).trim());
    if base.is_dir() {
        return Ok(base);
    }
    Err(Skip::new(Capability::Systemd, format!("{} is missing (packaging/dev/deps test)", base.display())))
}

impl System {
    /// Boots a system. Where that is not possible, prints the reason and returns `None`.
    pub fn boot() -> Option<Self> {
        let base = match base() {
            Ok(base) => base,
            Err(skip) => {
                skip.report();
                return None;
            }
        };
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["upper", "work", "root", "data"] {
            fs::create_dir(folder.path().join(name)).expect("a folder");
        }
        let groups: Vec<_> = control_group_roots().iter().map(|root| make_group(root)).collect();
        // The system ends with the test, also when that is killed.
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "sh", "-c", ENTER, "enter", BOOT]).arg(base).arg(folder.path());
        command.arg(image().canonicalize().expect("the image")).args(&groups);
        let child = command.spawn().expect("setpriv starts");
        let system = Self { child, groups, _folder: folder };
        system.wait_for("systemd", || system.attempt("systemctl is-system-running").ok_if("running"));
        Some(system)
    }

    /// The host's id of the system's first process; `None` before it exists and after its end.
    fn first_process(&self) -> Option<Pid> {
        let pid = self.child.id();
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok()?;
        Some(Pid::from_raw(children.split_whitespace().next()?.parse().expect("a pid")))
    }

    /// Copies a file to the root folder of the system.
    pub fn copy(&self, file: &Path, name: &str) {
        let pid = self.first_process().expect("the system runs");
        fs::copy(file, format!("/proc/{pid}/root/{name}")).expect("copied");
    }

    /// Runs a line of a shell in the system.
    pub fn attempt(&self, line: &str) -> Attempt {
        let Some(pid) = self.first_process() else { return Attempt { output: None } };
        let mut command = Command::new("nsenter");
        command.args(["--all", "--root", "--wd", "--target"]).arg(pid.to_string());
        command.args(["sh", "-c", line]).env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        Attempt { output: Some(command.output().expect("nsenter starts")) }
    }

    /// Runs a line of a shell in the system, which has to succeed. Returns its trimmed output.
    #[track_caller]
    pub fn run(&self, line: &str) -> String {
        let attempt = self.attempt(line);
        let text = attempt.text();
        assert!(attempt.is_success(), "{line}\n{text}\n{}", self.log());
        text
    }

    /// Repeats `look` until it returns a value.
    #[track_caller]
    pub fn wait_for<T>(&self, what: &str, mut look: impl FnMut() -> Result<T, String>) -> T {
        let until = Instant::now() + STEP_TIMEOUT;
        loop {
            match look() {
                Ok(found) => return found,
                Err(why) => assert!(Instant::now() < until, "no {what}: {why}\n{}", self.log()),
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// The last lines of the system's journal.
    fn log(&self) -> String {
        self.attempt("systemctl --failed --no-legend; journalctl --no-pager --lines 60").text()
    }
}

/// The end of a line of a shell.
pub struct Attempt {
    /// `None` before the system has a first process.
    output: Option<Output>,
}

impl Attempt {
    pub fn is_success(&self) -> bool {
        self.output.as_ref().is_some_and(|output| output.status.success())
    }

    /// Standard output, and standard error after a failure.
    pub fn text(&self) -> String {
        let Some(output) = &self.output else { return "the system has no first process".to_owned() };
        let error: &[u8] = if self.is_success() { b"" } else { &output.stderr };
        String::from_utf8_lossy(&[&output.stdout, error].concat()).trim().to_owned()
    }

    /// Whether the output is `expected`; otherwise the output.
    pub fn ok_if(&self, expected: &str) -> Result<(), String> {
        let text = self.text();
        if text == expected { Ok(()) } else { Err(text) }
    }
}

/// Makes a control group for the system below a root.
fn make_group(root: &Path) -> PathBuf {
    let group = root.join(format!("hotdesk-system-{}", std::process::id()));
    fs::create_dir(&group).expect("a control group");
    // Version 1: a group without processors and memory nodes takes no process.
    for name in ["cpuset.mems", "cpuset.cpus"] {
        if let Ok(inherited) = fs::read(root.join(name)) {
            fs::write(group.join(name), inherited).expect("processors and memory nodes");
        }
    }
    group
}

/// Removes a control group with those below it.
fn remove_group(group: &Path) -> io::Result<()> {
    for entry in fs::read_dir(group)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            remove_group(&entry.path())?;
        }
    }
    fs::remove_dir(group)
}

impl Drop for System {
    fn drop(&mut self) {
        if let Some(pid) = self.first_process() {
            let _gone = kill(pid, Signal::SIGKILL);
        }
        let _ended = self.child.wait();
        // The kernel removes processes and mounts in its own time.
        let until = Instant::now() + STEP_TIMEOUT;
        for group in &self.groups {
            let mut removed = remove_group(group);
            while removed.is_err() && Instant::now() < until {
                std::thread::sleep(PAUSE);
                removed = remove_group(group);
            }
            check_cleanup(removed.is_ok(), || format!("{}: {removed:?}", group.display()));
        }
    }
}
