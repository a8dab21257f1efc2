//! Start of the name proxy's process: its settings, its lock, its sockets, and the end of its privileges.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use nix::sys::resource::{Resource, setrlimit};
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities, set_no_new_privs};

use crate::host::command::host_error;
use crate::host::network::name_proxy::address_set::AddressSet;
use crate::host::network::name_proxy::answer::Resolution;
use crate::host::network::name_proxy::{ProxySettings, READY, server, take};
use crate::host::sandbox::bound_capabilities;
use crate::host::sandbox::streams::limit_files;
use crate::{EngineError, EngineResult};
use hotdesk_base::tasks::Tasks;
use hotdesk_domain::computer::template::network::egress::EgressPolicy;
use hotdesk_domain::error::Error;

const STEP: &str = "resolve names of an egress policy";
/// Largest file of settings: [`hotdesk_domain::computer::template::network::egress::MAX_RULES`] of the longest names.
const MAX_SETTINGS: u64 = 128 << 10;
/// Open files: sockets to name servers for the questions at once, the connections of the guest, and a few more.
const MAX_OPEN_FILES: u64 = 1024;
/// Pause between two looks whether the settings are still there. A proxy whose guest is gone ends by itself, should a crash have
/// kept the engine from ending it.
const LOOK: Duration = Duration::from_secs(10);

/// Runs the name proxy with the settings in a file until it is killed, or the file is gone. Prints `ready` when it listens. Blocks.
///
/// # Errors
/// `Failed` when the settings cannot be read, another process has them, or the addresses cannot be used.
pub fn run(path: &Path) -> EngineResult<()> {
    let failed = |error: io::Error| EngineError::failed(STEP, error);
    let mut file = OpenOptions::new().read(true).write(true).open(path).map_err(host_error(STEP, path))?;
    if !take(&file).map_err(host_error(STEP, path))? {
        let detail = format!("{}: another process has these settings", path.display());
        return Err(EngineError::failed(STEP, detail));
    }
    let mut text = String::new();
    let read = Read::by_ref(&mut file).take(MAX_SETTINGS).read_to_string(&mut text);
    read.map_err(host_error(STEP, path))?;
    let invalid =
        |error: &dyn std::fmt::Display| EngineError::failed(STEP, format!("{}: {error}", path.display()));
    let settings: ProxySettings = serde_json::from_str(&text).map_err(|error| invalid(&error))?;
    let policy: EgressPolicy = settings.policy.parse().map_err(|error: Error| invalid(&error))?;
    let in_use = |error: io::Error| EngineError::failed(STEP, format!("{}: {error}", settings.listen));
    let udp = UdpSocket::bind(settings.listen).map_err(in_use)?;
    let tcp = TcpListener::bind(settings.listen).map_err(in_use)?;
    give_up_privileges()?;

    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    runtime.block_on(async {
        let tasks = Tasks::new();
        let addresses = AddressSet::of(settings.slot);
        let resolution = Resolution::new(policy, &settings.servers, addresses)
            .map_err(|error| EngineError::failed(STEP, error))?;
        let served = server::serve(udp, tcp, resolution, tasks).map_err(failed)?;
        announce().map_err(failed)?;
        tokio::select! {
            () = served => Ok(()),
            gone = settings_gone(&file) => gone.map_err(failed),
        }
    })
}

/// Says that it listens, and leaves the engine's pipe.
fn announce() -> io::Result<()> {
    let mut output = io::stdout();
    writeln!(output, "{READY}")?;
    output.flush()?;
    let silent = OpenOptions::new().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdout(&silent)?;
    rustix::stdio::dup2_stderr(&silent)?;
    Ok(())
}

/// Keeps what `nft` needs: the capability to change packet rules, and installed programs.
fn give_up_privileges() -> EngineResult<()> {
    let failed = |error: io::Error| EngineError::failed(STEP, format!("give up privileges: {error}"));
    let kept = CapabilitySet::NET_ADMIN;
    bound_capabilities(kept).map_err(failed)?;
    let none = CapabilitySet::empty();
    let sets = CapabilitySets { effective: kept, permitted: kept, inheritable: none };
    set_capabilities(None, sets).map_err(|error| failed(error.into()))?;
    set_no_new_privs(true).map_err(|error| failed(error.into()))?;
    for (resource, most) in [(Resource::RLIMIT_CORE, 0), (Resource::RLIMIT_NOFILE, MAX_OPEN_FILES)] {
        setrlimit(resource, most, most).map_err(|error| failed(error.into()))?;
    }
    limit_files().map_err(|error| EngineError::failed(STEP, format!("limit files (Landlock): {error}")))
}

/// Returns when the file of settings was removed.
async fn settings_gone(file: &File) -> io::Result<()> {
    loop {
        tokio::time::sleep(LOOK).await;
        if file.metadata()?.nlink() == 0 {
            return Ok(());
        }
    }
}
