//! Events of the life of instances, from all members of a cluster.

use std::time::Duration;

use futures_util::StreamExt;
use serde::Deserialize;
use tokio_tungstenite::tungstenite::Message;

use super::error::unreachable;
use super::{Client, ClientError, SMALL_READ, Socket, open_socket};

/// Longest silence of the server, which pings every 10 s: the link is cut then.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(35);

/// The stream of events of a client's project.
pub(in crate::incus) struct Events(Socket);

/// Something happened to an instance of this name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::incus) struct InstanceEvent(pub(in crate::incus) String);

#[derive(Deserialize)]
struct Event {
    metadata: Lifecycle,
}

#[derive(Deserialize)]
struct Lifecycle {
    #[serde(default)]
    source: String,
}

impl Client {
    /// Opens the stream of events. Those before are not in it.
    pub(in crate::incus) async fn events(&self) -> Result<Events, ClientError> {
        let path = format!("/1.0/events?type=lifecycle&project={}", self.project);
        open_socket(&self.transport, &path, SMALL_READ).await.map(Events)
    }
}

impl Events {
    /// The next event of an instance.
    pub(in crate::incus) async fn next(&mut self) -> Result<InstanceEvent, ClientError> {
        loop {
            let message = tokio::time::timeout(SILENCE_TIMEOUT, self.0.next())
                .await
                .map_err(|_| unreachable("the stream of events is silent"))?
                .ok_or_else(|| unreachable("the stream of events ended"))?;
            match message.map_err(unreachable)? {
                Message::Text(text) => {
                    if let Some(event) = read(text.as_str()) {
                        return Ok(event);
                    }
                }
                Message::Close(_) => return Err(unreachable("the stream of events ended")),
                Message::Binary(_) | Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => {}
            }
        }
    }
}

/// The instance of an event; `None` for events of other things.
fn read(text: &str) -> Option<InstanceEvent> {
    let event: Event = serde_json::from_str(text).ok()?;
    let path = event.metadata.source.strip_prefix("/1.0/instances/")?;
    let name = path.split(['?', '/']).next().filter(|name| !name.is_empty())?;
    Some(InstanceEvent(name.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_events_of_instances_are_read() {
        let event = |source: &str| {
            let text = format!(
                r#"{{"type":"lifecycle","metadata":{{"action":"x","source":"{source}"}},"location":"m1"}}"#
            );
            read(&text).map(|event| event.0)
        };
        for (source, expected) in [
            ("/1.0/instances/hd-1", Some("hd-1")),
            ("/1.0/instances/hd-1?project=desks", Some("hd-1")),
            ("/1.0/instances/hd-1/snapshots/s", Some("hd-1")),
            ("/1.0/instances/", None),
            ("/1.0/networks/desk0", None),
        ] {
            assert_eq!(event(source).as_deref(), expected, "{source}");
        }
        assert_eq!(read("{}"), None);
    }
}
