//! How do descriptors reach a command's shim? One byte on the shim's socket before anything else, which says what comes
//! with it (`SCM_RIGHTS`): what is the command's standard input, and a socket to talk to it.

use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;

use nix::cmsg_space;
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::socket::{ControlMessage, ControlMessageOwned, MsgFlags, UnixAddr, recvmsg, sendmsg};

/// Bit of the byte that says: a standard input is handed over.
const STDIN: u8 = 1;
/// Bit that says: a control socket is handed over, after the standard input.
const CONTROL: u8 = 2;

/// What a command gets besides its output.
#[derive(Debug, Default)]
pub struct Handed {
    /// Its standard input; nothing to read when absent.
    pub stdin: Option<OwnedFd>,
    /// The socket whose number replaces `{control}` in its arguments.
    pub control: Option<OwnedFd>,
}

impl Handed {
    /// A text as standard input, in memory: nobody has to feed it and it can be read from its beginning again.
    ///
    /// # Errors
    /// When there is no memory for it.
    pub fn text(text: &str) -> io::Result<Self> {
        let mut memory = File::from(memfd_create(c"hotdesk-stdin", MFdFlags::MFD_CLOEXEC)?);
        memory.write_all(text.as_bytes())?;
        io::Seek::rewind(&mut memory)?;
        Ok(Self { stdin: Some(memory.into()), control: None })
    }
}

/// Hands over. The socket is fresh, so this does not wait.
pub fn send(socket: &UnixStream, handed: &Handed) -> io::Result<()> {
    let flag = |descriptor: &Option<OwnedFd>, bit| if descriptor.is_some() { bit } else { 0 };
    let byte = [flag(&handed.stdin, STDIN) | flag(&handed.control, CONTROL)];
    let numbers: Vec<RawFd> =
        [&handed.stdin, &handed.control].into_iter().flatten().map(AsRawFd::as_raw_fd).collect();
    let rights = [ControlMessage::ScmRights(&numbers)];
    let messages = if numbers.is_empty() { &rights[..0] } else { &rights[..] };
    sendmsg::<UnixAddr>(socket.as_raw_fd(), &[IoSlice::new(&byte)], messages, MsgFlags::empty(), None)?;
    Ok(())
}

/// Takes what is handed over; blocks. All of it is close-on-exec.
pub fn receive(socket: &UnixStream) -> io::Result<Handed> {
    let mut byte = [0];
    let mut room = cmsg_space!([RawFd; 2]);
    let mut numbers = Vec::new();
    {
        let mut parts = [IoSliceMut::new(&mut byte)];
        let flags = MsgFlags::MSG_CMSG_CLOEXEC;
        let message = recvmsg::<UnixAddr>(socket.as_raw_fd(), &mut parts, Some(&mut room), flags)?;
        if message.bytes != 1 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        for part in message.cmsgs()? {
            if let ControlMessageOwned::ScmRights(rights) = part {
                numbers.extend(rights);
            }
        }
    }
    let mut descriptors = numbers.into_iter().map(|number| {
        // SAFETY: the kernel has just made this descriptor for this process, and nobody else here knows its number.
        #[allow(unsafe_code)]
        let owned = unsafe { OwnedFd::from_raw_fd(number) };
        owned
    });
    let [byte] = byte;
    let mut take = |bit: u8| if byte & bit == 0 { None } else { descriptors.next() };
    Ok(Handed { stdin: take(STDIN), control: take(CONTROL) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn what_is_handed_over_arrives_in_its_place() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        send(&ours, &Handed::default()).unwrap();
        let none = receive(&theirs).unwrap();
        assert!(none.stdin.is_none() && none.control.is_none());
        send(&ours, &Handed::text("words").unwrap()).unwrap();
        let mut text = String::new();
        File::from(receive(&theirs).unwrap().stdin.unwrap()).read_to_string(&mut text).unwrap();
        assert_eq!(text, "words");
        let (control, _) = UnixStream::pair().unwrap();
        send(&ours, &Handed { stdin: None, control: Some(control.into()) }).unwrap();
        let one = receive(&theirs).unwrap();
        assert!(one.stdin.is_none() && one.control.is_some());
        drop(ours);
        assert!(receive(&theirs).is_err());
    }
}
