//! How does a virtual machine reach the world? QEMU runs in a network namespace of its own, which has a container's end of a
//! machine's veth pair, with the same packet rules before it, and the guest's tap device.
//!
//! ```text
//!   guest 192.0.0.2 -- tap0 192.0.0.1 [namespace: translates] eth0 <slot's address> -- veth -- host
//! ```
//! All guests have the same addresses, so that memory can go on in any slot, and several times: what leaves is translated to
//! the slot's address, and of what comes in only the agent's port reaches the guest. Nobody else on the link can be taken for it.

use std::net::Ipv4Addr;
use std::sync::mpsc;

use nix::sched::{CloneFlags, unshare};

use crate::addresses::NetworkConfig;
use crate::command::{run_with, tool};
use crate::network::{self, AGENT_PORT};
use crate::{EngineError, EngineResult, bandwidth};

/// What every guest calls itself and its gateway: addresses that RFC 7335 sets aside for translation within a host, which
/// are nobody's on any network.
pub(super) const GUEST: Ipv4Addr = Ipv4Addr::new(192, 0, 0, 2);
pub(super) const GATEWAY: Ipv4Addr = Ipv4Addr::new(192, 0, 0, 1);
/// The guest's end, in the namespace.
pub(super) const TAP: &str = "tap0";

const STEP: &str = "set up the guest's network";

/// Calls `act` on a thread in a network namespace with the link of a slot, which lives on while a process does that `act` started.
/// Blocks.
pub(super) fn with<T: Send>(
    config: &NetworkConfig,
    slot: u16,
    mbps: u32,
    act: impl FnOnce() -> EngineResult<T> + Send,
) -> EngineResult<T> {
    let failed = |error: std::io::Error| EngineError::failed(STEP, error);
    let (tell, told) = mpsc::channel();
    let (allow, allowed) = mpsc::channel();
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("link".to_owned()).spawn_scoped(scope, move || {
            unshare(CloneFlags::CLONE_NEWNET).map_err(|error| EngineError::failed(STEP, error))?;
            let here = rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned();
            // It fails only when nobody waits any more.
            let attached = tell.send(here).is_ok() && allowed.recv().is_ok();
            if !attached {
                return Ok(None);
            }
            translate()?;
            act().map(Some)
        });
        let thread = thread.map_err(failed)?;
        // Nothing is told when the namespace could not be made, which the thread then returns.
        let attached = told.recv().map_or(Ok(()), |there| attach(config, slot, mbps, there));
        if attached.is_ok() {
            // A thread that is gone returns why.
            let _gone = allow.send(());
        }
        drop(allow);
        let acted = thread.join().map_err(|_| EngineError::failed(STEP, "the thread panicked"))?;
        attached?;
        acted?.ok_or_else(|| EngineError::failed(STEP, "nothing was done"))
    })
}

/// Gives the namespace of a thread the slot's veth pair, from the host's.
fn attach(config: &NetworkConfig, slot: u16, mbps: u32, thread: u32) -> EngineResult<()> {
    network::attach(config, slot, &network::resolvers(config)?, thread)?;
    if mbps > 0 { bandwidth::limit(slot, thread, mbps) } else { Ok(()) }
}

/// The guest's side, in the namespace of this thread.
fn translate() -> EngineResult<()> {
    let mut tap = tool("ip");
    tap.args(["-batch", "-"]);
    let commands = format!(
        "tuntap add dev {TAP} mode tap\n\
         link set dev {TAP} addrgenmode none\n\
         address add {GATEWAY}/30 dev {TAP}\n\
         link set dev {TAP} up\n"
    );
    run_with(STEP, tap, &commands)?;
    let mut rules = tool("nft");
    rules.args(["-f", "-"]);
    run_with(STEP, rules, &translation())?;
    // The thread's own namespace: the host's switch is another.
    std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").map_err(|error| EngineError::failed(STEP, error))
}

fn translation() -> String {
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
