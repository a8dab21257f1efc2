//! HTTP by hand, for what no well-behaved client sends.

use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// What came back until the server closed.
#[derive(Debug)]
pub struct Raw {
    pub text: String,
    pub took: Duration,
}

impl Raw {
    /// The status of the first answer; 0 when there was none.
    pub fn status(&self) -> u16 {
        self.text.get(9..12).and_then(|digits| digits.parse().ok()).unwrap_or_default()
    }

    /// The first answer's body.
    pub fn body(&self) -> serde_json::Value {
        let body = self.text.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        serde_json::from_str(body).unwrap_or_default()
    }
}

/// Sends bytes and reads until the other side closes, or panics after `patience`.
pub async fn exchange(address: &str, bytes: &[u8], patience: Duration) -> Raw {
    let started = Instant::now();
    let mut stream = TcpStream::connect(address).await.expect("a connection");
    // A server may answer and close while much is still being sent.
    let _sent = stream.write_all(bytes).await;
    let mut text = Vec::new();
    let reading = tokio::time::timeout(patience, stream.read_to_end(&mut text)).await;
    // A reset after an answer that was read is a close too.
    assert!(reading.is_ok(), "not closed after {patience:?}: {}", String::from_utf8_lossy(&text));
    Raw { text: String::from_utf8_lossy(&text).into_owned(), took: started.elapsed() }
}
