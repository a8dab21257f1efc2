//! Client of the REST API of Incus: calls, background operations, files, and web sockets.
//!
//! Each call has a connection of its own. A call that is dropped leaves nothing here; an operation that it began goes on in
//! the server.

mod direct;
mod error;
mod events;
mod exec;
mod fence;
mod transport;

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::TryStreamExt;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, Limited, StreamBody};
use hyper::body::Frame;
use hyper::client::conn::http1;
use hyper::header::{CONTENT_TYPE, ETAG, HOST, IF_MATCH};
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_util::io::ReaderStream;

pub(in crate::incus) use error::ClientError;
pub(in crate::incus) use events::{Events, InstanceEvent};
pub(in crate::incus) use exec::ExecStream;

use crate::EngineResult;
use crate::incus::settings::IncusSettings;
use direct::IndirectMembers;
use error::unreachable;
use hotdesk_base::time::deadline::SharedDeadline;
use transport::{Connection, Transport};

/// Timeout of a call that begins an operation or reads: a member that is down costs its cluster up to 20 s.
const CALL_TIMEOUT: Duration = Duration::from_secs(40);
/// Timeout of an upload: an image of some gigabytes.
const UPLOAD_TIMEOUT: Duration = Duration::from_secs(1800);
/// The longest wait of one call for an operation. Longer waits are several calls.
const WAIT_STEP: Duration = Duration::from_secs(20);
/// Largest answer: the list of 10,000 instances with their configuration has about 16 MB.
const MAX_ANSWER: usize = 64 << 20;
/// Largest message of a web socket: Incus sends what a program writes in pieces of at most 128 KiB.
const MAX_MESSAGE: usize = 4 << 20;
/// Bytes of one read from a connection with bulk data: two records of TLS. A web socket zeroes its buffer before each read, so
/// that a larger one costs more than it saves.
const BULK_READ: usize = 32 * 1024;
/// Bytes of one read from a connection with little data, of which each computer has three.
const SMALL_READ: usize = 4 * 1024;
/// Bytes of one piece of an upload.
const UPLOAD_CHUNK: usize = 128 * 1024;
/// Status of an operation that succeeded; lower ones are of operations that run, and higher ones of those that failed
/// (`doc/rest-api.md` of Incus, "List of current status codes").
const SUCCESS: u16 = 200;

type Body = UnsyncBoxBody<Bytes, io::Error>;
/// A web socket of the server.
pub(in crate::incus) type Socket = WebSocketStream<Connection>;

/// Client of one project of a server. Cheap to clone.
#[derive(Clone, Debug)]
pub(in crate::incus) struct Client {
    transport: Arc<Transport>,
    project: Arc<str>,
    indirect: Arc<IndirectMembers>,
    /// After it, calls that change something are refused.
    acts_until: SharedDeadline,
}

/// An answer of the API.
#[derive(Debug, Deserialize)]
struct Envelope {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    operation: String,
    #[serde(default)]
    error_code: u16,
    #[serde(default)]
    error: String,
    #[serde(default)]
    metadata: Value,
}

/// A background operation of the server.
#[derive(Debug, Deserialize)]
struct Operation {
    status_code: u16,
    #[serde(default)]
    err: String,
    #[serde(default)]
    metadata: Value,
}

/// What a file of an instance is.
#[derive(Debug)]
pub(in crate::incus) enum FileContent {
    /// A folder; one that is there stays.
    Folder,
    /// A file with this text, which replaces another.
    Text(String),
    /// A copy of an open file of this host.
    Copy(tokio::fs::File),
}

impl Client {
    /// Makes a client of checked settings. Nothing is connected yet.
    pub(in crate::incus) fn open(settings: &IncusSettings) -> EngineResult<Self> {
        let transport = Arc::new(Transport::open(settings)?);
        let indirect = Arc::default();
        let acts_until = SharedDeadline::default();
        Ok(Self { transport, project: settings.project.as_str().into(), indirect, acts_until })
    }

    /// Reads a thing.
    pub(in crate::incus) async fn get(&self, path: &str) -> Result<Value, ClientError> {
        self.get_tagged(path).await.map(|(value, _)| value)
    }

    /// Reads a thing and its entity tag, which is empty when the server sends none.
    pub(in crate::incus) async fn get_tagged(&self, path: &str) -> Result<(Value, String), ClientError> {
        let (envelope, tag) = self.call(Method::GET, path, None, None).await?;
        Ok((envelope.metadata, tag))
    }

    /// Changes a thing at once. With an entity tag, fails with status 412 when the thing has changed since.
    pub(in crate::incus) async fn patch(
        &self,
        path: &str,
        change: &Value,
        tag: Option<&str>,
    ) -> Result<(), ClientError> {
        self.call(Method::PATCH, path, Some(change), tag).await.map(drop)
    }

    /// Makes a call, and waits at most `timeout` until its operation has ended. Returns the operation's own data, or those of
    /// the answer when there is no operation.
    pub(in crate::incus) async fn run(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        timeout: Duration,
    ) -> Result<Value, ClientError> {
        let (envelope, _) = self.call(method, path, body, None).await?;
        self.finished(envelope, timeout).await
    }

    /// Begins an operation, and returns its record without a wait: that of a token ends when somebody uses the token.
    pub(in crate::incus) async fn begin(&self, path: &str, body: &Value) -> Result<Value, ClientError> {
        self.call(Method::POST, path, Some(body), None).await.map(|(envelope, _)| envelope.metadata)
    }

    /// Writes a file or a folder of an instance with this mode; guest root owns it.
    pub(in crate::incus) async fn push(
        &self,
        instance: &str,
        path: &str,
        mode: u32,
        content: FileContent,
    ) -> Result<(), ClientError> {
        let kind = match content {
            FileContent::Folder => "directory",
            FileContent::Text(_) | FileContent::Copy(_) => "file",
        };
        let body = match content {
            FileContent::Folder => full(Bytes::new()),
            FileContent::Text(text) => full(Bytes::from(text)),
            FileContent::Copy(file) => streamed(file),
        };
        let path = format!("/1.0/instances/{instance}/files?path={path}");
        let request = self
            .request(Method::POST, &path)
            .header(CONTENT_TYPE, "application/octet-stream")
            .header("X-Incus-type", kind)
            .header("X-Incus-uid", "0")
            .header("X-Incus-gid", "0")
            .header("X-Incus-mode", format!("{mode:04o}"))
            .header("X-Incus-write", "overwrite")
            .body(body)
            .map_err(unreachable)?;
        self.exchange(request, UPLOAD_TIMEOUT).await.map(drop)
    }

    /// Reads a small file of an instance; `None` when there is no such file.
    pub(in crate::incus) async fn read_file(
        &self,
        instance: &str,
        path: &str,
    ) -> Result<Option<Bytes>, ClientError> {
        let path = format!("/1.0/instances/{instance}/files?path={path}");
        let request = self.request(Method::GET, &path).body(full(Bytes::new())).map_err(unreachable)?;
        let (status, _, body) = self.receive(request, CALL_TIMEOUT).await?;
        if status < 400 {
            return Ok(Some(body));
        }
        match read_envelope(status, &body) {
            Err(error) if !error.is_missing() => Err(error),
            Ok(_) | Err(_) => Ok(None),
        }
    }

    /// Removes a file or an empty folder of an instance.
    pub(in crate::incus) async fn remove_file(&self, instance: &str, path: &str) -> Result<(), ClientError> {
        let path = format!("/1.0/instances/{instance}/files?path={path}");
        match self.call(Method::DELETE, &path, None, None).await {
            Ok(_) => Ok(()),
            Err(error) if error.is_missing() => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Uploads the file of an image with these properties, in the form of a query. Returns its fingerprint.
    pub(in crate::incus) async fn upload_image(
        &self,
        file: tokio::fs::File,
        properties: &str,
    ) -> Result<String, ClientError> {
        let request = self
            .request(Method::POST, "/1.0/images")
            .header(CONTENT_TYPE, "application/octet-stream")
            .header("X-Incus-properties", properties)
            .body(streamed(file))
            .map_err(unreachable)?;
        let (envelope, _) = self.exchange(request, UPLOAD_TIMEOUT).await?;
        let made = self.finished(envelope, UPLOAD_TIMEOUT).await?;
        made["fingerprint"]
            .as_str()
            .map(str::to_owned)
            .ok_or_else(|| unreachable("the answer to the upload has no fingerprint"))
    }

    /// Uploads the file of a backup, of which the server makes a volume with this name; `path` is that of the pool's volumes.
    pub(in crate::incus) async fn import_volume(
        &self,
        path: &str,
        name: &str,
        file: tokio::fs::File,
    ) -> Result<(), ClientError> {
        let request = self
            .request(Method::POST, path)
            .header(CONTENT_TYPE, "application/octet-stream")
            .header("X-Incus-name", name)
            .body(streamed(file))
            .map_err(unreachable)?;
        let (envelope, _) = self.exchange(request, UPLOAD_TIMEOUT).await?;
        self.finished(envelope, UPLOAD_TIMEOUT).await.map(drop)
    }

    /// A request in this client's project.
    fn request(&self, method: Method, path: &str) -> hyper::http::request::Builder {
        let separator = if path.contains('?') { '&' } else { '?' };
        let uri = format!("{path}{separator}project={}", self.project);
        Request::builder().method(method).uri(uri).header(HOST, "incus")
    }

    async fn call(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        tag: Option<&str>,
    ) -> Result<(Envelope, String), ClientError> {
        let mut request = self.request(method, path);
        if let Some(tag) = tag {
            request = request.header(IF_MATCH, tag);
        }
        let text = body.map(Value::to_string).unwrap_or_default();
        let request = request
            .header(CONTENT_TYPE, "application/json")
            .body(full(Bytes::from(text)))
            .map_err(unreachable)?;
        self.exchange(request, CALL_TIMEOUT).await
    }

    /// Sends a request, and reads the answer.
    async fn exchange(
        &self,
        request: Request<Body>,
        timeout: Duration,
    ) -> Result<(Envelope, String), ClientError> {
        let (status, tag, body) = self.receive(request, timeout).await?;
        read_envelope(status, &body).map(|envelope| (envelope, tag))
    }

    /// Sends a request on a connection of its own. Returns the status, the entity tag and the body of the answer.
    async fn receive(
        &self,
        request: Request<Body>,
        timeout: Duration,
    ) -> Result<(u16, String, Bytes), ClientError> {
        let exchanged = tokio::time::timeout(timeout, async {
            let stream = self.transport.connect(BULK_READ).await.map_err(unreachable)?;
            let (mut sender, connection) =
                http1::handshake(TokioIo::new(stream)).await.map_err(unreachable)?;
            // Connecting may have taken long, and the host may have been suspended in the meantime.
            self.check_deadline(request.method())?;
            let answered = async {
                let response = sender.send_request(request).await.map_err(unreachable)?;
                let status = response.status().as_u16();
                let tag = response.headers().get(ETAG).and_then(|tag| tag.to_str().ok()).unwrap_or_default();
                let tag = tag.to_owned();
                let body = Limited::new(response.into_body(), MAX_ANSWER).collect().await;
                Ok::<_, ClientError>((status, tag, body.map_err(unreachable)?.to_bytes()))
            };
            // What was received before the end of the connection is still read.
            let driven = async {
                if let Err(error) = connection.await {
                    tracing::debug!(%error, "a connection to Incus ended early");
                }
                std::future::pending::<Infallible>().await
            };
            tokio::select! {
                answered = answered => answered,
                never = driven => match never {},
            }
        });
        exchanged.await.map_err(|_| unreachable(timed_out(timeout)))?
    }

    /// Waits for the operation of an answer.
    async fn finished(&self, envelope: Envelope, timeout: Duration) -> Result<Value, ClientError> {
        if envelope.kind != "async" {
            return Ok(envelope.metadata);
        }
        let operation = without_query(&envelope.operation).to_owned();
        let deadline = Instant::now() + timeout;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let step = left.min(WAIT_STEP).as_secs().max(1);
            let state = self.get(&format!("{operation}/wait?timeout={step}")).await?;
            let state: Operation = serde_json::from_value(state).map_err(unreachable)?;
            if state.status_code >= SUCCESS {
                return outcome(state);
            }
            if left.is_zero() {
                let message = format!("the operation still runs after {} s", timeout.as_secs());
                return Err(ClientError::Refused { status: 408, message });
            }
        }
    }

    /// Starts a program in an instance, whose standard input and output are the returned stream.
    pub(in crate::incus) async fn exec(
        &self,
        instance: &str,
        command: &[&str],
    ) -> Result<ExecStream, ClientError> {
        let request = json!({
            "command": command, "wait-for-websocket": true, "interactive": false, "environment": {},
        });
        let path = format!("/1.0/instances/{instance}/exec");
        let (begun, _) = self.call(Method::POST, &path, Some(&request), None).await?;
        let sockets = &begun.metadata["metadata"]["fds"];
        let operation = without_query(&begun.operation);
        // The member that has the instance also has the operation.
        let member = begun.metadata["location"].as_str().unwrap_or_default();
        let direct = self.direct(member).await;
        let transport: &Transport = direct.as_ref().unwrap_or(&self.transport);
        let open = |name: &'static str, read_buffer: usize| async move {
            let secret = sockets[name].as_str().ok_or_else(|| unreachable(format!("no socket {name}")))?;
            open_socket(transport, &format!("{operation}/websocket?secret={secret}"), read_buffer).await
        };
        // The program begins only with its sockets.
        self.check_deadline(&Method::POST)?;
        let opened = tokio::try_join!(
            open("0", SMALL_READ),
            open("1", BULK_READ),
            open("2", SMALL_READ),
            open("control", SMALL_READ)
        );
        if opened.is_err() && direct.is_some() {
            self.indirect.note(member);
        }
        let (input, output, errors, control) = opened?;
        Ok(ExecStream::new(input, output, [errors, control]))
    }
}

/// Opens a web socket. One read takes up to `read_buffer` bytes.
async fn open_socket(transport: &Transport, path: &str, read_buffer: usize) -> Result<Socket, ClientError> {
    let request = format!("ws://incus{path}").into_client_request().map_err(unreachable)?;
    let config = WebSocketConfig::default()
        .read_buffer_size(read_buffer)
        .max_message_size(Some(MAX_MESSAGE))
        .max_frame_size(Some(MAX_MESSAGE));
    let opened = tokio::time::timeout(CALL_TIMEOUT, async {
        let stream = transport.connect(read_buffer).await.map_err(unreachable)?;
        let accepted = tokio_tungstenite::client_async_with_config(request, stream, Some(config)).await;
        accepted.map(|(socket, _)| socket).map_err(unreachable)
    });
    opened.await.map_err(|_| unreachable(timed_out(CALL_TIMEOUT)))?
}

/// Reads an answer; one of an error is an error.
fn read_envelope(status: u16, body: &[u8]) -> Result<Envelope, ClientError> {
    let envelope: Envelope = match serde_json::from_slice(body) {
        Ok(envelope) => envelope,
        // A proxy before the server.
        Err(_) if status >= 400 => {
            return Err(ClientError::Refused {
                status,
                message: "the answer is not that of Incus".to_owned(),
            });
        }
        Err(error) => return Err(unreachable(error)),
    };
    if envelope.kind == "error" || status >= 400 {
        let status = if envelope.error_code == 0 { status } else { envelope.error_code };
        return Err(ClientError::Refused { status, message: envelope.error });
    }
    Ok(envelope)
}

/// The outcome of an operation that has ended.
fn outcome(state: Operation) -> Result<Value, ClientError> {
    if state.status_code == SUCCESS && state.err.is_empty() {
        Ok(state.metadata)
    } else {
        Err(ClientError::Refused { status: state.status_code, message: state.err })
    }
}

/// The path of an operation without the project, which another member adds.
fn without_query(operation: &str) -> &str {
    operation.split_once('?').map_or(operation, |(path, _)| path)
}

fn timed_out(timeout: Duration) -> String {
    format!("no answer within {} s", timeout.as_secs())
}

fn full(bytes: Bytes) -> Body {
    Full::new(bytes).map_err(|never: Infallible| match never {}).boxed_unsync()
}

fn streamed(file: tokio::fs::File) -> Body {
    let chunks = ReaderStream::with_capacity(file, UPLOAD_CHUNK).map_ok(Frame::data);
    StreamBody::new(chunks).boxed_unsync()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_data_operations_or_errors() {
        let read = |status, text: &str| read_envelope(status, text.as_bytes());
        let data = read(200, r#"{"type":"sync","metadata":{"a":1}}"#).unwrap();
        assert_eq!((data.kind.as_str(), &data.metadata["a"]), ("sync", &json!(1)));
        let begun = read(202, r#"{"type":"async","operation":"/1.0/operations/x?project=p"}"#).unwrap();
        assert_eq!(without_query(&begun.operation), "/1.0/operations/x");
        assert_eq!(without_query("/1.0/operations/x"), "/1.0/operations/x");
        let missing = r#"{"type":"error","error_code":404,"error":"Instance not found","metadata":null}"#;
        assert!(read(404, missing).unwrap_err().is_missing());
        assert!(matches!(read(502, "<html>").unwrap_err(), ClientError::Refused { status: 502, .. }));
        assert!(matches!(read(200, "<html>").unwrap_err(), ClientError::Unreachable(_)));
    }

    #[test]
    fn an_operation_succeeds_or_has_a_reason() {
        let ended = |status_code, err: &str| {
            outcome(Operation { status_code, err: err.to_owned(), metadata: json!({"fingerprint": "f"}) })
        };
        assert_eq!(ended(200, "").unwrap()["fingerprint"], "f");
        for (status, err) in [(400, "no"), (401, ""), (200, "late failure")] {
            let expected = ClientError::Refused { status, message: err.to_owned() };
            assert_eq!(ended(status, err).unwrap_err(), expected);
        }
    }
}
