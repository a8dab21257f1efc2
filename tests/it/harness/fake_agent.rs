//! Something else in the place of a computer's agent: it writes down what it is asked and answers what it likes.

use std::path::Path;
use std::sync::{Arc, Mutex};

use hotdesk::base::tasks::Tasks;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixListener;
use tokio::task::JoinHandle;

/// Listens on an agent's socket until dropped.
pub struct Impostor {
    asked: Arc<Mutex<Vec<String>>>,
    task: JoinHandle<Option<()>>,
}

impl Impostor {
    /// Takes the place of the agent that listens on `socket`; every connection gets `answer` and is closed,
    /// which an answer of HTTP says.
    pub fn at(socket: &Path, answer: impl Into<Vec<u8>>) -> Self {
        // The folder may lead to a socket of before.
        if let Err(error) = std::fs::remove_file(socket) {
            assert_eq!(error.kind(), std::io::ErrorKind::NotFound, "{}: {error}", socket.display());
        }
        let listener = UnixListener::bind(socket).expect("a socket");
        let (asked, answer) = (Arc::new(Mutex::new(Vec::new())), closing(answer.into()));
        let written = Arc::clone(&asked);
        let task = Tasks::new().spawn("impostor", async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut request = vec![0; 64 * 1024];
                let length = stream.read(&mut request).await.unwrap_or_default();
                let text = String::from_utf8_lossy(&request[..length]).into_owned();
                written.lock().expect("the list").push(text);
                // Whoever asked may have heard enough.
                let _cut_short = stream.write_all(&answer).await;
                let _cut_short = stream.shutdown().await;
            }
        });
        Self { asked, task }
    }

    /// The requests so far, as they came.
    pub fn asked(&self) -> Vec<String> {
        self.asked.lock().expect("the list").clone()
    }
}

/// Adds to an answer of HTTP that its connection ends with it; whoever asked might ask over it again otherwise.
fn closing(mut answer: Vec<u8>) -> Vec<u8> {
    let line = answer.windows(2).position(|pair| pair == b"\r\n");
    if let Some(end) = line.filter(|_| answer.starts_with(b"HTTP/")) {
        answer.splice(end..end, *b"\r\nConnection: close");
    }
    answer
}

impl Drop for Impostor {
    fn drop(&mut self) {
        self.task.abort();
    }
}
