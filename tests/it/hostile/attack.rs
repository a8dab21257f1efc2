//! What does a malicious agent say? Bytes chosen by a test, to whoever connects.

use std::time::Duration;

use hotdesk::base::tasks::Tasks;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};

/// What follows the first bytes.
#[derive(Clone, Debug)]
pub enum Then {
    /// The connection is closed.
    Close,
    /// Nothing, for ever.
    Stall,
    /// The same bytes without end, as fast as they are taken.
    Flood(Vec<u8>),
    /// The same byte without end, slowly.
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

    /// A whole answer with this status line's rest, these header lines and this body.
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
                    // The victim hangs up sooner or later.
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
            // What the victim still sends is taken, or it would see a broken connection before the answer.
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
