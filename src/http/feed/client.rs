//! How does one client speak with a feed? It subscribes, and is told what happens (interface.md "Events").
//!
//! One half reads, the other writes and is the only one that changes the subscription: so an answer stands before the
//! first event of what was added, and behind the last one of what was removed.

use std::future::Future;
use std::time::Duration;

use tokio::sync::mpsc;

use super::request::Request;
use super::{Feed, Listener};
use crate::socket::{Closing, Gone, Receiver, Sender};
use hotdesk_domain::channel::NORMAL;
use hotdesk_wire::event::ServerMessage;

/// Requests that wait for their answers. Who asks more without reading is not read either.
const MAX_REQUESTS: usize = 8;

/// How long a subscription's answer may wait until what it asks for is detected. That takes milliseconds, on a busy machine seconds; a
/// source that is down is not waited for longer.
const WATCH_TIMEOUT: Duration = Duration::from_secs(6);

/// One client's conversation, until the client leaves, does not read for too long, or `stop` says how to end it.
pub async fn converse(
    feed: &Feed,
    sender: Sender,
    receiver: Receiver,
    stop: impl Future<Output = Closing>,
) -> Closing {
    let (asked, requests) = mpsc::channel(MAX_REQUESTS);
    tokio::select! {
        closing = stop => closing,
        () = read(receiver, asked) => Closing::new(NORMAL, ""),
        // Nobody hears the close of a socket that is gone.
        _gone = write(feed.listen(), &sender, requests) => Closing::new(NORMAL, ""),
    }
}

async fn read(mut receiver: Receiver, asked: mpsc::Sender<Request>) {
    while let Some(heard) = receiver.receive().await {
        if asked.send(Request::read(&heard)).await.is_err() {
            return;
        }
    }
}

async fn write(
    listener: Listener,
    sender: &Sender,
    mut requests: mpsc::Receiver<Request>,
) -> Result<(), Gone> {
    loop {
        tokio::select! {
            request = requests.recv() => match request {
                Some(request) => sender.json(&answer(&listener, request).await).await?,
                None => return Ok(()),
            },
            news = listener.next() => sender.text(news.message()).await?,
        }
    }
}

async fn answer(listener: &Listener, request: Request) -> ServerMessage {
    let message = "ok".to_owned();
    match request {
        Request::Subscribe(kinds) => {
            listener.add(kinds);
            listener.feed.watched(kinds, WATCH_TIMEOUT).await;
            ServerMessage::Subscribed { message }
        }
        Request::Unsubscribe(kinds) => {
            listener.remove(kinds);
            ServerMessage::Unsubscribed { message }
        }
        Request::Ping => ServerMessage::Pong,
        Request::Wrong(message) => ServerMessage::Error { message },
    }
}
