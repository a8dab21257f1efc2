//! TCP connections of this host to one address, by sock_diag(7): some microseconds instead of a process.

use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;

use netlink_packet_core::{NLM_F_ACK, NLM_F_DUMP, NLM_F_REQUEST};
use nix::libc;
use rustix::io::retry_on_intr;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with,
};

use crate::host::command::TIMEOUT;

/// Bytes of a buffer for answers. The kernel fills at most 32 KiB at a time.
const BUFFER_BYTES: usize = 64 * 1024;
/// Bytes of the header of each message (netlink(7), `struct nlmsghdr`), and the multiple at which the next
/// begins.
const HEADER_BYTES: usize = 16;
const ALIGNMENT: usize = 4;
/// Bytes of a request with its header: `struct inet_diag_req_v2` (sock_diag(7)) has 56.
const REQUEST_BYTES: u32 = 72;
/// Types of requests (sock_diag(7), and linux/sock_diag.h of the kernel).
const LIST: u16 = 20;
const DESTROY: u16 = 21;
/// Types of answers (netlink(7)): the outcome of a request, and the end of a list. Both begin with 0, or the
/// negative number of an error.
const OUTCOME: u16 = 2;
const END: u16 = 3;
/// Families of addresses, and the protocol, as the requests have them.
const IPV4: u8 = 2;
const IPV6: u8 = 10;
const TCP: u8 = 6;
/// Bytes of the identity of a socket (`struct inet_diag_sockid`), and its offset in an answer.
const ID_BYTES: usize = 48;
const ID_AT: usize = 4;
/// Offsets in an identity: the ports of both ends, in the network's byte order, and the address of the
/// other end.
const PORT_AT: usize = 2;
const ADDRESS_AT: usize = 20;

/// Numbers of TCP states (net/tcp_states.h of the kernel).
const STATES: std::ops::RangeInclusive<u32> = 1..=12;
const SYN_SENT: u32 = 2;
const TIME_WAIT: u32 = 6;
const CLOSE: u32 = 7;
const LISTEN: u32 = 10;

/// States of connections, named as by `ss` (ss(8)), without `time-wait`: there no program has the socket
/// any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionStates {
    /// All but sockets that listen or are closed.
    Connected,
    /// The connected ones to which the other end has answered.
    Synchronized,
}

impl ConnectionStates {
    /// The set of states, a bit each.
    fn bits(self) -> u32 {
        let left_out = |state: &u32| match self {
            Self::Connected => [TIME_WAIT, CLOSE, LISTEN].contains(state),
            Self::Synchronized => [TIME_WAIT, CLOSE, LISTEN, SYN_SENT].contains(state),
        };
        STATES.filter(|state| !left_out(state)).fold(0, |bits, state| bits | 1 << state)
    }
}

/// A TCP socket of this host, as the kernel identifies it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Connection {
    family: u8,
    id: [u8; ID_BYTES],
}

impl Connection {
    /// Reads `struct inet_diag_msg`.
    fn read(content: &[u8]) -> Option<Self> {
        let id = content.get(ID_AT..ID_AT + ID_BYTES)?.try_into().ok()?;
        Some(Self { family: *content.first()?, id })
    }

    /// The address of the other end; one of IPv4 also for an IPv6 socket that is connected to it.
    fn destination(&self) -> SocketAddr {
        let mut address = [0; 16];
        address.copy_from_slice(&self.id[ADDRESS_AT..ADDRESS_AT + 16]);
        let [a, b, c, d, ..] = address;
        let ip = if self.family == IPV4 {
            IpAddr::from([a, b, c, d])
        } else {
            Ipv6Addr::from(address).to_canonical()
        };
        SocketAddr::new(ip, u16::from_be_bytes([self.id[PORT_AT], self.id[PORT_AT + 1]]))
    }
}

/// The kernel's table of TCP sockets of one network namespace.
pub(crate) struct ConnectionTable {
    socket: OwnedFd,
    /// Number of the last request, which its answers repeat.
    sequence: u32,
}

impl ConnectionTable {
    /// Opens the table of this thread's namespace.
    pub(crate) fn open() -> io::Result<Self> {
        let (family, protocol) = (AddressFamily::NETLINK, Some(netlink::SOCK_DIAG));
        let socket = socket_with(family, SocketType::RAW, SocketFlags::CLOEXEC, protocol)?;
        set_socket_timeout(&socket, Timeout::Recv, Some(TIMEOUT))?;
        Ok(Self { socket, sequence: 0 })
    }

    /// The connections to an address that are in some of these states.
    pub(crate) fn list(&mut self, to: SocketAddr, states: ConnectionStates) -> io::Result<Vec<Connection>> {
        let mut id = [0; ID_BYTES];
        id[PORT_AT..PORT_AT + 2].copy_from_slice(&to.port().to_be_bytes());
        let mut found = Vec::new();
        for family in [IPV4, IPV6] {
            self.send(LIST, NLM_F_DUMP, &Connection { family, id }, states.bits())?;
            self.receive(|content| {
                found.extend(Connection::read(content).filter(|connection| connection.destination() == to));
            })?;
        }
        Ok(found)
    }

    /// Ends a connection, whose program gets `ECONNABORTED`. It may have ended already. A kernel without
    /// `INET_DIAG_DESTROY` leaves it as it is.
    pub(crate) fn destroy(&mut self, connection: &Connection) -> io::Result<()> {
        match self.request_end(connection) {
            Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::EOPNOTSUPP)) => Ok(()),
            outcome => outcome,
        }
    }

    /// Checks that the kernel lists connections and ends them.
    ///
    /// # Errors
    /// Those of [`Self::list`]; `EOPNOTSUPP` when it only lists them.
    pub(crate) fn check_support(&mut self) -> io::Result<()> {
        self.list(SocketAddr::from(([127, 0, 0, 1], 1)), ConnectionStates::Connected)?;
        // No socket has these addresses.
        match self.request_end(&Connection { family: IPV4, id: [0; ID_BYTES] }) {
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(()),
            outcome => outcome,
        }
    }

    fn request_end(&mut self, connection: &Connection) -> io::Result<()> {
        self.send(DESTROY, NLM_F_ACK, connection, 0)?;
        self.receive(|_| {})
    }

    fn send(&mut self, kind: u16, flags: u16, of: &Connection, states: u32) -> io::Result<()> {
        self.sequence += 1;
        let request = [
            &REQUEST_BYTES.to_ne_bytes()[..],
            &kind.to_ne_bytes(),
            &(flags | NLM_F_REQUEST).to_ne_bytes(),
            &self.sequence.to_ne_bytes(),
            // The sender, which the kernel fills in.
            &[0; 4],
            &[of.family, TCP, 0, 0],
            &states.to_ne_bytes(),
            &of.id,
        ]
        .concat();
        send(&self.socket, &request, SendFlags::empty())?;
        Ok(())
    }

    /// Reads the answer to the last request, and passes the contents of its parts on.
    fn receive(&self, mut part: impl FnMut(&[u8])) -> io::Result<()> {
        let mut buffer = vec![0; BUFFER_BYTES];
        loop {
            let length = retry_on_intr(|| {
                recv(&self.socket, buffer.as_mut_slice(), RecvFlags::empty()).map(|(_, length)| length)
            })?;
            let mut rest = buffer.get(..length).unwrap_or_default();
            while let Some((message, after)) = Message::split(rest) {
                rest = after;
                if message.sequence != self.sequence {
                    continue;
                }
                if let Some(outcome) = message.outcome() {
                    return outcome;
                }
                part(message.content);
            }
        }
    }
}

/// A message of the kernel.
#[derive(Debug, PartialEq, Eq)]
struct Message<'a> {
    kind: u16,
    sequence: u32,
    content: &'a [u8],
}

impl<'a> Message<'a> {
    /// The first message of some bytes, and the bytes after it; `None` without a whole one.
    fn split(bytes: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let number = |at: usize| bytes.get(at..at + 4)?.try_into().ok().map(u32::from_ne_bytes);
        let length = usize::try_from(number(0)?).ok()?;
        let kind = u16::from_ne_bytes(bytes.get(4..6)?.try_into().ok()?);
        let message = Self { kind, sequence: number(8)?, content: bytes.get(HEADER_BYTES..length)? };
        Some((message, bytes.get(length.next_multiple_of(ALIGNMENT)..).unwrap_or_default()))
    }

    /// The outcome of the request; `None` for a part of a list. A list that the kernel could not make ends
    /// with an error, and says nothing about the sockets.
    fn outcome(&self) -> Option<io::Result<()>> {
        [OUTCOME, END].contains(&self.kind).then(|| outcome(self.content))
    }
}

/// The outcome of a request: 0, or the negative number of an error.
fn outcome(content: &[u8]) -> io::Result<()> {
    let code = content.get(..4).and_then(|code| code.try_into().ok()).map(i32::from_ne_bytes);
    match code {
        Some(0) => Ok(()),
        Some(code) => Err(io::Error::from_raw_os_error(-code)),
        None => Err(io::Error::other("the kernel's answer is too short")),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{ErrorKind, Read};
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn states_are_those_of_ss() {
        // All but 0 (none), 6 (time-wait), 7 (closed) and 10 (listens); 2 is SYN-SENT.
        assert_eq!(ConnectionStates::Connected.bits(), 0b1_1011_0011_1110);
        assert_eq!(ConnectionStates::Synchronized.bits(), 0b1_1011_0011_1010);
    }

    #[test]
    fn messages_are_split_and_broken_ones_end_the_list() {
        let message = |length: u32, content: &[u8]| {
            let (kind, flags) = (20_u16.to_ne_bytes(), [0; 2]);
            [&length.to_ne_bytes()[..], &kind, &flags, &7_u32.to_ne_bytes(), &[0; 4], content].concat()
        };
        // 19 bytes, and one to the next multiple of four.
        let both = [message(19, &[1, 2, 3, 0]), message(16, &[])].concat();
        let (first, rest) = Message::split(&both).unwrap();
        assert_eq!(first, Message { kind: 20, sequence: 7, content: &[1, 2, 3] });
        let (second, rest) = Message::split(rest).unwrap();
        assert!(second.content.is_empty() && rest.is_empty());
        for broken in
            [message(15, &[]), message(0, &[]), message(17, &[]), message(u32::MAX, &[]), vec![9; 3]]
        {
            assert_eq!(Message::split(&broken), None, "{broken:?}");
        }
    }

    #[test]
    fn a_list_that_the_kernel_could_not_make_is_an_error_and_no_empty_list() {
        let outcome = |kind, content: &[u8]| Message { kind, sequence: 1, content }.outcome();
        assert!(outcome(LIST, &[0; 56]).is_none(), "a part of a list");
        for kind in [OUTCOME, END] {
            outcome(kind, &[0; 4]).unwrap().unwrap();
            // As of a kernel without `INET_TCP_DIAG`.
            let error = outcome(kind, &(-libc::ENOENT).to_ne_bytes()).unwrap().unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::ENOENT));
            outcome(kind, &[]).unwrap().unwrap_err();
        }
    }

    #[test]
    fn connections_to_an_address_are_found_and_ended_and_others_stay() {
        if !nix::unistd::geteuid().is_root() {
            return hotdesk_capability::Capability::Root.skip("the end of other programs' connections");
        }
        let listener = TcpListener::bind("0.0.0.0:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let to = SocketAddr::from(([127, 0, 0, 1], port));
        let mut table = ConnectionTable::open().unwrap();
        assert!(table.list(to, ConnectionStates::Connected).unwrap().is_empty(), "it only listens");
        let mut ended = vec![TcpStream::connect(to).unwrap()];
        // An IPv6 socket can be connected to an address of IPv4.
        ended.extend(TcpStream::connect(format!("[::ffff:127.0.0.1]:{port}")));
        let mut other = TcpStream::connect(("127.0.0.2", port)).unwrap();
        let found = table.list(to, ConnectionStates::Synchronized).unwrap();
        assert_eq!(found.len(), ended.len());
        let supported = table.check_support();
        for connection in &found {
            table.destroy(connection).unwrap();
        }
        if table.list(to, ConnectionStates::Connected).unwrap() == found {
            supported.unwrap_err();
            return hotdesk_capability::Capability::Host.skip("this kernel ends no connections of others");
        }
        supported.unwrap();
        for stream in &mut ended {
            assert_eq!(stream.read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionAborted);
        }
        assert!(table.list(to, ConnectionStates::Connected).unwrap().is_empty());
        // Once more: it has ended.
        table.destroy(&found[0]).unwrap();
        other.set_nonblocking(true).unwrap();
        assert_eq!(other.read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock, "to another address");
    }
}
