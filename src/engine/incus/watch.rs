//! Notices of changes of instances, from one stream of events for all waiters.

use std::sync::OnceLock;
use std::time::Duration;

use tokio::sync::broadcast;

use crate::incus::client::{Client, ClientError, InstanceEvent};
use crate::incus::documents;
use hotdesk_base::ids::ComputerId;
use hotdesk_base::tasks::Tasks;

/// Pause before the stream is opened again.
const PAUSE: Duration = Duration::from_secs(2);
/// Notices that a slow waiter may miss before it looks for itself.
const BACKLOG: usize = 1024;

/// A reason to look at an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Notice {
    /// Something happened to the instance of this computer.
    Changed(ComputerId),
    /// The stream began: events before it are unknown.
    Began,
}

/// The stream of events of an engine. It begins with the first waiter, and ends with the tasks.
#[derive(Debug)]
pub(super) struct Watch {
    client: Client,
    tasks: Tasks,
    notices: OnceLock<broadcast::Sender<Notice>>,
}

/// The notices of one computer from some moment on.
pub(super) struct Notices {
    id: ComputerId,
    receiver: broadcast::Receiver<Notice>,
}

impl Watch {
    pub(super) fn new(client: Client, tasks: Tasks) -> Self {
        Self { client, tasks, notices: OnceLock::new() }
    }

    /// Notices of a computer from now on.
    pub(super) fn subscribe(&self, id: ComputerId) -> Notices {
        let notices = self.notices.get_or_init(|| {
            let (sender, _) = broadcast::channel(BACKLOG);
            let (client, stop, to) = (self.client.clone(), self.tasks.stopping(), sender.clone());
            let _following = self.tasks.spawn("incus events", async move {
                tokio::select! {
                    () = follow(&client, &to) => {}
                    () = stop.cancelled() => {}
                }
            });
            sender
        });
        Notices { id, receiver: notices.subscribe() }
    }
}

impl Notices {
    /// Waits until the instance may have changed.
    pub(super) async fn next(&mut self) {
        loop {
            match self.receiver.recv().await {
                Ok(Notice::Changed(id)) if id != self.id => {}
                Ok(Notice::Changed(_) | Notice::Began) | Err(broadcast::error::RecvError::Lagged(_)) => {
                    return;
                }
                // The engine ends. The waiter is cancelled with it.
                Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
            }
        }
    }
}

async fn follow(client: &Client, notices: &broadcast::Sender<Notice>) {
    loop {
        if let Err(error) = read_events(client, notices).await {
            tracing::warn!(%error, "the events of Incus are interrupted");
        }
        tokio::time::sleep(PAUSE).await;
    }
}

async fn read_events(client: &Client, notices: &broadcast::Sender<Notice>) -> Result<(), ClientError> {
    let mut events = client.events().await?;
    // Nobody may wait at this moment.
    let _receivers = notices.send(Notice::Began);
    loop {
        let InstanceEvent(name) = events.next().await?;
        if let Some(id) = documents::id_of(&name) {
            let _receivers = notices.send(Notice::Changed(id));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_waiter_looks_after_its_own_events_and_after_gaps() {
        let (own, other) = (ComputerId::random(), ComputerId::random());
        let (sender, receiver) = broadcast::channel(4);
        let mut notices = Notices { id: own, receiver };
        let waits = async |notices: &mut Notices| {
            tokio::time::timeout(Duration::from_millis(20), notices.next()).await.is_err()
        };
        sender.send(Notice::Changed(other)).unwrap();
        assert!(waits(&mut notices).await);
        for notice in [Notice::Changed(own), Notice::Began] {
            sender.send(notice).unwrap();
            assert!(!waits(&mut notices).await, "{notice:?}");
        }
        for _ in 0..8 {
            sender.send(Notice::Changed(other)).unwrap();
        }
        assert!(!waits(&mut notices).await, "it may have missed its own event");
    }
}
