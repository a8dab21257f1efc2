//! Process 1 of a virtual machine: runs one command, serves the engine's requests and powers the machine off.
//!
//! ```text
//!   Running -- "stop": SIGTERM to the command --> Stopping -- it ends --> freeze the disk, power off
//!      |------------------- the command ends by itself ----------------->
//! ```

mod identity;
mod port;

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

use self::port::{EnginePort, EngineRequest};
use crate::system::identity::set_clock;
use crate::system::init::prepare::prepare;
use hotdesk_base::filesystem;
use hotdesk_base::step_error::StepError;

/// Descriptors from the initial RAM disk (`packaging/vm/init`): the root folder of the disk's file system
/// above the guest's root, and the serial port of the engine.
const DISK_FD: RawFd = 8;
const PORT_FD: RawFd = 9;
/// After this time a frozen disk thaws by itself, so that the guest's writes continue even when the engine
/// died. It is half as long again as an engine takes for a copy (30 s), so usually the engine ends the
/// freeze.
const MAX_FREEZE: Duration = Duration::from_secs(45);
const BLOCK_DEVICES: &str = "/sys/dev/block";
const CPUS: &str = "/sys/devices/system/cpu";

/// Runs the command to its end and powers the machine off.
///
/// # Errors
/// When this is not process 1 of a virtual machine, or its descriptors or signals cannot be set up.
pub fn run(command: &[OsString]) -> Result<(), StepError> {
    if nix::unistd::getpid().as_raw() != 1 {
        return Err(StepError::new("only as process 1 of a virtual machine"));
    }
    let mask = SigSet::all();
    mask.thread_block().map_err(StepError::at("block signals"))?;
    let flags = SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC;
    let signals = SignalFd::with_flags(&mask, flags).map_err(StepError::at("signalfd"))?;
    let disk = inherited_fd(DISK_FD).map_err(StepError::at("descriptor of the disk"))?;
    let port = inherited_fd(PORT_FD).and_then(|port| EnginePort::new(File::from(port)));
    let port = port.map_err(StepError::at("port of the engine"))?;
    for complaint in prepare(Path::new("/")) {
        eprintln!("{complaint}");
    }
    let pid = spawn(command, &mask).map_err(StepError::at("the command"))?;
    Machine { pid, disk, port, frozen_until: None }.run(&signals);
    Ok(())
}

/// Takes ownership of a descriptor that this process was started with.
fn inherited_fd(number: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: this is process 1 and has opened nothing yet that could have this number; what it was started
    // with is its own.
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
    // `has_ended` collects its exit status.
    Ok(Pid::from_raw(child.spawn()?.id().cast_signed()))
}

struct Machine {
    pid: Pid,
    disk: OwnedFd,
    port: EnginePort,
    /// When a frozen disk thaws by itself.
    frozen_until: Option<Instant>,
}

impl Machine {
    fn run(&mut self, signals: &SignalFd) {
        loop {
            let timeout = self.frozen_until.map_or(PollTimeout::NONE, |until| {
                let left = until.saturating_duration_since(Instant::now()) + Duration::from_millis(1);
                PollTimeout::try_from(left).unwrap_or(PollTimeout::ZERO)
            });
            let mut ready = [
                PollFd::new(signals.as_fd(), PollFlags::POLLIN),
                PollFd::new(self.port.as_fd(), PollFlags::POLLIN),
            ];
            // The result is ignored: every source is checked below.
            if poll(&mut ready, timeout).is_err_and(|error| error != Errno::EINTR) {
                std::thread::sleep(Duration::from_millis(100));
            }
            while let Ok(Some(_)) = signals.read_signal() {}
            if self.has_ended() {
                return self.power_off();
            }
            for (number, request) in self.port.requests() {
                let done = self.execute(request);
                self.port.answer(number, done.err());
            }
            if self.frozen_until.is_some_and(|until| Instant::now() >= until) {
                self.thaw();
            }
        }
    }

    /// Reaps all exited processes. Returns whether the command is among them.
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

    fn execute(&mut self, request: EngineRequest) -> io::Result<()> {
        match request {
            EngineRequest::Stop => kill(self.pid, Signal::SIGTERM).map_err(io::Error::from),
            EngineRequest::Flush => rustix::fs::syncfs(&self.disk).map_err(io::Error::from),
            EngineRequest::Freeze => {
                match filesystem::freeze(self.disk.as_fd()) {
                    Err(error) if error.kind() != io::ErrorKind::ResourceBusy => return Err(error),
                    Ok(()) | Err(_) => {}
                }
                self.frozen_until = Some(Instant::now() + MAX_FREEZE);
                Ok(())
            }
            EngineRequest::Thaw if self.frozen_until.is_none() => Err(io::ErrorKind::TimedOut.into()),
            EngineRequest::Thaw => {
                self.frozen_until = None;
                filesystem::thaw(self.disk.as_fd())
            }
            EngineRequest::Grow => grow(&self.disk),
            EngineRequest::Cpus(wanted) => bring_up_cpus(Path::new(CPUS), wanted),
            EngineRequest::Clock(time) => set_clock(time).map_err(io::Error::other),
            EngineRequest::Identity(identity) => identity.apply(),
        }
    }

    fn thaw(&mut self) {
        self.frozen_until = None;
        if let Err(error) = filesystem::thaw(self.disk.as_fd()) {
            eprintln!("thawing the disk: {error}");
        }
    }

    /// Freezes the disk, which empties its journal, and powers the machine off.
    fn power_off(&mut self) {
        if self.frozen_until.is_some() {
            self.thaw();
        }
        nix::unistd::sync();
        if let Err(error) = filesystem::freeze(self.disk.as_fd()) {
            eprintln!("freezing the disk before power off: {error}");
        }
        // `reboot` returns only when it fails; the kernel ends the machine when process 1 returns.
        let Err(error) = reboot(RebootMode::RB_POWER_OFF);
        eprintln!("power off: {error}");
    }
}

/// Grows the file system to the size of its block device.
fn grow(folder: &OwnedFd) -> io::Result<()> {
    let of = rustix::fs::fstat(folder)?;
    let (major, minor) = (rustix::fs::major(of.st_dev), rustix::fs::minor(of.st_dev));
    let sectors = std::fs::read_to_string(format!("{BLOCK_DEVICES}/{major}:{minor}/size"))?;
    let bytes = sectors.trim().parse::<u64>().map_err(io::Error::other)?.saturating_mul(512);
    let block = rustix::fs::fstatvfs(folder)?.f_bsize.max(1);
    filesystem::grow_ext4(folder.as_fd(), bytes / block)
}

/// Brings all processors online; fails when there are fewer than wanted.
fn bring_up_cpus(folder: &Path, wanted: usize) -> io::Result<()> {
    let mut there = 0;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix("cpu"));
        if number.is_none_or(|number| number.parse::<u32>().is_err()) {
            continue;
        }
        // The first processor has no `online` file: it is always on.
        let switch = entry.path().join("online");
        if std::fs::read_to_string(&switch).is_ok_and(|text| text.trim() == "0") {
            std::fs::write(&switch, "1")?;
        }
        there += 1;
    }
    if there < wanted {
        Err(io::Error::other(format!("{there} of {wanted} processors are there")))
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_offline_processor_is_brought_online() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        // Entries beside the processors are ignored.
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
    fn only_process_1_powers_a_machine_off() {
        assert!(run(&["true".into()]).unwrap_err().to_string().contains("only as process 1"));
    }
}
