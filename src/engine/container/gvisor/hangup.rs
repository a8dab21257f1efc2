//! Wait until the guest's kernel has closed all outside connections to its agent.
//!
//! The engine closes connections from outside before it saves memory. It cannot see when the guest's kernel has processed that,
//! and memory that is saved too early cannot be restored (docs/engines/gvisor.md). The agent cannot be asked, because only such
//! connections lead to it. So `awk` looks in the guest, which starts faster than this program there, and reads more than a byte
//! with one system call, unlike `sh`. The guest's root may replace it, to the harm of its own saved memory alone.

use std::time::Duration;

use crate::container::runtime::Runtime;
use crate::host::command::run_without_output;
use hotdesk_base::ids::ComputerId;

/// Program of awk, whose variable `port` is as in `/proc/net/tcp` (proc_pid_net(5)). It ends with 0 without a connection that is
/// open, or closed but not yet released: neither closed (07) nor listening (0A). Connections among the guest's own programs have
/// the same address at both ends. Empty texts keep `1E00` from being a number. 200 looks take some 10 s over gVisor, where a
/// start of `sleep` costs about 50 ms: for a host whose processors are all busy.
const PROGRAM: &str = r#"BEGIN {
  for (tries = 0; tries < 200; tries++) {
    connected = 0
    while ((getline < "/proc/net/tcp") > 0) {
      split($2, here, ":"); split($3, there, ":")
      if (here[2] "" == port "" && here[1] "" != there[1] "" && $4 != "07" && $4 != "0A") connected++
    }
    close("/proc/net/tcp")
    if (!connected) exit 0
    system("sleep 0.01")
  }
  exit 1
}"#;
/// For a guest's kernel to process the end of connections, if that cannot be confirmed. 20 ms are too short on a host with busy
/// processors.
const HANGUP_DELAY: Duration = Duration::from_millis(500);

/// The arguments of the program that waits.
fn arguments(port: u16) -> [String; 4] {
    ["/usr/bin/awk", "-v", &format!("port={port:04X}"), PROGRAM].map(ToOwned::to_owned)
}

/// Waits until the guest's kernel has processed the end of the connections to its agent, which listens on `port`.
pub(crate) fn await_hangup(runtime: &Runtime, id: ComputerId, port: u16) {
    let mut call = runtime.call();
    call.arg("exec").arg(id.to_string()).args(arguments(port));
    if let Err(error) =
        run_without_output("wait for the guest's kernel to close the agent's connections", call)
    {
        // The guest has no memory for another process, or no `awk`: a fixed delay is the best guess.
        tracing::warn!(computer = %id, error = format_args!("{error:#}"), "could not confirm that the agent's connections ended; the saved memory may fail to resume");
        std::thread::sleep(HANGUP_DELAY);
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::process::{Child, Command};

    use super::*;

    fn wait(port: u16) -> Child {
        let [program, rest @ ..] = arguments(port);
        Command::new(program).args(rest).spawn().unwrap()
    }

    #[test]
    fn the_wait_ends_with_the_last_outside_connection() {
        let listener = TcpListener::bind("0.0.0.0:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        assert!(wait(port).wait().unwrap().success(), "a listening socket is not a connection");
        let own = TcpStream::connect(("127.0.0.1", port)).unwrap();
        assert!(wait(port).wait().unwrap().success(), "both ends are here");
        drop((own, listener.accept().unwrap()));
        // From 127.0.0.1, which stands for another computer.
        let client = TcpStream::connect(("127.0.0.2", port)).unwrap();
        let (served, _) = listener.accept().unwrap();
        let mut waiting = wait(port);
        std::thread::sleep(Duration::from_millis(300));
        assert!(waiting.try_wait().unwrap().is_none(), "the connection is open");
        // Both ends at once, with nothing left behind that waits for late packets.
        rustix::net::sockopt::set_socket_linger(&client, Some(Duration::ZERO)).unwrap();
        drop(client);
        drop(served);
        assert!(waiting.wait().unwrap().success());
    }
}
