//! RawResponse HTTP exchanges, for requests that no well-behaved client sends.

use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// The bytes that a server sent until it closed the connection.
#[derive(Debug)]
pub struct RawResponse {
    pub text: String,
    pub took: Duration,
}

impl RawResponse {
    /// The status of the first response; 0 without one.
    pub fn status(&self) -> u16 {
        self.text.get(9..12).and_then(|digits| digits.parse().ok()).unwrap_or_default()
    }

    /// The JSON body of the first response; null without one.
    pub fn body(&self) -> serde_json::Value {
        let body = self.text.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        serde_json::from_str(body).unwrap_or_default()
    }
}

/// Sends bytes and reads until the server closes the connection. Panics after `timeout`.
pub async fn exchange(address: &str, bytes: &[u8], timeout: Duration) -> RawResponse {
    let started = Instant::now();
    let mut stream = TcpStream::connect(address).await.expect("a connection");
    // A server may answer and close before it has read everything.
    let _sent = stream.write_all(bytes).await;
    let mut text = Vec::new();
    let reading = tokio::time::timeout(timeout, stream.read_to_end(&mut text)).await;
    // A reset after a complete response counts as a close.
    assert!(reading.is_ok(), "not closed after {timeout:?}: {}", String::from_utf8_lossy(&text));
    RawResponse { text: String::from_utf8_lossy(&text).into_owned(), took: started.elapsed() }
}
