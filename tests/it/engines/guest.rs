//! How do the tests speak with a machine's agent? Plain HTTP over its endpoint.

use std::time::Duration;

use hotdesk::base::wait;
use hotdesk::engine::Endpoint;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};

/// How long an agent may take to answer its first request: an emulated machine's boot beside other work.
const TIMEOUT: Duration = Duration::from_secs(120);

trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

/// A machine's agent.
#[derive(Clone, Debug)]
pub struct Guest {
    endpoint: Endpoint,
}

/// What a script in the guest said.
#[derive(Debug)]
pub struct Said {
    pub code: i32,
    pub text: String,
}

impl Guest {
    pub fn at(endpoint: &Endpoint) -> Self {
        Self { endpoint: endpoint.clone() }
    }

    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// The status of an answer to a request with a bearer token.
    pub async fn status(&self, path: &str, token: Option<&str>) -> u16 {
        let bearer = token.map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
        self.send("GET", path, &bearer, b"").await.expect("an answer").0
    }

    async fn request(&self, method: &str, path: &str, body: &[u8]) -> std::io::Result<(u16, Vec<u8>)> {
        self.send(method, path, "", body).await
    }

    async fn send(
        &self,
        method: &str,
        path: &str,
        fields: &str,
        body: &[u8],
    ) -> std::io::Result<(u16, Vec<u8>)> {
        let mut stream: Box<dyn Stream> = match &self.endpoint {
            Endpoint::Unix(socket) => Box::new(UnixStream::connect(socket).await?),
            Endpoint::Tcp(address) => Box::new(TcpStream::connect(address).await?),
        };
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\n{fields}Connection: close\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes()).await?;
        stream.write_all(body).await?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await?;
        let split =
            answer.windows(4).position(|at| at == b"\r\n\r\n").ok_or(std::io::ErrorKind::UnexpectedEof)?;
        let status = String::from_utf8_lossy(&answer[9..12]).parse().map_err(std::io::Error::other)?;
        Ok((status, answer.split_off(split + 4)))
    }

    pub async fn answers(&self) {
        let answered = wait::until(TIMEOUT, || async {
            tokio::time::timeout(TIMEOUT, self.request("GET", "/nothing", b"")).await.ok()?.ok()
        });
        assert!(answered.await.is_some(), "the agent at {:?} does not answer", self.endpoint);
    }

    pub async fn keep(&self, name: &str, text: &str) {
        let (status, _) = self.request("PUT", &format!("/{name}"), text.as_bytes()).await.expect("an answer");
        assert_eq!(status, 200);
    }

    pub async fn kept(&self, name: &str) -> Option<String> {
        let (status, body) = self.request("GET", &format!("/{name}"), b"").await.expect("an answer");
        (status == 200).then(|| String::from_utf8_lossy(&body).into_owned())
    }

    /// How often its agent was asked this since it started: what only its memory knows.
    pub async fn count(&self) -> u32 {
        let (status, body) = self.request("POST", "/count", b"").await.expect("an answer");
        assert_eq!(status, 200);
        String::from_utf8_lossy(&body).parse().expect("a number")
    }

    /// The guest's first process ends by itself; no answer comes.
    pub async fn crash(&self) {
        drop(self.request("POST", "/crash", b"").await);
    }

    /// Runs a script in the guest.
    pub async fn sh(&self, script: &str) -> Said {
        let (status, body) = self.request("POST", "/sh", script.as_bytes()).await.expect("an answer");
        assert_eq!(status, 200);
        let text = String::from_utf8_lossy(&body).into_owned();
        let (code, text) = text.split_once('\n').expect("a code and a text");
        Said { code: code.parse().expect("a code"), text: text.trim_end().to_owned() }
    }

    /// What a script says that must succeed.
    pub async fn says(&self, script: &str) -> String {
        let said = self.sh(script).await;
        assert_eq!(said.code, 0, "{script}: {}", said.text);
        said.text
    }

    /// That a script fails; what it said.
    pub async fn refuses(&self, script: &str) -> String {
        let said = self.sh(script).await;
        assert_ne!(said.code, 0, "{script} succeeded: {}", said.text);
        said.text
    }
}
