//! Process events of the kernel's process connector: fork, exec and exit (`linux/cn_proc.h`,
//! `linux/connector.h`).
//!
//! It requires `CAP_NET_ADMIN` in the initial user namespace, and the initial pid and network namespaces: so
//! it works for an agent that root started by hand, but not in a container.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::net::netlink::{CONNECTOR, SocketAddrNetlink};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Connector group and value of process events (`CN_IDX_PROC`, `CN_VAL_PROC`).
const PROCESSES: u32 = 1;
/// `PROC_CN_MCAST_LISTEN` and `PROC_CN_MCAST_IGNORE`.
const LISTEN: u32 = 1;
const IGNORE: u32 = 2;
/// Type of a complete message (`NLMSG_DONE`).
const DONE: u16 = 3;
/// Bytes of a netlink header, and of both headers.
const NETLINK_HEADER: usize = 16;
const HEADERS: usize = NETLINK_HEADER + 20;
/// Offset of the data in an event: behind kind, processor and time.
const DATA_OFFSET: usize = 16;
/// Receive buffer in bytes: the kernel accounts for less than 1 KiB per message, so a thousand programs may
/// start at once. The memory is used only while it is needed.
const QUEUE_BYTES: usize = 4 * 1024 * 1024;
/// Larger than any message of this group (76 bytes).
const MESSAGE_BUFFER: usize = 512;
/// Most notices that are returned at once.
const BATCH: usize = 64;
/// Timeout for the kernel's confirmation. It confirms before the request returns; in another namespace it
/// never answers.
const TIMEOUT: Duration = Duration::from_millis(200);

/// Event of a process, with its process id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProcessNotice {
    /// It was forked.
    Fork(u32),
    /// It executed a program.
    Exec(u32),
    /// It exited, and may not have been reaped.
    Exit(u32),
}

/// Message of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ConnectorMessage {
    ProcessNotice(ProcessNotice),
    /// Answer: the request's number, and an errno or 0.
    Answer(u32, u32),
}

/// A subscription, ended when dropped.
#[derive(Debug)]
pub(super) struct Connector(AsyncFd<OwnedFd>);

impl Connector {
    /// Subscribes. Needs a tokio runtime.
    ///
    /// # Errors
    /// When the kernel refuses or does not answer.
    pub(super) async fn open() -> io::Result<Self> {
        Self::with_queue(QUEUE_BYTES).await
    }

    async fn with_queue(bytes: usize) -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket =
            rustix::net::socket_with(AddressFamily::NETLINK, SocketType::DGRAM, flags, Some(CONNECTOR))?;
        rustix::net::sockopt::set_socket_recv_buffer_size_force(&socket, bytes)?;
        rustix::net::bind(&socket, &SocketAddrNetlink::new(0, PROCESSES))?;
        // SAFETY: the descriptor is owned by what is registered, and nothing closes it before that is
        // dropped.
        #[allow(unsafe_code)]
        let socket = unsafe { AsyncFd::register_with_interest(socket, Interest::READABLE) }?;
        let connector = Self(socket);
        // All subscribers receive all answers; ours has this number.
        let number = rand::random();
        connector.send_request(LISTEN, number)?;
        match tokio::time::timeout(TIMEOUT, connector.answered(number)).await {
            Ok(Ok(0)) => Ok(connector),
            Ok(Ok(error)) => Err(io::Error::from_raw_os_error(error as i32)),
            Ok(Err(error)) => Err(error),
            Err(_) => {
                Err(io::Error::other("no answer; the agent is not in the initial pid and network namespace"))
            }
        }
    }

    /// Waits for the answer to a request; returns its errno, or 0.
    async fn answered(&self, request: u32) -> io::Result<u32> {
        loop {
            for message in self.messages().await? {
                if let ConnectorMessage::Answer(number, error) = message
                    && number == request
                {
                    return Ok(error);
                }
            }
        }
    }

    fn send_request(&self, what: u32, number: u32) -> io::Result<()> {
        let length = (HEADERS + size_of::<u32>()) as u32;
        let mut message = Vec::with_capacity(length as usize);
        let mut put = |bytes: &[u8]| message.extend_from_slice(bytes);
        put(&length.to_ne_bytes());
        put(&DONE.to_ne_bytes());
        put(&[0; 2 + 4 + 4]);
        for word in [PROCESSES, PROCESSES, number, number] {
            put(&word.to_ne_bytes());
        }
        put(&(size_of::<u32>() as u16).to_ne_bytes());
        put(&[0; 2]);
        put(&what.to_ne_bytes());
        rustix::net::send(&self.0, &message, SendFlags::empty())?;
        Ok(())
    }

    /// Returns the events since the last call; waits for the first one. Cancel-safe: a cancelled call has
    /// read nothing.
    ///
    /// # Errors
    /// `ENOBUFS` when the buffer was full: some events are lost, later ones are received again.
    pub(super) async fn notices(&self) -> io::Result<Vec<ProcessNotice>> {
        let messages = self.messages().await?;
        Ok(messages
            .into_iter()
            .filter_map(|message| match message {
                ConnectorMessage::ProcessNotice(notice) => Some(notice),
                ConnectorMessage::Answer(..) => None,
            })
            .collect())
    }

    async fn messages(&self) -> io::Result<Vec<ConnectorMessage>> {
        let mut messages = Vec::new();
        let mut buffer = [0; MESSAGE_BUFFER];
        loop {
            let mut ready = self.0.readable().await?;
            while messages.len() < BATCH {
                match ready.try_io(|socket| receive(socket.get_ref(), &mut buffer)) {
                    Ok(Ok(message)) => messages.extend(message),
                    Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                    Ok(Err(error)) => return Err(error),
                    Err(_would_block) => break,
                }
            }
            if !messages.is_empty() {
                return Ok(messages);
            }
        }
    }
}

impl Drop for Connector {
    fn drop(&mut self) {
        // Kernels before 6.6 count subscribers and do not notice a closed socket.
        let _ = self.send_request(IGNORE, 0);
    }
}

/// Reads one message; `None` when it is irrelevant.
fn receive(socket: &OwnedFd, buffer: &mut [u8]) -> io::Result<Option<ConnectorMessage>> {
    let (_, length, from) = rustix::net::recvfrom(socket, &mut *buffer, RecvFlags::empty())?;
    let from = from.and_then(|from| SocketAddrNetlink::try_from(from).ok());
    let from_kernel = from.is_some_and(|from| from.pid() == 0);
    Ok(buffer.get(..length).filter(|_| from_kernel).and_then(read))
}

/// Parses a message. Events of threads are dropped.
fn read(message: &[u8]) -> Option<ConnectorMessage> {
    let word = |bytes: &[u8], at: usize| {
        let bytes = bytes.get(at..at + size_of::<u32>())?;
        Some(u32::from_ne_bytes(bytes.try_into().ok()?))
    };
    if [word(message, NETLINK_HEADER)?, word(message, NETLINK_HEADER + 4)?] != [PROCESSES; 2] {
        return None;
    }
    let event = message.get(HEADERS..)?;
    let fact = |index: usize| word(event, DATA_OFFSET + index * size_of::<u32>());
    // A process has the id of its main thread.
    let process = |thread: u32, process: u32| (thread == process).then_some(process);
    let notice = match word(event, 0)? {
        // The kernel overwrites the first copy of the request's number and returns the second one
        // incremented.
        0 => {
            return Some(ConnectorMessage::Answer(
                word(message, NETLINK_HEADER + 12)?.wrapping_sub(1),
                fact(0)?,
            ));
        }
        0x0000_0001 => ProcessNotice::Fork(process(fact(2)?, fact(3)?)?),
        0x0000_0002 => ProcessNotice::Exec(fact(1)?),
        0x8000_0000 => ProcessNotice::Exit(process(fact(0)?, fact(1)?)?),
        _ => return None,
    };
    Some(ConnectorMessage::ProcessNotice(notice))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A message in the kernel's format.
    fn message(number: u32, what: u32, facts: &[u32]) -> Vec<u8> {
        let words = [76, 3, 5, 0, 1, 1, 5, number + 1, 40, what, 0, 7, 7];
        words.iter().chain(facts).flat_map(|word: &u32| word.to_ne_bytes()).collect()
    }

    #[test]
    fn process_events_are_parsed_and_thread_events_dropped() {
        let notice = |notice| Some(ConnectorMessage::ProcessNotice(notice));
        for (what, facts, expected) in [
            (1, [70, 70, 71, 71], notice(ProcessNotice::Fork(71))),
            (1, [70, 70, 72, 70], None),
            (2, [71, 71, 0, 0], notice(ProcessNotice::Exec(71))),
            (0x8000_0000, [71, 71, 0, 17], notice(ProcessNotice::Exit(71))),
            (0x8000_0000, [72, 70, 0, 17], None),
            (0x200, [71, 71, 0, 0], None),
            (0, [1, 0, 0, 0], Some(ConnectorMessage::Answer(9, 1))),
        ] {
            let message = message(9, what, &facts);
            assert_eq!(read(&message), expected, "{what:x} {facts:?}");
            assert!((0..HEADERS + DATA_OFFSET).all(|length| read(&message[..length]).is_none()));
        }
        let mut other = message(9, 2, &[71, 71]);
        other[NETLINK_HEADER] = 2;
        assert_eq!(read(&other), None, "another group's");
    }

    /// Lost events are reported, and later ones received. Skipped when the kernel refuses.
    #[tokio::test]
    async fn what_was_lost_is_known() {
        let small = match Connector::with_queue(16 * 1024).await {
            Ok(connector) => connector,
            Err(error) => {
                let reason = format!("the kernel's process connector: {error}");
                return hotdesk_capability::Capability::Host.skip(reason);
            }
        };
        let run = || {
            let mut child = std::process::Command::new("true").spawn().unwrap();
            child.wait().unwrap();
            child.id()
        };
        for _ in 0..100 {
            run();
        }
        let lost = loop {
            if let Err(error) = small.notices().await {
                break error;
            }
        };
        assert_eq!(lost.raw_os_error(), Some(nix::errno::Errno::ENOBUFS as i32));
        drop(small);
        let connector = Connector::open().await.unwrap();
        let pid = run();
        let mut all = Vec::new();
        while !all.contains(&ProcessNotice::Exit(pid)) {
            all.extend(connector.notices().await.unwrap());
        }
        all.retain(|notice| {
            [ProcessNotice::Fork(pid), ProcessNotice::Exec(pid), ProcessNotice::Exit(pid)].contains(notice)
        });
        assert_eq!(all, [ProcessNotice::Fork(pid), ProcessNotice::Exec(pid), ProcessNotice::Exit(pid)]);
    }
}
