//! Two upgraded HTTP connections, connected byte by byte.

use std::io;
use std::time::Duration;

use axum::http::Extensions;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::Sockets;
use super::last_activity::LastActivity;
use crate::serve::ConnectionPermit;
use hotdesk_domain::error::Result;

/// Bytes of one copy, in each direction: few copies for a bulk transfer, and little memory for an idle socket.
const CHUNK: usize = 16 * 1024;
impl Sockets {
    /// Connects a client's upgraded connection with an upstream's, in a task of its own, until both directions or
    /// `until` have ended, or nothing moved for `idle`: protocols that are silent for longer have a heartbeat of their own,
    /// and a client that is gone without a trace is not told apart. `extensions` are those of the client's request.
    ///
    /// # Errors
    /// Those of [`Sockets::open`].
    pub fn splice(
        &self,
        extensions: &Extensions,
        name: &'static str,
        (client, upstream): (OnUpgrade, OnUpgrade),
        idle: Duration,
        until: impl Future<Output = ()> + Send + 'static,
    ) -> Result<()> {
        let permit = self.permit()?;
        let connection = extensions.get::<ConnectionPermit>().cloned();
        let stop = self.stopping();
        let _task = self.tasks.spawn(name, async move {
            let spliced = async {
                let (client, upstream) = tokio::try_join!(client, upstream).map_err(io::Error::other)?;
                copy_both(TokioIo::new(client), TokioIo::new(upstream), idle).await
            };
            tokio::select! {
                ended = spliced => if let Err(error) = ended {
                    tracing::debug!(name, %error, "an upgraded connection ended early");
                },
                () = until => {}
                () = stop.cancelled() => {}
            }
            drop((permit, connection));
        });
        Ok(())
    }
}

async fn copy_both(
    client: impl AsyncRead + AsyncWrite,
    upstream: impl AsyncRead + AsyncWrite,
    idle: Duration,
) -> io::Result<()> {
    let activity = LastActivity::default();
    let (from_client, to_client) = tokio::io::split(client);
    let (from_upstream, to_upstream) = tokio::io::split(upstream);
    let both = async {
        tokio::try_join!(copy(from_client, to_upstream, &activity), copy(from_upstream, to_client, &activity))
    };
    tokio::select! {
        copied = both => copied.map(drop),
        () = activity.wait_idle(idle) => Err(io::ErrorKind::TimedOut.into()),
    }
}

/// Copies to the end, which it passes on.
async fn copy(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    activity: &LastActivity,
) -> io::Result<()> {
    let mut chunk = vec![0; CHUNK];
    loop {
        let length = from.read(&mut chunk).await?;
        activity.touch();
        if length == 0 {
            return to.shutdown().await;
        }
        to.write_all(&chunk[..length]).await?;
        to.flush().await?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::duplex;

    #[tokio::test]
    async fn an_end_of_one_direction_leaves_the_other() {
        let ((mut client, near), (mut upstream, far)) = (duplex(10), duplex(10));
        let asks = async {
            client.write_all(&[7; 1000]).await.unwrap();
            client.shutdown().await.unwrap();
            let mut answer = Vec::new();
            client.read_to_end(&mut answer).await.unwrap();
            answer
        };
        let answers = async {
            let mut question = Vec::new();
            upstream.read_to_end(&mut question).await.unwrap();
            upstream.write_all(&question).await.unwrap();
            upstream.shutdown().await.unwrap();
        };
        let (answer, (), copied) = tokio::join!(asks, answers, copy_both(near, far, Duration::from_secs(60)));
        copied.unwrap();
        assert_eq!(answer, [7; 1000]);
    }

    #[tokio::test]
    async fn a_connection_in_which_nothing_moves_ends() {
        let ((_client, near), (_upstream, far)) = (duplex(10), duplex(10));
        let ended = copy_both(near, far, Duration::from_millis(20)).await;
        assert_eq!(ended.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }
}
