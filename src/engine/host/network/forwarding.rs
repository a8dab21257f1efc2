//! Packet forwarding, interface by interface.
//!
//! The kernel forwards a packet if the interface on which it arrived has `forwarding` on (kernel documentation,
//! networking/ip-sysctl). Guests need that of their own interfaces, and of those on which answers arrive. On a host that
//! does not forward by itself (`net.ipv4.ip_forward` is 0), hotdesk turns it on for these alone. Its packet rules drop
//! everything else that arrives there to be forwarded, so the host does not become a router for others.
//!
//! ```text
//!   guest starts: record the uplinks, load the rules, turn forwarding on     purge: turn it off, forget
//!   somebody turns on ip_forward: the rules for uplinks go, forget           reboot: the kernel and /run forget
//! ```

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::host::addresses::NetworkConfig;
use crate::host::command::{host_error, run_with, tool};
use crate::host::files::remove_if_there;
use crate::host::lock;
use crate::host::network::rtnl::Rtnl;
use crate::host::network::{VETH_PREFIX, resolvers, uplinks};
use crate::{EngineError, EngineResult};

const STEP: &str = "turn on packet forwarding";
const OF_HOST: &str = "/proc/sys/net/ipv4/ip_forward";
/// The routes of this thread's namespace.
const ROUTES: &str = "/proc/thread-self/net/route";

/// The setting of an interface.
fn setting(interface: &str) -> PathBuf {
    Path::new("/proc/sys/net/ipv4/conf").join(interface).join("forwarding")
}

/// Whether a setting is on; `None` when its interface is gone.
fn is_on(setting: &Path) -> EngineResult<Option<bool>> {
    match fs::read_to_string(setting) {
        Ok(text) => Ok(Some(text.trim() != "0")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(host_error(STEP, setting)(error)),
    }
}

/// Whether the host forwards by itself: then hotdesk changes nothing but the settings of its own interfaces.
fn is_router() -> EngineResult<bool> {
    is_on(Path::new(OF_HOST)).map(|on| on == Some(true))
}

/// How packets of guests are forwarded, for people.
pub(crate) fn describe() -> EngineResult<&'static str> {
    Ok(if is_router()? {
        "this host forwards all packets (net.ipv4.ip_forward is 1)"
    } else {
        "this host will forward packets of guests alone"
    })
}

/// The interfaces for which hotdesk turned forwarding on, in a file in the folder that all controllers share.
struct UplinkRecord(PathBuf);

impl UplinkRecord {
    fn of(host: &Path) -> Self {
        Self(host.join("forwarding"))
    }

    fn read(&self) -> EngineResult<BTreeSet<String>> {
        match fs::read_to_string(&self.0) {
            Ok(text) => Ok(text.lines().filter(|name| uplinks::is_other(name)).map(str::to_owned).collect()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(BTreeSet::new()),
            Err(error) => Err(host_error(STEP, &self.0)(error)),
        }
    }

    fn write(&self, names: &BTreeSet<String>) -> EngineResult<()> {
        let text: String = names.iter().map(|name| format!("{name}\n")).collect();
        fs::write(&self.0, text).map_err(host_error(STEP, &self.0))
    }

    fn remove(&self) -> EngineResult<()> {
        remove_if_there(&self.0).map_err(host_error(STEP, &self.0))
    }
}

/// Records and returns the interfaces for which hotdesk turns forwarding on: none on a host that forwards by itself.
/// Needs the host's lock, as all changes here.
pub(super) fn record_uplinks(
    host: &Path,
    config: &NetworkConfig,
    resolvers: &[Ipv4Addr],
) -> EngineResult<BTreeSet<String>> {
    let record = UplinkRecord::of(host);
    if is_router()? {
        record.remove()?;
        return Ok(BTreeSet::new());
    }
    let before = record.read()?;
    let mut ours = before.clone();
    if config.enabled {
        for name in find_uplinks(config, resolvers)? {
            if is_on(&setting(&name))? == Some(false) {
                ours.insert(name);
            }
        }
    }
    if ours != before {
        let names = ours.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
        tracing::info!("guests need forwarding of packets that arrive on {names}; only theirs are forwarded");
    }
    // Written without names too, so that the upkeep looks for the first uplink.
    if config.enabled {
        record.write(&ours)?;
    }
    Ok(ours)
}

fn find_uplinks(config: &NetworkConfig, resolvers: &[Ipv4Addr]) -> EngineResult<BTreeSet<String>> {
    let routes = Rtnl::open()
        .and_then(|mut rtnl| rtnl.routes())
        .map_err(|error| EngineError::failed("read the host's routes", error))?;
    Ok(uplinks::of_routes(&routes, resolvers, config.allow_private_egress))
}

/// The packet rules of the chain `uplinks`. Answers to what came from an interface of other software pass. On a bridge,
/// packets between its ports may pass the rules too; this host does not forward those.
pub(super) fn rules(uplinks: &BTreeSet<String>) -> String {
    let is_bridge = |name: &str| Path::new("/sys/class/net").join(name).join("bridge").exists();
    uplinks.iter().map(|name| rule(name, is_bridge(name))).collect()
}

fn rule(name: &str, is_bridge: bool) -> String {
    let except = if is_bridge { format!("oifname != \"{name}\" ") } else { String::new() };
    let others = "ct state != { established, related } drop";
    format!("add rule inet hotdesk uplinks meta nfproto ipv4 iifname \"{name}\" {except}{others}\n")
}

/// Turns forwarding on for interfaces; those that are gone are left out.
pub(super) fn turn_on<'a>(interfaces: impl IntoIterator<Item = &'a str>) -> EngineResult<()> {
    interfaces.into_iter().try_for_each(|name| set(name, "1"))
}

fn set(interface: &str, value: &str) -> EngineResult<()> {
    let setting = setting(interface);
    match fs::write(&setting, value) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(host_error(STEP, &setting)(error)),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Follows changes of the host's routes, and of whether it forwards by itself, while guests run.
#[derive(Debug, Default)]
pub(crate) struct ForwardingUpkeep {
    /// What decided the last time.
    seen: Mutex<String>,
}

impl ForwardingUpkeep {
    /// Adapts the rules and the settings after a change. Cheap without one. Blocks.
    pub(crate) fn run(&self, host: &Path, config: &NetworkConfig) -> EngineResult<()> {
        // Without a record the host forwards by itself, or nothing has started yet.
        if !config.enabled || !UplinkRecord::of(host).0.exists() {
            return Ok(());
        }
        let now = observed().map_err(|error| EngineError::failed("read the host's routes", error))?;
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if *seen == now {
            return Ok(());
        }
        let _guard = lock::host(host).map_err(host_error(STEP, host))?;
        let uplinks = record_uplinks(host, config, &resolvers(config)?)?;
        let mut nft = tool("nft");
        nft.args(["-f", "-"]);
        run_with(
            "adapt the packet rules",
            nft,
            &format!("flush chain inet hotdesk uplinks\n{}", rules(&uplinks)),
        )?;
        turn_on(uplinks.iter().map(String::as_str))?;
        *seen = now;
        Ok(())
    }
}

/// The host's setting and its routes, without those of guests.
fn observed() -> io::Result<String> {
    let routes = fs::read_to_string(ROUTES)?;
    let others = routes.lines().filter(|line| !line.starts_with(VETH_PREFIX));
    let mut text = fs::read_to_string(OF_HOST)?;
    others.for_each(|line| text.extend([line, "\n"]));
    Ok(text)
}

/// Turns forwarding off where hotdesk turned it on, and removes the packet rules. Needs the host's lock, and no guest may
/// run.
pub(crate) fn restore(host: &Path) -> EngineResult<()> {
    let record = UplinkRecord::of(host);
    if !is_router()? {
        record.read()?.iter().try_for_each(|name| set(name, "0"))?;
    }
    record.remove()?;
    let mut nft = tool("nft");
    nft.args(["-f", "-"]);
    // Adding the table first makes the deletion succeed in any case.
    run_with("remove the packet rules", nft, "add table inet hotdesk\ndelete table inet hotdesk\n").map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_between_the_ports_of_a_bridge_pass() {
        assert!(rule("br0", true).contains("iifname \"br0\" oifname != \"br0\" ct state"));
        assert!(rule("eth0", false).contains("iifname \"eth0\" ct state"));
    }
}
