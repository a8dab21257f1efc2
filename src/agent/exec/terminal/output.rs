//! How does what the shell writes reach the client? As fast as the client reads it: until a message is on its way,
//! nothing more is read, so that a flood waits in the program that makes it.

use super::pty::Master;
use super::text::Text;
use hotdesk_http::socket::{Gone, Sender};
use hotdesk_wire::terminal::Told;

/// Most bytes of one message. A flood is cheapest in large ones; escaped for JSON this stays below 200 KB, a tenth of
/// what a socket takes.
const MAX_OUTPUT: usize = 32 * 1024;

/// Sends on until nobody holds the terminal any more.
///
/// # Errors
/// [`Gone`] with the client.
pub async fn send(master: &Master, text: &mut Text, sender: &Sender) -> Result<(), Gone> {
    let mut room = vec![0; MAX_OUTPUT];
    loop {
        let length = match master.read(&mut room).await {
            Ok(length) => length,
            Err(error) => {
                tracing::warn!(%error, "a terminal broke");
                0
            }
        };
        let data = if length == 0 { text.finish().to_owned() } else { text.take(&room[..length]) };
        if !data.is_empty() {
            sender.json(&Told::Output { data: &data }).await?;
        }
        if length == 0 {
            return Ok(());
        }
    }
}
