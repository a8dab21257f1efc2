//! What is process 1 of a virtual machine? A small program that runs one command, does what the machine's engine asks for on a
//! line of its own, and powers the machine off when the command ends.
//!
//! ```text
//!   Running -- "stop": SIGTERM to the command --> Stopping -- it ends --> disk at rest, power off
//!      |------------------- the command ends by itself ----------------->
//! ```

mod identity;
mod line;

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::reboot::{RebootMode, reboot};
use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use self::line::{Line, Request};
use super::identity::set_clock;
use super::init::prepare::prepare;
use hotdesk_base::filesystem;

/// The root folder of the disk's file system, above what the guest sees of it, and the engine's line, as the initial RAM disk
/// hands them over (`packaging/vm/init`).
const DISK_FD: RawFd = 8;
const LINE_FD: RawFd = 9;
/// How long the disk may hold still before it goes on by itself: whatever becomes of who asked, the guest's writes go on. Half
/// as long again as an engine takes for a copy (30 s), so that it is the engine that ends it.
const LONGEST_STILL: Duration = Duration::from_secs(45);
const BLOCK_DEVICES: &str = "/sys/dev/block";
const CPUS: &str = "/sys/devices/system/cpu";

/// Runs the command to its end and powers the machine off.
///
/// # Errors
/// When this is not process 1 of a virtual machine, or cannot begin.
pub fn run(command: &[OsString]) -> Result<(), String> {
    if nix::unistd::getpid().as_raw() != 1 {
        return Err("only as process 1 of a virtual machine".to_owned());
    }
    let step = |what: &'static str| move |error: Errno| format!("{what}: {error}");
    let mask = SigSet::all();
    mask.thread_block().map_err(step("block signals"))?;
    let flags = SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC;
    let signals = SignalFd::with_flags(&mask, flags).map_err(step("signalfd"))?;
    let disk = handed(DISK_FD).map_err(|error| format!("the disk's descriptor: {error}"))?;
    let line = handed(LINE_FD).and_then(|line| Line::over(File::from(line)));
    let line = line.map_err(|error| format!("the engine's line: {error}"))?;
    for complaint in prepare(Path::new("/")) {
        eprintln!("{complaint}");
    }
    let pid = spawn(command, &mask).map_err(|error| format!("the command: {error}"))?;
    Machine { pid, disk, line, still_until: None }.keep(&signals);
    Ok(())
}

/// A descriptor that came with the start of this process.
fn handed(number: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: this is process 1 and has opened nothing yet that could have this number; what it was started with is its own.
    #[allow(unsafe_code)]
    let fd = unsafe { OwnedFd::from_raw_fd(number) };
    rustix::io::fcntl_setfd(&fd, rustix::io::FdFlags::CLOEXEC)?;
    Ok(fd)
}

fn spawn(command: &[OsString], blocked: &SigSet) -> io::Result<Pid> {
    let Some((program, arguments)) = command.split_first() else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let mut child = Command::new(program);
    child.args(arguments).current_dir("/root").env_clear();
    child.env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
    child.env("HOME", "/root").env("LANG", "C.UTF-8");
    child.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let blocked = *blocked;
    // SAFETY: between fork and exec the closure makes one system call on a plain value and allocates nothing.
    #[allow(unsafe_code)]
    unsafe {
        child.pre_exec(move || blocked.thread_unblock().map_err(io::Error::from));
    }
    // Its end is seen by `reap`, as that of every other process.
    Ok(Pid::from_raw(child.spawn()?.id().cast_signed()))
}

struct Machine {
    pid: Pid,
    disk: OwnedFd,
    line: Line,
    /// When the disk holds still, by when it goes on.
    still_until: Option<Instant>,
}

impl Machine {
    fn keep(&mut self, signals: &SignalFd) {
        loop {
            let patience = self.still_until.map_or(PollTimeout::NONE, |until| {
                let left = until.saturating_duration_since(Instant::now()) + Duration::from_millis(1);
                PollTimeout::try_from(left).unwrap_or(PollTimeout::ZERO)
            });
            let mut ready = [
                PollFd::new(signals.as_fd(), PollFlags::POLLIN),
                PollFd::new(self.line.as_fd(), PollFlags::POLLIN),
            ];
            // Whatever it says, the next steps look at everything.
            if poll(&mut ready, patience).is_err_and(|error| error != Errno::EINTR) {
                std::thread::sleep(Duration::from_millis(100));
            }
            while let Ok(Some(_)) = signals.read_signal() {}
            if self.has_ended() {
                return self.power_off();
            }
            for (number, request) in self.line.requests() {
                let done = self.act(request);
                self.line.answer(number, done.err());
            }
            if self.still_until.is_some_and(|until| Instant::now() >= until) {
                self.go_on();
            }
        }
    }

    /// Reaps whatever has ended; whether the command is among it.
    fn has_ended(&self) -> bool {
        let mut ended = false;
        while let Ok(status) = waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            if status == WaitStatus::StillAlive {
                break;
            }
            ended |= status.pid() == Some(self.pid);
        }
        ended
    }

    fn act(&mut self, request: Request) -> io::Result<()> {
        match request {
            Request::Stop => kill(self.pid, Signal::SIGTERM).map_err(io::Error::from),
            Request::Flush => rustix::fs::syncfs(&self.disk).map_err(io::Error::from),
            Request::Freeze => {
                match filesystem::freeze(self.disk.as_fd()) {
                    Err(error) if error.kind() != io::ErrorKind::ResourceBusy => return Err(error),
                    Ok(()) | Err(_) => {}
                }
                self.still_until = Some(Instant::now() + LONGEST_STILL);
                Ok(())
            }
            Request::Thaw if self.still_until.is_none() => Err(io::ErrorKind::TimedOut.into()),
            Request::Thaw => {
                self.still_until = None;
                filesystem::thaw(self.disk.as_fd())
            }
            Request::Grow => grow(&self.disk),
            Request::Cpus(wanted) => bring_up_cpus(Path::new(CPUS), wanted),
            Request::Clock(time) => set_clock(time).map_err(io::Error::other),
            Request::Identity(identity) => identity.take(),
        }
    }

    fn go_on(&mut self) {
        self.still_until = None;
        if let Err(error) = filesystem::thaw(self.disk.as_fd()) {
            eprintln!("the disk holds still: {error}");
        }
    }

    /// Brings the disk to rest, with an empty journal, and ends.
    fn power_off(&mut self) {
        if self.still_until.is_some() {
            self.go_on();
        }
        nix::unistd::sync();
        if let Err(error) = filesystem::freeze(self.disk.as_fd()) {
            eprintln!("the disk is not at rest: {error}");
        }
        // It comes back only when it fails; the kernel ends the machine when process 1 returns.
        let Err(error) = reboot(RebootMode::RB_POWER_OFF);
        eprintln!("power off: {error}");
    }
}

/// Lets the file system have all of its disk.
fn grow(folder: &OwnedFd) -> io::Result<()> {
    let of = rustix::fs::fstat(folder)?;
    let (major, minor) = (rustix::fs::major(of.st_dev), rustix::fs::minor(of.st_dev));
    let sectors = std::fs::read_to_string(format!("{BLOCK_DEVICES}/{major}:{minor}/size"))?;
    let bytes = sectors.trim().parse::<u64>().map_err(io::Error::other)?.saturating_mul(512);
    let block = rustix::fs::fstatvfs(folder)?.f_bsize.max(1);
    filesystem::grow_ext4(folder.as_fd(), bytes / block)
}

/// Uses every processor that is there, and tells when those are fewer than wanted.
fn bring_up_cpus(folder: &Path, wanted: usize) -> io::Result<()> {
    let mut there = 0;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix("cpu"));
        if number.is_none_or(|number| number.parse::<u32>().is_err()) {
            continue;
        }
        // The first has no switch: it is always on.
        let switch = entry.path().join("online");
        if std::fs::read_to_string(&switch).is_ok_and(|text| text.trim() == "0") {
            std::fs::write(&switch, "1")?;
        }
        there += 1;
    }
    if there < wanted { Err(io::Error::other(format!("{there} of {wanted} are there"))) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_processor_that_is_off_is_brought_up() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        // What is beside the processors is left alone.
        for (name, text) in [("cpu1", "1\n"), ("cpu2", "0\n"), ("cpuidle", "0\n")] {
            std::fs::create_dir(at(name)).unwrap();
            std::fs::write(at(name).join("online"), text).unwrap();
        }
        std::fs::create_dir(at("cpu0")).unwrap();
        bring_up_cpus(folder.path(), 3).unwrap();
        bring_up_cpus(folder.path(), 4).unwrap_err();
        let says = |name: &str| std::fs::read_to_string(at(name).join("online")).unwrap();
        assert_eq!((says("cpu1").trim(), says("cpu2").as_str(), says("cpuidle").trim()), ("1", "1", "0"));
    }

    #[test]
    fn nobody_else_than_process_1_powers_a_machine_off() {
        assert!(run(&["true".into()]).unwrap_err().contains("only as process 1"));
    }
}
