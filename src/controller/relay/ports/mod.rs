//! Ports of programs in a computer: HTTP, and tunnels of TCP connections (docs/api/ports.md).

use hotdesk_base::ids::ComputerId;
use hotdesk_domain::computer::template::network::guest_port;
use hotdesk_domain::error::{Error, Result};

mod access;
pub mod field_lists;
mod fields;
pub mod http;
pub mod links;
pub mod tcp;

/// Reads a port of a path.
///
/// # Errors
/// `Invalid` for no port, and for one that the computer itself uses.
fn parse_port(text: &str) -> Result<u16> {
    check_port(text.parse().map_err(|_| Error::invalid("port must be a number, 1 to 65535"))?)
}

/// Checks the number of a port.
///
/// # Errors
/// `Invalid` for no port, and for one that the computer itself uses.
pub fn check_port(number: u64) -> Result<u16> {
    guest_port(number).map_err(|fault| Error::invalid(format!("port {}", fault.message)))
}

/// The path of a port's root, as clients write it.
fn prefix(computer: ComputerId, port: u16) -> String {
    format!("/api/computers/{computer}/ports/{port}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_of_programs_are_read_and_reserved_ones_refused() {
        assert_eq!(parse_port("3000").unwrap(), 3000);
        for (text, why) in [
            ("", "must be a number"),
            ("x", "must be a number"),
            ("-1", "must be a number"),
            ("0", "1 to 65535"),
            ("65536", "1 to 65535"),
            ("8080", "the computer itself uses"),
            ("870", "the computer itself uses"),
        ] {
            let error = parse_port(text).unwrap_err().message;
            assert!(error.starts_with("port must ") && error.contains(why), "{text}: {error}");
        }
    }
}
