//! WebSockets to a computer: opening, and the next message of a server that lives (docs/channels.md).

use std::time::Duration;

use futures_util::StreamExt;
use reqwest::Upgraded;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;

use super::api::{Api, REQUEST_TIMEOUT};
use crate::failure::Outcome;
use hotdesk_wire::computer::VncPassword;

/// Longest silence of a server that lives: it pings every 30 s, and more often in streams of events.
pub const SILENCE_TIMEOUT: Duration = Duration::from_secs(75);

/// A WebSocket to a computer.
pub type Socket = WebSocketStream<Upgraded>;

/// Opens a channel of a computer with the computer's password.
///
/// # Errors
/// When the server refuses the password or the upgrade, or is unreachable.
pub async fn open(api: &Api, computer: &str, channel: &str) -> Outcome<Socket> {
    let password = api.get(&["computers", computer, "vnc-password"], &[], REQUEST_TIMEOUT).await?;
    let password: VncPassword = password.decode()?;
    api.channel(api.url(&["desktops", computer, "ws", channel]), &password.password).await
}

/// Returns the next text message; answers pings meanwhile. The end of the connection is an error.
///
/// # Errors
/// When the server closes the socket or is silent for 75 s, or the connection breaks.
pub async fn next_text(socket: &mut Socket) -> Outcome<String> {
    loop {
        let message = tokio::time::timeout(SILENCE_TIMEOUT, socket.next()).await;
        let message = message.map_err(|_| "the connection is silent: is the server still reachable?")?;
        match message {
            Some(Ok(Message::Text(text))) => return Ok(text.as_str().to_owned()),
            Some(Ok(Message::Close(frame))) => return Err(closed(frame.as_ref()).into()),
            Some(Ok(_)) => {}
            Some(Err(error)) => return Err(format!("the connection broke: {error}").into()),
            None => return Err(closed(None).into()),
        }
    }
}

fn closed(frame: Option<&CloseFrame>) -> String {
    match frame {
        Some(frame) if frame.reason.is_empty() => {
            format!("the server closed the socket (code {})", frame.code)
        }
        Some(frame) => {
            let reason: String = frame.reason.chars().filter(|c| !c.is_control()).collect();
            format!("the server closed the socket: {reason} (code {})", frame.code)
        }
        None => "the server ended the connection".to_owned(),
    }
}
