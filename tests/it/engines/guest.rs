//! HTTP client for a machine's agent.

use std::time::Duration;

use hotdesk::base::wait;
use hotdesk::engine::Endpoint;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};

/// Longest time until an agent answers its first request: the boot of an emulated machine on a busy host.
const TIMEOUT: Duration = Duration::from_secs(120);

trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

/// Client for a machine's agent.
#[derive(Clone, Debug)]
pub struct Guest {
    endpoint: Endpoint,
}

/// Exit code and output of a script in the guest.
#[derive(Debug)]
pub struct ScriptOutput {
    pub code: i32,
    pub text: String,
}

impl Guest {
    pub fn new(endpoint: &Endpoint) -> Self {
        Self { endpoint: endpoint.clone() }
    }

    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Status of the answer to a request with a bearer token.
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

    pub async fn wait_until_ready(&self) {
        let answered = wait::until(TIMEOUT, || async {
            tokio::time::timeout(TIMEOUT, self.request("GET", "/nothing", b"")).await.ok()?.ok()
        });
        assert!(answered.await.is_some(), "the agent at {:?} must answer", self.endpoint);
    }

    pub async fn store(&self, name: &str, text: &str) {
        let (status, _) = self.request("PUT", &format!("/{name}"), text.as_bytes()).await.expect("an answer");
        assert_eq!(status, 200);
    }

    pub async fn load(&self, name: &str) -> Option<String> {
        let (status, body) = self.request("GET", &format!("/{name}"), b"").await.expect("an answer");
        (status == 200).then(|| String::from_utf8_lossy(&body).into_owned())
    }

    /// Increments and returns a counter in the agent's memory, which a boot resets.
    pub async fn count(&self) -> u32 {
        let (status, body) = self.request("POST", "/count", b"").await.expect("an answer");
        assert_eq!(status, 200);
        String::from_utf8_lossy(&body).parse().expect("a number")
    }

    /// Ends the guest's first process without an answer.
    pub async fn crash(&self) {
        drop(self.request("POST", "/crash", b"").await);
    }

    /// Runs a script in the guest.
    pub async fn sh(&self, script: &str) -> ScriptOutput {
        let (status, body) = self.request("POST", "/sh", script.as_bytes()).await.expect("an answer");
        assert_eq!(status, 200);
        let text = String::from_utf8_lossy(&body).into_owned();
        let (code, text) = text.split_once('\n').expect("a code and a text");
        ScriptOutput { code: code.parse().expect("a code"), text: text.trim_end().to_owned() }
    }

    /// Runs a script that must succeed; returns its output.
    pub async fn run(&self, script: &str) -> String {
        let output = self.sh(script).await;
        assert_eq!(output.code, 0, "{script}: {}", output.text);
        output.text
    }

    /// Runs a script that must fail; returns its output.
    pub async fn run_failing(&self, script: &str) -> String {
        let output = self.sh(script).await;
        assert_ne!(output.code, 0, "{script} succeeded: {}", output.text);
        output.text
    }
}
