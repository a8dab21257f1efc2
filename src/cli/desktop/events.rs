//! `hotdesk events`: event types of a computer, and its events as they happen.

use std::io::IsTerminal;

use clap::Args;
use futures_util::SinkExt;
use serde::Deserialize;
use serde_json::Value;
use tokio_tungstenite::tungstenite::Message;

use super::printable;
use crate::client::api::REQUEST_TIMEOUT;
use crate::client::retry::{Attempts, Interruption};
use crate::client::{Session, resolve, socket};
use crate::computers::ComputerArg;
use crate::failure::Outcome;
use crate::output;
use hotdesk_wire::desktop::event::EventClientMessage;

/// `hotdesk events`.
#[derive(Debug, Args)]
pub struct Options {
    #[command(flatten)]
    target: ComputerArg,
    /// Print each event as it happens, until the computer stops; without it, list the event types. It
    /// connects again when the connection breaks.
    #[arg(long, short)]
    follow: bool,
    /// Only these types, separated by commas, for example window_open,clipboard.
    #[arg(long = "type", short, value_name = "TYPE", value_delimiter = ',', requires = "follow")]
    types: Vec<String>,
    /// End after this number of events.
    #[arg(long, requires = "follow")]
    count: Option<u64>,
}

/// The catalogue of the server, which may be of a newer version with more types.
#[derive(Deserialize)]
struct EventTypeList {
    events: Vec<EventType>,
}

#[derive(Deserialize)]
struct EventType {
    #[serde(rename = "type")]
    name: String,
    description: String,
}

/// A message of the events channel. Its data stay JSON, because a newer server may send types that this program does
/// not know.
#[derive(Deserialize)]
struct EventMessage {
    #[serde(rename = "type")]
    kind: String,
    message: Option<String>,
    event: Option<EventRecord>,
    dropped: Option<u64>,
}

#[derive(Deserialize)]
struct EventRecord {
    timestamp: String,
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    data: serde_json::Map<String, Value>,
}

/// Lists the event types, or follows the events.
///
/// # Errors
/// When the server refuses the request or is unreachable, or the computer stops while its events are followed.
pub async fn run(options: Options, session: &Session) -> Outcome<()> {
    let id = resolve::computer(&session.api, &options.target.computer).await?;
    let response = session.api.get(&["computers", &id, "events"], &[], REQUEST_TIMEOUT).await?;
    let catalogue: EventTypeList = response.decode()?;
    if options.follow {
        let all = catalogue.events.into_iter().map(|entry| entry.name).collect();
        let types = if options.types.is_empty() { all } else { options.types };
        return follow(session, &id, types, options.count).await;
    }
    session.show(&response, || {
        let row = |entry: EventType| vec![entry.name, entry.description];
        output::table(&["TYPE", "MEANING"], catalogue.events.into_iter().map(row).collect())?;
        output::line(&format!("Follow them: hotdesk events {} --follow", options.target.computer))
    })
}

/// Prints the events, and connects again when the connection breaks. The channel has no history: what happens
/// meanwhile is missing, which standard error says.
async fn follow(session: &Session, id: &str, event_types: Vec<String>, count: Option<u64>) -> Outcome<()> {
    let subscribe = serde_json::to_string(&EventClientMessage::Subscribe { event_types });
    let subscribe = subscribe.map_err(|error| error.to_string())?;
    let mut follower =
        Subscription { session, id, subscribe, left: count, received: 0, is_interrupted: false };
    let mut attempts = Attempts::from(0);
    loop {
        match follower.follow().await {
            Ok(()) => return Ok(()),
            // At the beginning a person rather learns why.
            Err(Interruption::Connection(failure)) if follower.received == 0 => return Err(failure),
            Err(interruption) => {
                follower.tell(&interruption);
                attempts.next(interruption, follower.received).await?;
            }
        }
    }
}

/// A subscription that outlives its connections.
struct Subscription<'a> {
    session: &'a Session,
    id: &'a str,
    /// The message that subscribes.
    subscribe: String,
    /// Events to print.
    left: Option<u64>,
    /// Messages so far.
    received: u64,
    /// Whether the connection broke and no later one is subscribed yet.
    is_interrupted: bool,
}

impl Subscription<'_> {
    /// Prints the events of one connection, until the last event that was asked for or the reader of the
    /// output is gone.
    async fn follow(&mut self) -> Result<(), Interruption> {
        let mut channel = socket::open(&self.session.api, self.id, "events").await?;
        let sent = channel.send(Message::text(self.subscribe.clone())).await;
        sent.map_err(|error| Interruption::Connection(format!("the connection broke: {error}").into()))?;
        let mut known_dropped = 0;
        while self.left != Some(0) {
            let text = socket::next_text(&mut channel).await?;
            let message: EventMessage = serde_json::from_str(&text)
                .map_err(|error| format!("cannot parse the server's message: {error}"))?;
            if message.kind == "error" {
                let refused = message.message.unwrap_or_else(|| "the server refused the types".to_owned());
                return Err(refused.into());
            }
            self.received += 1;
            if message.kind == "subscribed" {
                self.greet();
            }
            let Some(event) = message.event else { continue };
            if let Some(dropped) = message.dropped.filter(|dropped| *dropped > known_dropped) {
                eprintln!("hotdesk: {dropped} events were dropped so far, because they were read too slowly");
                known_dropped = dropped;
            }
            let line = if self.session.json { text } else { event_line(&event) };
            if !output::stream(format!("{line}\n").as_bytes())? {
                return Ok(());
            }
            self.left = self.left.map(|left| left - 1);
        }
        Ok(())
    }

    fn greet(&mut self) {
        if self.is_interrupted {
            eprintln!("hotdesk: connected again; events that happened meanwhile are missing");
        } else if std::io::stderr().is_terminal() {
            eprintln!("Following events; end with Ctrl-C.");
        }
        self.is_interrupted = false;
    }

    /// Tells once that the connection broke.
    fn tell(&mut self, interruption: &Interruption) {
        let Interruption::Connection(failure) = interruption else { return };
        if !self.is_interrupted {
            eprintln!("hotdesk: {}; connecting again", failure.text());
        }
        self.is_interrupted = true;
    }
}

/// Time, type and fields of an event on one line. JSON quotes texts that contain more than one word.
fn event_line(event: &EventRecord) -> String {
    let field = |(name, value): (&String, &Value)| match value.as_str().filter(|text| is_word(text)) {
        Some(text) => format!("{name}={text}"),
        None => format!("{name}={value}"),
    };
    let fields: Vec<String> = event.data.iter().map(field).collect();
    let line = format!("{}  {:<18}  {}", event.timestamp, event.kind, fields.join(" "));
    printable(line.trim_end())
}

fn is_word(text: &str) -> bool {
    !text.is_empty() && !text.chars().any(|c| c.is_whitespace() || c.is_control() || matches!(c, '"' | '='))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_event_is_one_line_whatever_its_texts_contain() {
        let line = |data: Value| {
            let event = json!({"timestamp": "2026-01-31T09:30:00.120Z", "type": "window_open", "data": data});
            event_line(&serde_json::from_value(event).unwrap())
        };
        let start = "2026-01-31T09:30:00.120Z  window_open";
        assert_eq!(line(json!({})), start);
        for (data, expected) in [
            (json!({"window_id": "0x1", "pid": 7}), "pid=7 window_id=0x1"),
            (json!({"title": "a b"}), "title=\"a b\""),
            (json!({"title": ""}), "title=\"\""),
            (json!({"title": "a\nb\u{1b}[2J"}), "title=\"a\\nb\\u001b[2J\""),
            (json!({"title": "a\u{9b}2J"}), "title=\"a 2J\""),
            (json!({"truncated": true}), "truncated=true"),
        ] {
            assert_eq!(line(data), format!("{start}         {expected}"));
        }
    }
}
