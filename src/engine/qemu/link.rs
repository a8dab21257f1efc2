//! Network link of a virtual machine. QEMU runs in its own network namespace, which has the guest's end of a
//! veth pair, with the same packet rules as a container, and the guest's tap device.
//!
//! ```text
//!   guest 192.0.0.2 -- tap0 192.0.0.1 [namespace: NAT] eth0 <slot's address> -- veth -- host
//! ```
//! All guests have the same addresses, so that saved memory can resume in any slot, and several times. NAT
//! maps outgoing packets to the slot's address. Of the incoming connections only those to the agent's port
//! reach the guest.

use std::net::Ipv4Addr;
use std::sync::mpsc;

use nix::sched::{CloneFlags, unshare};

use crate::host::addresses::NetworkConfig;
use crate::host::bandwidth;
use crate::host::command::{run_with, tool};
use crate::host::network::{self, AGENT_PORT};
use crate::{EngineError, EngineResult, MachineSpec};
use hotdesk_base::time::phase::PhaseTimer;

/// The addresses of every guest and its gateway, from the range that RFC 7335 reserves for translation within
/// a host. No other network uses them.
pub(super) const GUEST: Ipv4Addr = Ipv4Addr::new(192, 0, 0, 2);
pub(super) const GATEWAY: Ipv4Addr = Ipv4Addr::new(192, 0, 0, 1);
/// The guest's end, in the namespace.
pub(super) const TAP: &str = "tap0";

const STEP: &str = "set up the guest's network";

/// Calls `act` on a thread in a new network namespace with the link of a slot. The namespace lives as long as
/// a process that `act` started. Blocks.
pub(super) fn with_namespace<T: Send>(
    config: &NetworkConfig,
    slot: u16,
    spec: &MachineSpec,
    act: impl FnOnce() -> EngineResult<T> + Send,
) -> EngineResult<T> {
    let failed = |error: std::io::Error| EngineError::failed(STEP, error);
    let (ready, namespace) = mpsc::channel();
    let (allow, allowed) = mpsc::channel();
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("link".to_owned()).spawn_scoped(scope, move || {
            unshare(CloneFlags::CLONE_NEWNET).map_err(|error| EngineError::failed(STEP, error))?;
            let thread_id = rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned();
            // Either end is dropped when the other thread has failed.
            if ready.send(thread_id).is_err() {
                return Ok(None);
            }
            // While the other thread attaches the link, which this part does not need.
            let nat = PhaseTimer::begin(spec.id, "network nat");
            let set_up = set_up_nat();
            drop(nat);
            // Also after an error: the other thread names this namespace by the id of this thread, which
            // another process could get.
            let is_attached = allowed.recv().is_ok();
            set_up?;
            if is_attached { act().map(Some) } else { Ok(None) }
        });
        let thread = thread.map_err(failed)?;
        // Nothing is received when the thread could not make the namespace; it returns that error.
        let attached = namespace.recv().map_or(Ok(()), |thread_id| attach(config, slot, spec, thread_id));
        if attached.is_ok() {
            // A thread that has ended returns its error.
            let _gone = allow.send(());
        }
        drop(allow);
        let acted = thread.join().map_err(|_| EngineError::failed(STEP, "the thread panicked"))??;
        attached?;
        acted.ok_or_else(|| EngineError::failed(STEP, "the link was not attached"))
    })
}

/// Gives the namespace of a thread the slot's veth pair, from the host's.
fn attach(config: &NetworkConfig, slot: u16, spec: &MachineSpec, thread: u32) -> EngineResult<()> {
    let _phase = PhaseTimer::begin(spec.id, "network link");
    network::attach(config, slot, spec.egress.as_ref(), thread)?;
    let mbps = spec.bandwidth_mbps;
    if mbps > 0 { bandwidth::limit(slot, thread, mbps) } else { Ok(()) }
}

/// Makes the tap device and the NAT rules in the namespace of this thread.
fn set_up_nat() -> EngineResult<()> {
    network::make_tap(TAP, GATEWAY)?;
    network::filter_sources(TAP)?;
    let mut rules = tool("nft");
    rules.args(["-f", "-"]);
    run_with(STEP, rules, &nat_rules())?;
    // This is the switch of the thread's namespace, not the host's.
    std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").map_err(|error| EngineError::failed(STEP, error))
}

fn nat_rules() -> String {
    format!(
        "table ip hotdesk_vm {{
            chain input {{ type filter hook input priority filter; policy drop; }}
            chain forward {{
                type filter hook forward priority filter; policy drop;
                iifname {TAP} ip saddr {GUEST} oifname eth0 accept
                iifname eth0 oifname {TAP} ct status dnat accept
                iifname eth0 oifname {TAP} ct state established,related accept
            }}
            chain prerouting {{
                type nat hook prerouting priority dstnat;
                iifname eth0 tcp dport {AGENT_PORT} dnat to {GUEST}
            }}
            chain postrouting {{ type nat hook postrouting priority srcnat; oifname eth0 masquerade; }}
        }}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::network::namespace_tests::Namespace;
    use crate::host::network::source_tests::forge_arp;

    #[test]
    fn the_tap_device_stays_with_the_address_of_the_gateway_alone() {
        let Some(namespace) = Namespace::new() else { return };
        if let Err(error) = namespace.run(|| network::make_tap(TAP, GATEWAY)) {
            return hotdesk_capability::Capability::Root.skip(format_args!("a tap device: {error:#}"));
        }
        let shown = namespace.run(|| {
            let mut ip = tool("ip");
            ip.args(["-o", "address", "show", "dev", TAP, "up"]);
            run_with(STEP, ip, "").unwrap()
        });
        assert_eq!(shown.lines().count(), 1, "{shown}");
        assert!(shown.contains(&format!("inet {GATEWAY}/30 ")), "{shown}");
        let again = namespace.run(|| network::make_tap(TAP, GATEWAY)).unwrap_err();
        assert!(format!("{again:#}").contains("make the tap device"), "{again:#}");
        namespace.run(|| network::make_tap("sixteen-letters.", GATEWAY)).unwrap_err();
    }

    #[test]
    fn t3_forged_requests_of_a_virtual_machine_fill_no_table_of_neighbours() {
        let Some(namespace) = Namespace::new() else { return };
        // A namespace begins with the host's settings, and a loose filter needs a route to the senders.
        namespace.set("conf/all/rp_filter", "2");
        if let Err(error) = namespace.run(set_up_nat) {
            return hotdesk_capability::Capability::Root.skip(format_args!("a tap device: {error:#}"));
        }
        namespace.run(|| {
            let mut ip = tool("ip");
            ip.args(["-batch", "-"]);
            let routes = "link set dev lo up\nlink add up0 type veth peer name up1\nlink set dev up1 up\nlink set dev up0 up\nroute add default dev up0\n";
            run_with(STEP, ip, routes).unwrap();
        });
        let arguments = [TAP, &GUEST.to_string(), &GATEWAY.to_string(), "tap"].map(str::to_owned);
        if let Some(neighbours) = forge_arp(&namespace, arguments) {
            assert_eq!(neighbours, [GUEST.to_string()]);
        }
    }
}
