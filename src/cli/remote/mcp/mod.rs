//! Relay between an MCP client at the standard streams and the MCP server of hotdesk, with the API key.
//!
//! Standard output has JSON-RPC messages only; everything else goes to standard error.

use std::collections::HashMap;
use std::process::ExitCode;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::{BoxFuture, FutureExt};
use futures_util::stream::FuturesUnordered;
use serde_json::Value;
use tokio::sync::oneshot;

mod lines;
mod message;
mod upstream;

use super::stdio;
use crate::client::Session;
use crate::client::interrupts::Interrupts;
use crate::failure::Outcome;
use lines::{Line, Lines, MAX_MESSAGE};
use message::{ClientMessage, INVALID_REQUEST, error_reply};
use upstream::{Upstream, write_message};

/// Requests that are in progress. The server runs 32 calls of an account, and refuses more at once, so that
/// one of these always ends.
const MAX_REQUESTS: usize = 128;
/// How long answers are awaited after the end of the input: enough for what was asked just before, and less
/// than clients wait for the end of a program.
const LAST_ANSWERS_TIMEOUT: Duration = Duration::from_secs(1);

type Delivery<'a> = BoxFuture<'a, Outcome<(String, u64)>>;

/// Relays until the end of standard input or a signal.
///
/// # Errors
/// When standard input cannot be read or standard output cannot be written.
pub async fn run(session: &Session) -> Outcome {
    let upstream = Upstream::new(&session.api);
    let mut interrupts = Interrupts::receive()?;
    let code = tokio::select! {
        relayed = relay(&upstream) => relayed.map(|()| ExitCode::SUCCESS),
        heard = upstream.listen() => match heard {
            Ok(never) => match never {},
            Err(failure) => Err(failure),
        },
        code = interrupts.next() => Ok(ExitCode::from(code)),
    };
    upstream.end().await;
    code
}

/// Delivers the messages of standard input until its end.
async fn relay(upstream: &Upstream<'_>) -> Outcome<()> {
    let mut lines = Lines::new(stdio::input());
    let mut requests: FuturesUnordered<Delivery<'_>> = FuturesUnordered::new();
    // By id, to end those that the client cancels; with the number of the request, because a client may use
    // the id again as soon as it has the answer.
    let mut cancels: HashMap<String, (u64, oneshot::Sender<()>)> = HashMap::new();
    let mut count: u64 = 0;
    loop {
        let line = tokio::select! {
            Some(done) = requests.next(), if !requests.is_empty() => {
                forget(&mut cancels, &done?);
                continue;
            }
            line = lines.next(), if requests.len() < MAX_REQUESTS => line,
        };
        let line = line.map_err(|error| format!("cannot read standard input: {error}"))?;
        let message = match line {
            None => break,
            Some(Line::TooLong) => {
                let why = format!("the message is longer than {MAX_MESSAGE} bytes");
                write_message(&error_reply(&Value::Null, INVALID_REQUEST, &why)).await?;
                continue;
            }
            Some(Line::Complete(line)) => match ClientMessage::parse(line) {
                Ok(message) => message,
                Err(refusal) => {
                    write_message(&refusal).await?;
                    continue;
                }
            },
        };
        if let Some(id) = message.cancelled() {
            // Without a session the end of the request is its cancellation.
            drop(cancels.remove(&id.to_string()));
        }
        match &message.id {
            Some(id) if !message.is_ordered() => {
                let (cancel, cancelled) = oneshot::channel();
                count += 1;
                let id = (id.to_string(), count);
                cancels.insert(id.0.clone(), (count, cancel));
                requests.push(deliver(upstream, message, id, cancelled).boxed());
            }
            _ => {
                // The server must have it before the next message, and requests go on meanwhile.
                let mut delivery = upstream.deliver(&message).boxed();
                loop {
                    tokio::select! {
                        delivered = &mut delivery => break delivered?,
                        Some(done) = requests.next(), if !requests.is_empty() => {
                            forget(&mut cancels, &done?);
                        }
                    }
                }
            }
        }
    }
    let last = async {
        while let Some(done) = requests.next().await {
            done?;
        }
        Ok(())
    };
    tokio::time::timeout(LAST_ANSWERS_TIMEOUT, last).await.unwrap_or(Ok(()))
}

/// Forgets how to cancel a request that has ended, and not one that began later with its id.
fn forget(cancels: &mut HashMap<String, (u64, oneshot::Sender<()>)>, (id, number): &(String, u64)) {
    if cancels.get(id).is_some_and(|(latest, _)| latest == number) {
        cancels.remove(id);
    }
}

/// Delivers a request until its answer or its cancellation; returns its id and number.
async fn deliver(
    upstream: &Upstream<'_>,
    message: ClientMessage,
    id: (String, u64),
    cancelled: oneshot::Receiver<()>,
) -> Outcome<(String, u64)> {
    tokio::select! {
        delivered = upstream.deliver(&message) => delivered?,
        // The sender is dropped by a cancellation, or replaced by a request with the same id.
        _ = cancelled => {}
    }
    Ok(id)
}
