//! Wait until the guest's kernel has closed all outside connections to a port.
//!
//! The engine closes connections from outside before it saves memory. It cannot see when the guest's kernel
//! has processed that, and memory that is saved too early cannot be restored (docs/engines/gvisor.md).

use std::time::{Duration, Instant};

use procfs::ProcResult;
use procfs::net::TcpState;

use hotdesk_base::step_error::StepError;

/// How long the kernel may take to process the closed connections, on a host whose processors are all busy.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Pause between two polls.
const PAUSE: Duration = Duration::from_millis(5);

/// Waits until no outside peer is connected over IPv4 to a TCP port of this computer.
///
/// # Errors
/// When the list of connections cannot be read, or some are still open after [`TIMEOUT`].
pub fn wait(port: u16) -> Result<(), StepError> {
    wait_for(port, TIMEOUT)
}

fn wait_for(port: u16, timeout: Duration) -> Result<(), StepError> {
    let deadline = Instant::now() + timeout;
    loop {
        let connected = connected(port).map_err(StepError::at("the list of connections"))?;
        if connected == 0 {
            return Ok(());
        }
        if Instant::now() >= deadline {
            return Err(StepError::new(format!("{connected} connections to port {port} are still open")));
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
        assert!(wait_for(port, Duration::ZERO).is_ok(), "a listening socket is not a connection");
        let own = TcpStream::connect(("127.0.0.1", port)).unwrap();
        assert!(wait_for(port, Duration::ZERO).is_ok(), "both ends are here");
        drop((own, listener.accept().unwrap()));
        // From 127.0.0.1, which stands for another computer.
        let client = TcpStream::connect(("127.0.0.2", port)).unwrap();
        let (served, _) = listener.accept().unwrap();
        let open = wait_for(port, Duration::from_millis(20)).unwrap_err();
        assert!(open.to_string().starts_with("1 connections"), "{open}");
        // Both ends at once, with nothing left behind that waits for late packets.
        let reset = nix::libc::linger { l_onoff: 1, l_linger: 0 };
        setsockopt(&client, sockopt::Linger, &reset).unwrap();
        let hung_up = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(50));
            drop(client);
        });
        wait(port).unwrap();
        drop(served);
        hung_up.join().unwrap();
    }
}
