//! How does a guest reach the world and nothing else? One veth pair per machine, routed, behind packet rules that all
//! controllers of a host share (threats.md T3).

use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::path::Path;

use super::addresses::{Addresses, NetworkConfig};
use super::command::{TIMEOUT, host_error, judge, run, run_patiently, run_with, tool};
use super::{lock, slots};
use crate::{EngineError, EngineResult};

/// The shared table. Loading it again replaces its rules in one transaction and keeps its sets.
pub(super) const RULES: &str = include_str!("rules.nft");
/// The agent's TCP port in a guest that no unix socket leads to; `rules.nft` names it too. Nobody but a guest's root can take it.
pub const AGENT_PORT: u16 = 870;
const FORWARDING: &str = "/proc/sys/net/ipv4/ip_forward";
/// More name servers than this no resolver asks.
const MOST_RESOLVERS: usize = 3;

/// The host's end of a slot's pair. The rules know guests by the prefix.
pub(super) fn veth(slot: u16) -> String {
    format!("hotdesk{slot:04x}")
}

/// Where the agent of the machine in a slot answers, when it is reached by its network.
pub(super) fn agent(config: &NetworkConfig, slot: u16) -> SocketAddr {
    SocketAddrV4::new(config.addresses(slot).guest, AGENT_PORT).into()
}

/// Gives the container whose first process is `pid` its network; where guests have none, the link to its host alone, over
/// which the host reaches an agent that no unix socket leads to.
pub(super) fn attach(
    config: &NetworkConfig,
    slot: u16,
    resolvers: &[Ipv4Addr],
    pid: u32,
) -> EngineResult<Addresses> {
    let ends = config.addresses(slot);
    let veth = veth(slot);
    detach(slot)?;
    load_rules(config, &veth, ends, resolvers)?;
    let mut pair = tool("ip");
    pair.args(["-batch", "-"]);
    let host_side = format!(
        "link add {veth} type veth peer name eth0 netns {pid}\n\
         link set dev {veth} addrgenmode none up\n\
         address add {}/30 dev {veth}\n",
        ends.host
    );
    run_with("make the veth pair", pair, &host_side)?;
    // A guest cannot send under another address than its own.
    let filter = format!("/proc/sys/net/ipv4/conf/{veth}/rp_filter");
    fs::write(&filter, "1").map_err(host_error("filter source addresses", Path::new(&filter)))?;
    let mut inside = tool("nsenter");
    inside.arg(format!("--net=/proc/{pid}/ns/net")).args(["--", "ip", "-batch", "-"]);
    let mut guest_side = format!(
        "link set dev lo up\n\
         address add {}/30 dev eth0\n\
         link set dev eth0 up\n",
        ends.guest
    );
    if config.enabled {
        guest_side += &format!("route add default via {}\n", ends.host);
    }
    run_with("set up the guest's network", inside, &guest_side)?;
    Ok(ends)
}

/// Removes the pair of a slot; the kernel does it too when the guest's namespace ends, a moment later.
pub(super) fn detach(slot: u16) -> EngineResult<()> {
    let veth = veth(slot);
    let there = || Path::new("/sys/class/net").join(&veth).exists();
    if !there() {
        return Ok(());
    }
    let mut delete = tool("ip");
    delete.args(["link", "delete", "dev", &veth]);
    match run("remove the veth pair", delete) {
        // The kernel was faster; the tool has several words for that.
        Err(_) if !there() => Ok(()),
        outcome => outcome.map(drop),
    }
}

/// Takes a slot's machine out of the rules' sets. Where there are no rules it is in none. Only while the machine holds the
/// slot, or under the host's lock.
pub(super) fn unlist(config: &NetworkConfig, slot: u16) -> EngineResult<()> {
    const STEP: &str = "take the guest out of the packet rules";
    let (guest, veth) = (config.addresses(slot).guest, veth(slot));
    let elements =
        [format!("guests {{ {guest} }}"), format!("trusted {{ \"{veth}\" }}"), format!("held {{ {guest} }}")];
    tell_rules(STEP, &elements.map(|element| without(&element)).concat())
}

/// Lets nobody begin anything with the agent of the machine in a slot, until [`let_in`] or its end.
pub(super) fn hold_off(config: &NetworkConfig, slot: u16) -> EngineResult<()> {
    let guest = config.addresses(slot).guest;
    tell_rules("hold off the agent's clients", &format!("add element inet hotdesk held {{ {guest} }}\n"))
}

/// Takes [`hold_off`] back; whoever waits still gets through.
pub(super) fn let_in(config: &NetworkConfig, slot: u16) -> EngineResult<()> {
    let guest = config.addresses(slot).guest;
    tell_rules("let the agent's clients in", &without(&format!("held {{ {guest} }}")))
}

/// A script that takes an element away: adding it first lets the deletion always find something.
fn without(element: &str) -> String {
    format!("add element inet hotdesk {element}\ndelete element inet hotdesk {element}\n")
}

/// Changes the sets; where there are no rules, nothing.
fn tell_rules(step: &'static str, script: &str) -> EngineResult<()> {
    let mut nft = tool("nft");
    nft.args(["-f", "-"]);
    // The rules that an earlier version loaded lack the set.
    let script = format!("add set inet hotdesk held {{ type ipv4_addr; }}\n{script}");
    let (status, _, complaint) = run_patiently(step, &mut nft, Some(&script), TIMEOUT)?;
    if complaint.contains("No such file or directory") { Ok(()) } else { judge(step, status, &complaint) }
}

fn load_rules(
    config: &NetworkConfig,
    veth: &str,
    ends: Addresses,
    resolvers: &[Ipv4Addr],
) -> EngineResult<()> {
    let failed = |error: io::Error| EngineError::failed("lock the packet rules", error);
    let host = slots::host_dir().map_err(failed)?;
    let _held = lock::host(&host).map_err(failed)?;
    let mut script = RULES.to_owned();
    script +=
        &format!("add element inet hotdesk networks {{ {}/{} }}\n", config.subnet.base, config.subnet.prefix);
    script += &format!("add element inet hotdesk guests {{ {} }}\n", ends.guest);
    if !config.enabled {
        script += &format!("delete element inet hotdesk guests {{ {} }}\n", ends.guest);
    }
    script += &without(&format!("held {{ {} }}", ends.guest));
    for resolver in resolvers {
        script += &format!("add element inet hotdesk resolvers {{ {resolver} }}\n");
    }
    let trusted = format!("trusted {{ \"{veth}\" }}");
    script += &if config.allow_private_egress {
        format!("add element inet hotdesk {trusted}\n")
    } else {
        // A slot's earlier machine may have been.
        without(&trusted)
    };
    let mut nft = tool("nft");
    nft.args(["-f", "-"]);
    run_with("load the packet rules", nft, &script)?;
    forward(&host)
}

/// Lets the host forward packets. That it did not before is recorded in the host folder and in the log.
fn forward(host: &Path) -> EngineResult<()> {
    const STEP: &str = "turn on packet forwarding";
    let failed = host_error(STEP, Path::new(FORWARDING));
    if fs::read_to_string(FORWARDING).map_err(&failed)?.trim() == "1" {
        return Ok(());
    }
    let record = host.join("turned-on-ip_forward");
    fs::write(&record, "net.ipv4.ip_forward was 0 before\n").map_err(host_error(STEP, &record))?;
    tracing::warn!("net.ipv4.ip_forward was 0: turned on so that guests reach the world");
    fs::write(FORWARDING, "1").map_err(&failed)
}

/// What the host's forwarding switch says.
pub(super) fn forwarding() -> String {
    fs::read_to_string(FORWARDING).map_or_else(|error| error.to_string(), |text| text.trim().to_owned())
}

/// The name servers that guests use: the configured ones, else the host's that a guest could reach.
pub(super) fn resolvers(config: &NetworkConfig) -> EngineResult<Vec<Ipv4Addr>> {
    if !config.resolvers.is_empty() {
        return Ok(config.resolvers.iter().copied().take(MOST_RESOLVERS).collect());
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
        .filter_map(|rest| rest.trim().parse::<Ipv4Addr>().ok())
        .filter(|address| !address.is_loopback() && !address.is_unspecified())
        .take(MOST_RESOLVERS)
        .collect()
}

/// The guest's `/etc/resolv.conf`.
pub(super) fn resolv_conf(resolvers: &[Ipv4Addr]) -> String {
    resolvers.iter().map(|address| format!("nameserver {address}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guests_are_told_of_name_servers_that_they_can_reach() {
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
        assert!(RULES.contains(&format!("tcp dport {AGENT_PORT} meta skuid != 0 reject")));
    }
}
