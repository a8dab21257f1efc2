//! Refusal of changes after the lease of this controller has ended.

use hyper::Method;

use super::{Client, ClientError};
use hotdesk_base::time::deadline::SharedDeadline;

/// Status of a call that this client refuses itself: its controller does not have the lease (423 Locked, RFC 4918).
const LOCKED: u16 = 423;

impl Client {
    /// This client, which changes nothing after a deadline. It reads nevertheless.
    pub(in crate::incus) fn until(self, acts_until: SharedDeadline) -> Self {
        Self { acts_until, ..self }
    }

    /// Refuses a call that changes something after the deadline. It is checked right before the request is sent.
    pub(super) fn check_deadline(&self, method: &Method) -> Result<(), ClientError> {
        if method == Method::GET || !self.acts_until.has_passed() {
            return Ok(());
        }
        let message = "the lease of this controller has ended, so it changes nothing".to_owned();
        Err(ClientError::Refused { status: LOCKED, message })
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixListener;
    use std::time::Duration;

    use serde_json::json;

    use super::*;
    use crate::incus::settings::IncusSettings;
    use hotdesk_base::clock;

    const ANSWER: &str = "HTTP/1.1 200 OK\r\ncontent-length: 31\r\n\r\n{\"type\":\"sync\",\"metadata\":null}";

    #[tokio::test]
    async fn a_client_reads_but_changes_nothing_after_the_deadline() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("unix.socket");
        let listener = UnixListener::bind(&socket).unwrap();
        // Ends with the process. A connection without a request ends without an answer.
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                if stream.read(&mut [0; 4096]).is_ok_and(|bytes| bytes > 0) {
                    let _ = stream.write_all(ANSWER.as_bytes());
                    // The end before the rest of the request was read could lose the answer.
                    let _ = stream.read_to_end(&mut Vec::new());
                }
            }
        });
        let url = socket.to_string_lossy().into_owned();
        let settings = IncusSettings { url, ..IncusSettings::default() };
        let lease = SharedDeadline::passed();
        let client = Client::open(&settings).unwrap().until(lease.clone());
        let change = json!({"config": {}});
        let refused = client.patch("/1.0/instances/a", &change, None).await.unwrap_err();
        assert!(matches!(refused, ClientError::Refused { status: LOCKED, .. }), "{refused}");
        client.get("/1.0").await.unwrap();
        lease.set(clock::since_boot() + Duration::from_secs(60));
        client.patch("/1.0/instances/a", &change, None).await.unwrap();
        lease.set(clock::since_boot());
        for method in [Method::POST, Method::PUT, Method::PATCH, Method::DELETE] {
            assert!(client.run(method, "/1.0/instances/a", None, Duration::ZERO).await.is_err());
        }
    }
}
