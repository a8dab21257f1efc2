//! Ports that the template of a computer declares (docs/api/ports.md).

use std::fmt;

use crate::error::{Error, Result};

/// Word of a port that is open to everybody, in the store.
const OPEN: &str = "open";
/// Word of every other port.
const KEYED: &str = "keyed";

/// A port of a computer's template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ComputerPort {
    /// Number in the computer.
    pub number: u16,
    /// `tcp`, `udp`, `http` or `ws`.
    pub protocol: String,
    /// Whether HTTP and WebSocket requests to it need no key.
    pub is_open: bool,
    /// Name of the application that listens on it.
    pub app: String,
}

impl fmt::Display for ComputerPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let access = if self.is_open { OPEN } else { KEYED };
        write!(f, "{}:{}:{access}:{}", self.number, self.protocol, self.app)
    }
}

/// Returns ports as one text: each as `NUMBER:PROTOCOL:ACCESS:APPLICATION`, with spaces between them.
pub fn ports_text(ports: &[ComputerPort]) -> String {
    let texts: Vec<String> = ports.iter().map(ComputerPort::to_string).collect();
    texts.join(" ")
}

/// Parses [`ports_text`].
///
/// # Errors
/// `Internal` for any other text.
pub fn parse_ports(text: &str) -> Result<Vec<ComputerPort>> {
    text.split_whitespace().map(parse).collect()
}

fn parse(text: &str) -> Result<ComputerPort> {
    let bad = || Error::internal(format!("a computer has the port {text}"));
    let parts: Vec<&str> = text.split(':').collect();
    let [number, protocol, access, app] = parts[..] else { return Err(bad()) };
    let is_open = match access {
        OPEN => true,
        KEYED => false,
        _ => return Err(bad()),
    };
    Ok(ComputerPort {
        number: number.parse().map_err(|_| bad())?,
        protocol: protocol.to_owned(),
        is_open,
        app: app.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_stored_as_text() {
        let port = |number, is_open, app: &str| ComputerPort {
            number,
            protocol: "http".to_owned(),
            is_open,
            app: app.to_owned(),
        };
        let ports = [port(9222, true, "chromium"), port(3000, false, "my-app")];
        let text = "9222:http:open:chromium 3000:http:keyed:my-app";
        assert_eq!(ports_text(&ports), text);
        assert_eq!(parse_ports(text).unwrap(), ports);
        assert_eq!(parse_ports("").unwrap(), []);
        for bad in ["1", "x:http:open:a", "1:http:maybe:a", "1:http:open:a:b", "70000:http:open:a"] {
            assert!(parse_ports(bad).is_err(), "{bad}");
        }
    }
}
