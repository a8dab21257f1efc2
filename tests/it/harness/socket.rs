//! How does a test speak WebSocket? By a library of its own, a message at a time, with the code that a socket was closed with.

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

/// What came.
#[derive(Clone, Debug, PartialEq)]
pub enum Came {
    Text(String),
    Binary(Vec<u8>),
    /// Closed, with its code and reason.
    Closed(u16, String),
    /// Ended without a close.
    Cut,
}

impl Client {
    /// Opens `path` at `ADDR:PORT`; the status where it is refused before the upgrade.
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

    /// The next message that is not the heartbeat's.
    pub async fn next(&mut self) -> Came {
        loop {
            let next = tokio::time::timeout(TIMEOUT, self.0.next()).await.expect("a message in time");
            return match next {
                Some(Ok(Message::Text(text))) => Came::Text(text.as_str().to_owned()),
                Some(Ok(Message::Binary(bytes))) => Came::Binary(bytes.to_vec()),
                Some(Ok(Message::Close(Some(frame)))) => {
                    Came::Closed(frame.code.into(), frame.reason.as_str().to_owned())
                }
                Some(Ok(Message::Close(None)) | Err(_)) | None => Came::Cut,
                Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => continue,
            };
        }
    }

    /// The code that it is closed with, whatever comes before.
    pub async fn closed(mut self) -> u16 {
        loop {
            match self.next().await {
                Came::Closed(code, _) => return code,
                Came::Cut => panic!("the socket was cut"),
                Came::Text(_) | Came::Binary(_) => {}
            }
        }
    }
}
