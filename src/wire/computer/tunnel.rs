//! Control messages of a tunnel: one TCP connection over a WebSocket (docs/api/ports.md#tunnels).

use serde::{Deserialize, Serialize};

/// Text message of a tunnel. Binary messages are the bytes of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum TunnelControl {
    /// The sender accepts more bytes. The first one of the computer says that the connection is open.
    Credit {
        /// How many more.
        bytes: u32,
    },
    /// The sender sends no more bytes: a half-close of TCP.
    End,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_have_the_documented_form() {
        for (message, text) in [
            (TunnelControl::Credit { bytes: 7 }, r#"{"type":"credit","bytes":7}"#),
            (TunnelControl::End, r#"{"type":"end"}"#),
        ] {
            assert_eq!(serde_json::to_string(&message).unwrap(), text);
            assert_eq!(serde_json::from_str::<TunnelControl>(text).unwrap(), message);
        }
        for wrong in [r#"{"type":"credit"}"#, r#"{"type":"credit","bytes":-1}"#, r#"{"type":"more"}"#, "end"]
        {
            assert!(serde_json::from_str::<TunnelControl>(wrong).is_err(), "{wrong}");
        }
    }
}
