//! What does the kernel itself tell of processes? Its process connector says who forked, became another program and ended,
//! as it happens (`linux/cn_proc.h`, `linux/connector.h`).
//!
//! It lets in only who has `CAP_NET_ADMIN` in the first user namespace, and is in the first pid and network namespace: an
//! agent that root started by hand, and no container's.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::net::netlink::{CONNECTOR, SocketAddrNetlink};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// The connector's group and value of process events (`CN_IDX_PROC`, `CN_VAL_PROC`).
const PROCESSES: u32 = 1;
/// `PROC_CN_MCAST_LISTEN` and `PROC_CN_MCAST_IGNORE`.
const LISTEN: u32 = 1;
const IGNORE: u32 = 2;
/// A message that is whole (`NLMSG_DONE`).
const DONE: u16 = 3;
/// Bytes of a netlink header, and of the connector's behind it.
const NETLINK_HEADER: usize = 16;
const HEADERS: usize = NETLINK_HEADER + 20;
/// Where in an event that carries it begins what is particular to its kind: behind kind, processor and time.
const PARTICULARS: usize = 16;
/// Room for what comes faster than it is read: the kernel counts under 1 KiB for a message, so that a thousand programs
/// may start at once. Taken only while it is needed.
const QUEUE_BYTES: usize = 4 * 1024 * 1024;
/// Larger than any message of this group, which are 76 bytes long.
const MESSAGE_ROOM: usize = 512;
/// Most notices that are handed over at once.
const BATCH: usize = 64;
/// How long the kernel may take to say that it lets us in. It does so before the question has been sent; who stands in
/// another namespace gets no answer at all.
const TIMEOUT: Duration = Duration::from_millis(200);

/// What happened to a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Notice {
    /// It is the fork of another.
    Forked(u32),
    /// It became another program.
    Became(u32),
    /// It ended, and may not have been reaped.
    Ended(u32),
}

/// A message of the kernel's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Message {
    Notice(Notice),
    /// The answer to a question: the question's number, and an error's number or none.
    Answer(u32, u32),
}

/// An open ear; the kernel stops talking when it is dropped.
#[derive(Debug)]
pub(super) struct Connector(AsyncFd<OwnedFd>);

impl Connector {
    /// Asks to be told. Needs a runtime.
    ///
    /// # Errors
    /// Where the kernel does not let us in, and says so or nothing.
    pub(super) async fn open() -> io::Result<Self> {
        Self::with_queue(QUEUE_BYTES).await
    }

    async fn with_queue(bytes: usize) -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket =
            rustix::net::socket_with(AddressFamily::NETLINK, SocketType::DGRAM, flags, Some(CONNECTOR))?;
        rustix::net::sockopt::set_socket_recv_buffer_size_force(&socket, bytes)?;
        rustix::net::bind(&socket, &SocketAddrNetlink::new(0, PROCESSES))?;
        // SAFETY: the descriptor is owned by what is registered, and nothing closes it before that is dropped.
        #[allow(unsafe_code)]
        let socket = unsafe { AsyncFd::register_with_interest(socket, Interest::READABLE) }?;
        let connector = Self(socket);
        // Answers are heard by all who listen, ours by its number.
        let number = rand::random();
        connector.ask(LISTEN, number)?;
        match tokio::time::timeout(TIMEOUT, connector.answered(number)).await {
            Ok(Ok(0)) => Ok(connector),
            Ok(Ok(error)) => Err(io::Error::from_raw_os_error(error as i32)),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(io::Error::other("no answer, as in a namespace of one's own")),
        }
    }

    /// The error's number with which a question was answered; 0 is none.
    async fn answered(&self, question: u32) -> io::Result<u32> {
        loop {
            for message in self.messages().await? {
                if let Message::Answer(number, error) = message
                    && number == question
                {
                    return Ok(error);
                }
            }
        }
    }

    fn ask(&self, what: u32, number: u32) -> io::Result<()> {
        let length = (HEADERS + size_of::<u32>()) as u32;
        let mut question = Vec::with_capacity(length as usize);
        let mut put = |bytes: &[u8]| question.extend_from_slice(bytes);
        put(&length.to_ne_bytes());
        put(&DONE.to_ne_bytes());
        put(&[0; 2 + 4 + 4]);
        for word in [PROCESSES, PROCESSES, number, number] {
            put(&word.to_ne_bytes());
        }
        put(&(size_of::<u32>() as u16).to_ne_bytes());
        put(&[0; 2]);
        put(&what.to_ne_bytes());
        rustix::net::send(&self.0, &question, SendFlags::empty())?;
        Ok(())
    }

    /// What happened since the last time, waiting for the first of it. Cancel-safe: nothing is taken before there is
    /// something to return.
    ///
    /// # Errors
    /// `ENOBUFS` when more happened than there was room for: some of it is lost, and what comes next is heard again.
    pub(super) async fn notices(&self) -> io::Result<Vec<Notice>> {
        let messages = self.messages().await?;
        Ok(messages
            .into_iter()
            .filter_map(|message| match message {
                Message::Notice(notice) => Some(notice),
                Message::Answer(..) => None,
            })
            .collect())
    }

    async fn messages(&self) -> io::Result<Vec<Message>> {
        let mut messages = Vec::new();
        let mut room = [0; MESSAGE_ROOM];
        loop {
            let mut ready = self.0.readable().await?;
            while messages.len() < BATCH {
                match ready.try_io(|socket| receive(socket.get_ref(), &mut room)) {
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
        // Kernels before 6.6 count who listens, and do not see that a socket is closed.
        let _ = self.ask(IGNORE, 0);
    }
}

/// One message; none when it is of no concern.
fn receive(socket: &OwnedFd, room: &mut [u8]) -> io::Result<Option<Message>> {
    let (_, length, from) = rustix::net::recvfrom(socket, &mut *room, RecvFlags::empty())?;
    let from = from.and_then(|from| SocketAddrNetlink::try_from(from).ok());
    let of_the_kernel = from.is_some_and(|from| from.pid() == 0);
    Ok(room.get(..length).filter(|_| of_the_kernel).and_then(read))
}

/// Reads a message. Threads come and go without a word of it.
fn read(message: &[u8]) -> Option<Message> {
    let word = |bytes: &[u8], at: usize| {
        let bytes = bytes.get(at..at + size_of::<u32>())?;
        Some(u32::from_ne_bytes(bytes.try_into().ok()?))
    };
    if [word(message, NETLINK_HEADER)?, word(message, NETLINK_HEADER + 4)?] != [PROCESSES; 2] {
        return None;
    }
    let event = message.get(HEADERS..)?;
    let fact = |index: usize| word(event, PARTICULARS + index * size_of::<u32>());
    // A process is the thread that has its number.
    let process = |thread: u32, process: u32| (thread == process).then_some(process);
    let notice = match word(event, 0)? {
        // The kernel's own count stands where the question had its number a first time; the second one comes back raised.
        0 => return Some(Message::Answer(word(message, NETLINK_HEADER + 12)?.wrapping_sub(1), fact(0)?)),
        0x0000_0001 => Notice::Forked(process(fact(2)?, fact(3)?)?),
        0x0000_0002 => Notice::Became(fact(1)?),
        0x8000_0000 => Notice::Ended(process(fact(0)?, fact(1)?)?),
        _ => return None,
    };
    Some(Message::Notice(notice))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A message as the kernel sends it.
    fn message(number: u32, what: u32, facts: &[u32]) -> Vec<u8> {
        let words = [76, 3, 5, 0, 1, 1, 5, number + 1, 40, what, 0, 7, 7];
        words.iter().chain(facts).flat_map(|word: &u32| word.to_ne_bytes()).collect()
    }

    #[test]
    fn messages_are_read_and_threads_passed_over() {
        let notice = |notice| Some(Message::Notice(notice));
        for (what, facts, expected) in [
            (1, [70, 70, 71, 71], notice(Notice::Forked(71))),
            (1, [70, 70, 72, 70], None),
            (2, [71, 71, 0, 0], notice(Notice::Became(71))),
            (0x8000_0000, [71, 71, 0, 17], notice(Notice::Ended(71))),
            (0x8000_0000, [72, 70, 0, 17], None),
            (0x200, [71, 71, 0, 0], None),
            (0, [1, 0, 0, 0], Some(Message::Answer(9, 1))),
        ] {
            let message = message(9, what, &facts);
            assert_eq!(read(&message), expected, "{what:x} {facts:?}");
            assert!((0..HEADERS + PARTICULARS).all(|length| read(&message[..length]).is_none()));
        }
        let mut other = message(9, 2, &[71, 71]);
        other[NETLINK_HEADER] = 2;
        assert_eq!(read(&other), None, "another group's");
    }

    /// Where the kernel lets us in, what does not fit is told as lost, and the next is heard.
    #[tokio::test]
    async fn what_was_lost_is_known() {
        let small = match Connector::with_queue(16 * 1024).await {
            Ok(connector) => connector,
            Err(error) => return println!("skipped: the kernel's process connector: {error}"),
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
        while !all.contains(&Notice::Ended(pid)) {
            all.extend(connector.notices().await.unwrap());
        }
        all.retain(|notice| [Notice::Forked(pid), Notice::Became(pid), Notice::Ended(pid)].contains(notice));
        assert_eq!(all, [Notice::Forked(pid), Notice::Became(pid), Notice::Ended(pid)]);
    }
}
