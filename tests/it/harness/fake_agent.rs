//! Fake agent on the socket of a computer's agent: it records requests and sends one fixed response.

use std::path::Path;
use std::sync::{Arc, Mutex};

use hotdesk::base::tasks::Tasks;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixListener;
use tokio::task::JoinHandle;

/// Listens on an agent's socket until dropped.
pub struct FakeAgent {
    requests: Arc<Mutex<Vec<String>>>,
    task: JoinHandle<Option<()>>,
}

impl FakeAgent {
    /// Replaces the agent on `socket`. Every connection gets `answer` and is closed; an HTTP response gets
    /// the header `Connection: close`.
    pub fn at(socket: &Path, answer: impl Into<Vec<u8>>) -> Self {
        // The folder may hold the socket of an earlier agent.
        if let Err(error) = std::fs::remove_file(socket) {
            assert_eq!(error.kind(), std::io::ErrorKind::NotFound, "{}: {error}", socket.display());
        }
        let listener = UnixListener::bind(socket).expect("a socket");
        let (requests, answer) = (Arc::new(Mutex::new(Vec::new())), closing(answer.into()));
        let recorded = Arc::clone(&requests);
        let task = Tasks::new().spawn("fake agent", async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut request = vec![0; 64 * 1024];
                let length = stream.read(&mut request).await.unwrap_or_default();
                let text = String::from_utf8_lossy(&request[..length]).into_owned();
                recorded.lock().expect("the list").push(text);
                // The client may close early.
                let _cut_short = stream.write_all(&answer).await;
                let _cut_short = stream.shutdown().await;
            }
        });
        Self { requests, task }
    }

    /// The raw requests so far, in order of arrival.
    pub fn requests(&self) -> Vec<String> {
        self.requests.lock().expect("the list").clone()
    }
}

/// Adds `Connection: close` to an HTTP response: the client would reuse the connection otherwise.
fn closing(mut answer: Vec<u8>) -> Vec<u8> {
    let line = answer.windows(2).position(|pair| pair == b"\r\n");
    if let Some(end) = line.filter(|_| answer.starts_with(b"HTTP/")) {
        answer.splice(end..end, *b"\r\nConnection: close");
    }
    answer
}

impl Drop for FakeAgent {
    fn drop(&mut self) {
        self.task.abort();
    }
}
