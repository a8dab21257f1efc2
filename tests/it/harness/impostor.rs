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
    /// Takes the place of the agent that listens on `socket`; every connection gets `answer` and is closed.
    pub fn at(socket: &Path, answer: impl Into<Vec<u8>>) -> Self {
        // The folder may lead to a socket of before.
        if let Err(error) = std::fs::remove_file(socket) {
            assert_eq!(error.kind(), std::io::ErrorKind::NotFound, "{}: {error}", socket.display());
        }
        let listener = UnixListener::bind(socket).expect("a socket");
        let (asked, answer) = (Arc::new(Mutex::new(Vec::new())), answer.into());
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

impl Drop for Impostor {
    fn drop(&mut self) {
        self.task.abort();
    }
}
