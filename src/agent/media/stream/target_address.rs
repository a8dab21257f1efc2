//! Which address is streamed to? The host's name is resolved here, and what it stands for is checked (access.md A70).
//!
//! Plain RTMP then goes to the very address that was checked. RTMPS goes to the name, since certificates are for names:
//! if the name has come to stand for another address by then, whoever is there lacks its certificate. In a computer the
//! engine's packet rules refuse private addresses as well, whatever is checked here.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use hotdesk_domain::address::is_public;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::stream::{Destination, Host};

/// How long a name server may take: two tries of five seconds are its own habit, and the client waits.
const RESOLVE_TIMEOUT: Duration = Duration::from_secs(5);

/// The URL that ffmpeg is given: scheme, host and port alone, nothing that is secret.
///
/// # Errors
/// `Invalid` with the code `private_address`; `Unavailable` with the code `stream_refused` when the host is not known.
pub async fn checked(destination: &Destination, allow_private: bool) -> Result<String> {
    let port = destination.port;
    let addresses = match &destination.host {
        Host::Address(address) => vec![*address],
        Host::Name(name) => resolve(name, port).await?,
    };
    // All of them: a name that stands for a public and a private address is nobody's streaming server.
    if !allow_private && !addresses.iter().copied().all(is_public) {
        return Err(Destination::private());
    }
    if let (true, Host::Name(name)) = (destination.secure, &destination.host) {
        return Ok(format!("rtmps://{name}:{port}/"));
    }
    // Computers have IPv4 alone.
    let address = addresses.iter().find(|address| address.is_ipv4()).or(addresses.first());
    let address = address.ok_or_else(unknown)?;
    let scheme = if destination.secure { "rtmps" } else { "rtmp" };
    Ok(format!("{scheme}://{}/", SocketAddr::new(*address, port)))
}

async fn resolve(name: &str, port: u16) -> Result<Vec<IpAddr>> {
    let found = tokio::time::timeout(RESOLVE_TIMEOUT, tokio::net::lookup_host((name, port))).await;
    match found {
        Ok(Ok(addresses)) => Ok(addresses.map(|address| address.ip()).collect()),
        Ok(Err(error)) => Err(unknown().context(error)),
        Err(_) => Err(unknown().context("no answer in time")),
    }
}

fn unknown() -> Error {
    Error::unavailable("The streaming server's name is not known to the computer's name server")
        .code("stream_refused")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_a_name_stands_for_is_checked_and_plain_rtmp_goes_there() {
        let ask = async |url: &str, allow| checked(&Destination::parse(url).unwrap(), allow).await;
        for url in ["rtmp://localhost/a", "rtmps://localhost/a", "rtmp://127.0.0.1/a", "rtmp://[::1]/a"] {
            assert_eq!(ask(url, false).await.unwrap_err().code, Some("private_address"), "{url}");
        }
        assert_eq!(ask("rtmp://localhost:7/a/secret", true).await.unwrap(), "rtmp://127.0.0.1:7/");
        assert_eq!(ask("rtmps://localhost/a", true).await.unwrap(), "rtmps://localhost:443/");
        assert_eq!(ask("rtmps://[::1]/a", true).await.unwrap(), "rtmps://[::1]:443/");
        assert_eq!(ask("rtmp://8.8.8.8/a", false).await.unwrap(), "rtmp://8.8.8.8:1935/");
        assert_eq!(ask("rtmp://nobody.invalid/a", false).await.unwrap_err().code, Some("stream_refused"));
    }
}
