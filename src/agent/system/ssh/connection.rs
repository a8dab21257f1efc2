//! One SSH connection: a server process, its files, and its bytes to and from a socket.

use std::fs;
use std::future::pending;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use bytes::Bytes;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::net::unix::{ReadHalf, WriteHalf};
use tokio::process::{Child, Command};
use tokio_util::sync::CancellationToken;

use super::sshd_config::{self, SshdSettings};
use super::{SSHD, failed};
use crate::exec::child_exit;
use hotdesk_base::step_error::StepError;
use hotdesk_domain::desktop::channel::{GOING_AWAY, NORMAL};
use hotdesk_http::socket::{CloseReason, PeerMessage, Receiver, Sender};

/// Folder that the server needs for its unprivileged part, as Debian builds it.
const PRIVILEGE_SEPARATION: &str = "/run/sshd";
/// Bytes of one message: twice the largest packet of SSH (RFC 4253 section 6.1).
const CHUNK: usize = 64 * 1024;
/// How long the server may take to end after its connection has.
const END_TIMEOUT: Duration = Duration::from_secs(5);

/// A connection whose server runs.
#[derive(Debug)]
pub struct Connection {
    server: Child,
    stream: UnixStream,
    /// Removed with the connection.
    _files: TempDir,
}

impl Connection {
    /// Starts a server that admits `user` with these keys. Its files are in a new folder in `runtime_dir`.
    ///
    /// # Errors
    /// When a file cannot be written, or the process cannot be started.
    pub fn start(
        runtime_dir: &Path,
        host_key: &Path,
        user: &str,
        keys: &[String],
        environment: &[(String, String)],
    ) -> Result<Self, StepError> {
        let files = tempfile::Builder::new().prefix("ssh-").tempdir_in(runtime_dir);
        let files = files.map_err(StepError::at("a folder for an SSH connection"))?;
        let authorized_keys = files.path().join("authorized_keys");
        write(&authorized_keys, &(keys.join("\n") + "\n"))?;
        let settings = SshdSettings { host_key, authorized_keys: &authorized_keys, user, environment };
        let config = files.path().join("sshd_config");
        write(&config, &sshd_config::text(settings))?;
        let folder = fs::DirBuilder::new().recursive(true).mode(0o755).create(PRIVILEGE_SEPARATION);
        folder.map_err(StepError::at(PRIVILEGE_SEPARATION))?;
        let (ours, theirs) = pair().map_err(StepError::at("a socket pair"))?;
        let output = theirs.try_clone().map_err(StepError::at("a socket pair"))?;
        let mut server = Command::new(SSHD);
        // -i: one connection on standard input and output. -e: messages to standard error, the agent's log.
        server.args(["-i", "-e", "-f"]).arg(&config).env_clear().kill_on_drop(true);
        server.stdin(Stdio::from(theirs)).stdout(Stdio::from(output)).stderr(Stdio::inherit());
        let server = server.spawn().map_err(StepError::at(SSHD))?;
        Ok(Self { server, stream: ours, _files: files })
    }

    /// Relays between the server and a client until one of them ends or `stop` is cancelled. On return the server
    /// has ended. It has hung up the terminals of its sessions; programs in the background go on, as after any SSH
    /// connection.
    pub async fn relay(self, sender: &Sender, receiver: Receiver, stop: CancellationToken) -> CloseReason {
        let Self { mut server, mut stream, _files } = self;
        let (from_server, to_server) = stream.split();
        let closing = tokio::select! {
            closing = send(from_server, sender) => closing,
            closing = receive(receiver, to_server) => closing,
            () = stop.cancelled() => CloseReason::new(GOING_AWAY, "the computer is stopping"),
        };
        // The server ends with its connection.
        drop(stream);
        let ended = match tokio::time::timeout(END_TIMEOUT, child_exit::wait(&mut server)).await {
            Ok(ended) => ended.map(drop),
            Err(_) => server.kill().await,
        };
        if let Err(error) = ended {
            tracing::warn!(%error, "cannot end an SSH server");
        }
        closing
    }
}

/// Sends what the server writes, to its end.
async fn send(mut from_server: ReadHalf<'_>, sender: &Sender) -> CloseReason {
    let (mut chunk, mut is_first) = (vec![0; CHUNK], true);
    loop {
        match from_server.read(&mut chunk).await {
            // A server that accepts its configuration says its version first (RFC 4253 section 4.2).
            Ok(0) | Err(_) if is_first => {
                return failed("the SSH server did not start: see the log of the agent");
            }
            Ok(0) | Err(_) => return CloseReason::new(NORMAL, ""),
            Ok(length) => {
                is_first = false;
                if sender.binary(Bytes::copy_from_slice(&chunk[..length])).await.is_err() {
                    return CloseReason::new(NORMAL, "");
                }
            }
        }
    }
}

/// Writes what the client sends to the server, until the client ends.
async fn receive(mut receiver: Receiver, mut to_server: WriteHalf<'_>) -> CloseReason {
    while let Some(message) = receiver.receive().await {
        let PeerMessage::Binary(bytes) = message else { return failed("SSH needs binary messages") };
        if to_server.write_all(&bytes).await.is_err() {
            // The server has ended: what it wrote before is still being sent.
            return pending().await;
        }
    }
    CloseReason::new(NORMAL, "")
}

fn write(path: &Path, text: &str) -> Result<(), StepError> {
    let mut open = fs::File::options();
    let created = open.write(true).create_new(true).mode(0o600).open(path);
    let written = created.and_then(|mut file| io::Write::write_all(&mut file, text.as_bytes()));
    written.map_err(StepError::at(path.display().to_string()))
}

/// Our end of a connection, and the server's.
fn pair() -> io::Result<(UnixStream, OwnedFd)> {
    let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
    ours.set_nonblocking(true)?;
    Ok((UnixStream::from_std(ours)?, theirs.into()))
}
