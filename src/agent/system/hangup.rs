//! Does this computer's own kernel know that everybody hung up? Who ends connections from outside cannot see when what tells of it
//! has been taken in, and memory that is saved before that does not come back (ARCHITECTURE, gVisor).

use std::time::{Duration, Instant};

use procfs::ProcResult;
use procfs::net::TcpState;

/// How long a kernel may take to take in what it was sent, on a host whose processors are all busy.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Pause between two looks.
const PAUSE: Duration = Duration::from_millis(5);

/// Waits until nobody from outside is connected to a TCP port of this computer, by IPv4.
///
/// # Errors
/// When the kernel does not tell, or somebody still is after [`TIMEOUT`].
pub fn wait(port: u16) -> Result<(), String> {
    wait_for(port, TIMEOUT)
}

fn wait_for(port: u16, patience: Duration) -> Result<(), String> {
    let deadline = Instant::now() + patience;
    loop {
        let connected = connected(port).map_err(|error| format!("the list of connections: {error}"))?;
        if connected == 0 {
            return Ok(());
        }
        if Instant::now() >= deadline {
            return Err(format!("{connected} connections to port {port} stay"));
        }
        std::thread::sleep(PAUSE);
    }
}

/// How many are connected to a port, or were and have not been let go of by the kernel. What this computer's own programs hold
/// has one address at both ends, and may stay.
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
    fn whoever_is_connected_is_waited_for() {
        let listener = TcpListener::bind("0.0.0.0:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        assert_eq!(wait_for(port, Duration::ZERO), Ok(()), "who listens is not connected");
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
