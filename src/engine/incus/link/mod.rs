//! Sockets of agents on this host, whose connections go through Incus to the agents in the instances.
//!
//! ```text
//!   guest client --- <state>/incus/<id>.sock --- Link: one stream of HTTP/2 for each connection
//!                                                  |
//!                                    one exec of Incus (web sockets, mutual TLS)
//!                                                  |
//!                        hotdesk bridge in the instance --- /run/hotdesk/agent.sock --- agent
//! ```
//! The exec begins with the first connection, and again with the next one after it has ended. No port is open anywhere.
//! A computer controls the far end, so its bytes are untrusted: HTTP/2 bounds what it can make this process hold.

mod bridge;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Empty;
use hyper::client::conn::http2::{self, SendRequest};
use hyper::{Method, Request};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::net::{UnixListener, UnixStream};
use tokio_util::sync::CancellationToken;

use crate::EngineResult;
use crate::host::command::host_error;
use crate::host::files::{private_folder, remove_if_there};
use crate::incus::client::Client;
use crate::incus::documents::AGENT_SOCKET;
use crate::incus::members::Cluster;
use hotdesk_base::ids::ComputerId;
use hotdesk_base::tasks::Tasks;

pub use bridge::run as run_bridge;
use bridge::{CHUNK, CONNECTION_WINDOW, MAX_FRAME, PING_INTERVAL, PING_TIMEOUT, STREAM_WINDOW};

const OPEN: &str = "open the agent's socket";
/// Timeout of the exec and its first frames; through another member of a cluster it takes up to a second.
const EXEC_TIMEOUT: Duration = Duration::from_secs(20);
/// Timeout of one stream. The far end only opens a socket.
const STREAM_TIMEOUT: Duration = Duration::from_secs(10);
/// Pause after a failed accept: the process has too many open files then.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Largest headers of the far end, which sends a status and a date.
const MAX_HEADERS: u32 = 4096;

type Sender = SendRequest<Empty<Bytes>>;

/// The sockets of all computers of an engine.
#[derive(Debug)]
pub(super) struct Links {
    client: Client,
    cluster: Arc<Cluster>,
    folder: PathBuf,
    tasks: Tasks,
    open: Mutex<BTreeMap<ComputerId, CancellationToken>>,
}

impl Links {
    /// The sockets in a folder, which nobody else can enter.
    pub(super) fn open(
        client: Client,
        cluster: Arc<Cluster>,
        folder: &Path,
        tasks: Tasks,
    ) -> EngineResult<Self> {
        private_folder(folder).map_err(host_error(OPEN, folder))?;
        Ok(Self { client, cluster, folder: folder.to_owned(), tasks, open: Mutex::default() })
    }

    /// The socket of a computer that runs; opens it unless it is open. `program` is the executable of hotdesk in its instance.
    pub(super) fn ensure(&self, id: ComputerId, program: &'static str) -> EngineResult<PathBuf> {
        let path = self.path(id);
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if open.contains_key(&id) {
            return Ok(path);
        }
        let failed = host_error(OPEN, &path);
        remove_if_there(&path).map_err(&failed)?;
        let listener = UnixListener::bind(&path).map_err(&failed)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).map_err(&failed)?;
        let stop = self.tasks.stopping().child_token();
        let link = Arc::new(Link {
            client: self.client.clone(),
            cluster: Arc::clone(&self.cluster),
            id,
            program,
            tasks: self.tasks.clone(),
            stop: stop.clone(),
            sender: tokio::sync::Mutex::default(),
        });
        let _accepting = self.tasks.spawn("incus link", accept(listener, link));
        open.insert(id, stop);
        Ok(path)
    }

    /// Ends the connections of a computer that does not run, and removes its socket.
    pub(super) fn close(&self, id: ComputerId) -> EngineResult<()> {
        let closed = self.open.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
        if let Some(stop) = closed {
            stop.cancel();
        }
        let path = self.path(id);
        remove_if_there(&path).map_err(host_error("remove the agent's socket", &path))
    }

    fn path(&self, id: ComputerId) -> PathBuf {
        self.folder.join(format!("{id}.sock"))
    }
}

/// The way to one agent.
#[derive(Debug)]
struct Link {
    client: Client,
    cluster: Arc<Cluster>,
    id: ComputerId,
    program: &'static str,
    tasks: Tasks,
    stop: CancellationToken,
    /// The connection to the far end, while there is one.
    sender: tokio::sync::Mutex<Option<Sender>>,
}

async fn accept(listener: UnixListener, link: Arc<Link>) {
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = link.stop.cancelled() => return,
        };
        match accepted {
            Ok((stream, _)) => {
                let link = Arc::clone(&link);
                let tasks = link.tasks.clone();
                let _stream = tasks.spawn("incus stream", async move { link.carry(stream).await });
            }
            Err(error) => {
                tracing::warn!(computer = %link.id, %error, "could not accept a connection to an agent");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

impl Link {
    /// Carries a connection until both directions have ended, or the computer's socket closes.
    async fn carry(&self, client: UnixStream) {
        let carried = tokio::select! {
            carried = self.connect_agent(client) => carried,
            () = self.stop.cancelled() => return,
        };
        if let Err(error) = carried {
            tracing::debug!(computer = %self.id, %error, "a connection to an agent ended early");
        }
    }

    async fn connect_agent(&self, mut client: UnixStream) -> io::Result<()> {
        let mut sender = self.sender().await?;
        let request = Request::builder()
            .method(Method::CONNECT)
            .uri("agent:1")
            .body(Empty::new())
            .map_err(io::Error::other)?;
        let response = tokio::time::timeout(STREAM_TIMEOUT, sender.send_request(request))
            .await
            .map_err(|_| timed_out())?
            .map_err(io::Error::other)?;
        // The connection stays open without the sender: the link holds another.
        drop(sender);
        if !response.status().is_success() {
            return Err(io::Error::other(format!("the agent does not listen: {}", response.status())));
        }
        let upgraded = hyper::upgrade::on(response).await.map_err(io::Error::other)?;
        let mut agent = TokioIo::new(upgraded);
        tokio::io::copy_bidirectional_with_sizes(&mut client, &mut agent, CHUNK, CHUNK).await.map(drop)
    }

    /// The connection to the far end, a new one when there is none.
    async fn sender(&self) -> io::Result<Sender> {
        let mut kept = self.sender.lock().await;
        if let Some(sender) = kept.as_ref().filter(|sender| !sender.is_closed()) {
            return Ok(sender.clone());
        }
        let fresh = tokio::time::timeout(EXEC_TIMEOUT, self.begin()).await.map_err(|_| timed_out())??;
        *kept = Some(fresh.clone());
        Ok(fresh)
    }

    /// Starts the far end.
    async fn begin(&self) -> io::Result<Sender> {
        let name = self.cluster.name(self.id);
        let bridge = [self.program, "bridge", "--socket", AGENT_SOCKET];
        let stream = self.client.exec(&name, &bridge).await.map_err(io::Error::other)?;
        let (sender, connection) = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .keep_alive_interval(PING_INTERVAL)
            .keep_alive_timeout(PING_TIMEOUT)
            .keep_alive_while_idle(true)
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_frame_size(MAX_FRAME)
            .max_header_list_size(MAX_HEADERS)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(io::Error::other)?;
        let (id, stop) = (self.id, self.stop.clone());
        let _connection = self.tasks.spawn("incus connection", async move {
            tokio::select! {
                ended = connection => if let Err(error) = ended {
                    tracing::debug!(computer = %id, %error, "the way to an agent ended");
                },
                () = stop.cancelled() => {}
            }
        });
        Ok(sender)
    }
}

fn timed_out() -> io::Error {
    io::ErrorKind::TimedOut.into()
}
