//! Guest network: one routed veth pair per machine, behind packet rules that all controllers of a host share
//! (T3, docs/security.md).

pub(crate) mod agent_link;
pub(crate) mod connections;
mod egress;
pub(crate) mod forwarding;
pub(crate) mod name_proxy;
mod rtnl;
mod uplinks;

use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::path::{Path, PathBuf};

use crate::host::addresses::{Addresses, AgentClient, NetworkConfig};
use crate::host::command::{
    TIMEOUT, check_status, host_error, is_installed, run_with, run_with_timeout, tool,
};
use crate::host::network::rtnl::Rtnl;
use crate::host::{lock, process, slots, syscalls};
use crate::{EngineError, EngineResult};
use hotdesk_domain::computer::template::network::egress::EgressPolicy;

/// The shared table. Loading it again replaces its rules in one transaction; its sets stay.
pub(crate) const RULES: &str = include_str!("rules.nft");
/// The agent's TCP port in a guest without a unix socket to its host; `rules.nft` has it too. It is below
/// 1024, so only the guest's root can listen on it.
pub const AGENT_PORT: u16 = 870;
/// The port of the host at which a guest's name proxy listens, on the host's end of the guest's link;
/// `rules.nft` has it too. It is below 1024, so only the host's root can listen on it.
const NAME_PROXY_PORT: u16 = 871;
/// Beginning of the names of guests' interfaces on the host; the packet rules recognize guests by it.
const VETH_PREFIX: &str = "hotdesk";
/// The guest's end of its pair.
const GUEST_INTERFACE: &str = "eth0";
/// Fixed bits of the network of a pair or of a tap device, which has four addresses.
const LINK_PREFIX: u8 = 30;
/// Resolvers ask no more name servers than this (resolv.conf(5), `MAXNS`).
const MAX_RESOLVERS: usize = 3;

/// The name of the host's end of a slot's pair.
pub(crate) fn veth(slot: u16) -> String {
    format!("{VETH_PREFIX}{slot:04x}")
}

/// The address of the agent in a slot, for agents that are reached through the network.
pub(crate) fn agent(config: &NetworkConfig, slot: u16) -> SocketAddr {
    SocketAddrV4::new(config.addresses(slot).guest, AGENT_PORT).into()
}

/// Sets up the network of the container whose first process is `pid`. When guests have no network, this is
/// only the link over which the host reaches an agent without a unix socket.
pub(crate) fn attach(
    config: &NetworkConfig,
    slot: u16,
    policy: Option<&EgressPolicy>,
    pid: u32,
) -> EngineResult<Addresses> {
    attach_in(&host_dir()?, config, slot, policy, pid)
}

/// The part of [`attach`] that needs no process of the guest: loads the packet rules, which must protect the
/// host before the guest has a link. [`link`] is the rest.
pub(crate) fn prepare(config: &NetworkConfig, slot: u16, policy: Option<&EgressPolicy>) -> EngineResult<()> {
    prepare_in(&host_dir()?, config, slot, policy)
}

/// Links the guest whose first process is `pid` to the host, after [`prepare`].
pub(crate) fn link(config: &NetworkConfig, slot: u16, pid: u32) -> EngineResult<Addresses> {
    let ends = config.addresses(slot);
    let veth = veth(slot);
    make_pair(&veth, ends.host, pid).map_err(|error| EngineError::failed("make the veth pair", error))?;
    filter_sources(&veth)?;
    if config.enabled {
        forwarding::turn_on([veth.as_str()])?;
    }
    set_up_guest(ends.guest, config.enabled.then_some(ends.host), pid)
        .map_err(|error| EngineError::failed("set up the guest's network", error))?;
    Ok(ends)
}

fn host_dir() -> EngineResult<PathBuf> {
    slots::host_dir().map_err(|error| EngineError::failed("make the host-wide folder", error))
}

/// [`attach`], with the folder that all controllers share.
fn attach_in(
    host: &Path,
    config: &NetworkConfig,
    slot: u16,
    policy: Option<&EgressPolicy>,
    pid: u32,
) -> EngineResult<Addresses> {
    prepare_in(host, config, slot, policy)?;
    link(config, slot, pid)
}

/// [`prepare`], with the folder that all controllers share.
fn prepare_in(
    host: &Path,
    config: &NetworkConfig,
    slot: u16,
    policy: Option<&EgressPolicy>,
) -> EngineResult<()> {
    detach(slot)?;
    load_rules(host, config, slot, policy)
}

/// Makes the pair of the guest whose first process is `pid`, and sets its end on the host up.
fn make_pair(veth: &str, host: Ipv4Addr, pid: u32) -> io::Result<()> {
    let mut here = Rtnl::open()?;
    here.add_pair(veth, GUEST_INTERFACE, pid)?;
    let index = here.index(veth)?;
    here.leave_without_ipv6(index)?;
    here.set_up(index)?;
    here.add_address(index, host, LINK_PREFIX)
}

/// Makes a tap device in the namespace of this thread, with an address and no IPv6, and sets it up.
pub(crate) fn make_tap(name: &str, address: Ipv4Addr) -> EngineResult<()> {
    let make = || -> io::Result<()> {
        let control = fs::OpenOptions::new().read(true).write(true).open("/dev/net/tun")?;
        syscalls::make_tap(&control, name)?;
        let mut here = Rtnl::open()?;
        let index = here.index(name)?;
        here.leave_without_ipv6(index)?;
        here.add_address(index, address, LINK_PREFIX)?;
        here.set_up(index)
    };
    make().map_err(|error| EngineError::failed("make the tap device", error))
}

/// Sets the guest's end of the pair up. It has no IPv6 address: the kernel has one table of neighbours for
/// all namespaces, and a guest that sends to many link-local addresses would fill it for the host.
fn set_up_guest(guest: Ipv4Addr, gateway: Option<Ipv4Addr>, pid: u32) -> io::Result<()> {
    let mut inside = Rtnl::open_in(pid)?;
    let loopback = inside.index("lo")?;
    inside.set_up(loopback)?;
    let index = inside.index(GUEST_INTERFACE)?;
    inside.add_address(index, guest, LINK_PREFIX)?;
    inside.leave_without_ipv6(index)?;
    inside.set_up(index)?;
    gateway.map_or(Ok(()), |gateway| inside.add_default_route(gateway))
}

/// Makes the kernel refuse packets and ARP requests with source addresses that it would not reach over an
/// interface. Requests with forged ones would fill the table of neighbours, which is one for all
/// namespaces. `conf/all` weakens `rp_filter`, not `arp_filter` (kernel,
/// `Documentation/networking/ip-sysctl.rst`).
pub(crate) fn filter_sources(interface: &str) -> EngineResult<()> {
    for name in ["rp_filter", "arp_filter", "drop_gratuitous_arp"] {
        let setting = format!("/proc/sys/net/ipv4/conf/{interface}/{name}");
        fs::write(&setting, "1").map_err(host_error("filter source addresses", Path::new(&setting)))?;
    }
    Ok(())
}

/// Undoes what guests need of the whole host: forwarding and the packet rules. Returns whether it did;
/// while a machine of any controller holds a slot, it changes nothing. Blocks.
pub(crate) fn release() -> EngineResult<bool> {
    let failed = |error: io::Error| EngineError::failed("release the host's network", error);
    let host = slots::host_dir().map_err(failed)?;
    let _guard = lock::host(&host).map_err(failed)?;
    let boot = process::boot_id().map_err(failed)?;
    if slots::all()?.iter().any(|claim| !claim.is_abandoned(&boot)) {
        return Ok(false);
    }
    forwarding::restore(&host).map(|()| true)
}

/// Removes the pair of a slot. The kernel also does so shortly after the guest's namespace ends.
pub(crate) fn detach(slot: u16) -> EngineResult<()> {
    let veth = veth(slot);
    let exists = || Path::new("/sys/class/net").join(&veth).exists();
    if !exists() {
        return Ok(());
    }
    match Rtnl::open().and_then(|mut rtnl| rtnl.remove(&veth)) {
        // The kernel was faster.
        Err(_) if !exists() => Ok(()),
        outcome => outcome.map_err(|error| EngineError::failed("remove the veth pair", error)),
    }
}

/// Removes a slot's machine from the sets of the rules, if the rules are loaded. Only while the machine holds
/// the slot, or under the host's lock.
pub(crate) fn remove_from_sets(config: &NetworkConfig, slot: u16) -> EngineResult<()> {
    const STEP: &str = "remove the guest from the packet rules";
    let (guest, veth) = (config.addresses(slot).guest, veth(slot));
    let elements =
        [format!("guests {{ {guest} }}"), format!("trusted {{ \"{veth}\" }}"), format!("held {{ {guest} }}")];
    run_nft(STEP, &(elements.map(|element| delete_element(&element)).concat() + &egress::remove(slot)))
}

/// Drops new connections to the agent in a slot, until [`allow_agent_clients`] or the machine's end.
pub(crate) fn block_agent_clients(config: &NetworkConfig, slot: u16) -> EngineResult<()> {
    let guest = config.addresses(slot).guest;
    run_nft("block the agent's clients", &format!("add element inet hotdesk held {{ {guest} }}\n"))
}

/// Undoes [`block_agent_clients`]; connections that are still being retried succeed.
pub(crate) fn allow_agent_clients(config: &NetworkConfig, slot: u16) -> EngineResult<()> {
    let guest = config.addresses(slot).guest;
    run_nft("unblock the agent's clients", &delete_element(&format!("held {{ {guest} }}")))
}

/// A script that deletes an element. Adding it first makes the deletion succeed in any case.
fn delete_element(element: &str) -> String {
    format!("add element inet hotdesk {element}\ndelete element inet hotdesk {element}\n")
}

/// Changes the sets; does nothing when the rules are not loaded.
fn run_nft(step: &'static str, script: &str) -> EngineResult<()> {
    let mut nft = tool("nft");
    nft.args(["-f", "-"]);
    // Rules that an earlier version loaded lack the set.
    let script = format!("add set inet hotdesk held {{ type ipv4_addr; }}\n{script}");
    let (status, _, complaint) = run_with_timeout(step, &mut nft, Some(&script), TIMEOUT)?;
    if complaint.contains("No such file or directory") {
        Ok(())
    } else {
        check_status(step, status, &complaint)
    }
}

/// A script that admits the client of a controller without privileges to agents.
fn admit(config: &NetworkConfig) -> String {
    let element = |client: AgentClient| format!("add element inet hotdesk clients {{ {} }}\n", client.uid);
    config.client.map(element).unwrap_or_default()
}

/// Admits the client of a controller without privileges to the agents of guests that run already. The rules
/// are loaded again, because those of an earlier version admit only root. Does nothing when they are not
/// loaded: the next start loads them.
pub(crate) fn admit_client(config: &NetworkConfig) -> EngineResult<()> {
    const STEP: &str = "admit the controller to agents";
    if config.client.is_none() || !is_installed("nft") {
        return Ok(());
    }
    let host = slots::host_dir().map_err(|error| EngineError::failed(STEP, error))?;
    let _guard = lock::host(&host).map_err(|error| EngineError::failed(STEP, error))?;
    let mut list = tool("nft");
    list.args(["list", "chain", "inet", "hotdesk", "output"]);
    let (status, _, complaint) = run_with_timeout(STEP, &mut list, None, TIMEOUT)?;
    if complaint.contains("No such file or directory") {
        return Ok(());
    }
    check_status(STEP, status, &complaint)?;
    let mut nft = tool("nft");
    nft.args(["-f", "-"]);
    run_with(STEP, nft, &(RULES.to_owned() + &admit(config))).map(drop)
}

/// Loads the rules for a guest that starts, before it has a link.
fn load_rules(
    host: &Path,
    config: &NetworkConfig,
    slot: u16,
    policy: Option<&EgressPolicy>,
) -> EngineResult<()> {
    let (ends, veth) = (config.addresses(slot), veth(slot));
    let mut script =
        format!("add element inet hotdesk networks {{ {}/{} }}\n", config.subnet.base, config.subnet.prefix);
    script += &format!("add element inet hotdesk guests {{ {} }}\n", ends.guest);
    if !config.enabled {
        script += &format!("delete element inet hotdesk guests {{ {} }}\n", ends.guest);
    }
    script += &delete_element(&format!("held {{ {} }}", ends.guest));
    let trusted = format!("trusted {{ \"{veth}\" }}");
    script += &if config.allow_private_egress {
        format!("add element inet hotdesk {trusted}\n")
    } else {
        // An earlier machine of the slot may be in the set.
        delete_element(&trusted)
    };
    // The same holds for its policy.
    script += &policy.map_or_else(|| egress::remove(slot), |policy| egress::install(slot, policy, &[]));
    load_with(host, config, &script)
}

/// Changes the policy of a running guest whose name proxy does not run. Addresses of names that both
/// policies name stay.
///
/// # Errors
/// `Failed`: the rules are as before.
pub(crate) fn change_policy(
    config: &NetworkConfig,
    slot: u16,
    before: Option<&EgressPolicy>,
    policy: Option<&EgressPolicy>,
) -> EngineResult<()> {
    let script = match policy {
        None => egress::remove(slot),
        Some(policy) => egress::install(slot, policy, &egress::kept(slot, before, policy)?),
    };
    load_with(&host_dir()?, config, &script)
}

/// Loads the common rules and, in the same transaction, a script for one guest.
fn load_with(host: &Path, config: &NetworkConfig, script: &str) -> EngineResult<()> {
    let _guard = lock::host(host).map_err(|error| EngineError::failed("lock the packet rules", error))?;
    let resolvers = resolvers(config)?;
    let uplinks = forwarding::record_uplinks(host, config, &resolvers)?;
    let mut rules = RULES.to_owned() + &forwarding::rules(&uplinks);
    for resolver in resolvers {
        rules += &format!("add element inet hotdesk resolvers {{ {resolver} }}\n");
    }
    rules += &admit(config);
    let mut nft = tool("nft");
    nft.args(["-f", "-"]);
    run_with("load the packet rules", nft, &(rules + script))?;
    // Only now: the rules protect what becomes reachable.
    forwarding::turn_on(uplinks.iter().map(String::as_str))
}

/// The name servers of guests: the configured ones, else those of the host that are not loopback.
pub(crate) fn resolvers(config: &NetworkConfig) -> EngineResult<Vec<Ipv4Addr>> {
    if !config.resolvers.is_empty() {
        return Ok(config.resolvers.iter().copied().take(MAX_RESOLVERS).collect());
    }
    let path = Path::new("/etc/resolv.conf");
    match fs::read_to_string(path) {
        Ok(text) => Ok(reachable_resolvers(&text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(host_error("read the host's name servers", path)(error)),
    }
}

fn reachable_resolvers(text: &str) -> Vec<Ipv4Addr> {
    text.lines()
        .filter_map(|line| line.trim().strip_prefix("nameserver"))
        .filter_map(|address| address.trim().parse::<Ipv4Addr>().ok())
        .filter(|address| !address.is_loopback() && !address.is_unspecified())
        .take(MAX_RESOLVERS)
        .collect()
}

/// The guest's `/etc/resolv.conf`.
pub(crate) fn resolv_conf(resolvers: &[Ipv4Addr]) -> String {
    resolvers.iter().map(|address| format!("nameserver {address}\n")).collect()
}

#[cfg(test)]
pub(crate) mod namespace_tests;
#[cfg(test)]
pub(crate) mod source_tests;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_name_servers_are_not_passed_to_guests() {
        let host = "# stub\nnameserver 127.0.0.53\nnameserver 192.0.2.1\nnameserver ::1\nsearch lan\n nameserver\t198.51.100.2\n";
        let found = reachable_resolvers(host);
        assert_eq!(resolv_conf(&found), "nameserver 192.0.2.1\nnameserver 198.51.100.2\n");
    }

    #[test]
    fn interface_names_fit_and_differ() {
        assert_eq!(veth(0), "hotdesk0000");
        assert_eq!(veth(u16::MAX), "hotdeskffff");
    }

    #[test]
    fn the_packet_rules_guard_the_agents_port() {
        assert!(RULES.contains(&format!("tcp dport {AGENT_PORT} meta skuid != @clients reject")));
        assert!(RULES.contains(&format!("th dport 53 redirect to :{NAME_PROXY_PORT}\n")));
        assert!(RULES.contains(&format!("th dport {NAME_PROXY_PORT} accept\n")));
    }
}
