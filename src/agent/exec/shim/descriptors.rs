//! File descriptors that pass from the agent to a command's shim (`SCM_RIGHTS`).
//!
//! They come with the first byte on the shim's socket. Its bits say which descriptors follow: the command's
//! standard input and a control socket.

use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;

use nix::cmsg_space;
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::socket::{ControlMessage, ControlMessageOwned, MsgFlags, UnixAddr, recvmsg, sendmsg};

/// Bit: a standard input follows.
const STDIN: u8 = 1;
/// Bit: a control socket follows, after the standard input.
const CONTROL: u8 = 2;

/// Descriptors of a command besides its output.
#[derive(Debug, Default)]
pub struct CommandDescriptors {
    /// Standard input; absent: /dev/null.
    pub stdin: Option<OwnedFd>,
    /// Socket whose number replaces `{control}` in the arguments.
    pub control: Option<OwnedFd>,
}

impl CommandDescriptors {
    /// A text as standard input, in a memory file: nobody has to write it, and the program can rewind it.
    ///
    /// # Errors
    /// When the memory file cannot be created.
    pub fn text(text: &str) -> io::Result<Self> {
        let mut memory = File::from(memfd_create(c"hotdesk-stdin", MFdFlags::MFD_CLOEXEC)?);
        memory.write_all(text.as_bytes())?;
        io::Seek::rewind(&mut memory)?;
        Ok(Self { stdin: Some(memory.into()), control: None })
    }
}

/// Sends the descriptors. Does not block, because the socket is new.
pub fn send(socket: &UnixStream, descriptors: &CommandDescriptors) -> io::Result<()> {
    let flag = |descriptor: &Option<OwnedFd>, bit| if descriptor.is_some() { bit } else { 0 };
    let byte = [flag(&descriptors.stdin, STDIN) | flag(&descriptors.control, CONTROL)];
    let numbers: Vec<RawFd> =
        [&descriptors.stdin, &descriptors.control].into_iter().flatten().map(AsRawFd::as_raw_fd).collect();
    let rights = [ControlMessage::ScmRights(&numbers)];
    let messages = if numbers.is_empty() { &rights[..0] } else { &rights[..] };
    sendmsg::<UnixAddr>(socket.as_raw_fd(), &[IoSlice::new(&byte)], messages, MsgFlags::empty(), None)?;
    Ok(())
}

/// Receives the descriptors; blocks. All of them are close-on-exec.
pub fn receive(socket: &UnixStream) -> io::Result<CommandDescriptors> {
    let mut byte = [0];
    let mut buffer = cmsg_space!([RawFd; 2]);
    let mut numbers = Vec::new();
    {
        let mut parts = [IoSliceMut::new(&mut byte)];
        let flags = MsgFlags::MSG_CMSG_CLOEXEC;
        let message = recvmsg::<UnixAddr>(socket.as_raw_fd(), &mut parts, Some(&mut buffer), flags)?;
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
        // SAFETY: the kernel has just made this descriptor for this process, and nobody else here knows its
        // number.
        #[allow(unsafe_code)]
        let owned = unsafe { OwnedFd::from_raw_fd(number) };
        owned
    });
    let [byte] = byte;
    let mut take = |bit: u8| if byte & bit == 0 { None } else { descriptors.next() };
    Ok(CommandDescriptors { stdin: take(STDIN), control: take(CONTROL) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn each_descriptor_keeps_its_role() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        send(&ours, &CommandDescriptors::default()).unwrap();
        let none = receive(&theirs).unwrap();
        assert!(none.stdin.is_none() && none.control.is_none());
        send(&ours, &CommandDescriptors::text("words").unwrap()).unwrap();
        let mut text = String::new();
        File::from(receive(&theirs).unwrap().stdin.unwrap()).read_to_string(&mut text).unwrap();
        assert_eq!(text, "words");
        let (control, _) = UnixStream::pair().unwrap();
        send(&ours, &CommandDescriptors { stdin: None, control: Some(control.into()) }).unwrap();
        let one = receive(&theirs).unwrap();
        assert!(one.stdin.is_none() && one.control.is_some());
        drop(ours);
        assert!(receive(&theirs).is_err());
    }
}
