//! File descriptors that pass from the agent to a command's process (`SCM_RIGHTS`).
//!
//! They come with the first byte of a request. Both ends of its output are always there; the byte's bits say
//! which others follow, in the order of these constants.

use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use nix::cmsg_space;
use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::socket::{ControlMessage, ControlMessageOwned, MsgFlags, UnixAddr, recvmsg, sendmsg};

use crate::exec::output::streams::PipeWriters;

/// Bit: a standard input follows.
const STDIN: u8 = 1;
/// Bit: a control socket follows.
const CONTROL: u8 = 2;
/// Bit: a text and the write end of a result's pipe follow.
const TEXT: u8 = 4;

/// Descriptors of a command besides its output.
#[derive(Debug, Default)]
pub struct CommandDescriptors {
    /// Standard input; absent: /dev/null.
    pub stdin: Option<OwnedFd>,
    /// Socket whose number replaces `{control}` in the arguments.
    pub control: Option<OwnedFd>,
    /// Memory file whose number replaces `{text}` in the arguments.
    pub text: Option<OwnedFd>,
    /// Pipe whose number replaces `{result}` in the arguments.
    pub result: Option<OwnedFd>,
}

impl CommandDescriptors {
    /// Adds a text and a result. Returns the read end of the result's pipe, which does not block.
    ///
    /// # Errors
    /// When the memory file or the pipe cannot be created.
    pub fn add_text(&mut self, text: &str) -> io::Result<File> {
        let (reader, writer) = nix::unistd::pipe2(OFlag::O_NONBLOCK | OFlag::O_CLOEXEC)?;
        (self.text, self.result) = (Some(memory_file(text)?), Some(writer));
        Ok(File::from(reader))
    }
}

/// Returns a memory file with a text: nobody has to write it, and the program can rewind it.
///
/// # Errors
/// When the memory file cannot be created.
pub fn memory_file(text: &str) -> io::Result<OwnedFd> {
    let mut memory = File::from(memfd_create(c"hotdesk-text", MFdFlags::MFD_CLOEXEC)?);
    memory.write_all(text.as_bytes())?;
    io::Seek::rewind(&mut memory)?;
    Ok(memory.into())
}

/// Sends the descriptors. Does not block, because the socket is empty.
///
/// # Errors
/// When the socket is closed or the descriptors cannot be passed.
pub fn send(socket: &impl AsRawFd, output: &PipeWriters, descriptors: &CommandDescriptors) -> io::Result<()> {
    let CommandDescriptors { stdin, control, text, result } = descriptors;
    let flag = |descriptor: &Option<OwnedFd>, bit| if descriptor.is_some() { bit } else { 0 };
    let byte = [flag(stdin, STDIN) | flag(control, CONTROL) | flag(text, TEXT)];
    let others = [stdin, control, text, result].into_iter().flatten();
    let numbers: Vec<RawFd> =
        [&output.out, &output.err].into_iter().chain(others).map(AsRawFd::as_raw_fd).collect();
    let rights = [ControlMessage::ScmRights(&numbers)];
    sendmsg::<UnixAddr>(socket.as_raw_fd(), &[IoSlice::new(&byte)], &rights, MsgFlags::empty(), None)?;
    Ok(())
}

/// Receives the descriptors; blocks. All of them are close-on-exec. `None` when the socket was closed.
///
/// # Errors
/// When the socket fails or descriptors are missing.
pub fn receive(socket: &impl AsRawFd) -> io::Result<Option<(PipeWriters, CommandDescriptors)>> {
    let mut byte = [0];
    let mut buffer = cmsg_space!([RawFd; 6]);
    let mut numbers = Vec::new();
    {
        let mut parts = [IoSliceMut::new(&mut byte)];
        let flags = MsgFlags::MSG_CMSG_CLOEXEC;
        let message = loop {
            match recvmsg::<UnixAddr>(socket.as_raw_fd(), &mut parts, Some(&mut buffer), flags) {
                // A guest that continues from saved memory may have been interrupted in the call.
                Err(Errno::EINTR) => {}
                received => break received?,
            }
        };
        if message.bytes != 1 {
            return Ok(None);
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
    let (Some(out), Some(err)) = (descriptors.next(), descriptors.next()) else {
        return Err(io::Error::other("a request came without its output"));
    };
    let [byte] = byte;
    let mut take = |bit: u8| if byte & bit == 0 { None } else { descriptors.next() };
    let (stdin, control, text, result) = (take(STDIN), take(CONTROL), take(TEXT), take(TEXT));
    Ok(Some((PipeWriters { out, err }, CommandDescriptors { stdin, control, text, result })))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    fn output() -> PipeWriters {
        let null = || File::options().write(true).open("/dev/null").unwrap().into();
        PipeWriters { out: null(), err: null() }
    }

    #[test]
    fn each_descriptor_keeps_its_role() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        send(&ours, &output(), &CommandDescriptors::default()).unwrap();
        let (_, none) = receive(&theirs).unwrap().unwrap();
        assert!(none.stdin.is_none() && none.control.is_none() && none.text.is_none());
        let stdin = Some(memory_file("words").unwrap());
        send(&ours, &output(), &CommandDescriptors { stdin, ..CommandDescriptors::default() }).unwrap();
        let mut text = String::new();
        let (_, one) = receive(&theirs).unwrap().unwrap();
        File::from(one.stdin.unwrap()).read_to_string(&mut text).unwrap();
        assert_eq!(text, "words");
        let (control, _) = UnixStream::pair().unwrap();
        let mut many = CommandDescriptors { control: Some(control.into()), ..CommandDescriptors::default() };
        let mut result = many.add_text("code").unwrap();
        send(&ours, &output(), &many).unwrap();
        drop(many);
        let (_, many) = receive(&theirs).unwrap().unwrap();
        assert!(many.stdin.is_none() && many.control.is_some());
        File::from(many.text.unwrap()).read_to_string(&mut text).unwrap();
        assert_eq!(text, "wordscode");
        File::from(many.result.unwrap()).write_all(b"done").unwrap();
        result.read_to_string(&mut text).unwrap();
        assert_eq!(text, "wordscodedone");
        drop(ours);
        assert!(receive(&theirs).unwrap().is_none());
    }
}
