//! Copy of a terminal's output to its WebSocket, with back-pressure.
//!
//! Nothing more is read until a message is sent, so a flood blocks the program that writes it.

use super::pty::Master;
use super::utf8::Utf8Decoder;
use hotdesk_http::socket::{PeerGone, Sender};
use hotdesk_wire::programs::terminal::TerminalServerMessage;

/// Most bytes of one message. Large messages make a flood cheap; escaped for JSON this stays below 200 KB, a
/// tenth of what a socket accepts.
const MAX_OUTPUT: usize = 32 * 1024;

/// Copies until no process has the terminal open.
///
/// # Errors
/// [`PeerGone`] when the client has disconnected.
pub async fn send(master: &Master, text: &mut Utf8Decoder, sender: &Sender) -> Result<(), PeerGone> {
    let mut buffer = vec![0; MAX_OUTPUT];
    loop {
        let length = match master.read(&mut buffer).await {
            Ok(length) => length,
            Err(error) => {
                tracing::warn!(%error, "reading a terminal failed; its output ends here");
                0
            }
        };
        let data = if length == 0 { text.finish().to_owned() } else { text.take(&buffer[..length]) };
        if !data.is_empty() {
            sender.json(&TerminalServerMessage::Output { data: &data }).await?;
        }
        if length == 0 {
            return Ok(());
        }
    }
}
