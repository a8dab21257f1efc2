//! `hotdesk forward`: local ports whose connections lead to programs in a computer.

use std::net::{Ipv4Addr, SocketAddr};
use std::process::ExitCode;
use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use futures_util::StreamExt;
use futures_util::future::join_all;
use futures_util::stream::FuturesUnordered;
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

use crate::client::{Session, resolve};
use crate::failure::Outcome;
use crate::output;
use hotdesk_domain::computer::template::network::guest_port;
use hotdesk_http::socket::tunnel::{self, ClientTunnel, TunnelError, WINDOW};

/// Most connections of a local port: as many as a computer has in all. More wait to be accepted.
const MAX_CONNECTIONS: usize = 256;
/// Pause after a failure to accept, for example without free descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// `hotdesk forward`.
#[derive(Debug, Args)]
pub struct Options {
    /// Computer: name, id, the beginning of its id, or instance id.
    computer: String,
    /// Port in the computer; LOCAL is the port here, by default the same, and 0 is any free one.
    #[arg(required = true, value_name = "PORT[:LOCAL]")]
    ports: Vec<PortPair>,
}

/// A port in the computer, and the port of this machine that leads there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PortPair {
    guest: u16,
    local: u16,
}

impl FromStr for PortPair {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (guest, local) = text.split_once(':').unwrap_or((text, text));
        let number = guest.parse().map_err(|_| format!("{guest:?} is no port"))?;
        let guest = guest_port(number).map_err(|fault| fault.message)?;
        Ok(Self { guest, local: local.parse().map_err(|_| format!("{local:?} is no port"))? })
    }
}

/// Listens on the local ports and forwards their connections until the program is ended.
///
/// # Errors
/// When the computer is not found, the server is unreachable, or a local port cannot be bound.
pub async fn run(options: Options, session: &Session) -> Outcome {
    let id = resolve::computer(&session.api, &options.computer).await?;
    let mut bound = Vec::new();
    for pair in options.ports {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, pair.local));
        let failed = |error| {
            let guest = pair.guest;
            format!("cannot listen on {address}: {error}; choose another local port: {guest}:LOCAL")
        };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let local = listener.local_addr().map_err(failed)?;
        if session.json {
            let shown = json!({"computer_id": id, "port": pair.guest, "local": local.to_string()});
            output::line(&shown.to_string())?;
        } else {
            output::line(&format!("{local} leads to port {} of {}.", pair.guest, options.computer))?;
        }
        bound.push(forward_all(listener, pair.guest, &id, session));
    }
    // None of them ends.
    join_all(bound).await;
    Ok(ExitCode::SUCCESS)
}

/// Forwards every connection to a local port.
async fn forward_all(listener: TcpListener, port: u16, id: &str, session: &Session) {
    let mut open = FuturesUnordered::new();
    loop {
        tokio::select! {
            (connection, peer) = accept(&listener), if open.len() < MAX_CONNECTIONS => {
                open.push(async move {
                    if let Err(failure) = forward(connection, port, id, session).await {
                        eprintln!("hotdesk: connection from {peer} to port {port}: {}", failure.text());
                    }
                });
            }
            Some(()) = open.next() => {}
        }
    }
}

/// Accepts the next connection.
async fn accept(listener: &TcpListener) -> (TcpStream, SocketAddr) {
    loop {
        match listener.accept().await {
            Ok(accepted) => return accepted,
            Err(error) => {
                eprintln!("hotdesk: cannot accept a connection: {error}");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Forwards a connection until both of its directions have ended.
async fn forward(mut connection: TcpStream, port: u16, id: &str, session: &Session) -> Outcome<()> {
    let url = session.api.url(&["computers", id, "tcp", &port.to_string()]);
    let failed = |error: TunnelError| error.to_string();
    let forwarded = async {
        connection.set_nodelay(true).map_err(|error| error.to_string())?;
        let tunnel = ClientTunnel::open(session.api.channel_by_key(url).await?).await.map_err(failed)?;
        let ended = tunnel.relay(&mut connection, WINDOW, CancellationToken::new()).await;
        ended.map_err(|error| failed(error).into())
    };
    let ended = forwarded.await;
    if ended.is_err() {
        tunnel::reset(&connection);
    }
    ended
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pair_is_a_port_of_a_program_and_a_local_one() {
        for (text, guest, local) in [("3000", 3000, 3000), ("3000:13000", 3000, 13000), ("80:0", 80, 0)] {
            assert_eq!(text.parse(), Ok(PortPair { guest, local }), "{text}");
        }
        for (text, why) in [
            ("", "no port"),
            ("x", "no port"),
            ("3000:", "no port"),
            ("3000:x", "no port"),
            ("3000:65536", "no port"),
            ("1:2:3", "no port"),
            ("0", "1 to 65535"),
            ("8080", "reserved"),
            ("5900:15900", "reserved"),
        ] {
            assert!(text.parse::<PortPair>().is_err_and(|error| error.contains(why)), "{text}");
        }
    }
}
