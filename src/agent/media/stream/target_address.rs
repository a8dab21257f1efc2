//! Address of a streaming server: resolution of its name and check of the result (A70,
//! docs/authentication-rules.md).
//!
//! Plain RTMP connects to the checked address. RTMPS connects to the name, which its certificate needs;
//! should the name point to another address by then, that server lacks the certificate. The engine's packet
//! rules refuse private addresses too.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use hotdesk_domain::desktop::stream::{Destination, Host};
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::error_code::ErrorCode;
use hotdesk_domain::network::address::is_public;

/// How long a name server may take: its client's default of two tries takes five seconds each, and the
/// request waits.
const RESOLVE_TIMEOUT: Duration = Duration::from_secs(5);

/// Returns the URL for ffmpeg: scheme, host and port without secrets.
///
/// # Errors
/// `Invalid` (`private_address`); `Unavailable` (`stream_refused`) when the name cannot be resolved.
pub async fn resolve_url(destination: &Destination, allow_private: bool) -> Result<String> {
    let port = destination.port;
    let addresses = match &destination.host {
        Host::Address(address) => vec![*address],
        Host::Name(name) => resolve(name, port).await?,
    };
    // All of them must be public: no real streaming server has a name with public and private addresses.
    if !allow_private && !addresses.iter().copied().all(is_public) {
        return Err(Destination::private());
    }
    if let (true, Host::Name(name)) = (destination.secure, &destination.host) {
        return Ok(format!("rtmps://{name}:{port}/"));
    }
    // Computers have only IPv4.
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
        .code(ErrorCode::StreamRefused)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn resolved_addresses_are_checked_and_used_for_plain_rtmp() {
        let ask = async |url: &str, allow| resolve_url(&Destination::parse(url).unwrap(), allow).await;
        for url in ["rtmp://localhost/a", "rtmps://localhost/a", "rtmp://127.0.0.1/a", "rtmp://[::1]/a"] {
            assert_eq!(ask(url, false).await.unwrap_err().code, Some(ErrorCode::PrivateAddress), "{url}");
        }
        assert_eq!(ask("rtmp://localhost:7/a/secret", true).await.unwrap(), "rtmp://127.0.0.1:7/");
        assert_eq!(ask("rtmps://localhost/a", true).await.unwrap(), "rtmps://localhost:443/");
        assert_eq!(ask("rtmps://[::1]/a", true).await.unwrap(), "rtmps://[::1]:443/");
        assert_eq!(ask("rtmp://8.8.8.8/a", false).await.unwrap(), "rtmp://8.8.8.8:1935/");
        assert_eq!(
            ask("rtmp://nobody.invalid/a", false).await.unwrap_err().code,
            Some(ErrorCode::StreamRefused)
        );
    }
}
