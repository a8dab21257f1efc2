//! WebSocket client that reads one message at a time and reports close codes.

use std::time::Duration;

use futures_util::StreamExt;
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::http::HeaderName;
use tokio_tungstenite::tungstenite::{Error, Message};

/// How long a test waits for a message.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A client's socket.
pub struct Client(pub WebSocketStream<TcpStream>);

/// A message from the server, or the end of the socket.
#[derive(Clone, Debug, PartialEq)]
pub enum SocketEvent {
    Text(String),
    Binary(Vec<u8>),
    /// A close frame with its code and reason.
    Closed(u16, String),
    /// The connection ended without a close frame.
    Cut,
}

impl Client {
    /// Opens `path` at `ADDR:PORT`. The error is the status of a response that refuses the upgrade.
    pub async fn open(address: &str, path: &str, fields: &[(&'static str, &str)]) -> Result<Self, u16> {
        let mut request = format!("ws://{address}{path}").into_client_request().expect("a request");
        for (name, value) in fields {
            request.headers_mut().insert(HeaderName::from_static(name), value.parse().expect("a value"));
        }
        let stream = TcpStream::connect(address).await.expect("a connection");
        match tokio_tungstenite::client_async(request, stream).await {
            Ok((socket, _)) => Ok(Self(socket)),
            Err(Error::Http(response)) => Err(response.status().as_u16()),
            Err(error) => panic!("{path}: {error}"),
        }
    }

    /// The next message, without pings and pongs.
    pub async fn next(&mut self) -> SocketEvent {
        loop {
            let next = tokio::time::timeout(TIMEOUT, self.0.next()).await.expect("a message in time");
            return match next {
                Some(Ok(Message::Text(text))) => SocketEvent::Text(text.as_str().to_owned()),
                Some(Ok(Message::Binary(bytes))) => SocketEvent::Binary(bytes.to_vec()),
                Some(Ok(Message::Close(Some(frame)))) => {
                    SocketEvent::Closed(frame.code.into(), frame.reason.as_str().to_owned())
                }
                Some(Ok(Message::Close(None)) | Err(_)) | None => SocketEvent::Cut,
                Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => continue,
            };
        }
    }

    /// Reads until the socket is closed and returns the close code.
    pub async fn closed(mut self) -> u16 {
        loop {
            match self.next().await {
                SocketEvent::Closed(code, _) => return code,
                SocketEvent::Cut => panic!("the connection ended without a close frame"),
                SocketEvent::Text(_) | SocketEvent::Binary(_) => {}
            }
        }
    }
}
