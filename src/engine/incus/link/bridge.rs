//! Far end of a computer's connections: a program in the instance that connects the streams of one HTTP/2 connection, on
//! standard input and output, to the agent's socket.

use std::convert::Infallible;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Empty;
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use nix::fcntl::{FcntlArg, fcntl};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;

use hotdesk_base::tasks::Tasks;

/// Interval of pings on an idle connection. A cut link between members tells nothing.
pub(super) const PING_INTERVAL: Duration = Duration::from_secs(5);
/// Timeout of the answer to a ping.
pub(super) const PING_TIMEOUT: Duration = Duration::from_secs(5);
/// Bytes that one stream may have in flight.
pub(super) const STREAM_WINDOW: u32 = 1 << 20;
/// Bytes that all streams together may have in flight: what a computer can make the controller hold.
pub(super) const CONNECTION_WINDOW: u32 = 8 << 20;
/// Most connections to one agent at once.
pub(super) const MAX_STREAMS: u32 = 512;
/// Largest frame: fewer copies of bulk data than with the 16 KiB of the protocol. With the heads of its frame and its web socket
/// message it fits into the 64 KiB that the TLS library sends at once.
pub(super) const MAX_FRAME: u32 = 60 * 1024;
/// Bytes of one copy between a stream and a socket: those of one frame.
pub(super) const CHUNK: usize = MAX_FRAME as usize;
/// Bytes that are asked for in each pipe to Incus, instead of 64 KiB: this process and the server take turns less often.
const PIPE_BYTES: i32 = 256 * 1024;

/// Serves standard input and output until they end. Each `CONNECT` request becomes a connection to `socket`.
///
/// # Errors
/// When the asynchronous runtime cannot be started, or the other end breaks the protocol.
pub fn run(socket: &Path) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let served = runtime.block_on(serve(socket.to_owned()));
    // A thread may wait for standard input, which nothing can interrupt.
    runtime.shutdown_background();
    served
}

async fn serve(socket: PathBuf) -> io::Result<()> {
    let tasks = Tasks::new();
    let stream = TokioIo::new(tokio::io::join(standard_input(), standard_output()));
    let service = service_fn(move |request| connect(request, socket.clone(), tasks.clone()));
    http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_TIMEOUT)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_concurrent_streams(MAX_STREAMS)
        .max_frame_size(MAX_FRAME)
        .serve_connection(stream, service)
        .await
        .map_err(io::Error::other)
}

/// Standard input. Incus gives a pipe, which needs no thread that waits for it.
fn standard_input() -> Box<dyn AsyncRead + Send + Unpin> {
    let input = std::io::stdin();
    enlarge(&input);
    match input.as_fd().try_clone_to_owned().and_then(pipe::Receiver::from_owned_fd) {
        Ok(pipe) => Box::new(pipe),
        Err(_) => Box::new(tokio::io::stdin()),
    }
}

/// Standard output, like [`standard_input`].
fn standard_output() -> Box<dyn AsyncWrite + Send + Unpin> {
    let output = std::io::stdout();
    enlarge(&output);
    match output.as_fd().try_clone_to_owned().and_then(pipe::Sender::from_owned_fd) {
        Ok(pipe) => Box::new(pipe),
        Err(_) => Box::new(tokio::io::stdout()),
    }
}

fn enlarge(pipe: &impl AsFd) {
    if let Err(error) = fcntl(pipe, FcntlArg::F_SETPIPE_SZ(PIPE_BYTES)) {
        tracing::debug!(%error, "a pipe to Incus stays small");
    }
}

/// Answers one request. Its stream is connected once the answer is sent.
async fn connect(
    request: Request<Incoming>,
    socket: PathBuf,
    tasks: Tasks,
) -> Result<Response<Empty<Bytes>>, Infallible> {
    let mut response = Response::new(Empty::new());
    if request.method() != Method::CONNECT {
        *response.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
        return Ok(response);
    }
    // The agent may not listen yet.
    let Ok(mut agent) = UnixStream::connect(&socket).await else {
        *response.status_mut() = StatusCode::BAD_GATEWAY;
        return Ok(response);
    };
    let _stream = tasks.spawn("bridge stream", async move {
        let copied = async {
            let upgraded = hyper::upgrade::on(request).await.map_err(io::Error::other)?;
            let mut stream = TokioIo::new(upgraded);
            tokio::io::copy_bidirectional_with_sizes(&mut stream, &mut agent, CHUNK, CHUNK).await
        };
        if let Err(error) = copied.await {
            tracing::debug!(%error, "a connection to the agent ended early");
        }
    });
    Ok(response)
}
