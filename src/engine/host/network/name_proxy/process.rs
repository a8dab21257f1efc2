//! Start of the name proxy's process: its settings, its lock, its sockets, and the end of its privileges.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use nix::sys::resource::{Resource, setrlimit};
use nix::unistd::{Gid, Uid, setgroups, setresgid, setresuid};
use rustix::thread::{
    CapabilitySet, CapabilitySets, configure_capability_in_ambient_set, set_capabilities,
    set_keep_capabilities, set_no_new_privs,
};

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
/// The user of the proxy of slot 0, above the ids of all machines ([`crate::host::addresses::host_ids`]). Each slot has another, so
/// that proxies cannot signal each other.
const FIRST_USER: u32 = (1 << 31) - (1 << 17);
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
    give_up_privileges(settings.slot)?;

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

/// Keeps what `nft` needs: the capability to change packet rules, and installed programs. The process becomes a user of its own,
/// whose programs get the capability as an ambient one (capabilities(7)). No other thread may run.
fn give_up_privileges(slot: u16) -> EngineResult<()> {
    let failed = |error: io::Error| EngineError::failed(STEP, format!("give up privileges: {error}"));
    let kept = CapabilitySet::NET_ADMIN;
    bound_capabilities(kept).map_err(failed)?;
    become_user(FIRST_USER + u32::from(slot)).map_err(failed)?;
    let sets = CapabilitySets { effective: kept, permitted: kept, inheritable: kept };
    set_capabilities(None, sets).map_err(|error| failed(error.into()))?;
    configure_capability_in_ambient_set(kept, true).map_err(|error| failed(error.into()))?;
    set_no_new_privs(true).map_err(|error| failed(error.into()))?;
    for (resource, most) in [(Resource::RLIMIT_CORE, 0), (Resource::RLIMIT_NOFILE, MAX_OPEN_FILES)] {
        setrlimit(resource, most, most).map_err(|error| failed(error.into()))?;
    }
    limit_files().map_err(|error| EngineError::failed(STEP, format!("limit files (Landlock): {error}")))
}

/// Changes the user, and keeps the permitted capabilities.
fn become_user(id: u32) -> io::Result<()> {
    let (user, group) = (Uid::from_raw(id), Gid::from_raw(id));
    set_keep_capabilities(true)?;
    setgroups(&[])?;
    setresgid(group, group, group)?;
    setresuid(user, user, user)?;
    Ok(())
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

#[cfg(test)]
mod tests {
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};

    use landlock::{CompatLevel, Compatible, Ruleset, RulesetAttr, Scope};
    use rustix::process::{Pid, test_kill_process};

    use super::*;
    use crate::host::command::{run as run_tool, tool};

    /// Names the folder of the sockets to the process that stands for the proxy.
    const FOLDER: &str = "HOTDESK_TEST_PROXY";

    /// What a proxy that was taken over can do, in a process of its own, whose privileges go.
    fn attempts(folder: &Path) -> String {
        let parent = Pid::from_raw(i32::try_from(std::os::unix::process::parent_id()).unwrap()).unwrap();
        let hidden = SocketAddr::from_abstract_name(folder.as_os_str().as_encoded_bytes()).unwrap();
        let required = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
        let has_scopes = required.scope(Scope::AbstractUnixSocket).is_ok();
        give_up_privileges(7).unwrap();
        // The kernel also asks for the capability to list them.
        let mut nft = tool("nft");
        nft.args(["list", "tables"]);
        run_tool("try", nft).unwrap();
        let mut done = vec!["packet rules"];
        if UnixStream::connect(folder.join("root")).is_ok() {
            done.push("connect");
        }
        if has_scopes && UnixStream::connect_addr(&hidden).is_ok() {
            done.push("connect to an abstract socket");
        }
        if test_kill_process(parent).is_ok() {
            done.push("signal");
        }
        if std::fs::read_dir("/").is_ok() || std::fs::read(folder.join("secret")).is_ok() {
            done.push("read");
        }
        format!("user {} did: {}", Uid::current(), done.join(", "))
    }

    #[test]
    fn d15_a_name_proxy_that_was_taken_over_connects_to_no_socket_of_root_and_signals_nobody() {
        if let Some(folder) = std::env::var_os(FOLDER) {
            return println!("{}", attempts(Path::new(&folder)));
        }
        if !Uid::effective().is_root() {
            return hotdesk_capability::Capability::Root.skip("only root has privileges to give up");
        }
        let folder = tempfile::tempdir().unwrap();
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
        let _root = UnixListener::bind(folder.path().join("root")).unwrap();
        let hidden = SocketAddr::from_abstract_name(folder.path().as_os_str().as_encoded_bytes()).unwrap();
        let _hidden = UnixListener::bind_addr(&hidden).unwrap();
        std::fs::write(folder.path().join("secret"), "secret").unwrap();
        let (_crate, module) = module_path!().split_once("::").unwrap();
        let name = format!(
            "{module}::d15_a_name_proxy_that_was_taken_over_connects_to_no_socket_of_root_and_signals_nobody"
        );
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", &name, "--nocapture"]).env(FOLDER, folder.path());
        let output = child.output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        let expected = format!("user {} did: packet rules", FIRST_USER + 7);
        assert!(output.status.success() && text.contains(&format!("{expected}\n")), "{output:?}");
    }
}
