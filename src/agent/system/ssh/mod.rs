//! SSH connections: one OpenSSH server in inetd mode for each (sshd(8), docs/ssh.md).
//!
//! No server listens. The controller says which public keys may sign in, by the first message of a connection.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, Semaphore};
use tokio_util::sync::CancellationToken;

use super::identity::keys;
use crate::state::Agent;
use connection::Connection;
use hotdesk_domain::desktop::channel::{Channel, Failure, GOING_AWAY};
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::error_code::ErrorCode;
use hotdesk_http::socket::{CloseReason, PeerMessage, Receiver, Sender};
use hotdesk_wire::computer::ssh::{SshAuthorization, SshHostKeys};

mod connection;
mod sshd_config;

/// The server; it insists on an absolute path.
const SSHD: &str = "/usr/sbin/sshd";
/// Most connections: an editor takes three and a person a few; each server has 10 MB.
pub const MAX_CONNECTIONS: usize = 32;
/// How long the first message may take.
const AUTHORIZATION_TIMEOUT: Duration = Duration::from_secs(10);

/// Starter of SSH servers; clones share the limit.
#[derive(Clone)]
pub struct SshServers {
    agent: Agent,
    slots: Arc<Semaphore>,
    /// Held while the host key is read or made.
    making: Arc<Mutex<()>>,
}

impl SshServers {
    /// Creates a starter without connections.
    pub fn new(agent: Agent) -> Self {
        let slots = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        Self { agent, slots, making: Arc::default() }
    }

    /// Returns the user that connections sign in as, and the computer's public host keys.
    ///
    /// # Errors
    /// `Conflict` (`ssh_not_installed`) without an SSH server; `Unavailable` when the host key cannot be made.
    pub async fn host_keys(&self) -> Result<SshHostKeys> {
        let (_, public) = self.host_key().await?;
        Ok(SshHostKeys { user: user(), host_keys: vec![public] })
    }

    /// Returns the file of the host key and its public part; makes the key if there is none.
    async fn host_key(&self) -> Result<(PathBuf, String)> {
        if !Path::new(SSHD).exists() {
            let message = "The computer has no SSH server: run `apt-get update && apt-get install openssh-server` there";
            return Err(Error::conflict(message).code(ErrorCode::SshNotInstalled));
        }
        let _one = self.making.lock().await;
        keys::own(Path::new("/")).await.map_err(|error| {
            Error::unavailable("The computer's SSH host key could not be made").context(format!("{error:#}"))
        })
    }

    /// Serves a socket with an SSH server until one of them ends or `stop` is cancelled.
    pub async fn serve(
        &self,
        sender: Sender,
        mut receiver: Receiver,
        stop: CancellationToken,
    ) -> CloseReason {
        let Ok(_slot) = self.slots.try_acquire() else {
            return failed(format!("{MAX_CONNECTIONS} SSH connections are open already"));
        };
        let opening = async {
            let keys = authorized_keys(&mut receiver).await?;
            self.open(&keys).await
        };
        let opened = tokio::select! {
            opened = opening => opened,
            () = stop.cancelled() => return CloseReason::new(GOING_AWAY, "the computer is stopping"),
        };
        match opened {
            Ok(connection) => connection.relay(&sender, receiver, stop).await,
            Err(error) => {
                tracing::warn!(error = format_args!("{error:#}"), "cannot open an SSH connection");
                failed(error.message)
            }
        }
    }

    async fn open(&self, authorized_keys: &[String]) -> Result<Connection> {
        let (host_key, _) = self.host_key().await?;
        let mut environment = vec![("LANG".to_owned(), "C.UTF-8".to_owned())];
        environment.extend(std::env::var("TZ").ok().map(|zone| ("TZ".to_owned(), zone)));
        environment.extend(self.agent.desktop.environment(None)?);
        let folder = &self.agent.runtime_dir;
        Connection::start(folder, &host_key, &user(), authorized_keys, &environment).map_err(|error| {
            Error::unavailable("The SSH server could not be started").context(format!("{error:#}"))
        })
    }
}

/// The user that this agent runs as: only this one has the rights of the agent's other routes.
fn user() -> String {
    let found = nix::unistd::User::from_uid(nix::unistd::geteuid());
    found.ok().flatten().map_or_else(|| "root".to_owned(), |user| user.name)
}

/// Reads the first message.
async fn authorized_keys(receiver: &mut Receiver) -> Result<Vec<String>> {
    let first = tokio::time::timeout(AUTHORIZATION_TIMEOUT, receiver.receive()).await;
    let Ok(Some(PeerMessage::Text(text))) = first else {
        return Err(Error::invalid("the first message must say which keys may sign in"));
    };
    let parsed: SshAuthorization = serde_json::from_str(&text)
        .map_err(|error| Error::invalid("the first message cannot be read").context(error))?;
    Ok(parsed.authorized_keys)
}

fn failed(why: impl Into<String>) -> CloseReason {
    CloseReason::new(Channel::Ssh.close_code(Failure::Failed), why.into())
}
