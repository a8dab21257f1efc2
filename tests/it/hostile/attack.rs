//! Malicious agents: a fixed head, then a behaviour, for every connection.

use std::time::Duration;

use hotdesk::base::tasks::Tasks;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};

/// Behaviour after the head is sent.
#[derive(Clone, Debug)]
pub enum Then {
    /// Closes the connection.
    Close,
    /// Sends nothing more and holds the connection open.
    Stall,
    /// Repeats bytes without end, as fast as the client reads.
    Flood(Vec<u8>),
    /// Repeats one byte without end, slowly.
    Drip(u8),
}

#[derive(Clone, Debug)]
pub struct Attack {
    pub name: &'static str,
    pub head: Vec<u8>,
    pub then: Then,
}

impl Attack {
    pub fn new(name: &'static str, head: impl Into<Vec<u8>>, then: Then) -> Self {
        Self { name, head: head.into(), then }
    }

    /// A complete response with this status, these header lines and this body.
    pub fn answer(name: &'static str, status: &str, headers: &str, body: &str) -> Self {
        let length = body.len();
        let head = format!(
            "HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n{body}"
        );
        Self::new(name, head, Then::Close)
    }
}

/// Answers every connection with the attack until the tasks end.
pub fn answer_with(attack: &Attack, listener: UnixListener, tasks: &Tasks) {
    let (attack, group, stop) = (attack.clone(), tasks.clone(), tasks.stopping());
    let _listening = tasks.spawn("attack", async move {
        loop {
            let accepted = tokio::select! {
                () = stop.cancelled() => break,
                accepted = listener.accept() => accepted,
            };
            let (stream, _) = accepted.expect("a connection");
            let (attack, stop) = (attack.clone(), stop.clone());
            let _connection = group.spawn("attacker", async move {
                tokio::select! {
                    () = stop.cancelled() => {}
                    // The controller closes the connection sooner or later.
                    _ended = act(attack, stream) => {}
                }
            });
        }
    });
}

async fn act(attack: Attack, mut stream: UnixStream) -> std::io::Result<()> {
    let mut request = [0; 64 * 1024];
    let _read = stream.read(&mut request).await?;
    stream.write_all(&attack.head).await?;
    match attack.then {
        Then::Close => {
            stream.shutdown().await?;
            // Reads what the controller still sends: a reset could destroy the response.
            tokio::io::copy(&mut stream, &mut tokio::io::sink()).await.map(|_| ())
        }
        Then::Stall => std::future::pending().await,
        Then::Flood(bytes) => loop {
            stream.write_all(&bytes).await?;
        },
        Then::Drip(byte) => loop {
            stream.write_all(&[byte]).await?;
            tokio::time::sleep(Duration::from_millis(100)).await;
        },
    }
}
