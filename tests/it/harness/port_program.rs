//! Fake program on every port of a simulated computer: the agent's end of tunnels (docs/api/ports.md#tunnels).

use axum::Router;
use axum::body::Bytes;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::routing::get;
use serde_json::json;

/// Bytes that the program takes: requests of tests are shorter.
const CREDIT: u32 = 64 * 1024;

/// Routes of an agent whose programs answer every connection with these bytes and end it, or, without `ends`, hold it open.
pub fn answering(answer: impl Into<Bytes>, ends: bool) -> Router {
    let answer: Bytes = answer.into();
    let open = async move |upgrade: WebSocketUpgrade| {
        upgrade.on_upgrade(async move |socket| {
            // The controller may leave at any time.
            let _gone = serve(socket, answer, ends).await;
        })
    };
    Router::new().route("/ws/tcp", get(open))
}

async fn serve(mut socket: WebSocket, answer: Bytes, ends: bool) -> Result<(), axum::Error> {
    let control = |message: serde_json::Value| Message::Text(message.to_string().into());
    socket.send(control(json!({"type": "credit", "bytes": CREDIT}))).await?;
    let (mut request, mut has_credit) = (Vec::new(), false);
    while !has_credit || !request.windows(4).any(|four| four == b"\r\n\r\n") {
        match socket.recv().await {
            Some(Ok(Message::Binary(bytes))) => request.extend_from_slice(&bytes),
            Some(message) => has_credit |= matches!(message?, Message::Text(_)),
            None => return Ok(()),
        }
    }
    socket.send(Message::Binary(answer)).await?;
    if ends {
        socket.send(control(json!({"type": "end"}))).await?;
    }
    while let Some(Ok(_)) = socket.recv().await {}
    Ok(())
}
