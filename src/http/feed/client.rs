//! Serving of one events client over a WebSocket (docs/api/events.md).
//!
//! One task reads requests. The other writes, and it alone changes the subscription. So an answer comes
//! before the first event of an added type, and after the last event of a removed one.

use std::future::Future;
use std::time::Duration;

use tokio::sync::mpsc;

use super::request::ClientRequest;
use super::{Feed, Listener};
use crate::socket::{CloseReason, PeerGone, Receiver, Sender};
use hotdesk_domain::desktop::channel::NORMAL;
use hotdesk_wire::desktop::event::EventServerMessage;

/// Unanswered requests; a client that sends more without reading answers is not read.
const MAX_REQUESTS: usize = 8;

/// Longest delay of a subscription's answer until its types are detected. That takes milliseconds, or seconds
/// on a busy machine; a source that is down is not waited for longer.
const WATCH_TIMEOUT: Duration = Duration::from_secs(6);

/// Serves one client until it disconnects, does not read for too long, or `stop` resolves. Returns how to
/// close the socket.
pub async fn serve_client(
    feed: &Feed,
    sender: Sender,
    receiver: Receiver,
    stop: impl Future<Output = CloseReason>,
) -> CloseReason {
    let (request_sender, requests) = mpsc::channel(MAX_REQUESTS);
    tokio::select! {
        closing = stop => closing,
        () = read(receiver, request_sender) => CloseReason::new(NORMAL, ""),
        // The peer is gone and does not read the close.
        _gone = write(feed.listen(), &sender, requests) => CloseReason::new(NORMAL, ""),
    }
}

async fn read(mut receiver: Receiver, request_sender: mpsc::Sender<ClientRequest>) {
    while let Some(message) = receiver.receive().await {
        if request_sender.send(ClientRequest::read(&message)).await.is_err() {
            return;
        }
    }
}

async fn write(
    listener: Listener,
    sender: &Sender,
    mut requests: mpsc::Receiver<ClientRequest>,
) -> Result<(), PeerGone> {
    loop {
        tokio::select! {
            request = requests.recv() => match request {
                Some(request) => sender.json(&answer(&listener, request).await).await?,
                None => return Ok(()),
            },
            event = listener.next() => sender.text(event.message()).await?,
        }
    }
}

async fn answer(listener: &Listener, request: ClientRequest) -> EventServerMessage {
    let message = "ok".to_owned();
    match request {
        ClientRequest::Subscribe(kinds) => {
            listener.add(kinds);
            listener.feed.wait_watched(kinds, WATCH_TIMEOUT).await;
            EventServerMessage::Subscribed { message }
        }
        ClientRequest::Unsubscribe(kinds) => {
            listener.remove(kinds);
            EventServerMessage::Unsubscribed { message }
        }
        ClientRequest::Ping => EventServerMessage::Pong,
        ClientRequest::Invalid(message) => EventServerMessage::Error { message },
    }
}
