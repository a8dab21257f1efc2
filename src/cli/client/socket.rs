//! WebSockets to a computer: opening, and the next message of a server that lives (docs/channels.md).

use std::time::Duration;

use futures_util::StreamExt;
use reqwest::{Method, Upgraded};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;

use super::api::{Api, REQUEST_TIMEOUT};
use super::retry::Interruption;
use hotdesk_wire::computer::VncPassword;

/// Longest silence of a server that lives: it pings every 30 s, and more often in streams of events.
pub const SILENCE_TIMEOUT: Duration = Duration::from_secs(75);

/// Beginning of the reason of a close when the computer stops, which a stop of the service shares its code
/// with (docs/channels.md#close-codes).
const COMPUTER_STOPS: &str = "computer stopping";

/// A WebSocket to a computer.
pub type Socket = WebSocketStream<Upgraded>;

/// Opens a channel of a computer with the computer's password.
///
/// # Errors
/// `Connection` when the server is unreachable, fails (5xx) or does not upgrade the connection; `Final` when
/// it refuses the password.
pub async fn open(api: &Api, computer: &str, channel: &str) -> Result<Socket, Interruption> {
    let url = api.url(&["computers", computer, "vnc-password"]);
    let asking = api.exchange(api.request(Method::GET, url).timeout(REQUEST_TIMEOUT));
    let answer = asking.await.map_err(Interruption::Connection)?;
    if answer.status.is_server_error() {
        return Err(Interruption::Connection(answer.refusal()));
    }
    let password: VncPassword = answer.success()?.decode()?;
    let opening = api.channel(api.url(&["desktops", computer, "ws", channel]), &password.password);
    opening.await.map_err(Interruption::Connection)
}

/// Returns the next text message; answers pings meanwhile. The end of the connection is an error.
///
/// # Errors
/// `Connection` when the connection breaks, the server is silent for 75 s or shuts down; `Final` when it
/// closes the socket otherwise, for example because the computer stops.
pub async fn next_text(socket: &mut Socket) -> Result<String, Interruption> {
    let broken = |text: String| Interruption::Connection(text.into());
    loop {
        let message = tokio::time::timeout(SILENCE_TIMEOUT, socket.next()).await;
        let silent = |_| broken("the connection is silent: is the server still reachable?".to_owned());
        match message.map_err(silent)? {
            Some(Ok(Message::Text(text))) => return Ok(text.as_str().to_owned()),
            Some(Ok(Message::Close(frame))) => return Err(closed(frame.as_ref())),
            Some(Ok(_)) => {}
            Some(Err(error)) => return Err(broken(format!("the connection broke: {error}"))),
            None => return Err(closed(None)),
        }
    }
}

fn closed(frame: Option<&CloseFrame>) -> Interruption {
    let Some(CloseFrame { code, reason }) = frame else {
        return Interruption::Connection("the server ended the connection".into());
    };
    let shown: String = reason.chars().filter(|c| !c.is_control()).collect();
    let text = match shown.as_str() {
        "" => format!("the server closed the socket (code {code})"),
        shown => format!("the server closed the socket: {shown} (code {code})"),
    };
    let is_service_stop = *code == CloseCode::Away && !reason.starts_with(COMPUTER_STOPS);
    if is_service_stop { Interruption::Connection(text.into()) } else { Interruption::Final(text.into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stop_of_the_service_is_an_interruption_and_one_of_the_computer_is_the_end() {
        for (code, reason, is_final) in [
            (1001, "", false),
            (1001, "server shutting down", false),
            (1001, "computer stopping", true),
            (1001, "computer stopping: auto_stop", true),
            (1000, "", true),
            (4401, "the password changed", true),
        ] {
            let frame = CloseFrame { code: CloseCode::from(code), reason: reason.into() };
            let end = closed(Some(&frame));
            assert_eq!(matches!(end, Interruption::Final(_)), is_final, "{code} {reason}");
        }
        assert!(matches!(closed(None), Interruption::Connection(_)));
    }
}
