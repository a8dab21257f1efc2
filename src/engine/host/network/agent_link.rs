//! Link between a namespace for connections to an agent and the guest in the namespace of this process, in an instance of Incus.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};

use crate::host::network::rtnl::Rtnl;
use crate::host::network::{AGENT_PORT, LINK_PREFIX};
use crate::{EngineError, EngineResult};

/// The ends of the link. Each instance has the same, so that they stay in memory that moves to another one. Neither is routed.
const NEAR: Ipv4Addr = Ipv4Addr::new(169, 254, 100, 1);
const FAR: Ipv4Addr = Ipv4Addr::new(169, 254, 100, 2);
/// Names of the two interfaces.
const NEAR_INTERFACE: &str = "control";
const FAR_INTERFACE: &str = "agent0";

/// The address of the agent.
pub(crate) fn agent() -> SocketAddr {
    SocketAddrV4::new(FAR, AGENT_PORT).into()
}

/// Links the namespace of this thread to that of the process `pid`, whose guest takes the far end.
pub(crate) fn link(pid: u32) -> EngineResult<()> {
    let link = || -> io::Result<()> {
        let mut here = Rtnl::open()?;
        here.add_pair(NEAR_INTERFACE, FAR_INTERFACE, pid)?;
        set_up(&mut here, NEAR_INTERFACE, NEAR)?;
        let mut there = Rtnl::open_in(pid)?;
        // Incus sets it up only beside a network device. Without it, programs of the guest could not reach each other.
        let loopback = there.index("lo")?;
        there.set_up(loopback)?;
        set_up(&mut there, FAR_INTERFACE, FAR)
    };
    link().map_err(|error| EngineError::failed("link the agent", error))
}

fn set_up(namespace: &mut Rtnl, interface: &str, address: Ipv4Addr) -> io::Result<()> {
    let index = namespace.index(interface)?;
    namespace.leave_without_ipv6(index)?;
    namespace.add_address(index, address, LINK_PREFIX)?;
    namespace.set_up(index)
}
