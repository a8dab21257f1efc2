//! Name proxy: a process for each guest with an egress policy, which resolves the names that the policy permits and puts their
//! addresses into the guest's packet rules before it answers.
//!
//! ```text
//!   guest -- question to a name server, port 53 -- redirected by the packet rules --> name proxy --> name servers
//!                                                   addresses into the guest's set <--'  answer -> guest
//! ```
//! It is no child of the controller or of the host helper, needs neither, and lives until the guest's boot ends. While it does
//! not run, names are not resolved and the rules stay; the next upkeep starts it again. It holds a lock (fcntl(2)) on its file
//! of settings, by which it is found.

mod address_set;
mod answer;
mod process;
mod server;

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;
use serde::{Deserialize, Serialize};

use crate::host::addresses::NetworkConfig;
use crate::host::command::{TIMEOUT, check_status, finish, host_error, spawn, tool};
use crate::host::files::remove_if_there;
use crate::host::network::{NAME_PROXY_PORT, resolvers};
use crate::host::process as pidfd;
use crate::{EngineError, EngineResult};
use hotdesk_domain::computer::template::network::egress::EgressPolicy;

pub use process::run;

const START: &str = "start the name proxy of an egress policy";
const STOP: &str = "end the name proxy of an egress policy";
/// Starts the proxy without the terminal and the process group of the controller.
const LAUNCH: &str = "setsid \"$0\" name-proxy --settings \"$1\" 2>&1 &";
/// What the proxy prints once it listens.
const READY: &str = "ready";
/// For the proxy to listen: it takes 20 ms, on a busy host some times that.
const START_TIMEOUT: Duration = Duration::from_secs(10);
/// For a killed proxy to end.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);
/// Most bytes of the error that a proxy prints instead of [`READY`].
const MAX_MESSAGE: u64 = 2048;

/// Settings of one proxy, in a file that only root reads.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ProxySettings {
    slot: u16,
    /// The host's end of the guest's link.
    listen: SocketAddrV4,
    /// The name servers that it asks.
    servers: Vec<Ipv4Addr>,
    /// The policy's text.
    policy: String,
}

/// Starts the proxy of a slot, whose link is up, in place of one that runs. `program` is hotdesk's executable. Does nothing
/// where guests have no network. Blocks.
///
/// # Errors
/// `Failed` with the proxy's own error. The settings stay, so the next upkeep tries again.
pub(crate) fn start(
    program: &Path,
    settings: &Path,
    config: &NetworkConfig,
    slot: u16,
    policy: &EgressPolicy,
) -> EngineResult<()> {
    if !config.enabled {
        return Ok(());
    }
    let failed = |error: io::Error| EngineError::failed(START, error);
    stop(settings)?;
    let listen = SocketAddrV4::new(config.addresses(slot).host, NAME_PROXY_PORT);
    let own = ProxySettings { slot, listen, servers: resolvers(config)?, policy: policy.to_string() };
    let text = serde_json::to_vec(&own).map_err(|error| EngineError::failed(START, error))?;
    let mut options = OpenOptions::new();
    let file = options.write(true).create(true).truncate(true).mode(0o600).open(settings);
    file.and_then(|mut file| file.write_all(&text)).map_err(host_error(START, settings))?;
    let (output, printed) = io::pipe().map_err(failed)?;
    let mut launch = tool("sh");
    launch.args(["-c", LAUNCH]).arg(program).arg(settings).current_dir("/");
    launch.stdout(OwnedFd::from(printed)).stderr(Stdio::null());
    let mut child = spawn(START, &mut launch)?;
    let status = finish(START, &mut child, TIMEOUT)?;
    // The proxy has the other copy.
    drop(launch);
    check_status(START, status, "sh")?;
    match first_line(OwnedFd::from(output)).map_err(failed)?.trim() {
        READY => Ok(()),
        "" => Err(EngineError::failed(START, format!("{} does not answer", program.display()))),
        message => Err(EngineError::failed(START, message)),
    }
}

/// Reads until the end of a line, the end of the output, or the timeout.
fn first_line(output: OwnedFd) -> io::Result<String> {
    let deadline = Instant::now() + START_TIMEOUT;
    let (mut text, mut chunk) = (Vec::new(), [0; 256]);
    let mut output = File::from(output);
    loop {
        let left = Timespec::try_from(deadline.saturating_duration_since(Instant::now()));
        let mut watched = [PollFd::new(&output, PollFlags::IN)];
        match poll(&mut watched, Some(&left.map_err(io::Error::other)?)) {
            Ok(0) => break,
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        }
        let count = output.read(&mut chunk)?;
        text.extend_from_slice(chunk.get(..count).unwrap_or_default());
        if count == 0 || text.contains(&b'\n') || text.len() as u64 >= MAX_MESSAGE {
            break;
        }
    }
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// Ends the proxy with these settings, if it runs. The settings stay. Blocks.
pub(crate) fn stop(settings: &Path) -> EngineResult<()> {
    let failed = |error: io::Error| EngineError::failed(STOP, error);
    let Some(pid) = holder(settings).map_err(host_error(STOP, settings))? else { return Ok(()) };
    let Some(process) = pidfd::open(pid).map_err(failed)? else { return Ok(()) };
    // The number may have become another process's before it was opened.
    if holder(settings).map_err(host_error(STOP, settings))? != Some(pid) {
        return Ok(());
    }
    match rustix::process::pidfd_send_signal(&process, Signal::KILL) {
        Ok(()) | Err(rustix::io::Errno::SRCH) => {}
        Err(error) => return Err(failed(error.into())),
    }
    if pidfd::wait_exit(&process, Instant::now() + STOP_TIMEOUT).map_err(failed)? {
        Ok(())
    } else {
        Err(EngineError::failed(STOP, format!("process {pid} does not end after SIGKILL")))
    }
}

/// Ends the proxy with these settings, and removes them. Blocks.
pub(crate) fn remove(settings: &Path) -> EngineResult<()> {
    stop(settings)?;
    remove_if_there(settings).map_err(host_error(STOP, settings))
}

/// Whether there are settings whose proxy does not run.
pub(crate) fn is_missing(settings: &Path) -> EngineResult<bool> {
    Ok(settings.exists() && holder(settings).map_err(host_error(START, settings))?.is_none())
}

/// A lock on a whole file (fcntl(2), "Advisory record locking").
fn whole_file() -> libc::flock {
    libc::flock {
        l_type: libc::F_WRLCK as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: 0,
        l_len: 0,
        l_pid: 0,
    }
}

/// The process that holds the lock on the settings.
fn holder(settings: &Path) -> io::Result<Option<u32>> {
    let file = match fs::OpenOptions::new().read(true).write(true).open(settings) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        // The folder is encrypted and its key is missing, so nothing of the machine runs.
        Err(error) if error.raw_os_error() == Some(libc::ENOKEY) => return Ok(None),
        file => file?,
    };
    let mut found = whole_file();
    fcntl(&file, FcntlArg::F_GETLK(&mut found))?;
    let is_free = found.l_type == libc::F_UNLCK as libc::c_short;
    Ok(if is_free { None } else { u32::try_from(found.l_pid).ok() })
}

/// Takes the lock, which holds until this process ends.
fn take(settings: &File) -> io::Result<bool> {
    match fcntl(settings, FcntlArg::F_SETLK(&whole_file())) {
        Ok(_) => Ok(true),
        Err(Errno::EAGAIN | Errno::EACCES) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_without_a_process_have_no_holder() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("settings");
        assert!(!is_missing(&path).unwrap(), "without settings there is no proxy");
        fs::write(&path, "{}").unwrap();
        assert!(is_missing(&path).unwrap());
        stop(&path).unwrap();
        // A lock of this process would not be shown to itself; one of a child is.
        let mut child = tool("python3");
        let script = "import fcntl,sys,time; f=open(sys.argv[1],'r+'); fcntl.lockf(f,fcntl.LOCK_EX); print('ready',flush=True); time.sleep(60)";
        let (output, printed) = io::pipe().unwrap();
        child.args(["-c", script]).arg(&path).stdout(OwnedFd::from(printed));
        let mut child = match child.spawn() {
            Ok(child) => child,
            Err(error) => {
                return hotdesk_capability::Capability::Python.skip(format_args!("python3: {error}"));
            }
        };
        assert_eq!(first_line(OwnedFd::from(output)).unwrap(), "ready\n");
        assert_eq!(holder(&path).unwrap(), Some(child.id()));
        assert!(!is_missing(&path).unwrap());
        remove(&path).unwrap();
        assert!(!child.wait().unwrap().success(), "it was killed");
        assert!(!path.exists());
    }
}
