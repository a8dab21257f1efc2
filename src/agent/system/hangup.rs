//! Wait until the guest's kernel has closed all outside connections to a port.
//!
//! The engine closes connections from outside before it saves memory. It cannot see when the guest's kernel
//! has processed that, and memory that is saved too early cannot be restored (docs/engines/gvisor.md).

use std::time::{Duration, Instant};

use procfs::ProcResult;
use procfs::net::TcpState;

/// How long the kernel may take to process the closed connections, on a host whose processors are all busy.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Pause between two polls.
const PAUSE: Duration = Duration::from_millis(5);

/// Waits until no outside peer is connected over IPv4 to a TCP port of this computer.
///
/// # Errors
/// When the list of connections cannot be read, or some are still open after [`TIMEOUT`].
pub fn wait(port: u16) -> Result<(), String> {
    wait_for(port, TIMEOUT)
}

fn wait_for(port: u16, timeout: Duration) -> Result<(), String> {
    let deadline = Instant::now() + timeout;
    loop {
        let connected = connected(port).map_err(|error| format!("the list of connections: {error}"))?;
        if connected == 0 {
            return Ok(());
        }
        if Instant::now() >= deadline {
            return Err(format!("{connected} connections to port {port} are still open"));
        }
        std::thread::sleep(PAUSE);
    }
}

/// Number of connections to a port that are open, or closed but not yet released by the kernel. Connections
/// among the computer's own programs have the same address at both ends; they do not count.
fn connected(port: u16) -> ProcResult<usize> {
    let sockets = procfs::net::tcp()?;
    let connected = sockets.into_iter().filter(|socket| {
        let (here, there) = (socket.local_address, socket.remote_address);
        let open = !matches!(socket.state, TcpState::Listen | TcpState::Close);
        here.port() == port && here.ip() != there.ip() && open
    });
    Ok(connected.count())
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use nix::sys::socket::{setsockopt, sockopt};

    use super::*;

    #[test]
    fn the_wait_ends_with_the_last_outside_connection() {
        let listener = TcpListener::bind("0.0.0.0:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        assert_eq!(wait_for(port, Duration::ZERO), Ok(()), "a listening socket is not a connection");
        let own = TcpStream::connect(("127.0.0.1", port)).unwrap();
        assert_eq!(wait_for(port, Duration::ZERO), Ok(()), "both ends are here");
        drop((own, listener.accept().unwrap()));
        // From 127.0.0.1, which stands for another computer.
        let client = TcpStream::connect(("127.0.0.2", port)).unwrap();
        let (served, _) = listener.accept().unwrap();
        assert!(wait_for(port, Duration::from_millis(20)).unwrap_err().starts_with("1 connections"));
        // Both ends at once, with nothing left behind that waits for late packets.
        let reset = nix::libc::linger { l_onoff: 1, l_linger: 0 };
        setsockopt(&client, sockopt::Linger, &reset).unwrap();
        let hung_up = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(50));
            drop(client);
        });
        assert_eq!(wait(port), Ok(()));
        drop(served);
        hung_up.join().unwrap();
    }
}
