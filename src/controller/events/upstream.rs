//! What does a computer's agent say? One socket to it while anybody wants events, read strictly: the agent may be
//! anybody's (threats.md T5), and costs the controller no more than a bounded rate of bounded messages.

use std::collections::{HashMap, VecDeque};
use std::convert::Infallible;
use std::ops::ControlFlow;
use std::time::Duration;

use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_tungstenite::tungstenite::Message;

use crate::computers::fleet::Fleet;
use hotdesk_base::backoff::Backoff;
use hotdesk_base::ids::ComputerId;
use hotdesk_domain::channel::Channel;
use hotdesk_domain::event::{Kind, Kinds};
use hotdesk_guest::Socket;
use hotdesk_http::feed::Feed;
use hotdesk_wire::event::{ClientMessage, MAX_EVENT_BYTES, ServerMessage};

/// Pause after the first failure; it doubles with each further one.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// Longest pause between two tries: what a client may miss after its computer's agent is back.
const LONGEST_PAUSE: Duration = Duration::from_secs(3);
/// A connection that lasted as long was a good one: the pauses begin anew.
const GOOD: Duration = Duration::from_secs(10);
/// How long an agent may take to read a request.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
/// An agent that has nothing to tell sends a heartbeat every 30 s: two of them and a margin.
const SILENCE: Duration = Duration::from_secs(75);
/// Requests that an agent may leave unanswered: each type added and removed several times.
const MAX_UNANSWERED: usize = 256;
/// What an agent may say in one second, in bytes; the rest waits in its own queues. Ten of the largest events, or
/// thousands of common ones.
const BYTES_PER_SECOND: usize = 4 * 1024 * 1024;
/// How long a computer's events wait for a client that has a lot before it. One that reads takes 128 of them in a few
/// milliseconds, on a busy machine in tenths of a second; for one that does not, nobody waits longer.
const ROOM_TIMEOUT: Duration = Duration::from_millis(500);
/// What a message costs at least, in bytes: the work of reading it.
const LEAST_COST: usize = 512;

/// Brings a computer's events to its hub; ends by being dropped alone.
pub(super) async fn run(feed: Feed, fleet: Fleet, computer: ComputerId) -> Infallible {
    let mut wanted = feed.wanted();
    let mut pauses = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE, GOOD);
    loop {
        // The feed is held here, so its end is not seen.
        let _ = wanted.wait_for(|kinds| !kinds.is_empty()).await;
        let began = Instant::now();
        // None while the computer restarts; each boot has a guest of its own.
        if let Some(guest) = fleet.running_guest(computer) {
            match guest.socket(&format!("/ws/{}", Channel::Events.name()), ()).await {
                Ok(socket) => {
                    let unwanted = listen(&feed, &mut wanted, socket, computer).await;
                    feed.set_watched(Kind::ALL.into_iter().collect(), false);
                    if unwanted.is_break() {
                        continue;
                    }
                }
                Err(error) => tracing::debug!(%computer, %error, "no events"),
            }
        }
        sleep(pauses.after(began.elapsed())).await;
    }
}

/// Listens until nobody wants anything (`Break`) or the agent is gone (`Continue`).
async fn listen(
    feed: &Feed,
    wanted: &mut watch::Receiver<Kinds>,
    socket: Socket,
    computer: ComputerId,
) -> ControlFlow<()> {
    let (mut sink, mut stream) = socket.split();
    let mut asked = Kinds::NONE;
    let mut talk = Talk::default();
    let mut budget = Budget::new();
    wanted.mark_changed();
    loop {
        tokio::select! {
            changed = wanted.changed() => {
                if changed.is_err() {
                    return ControlFlow::Continue(());
                }
                let now = *wanted.borrow_and_update();
                if now.is_empty() {
                    let _late = timeout(WRITE_TIMEOUT, sink.close()).await;
                    return ControlFlow::Break(());
                }
                if !talk.ask(feed, &mut sink, asked, now).await {
                    return ControlFlow::Continue(());
                }
                asked = now;
            }
            message = next(feed, &mut stream, &mut budget) => {
                let Some(message) = message else { return ControlFlow::Continue(()) };
                if !talk.take(feed, &message) {
                    tracing::debug!(%computer, "an agent's message that is no event");
                    metrics::counter!("hotdesk_events_refused_total").increment(1);
                }
            }
        }
    }
}

/// The agent's next message, within its budget and as fast as it finds room; `None` once it closed, broke off or was
/// silent for too long. Nothing is lost when the wait is broken off.
async fn next(feed: &Feed, stream: &mut SplitStream<Socket>, budget: &mut Budget) -> Option<Message> {
    sleep_until(budget.from).await;
    feed.room(ROOM_TIMEOUT).await;
    let message = timeout(SILENCE, stream.next()).await.ok()??.ok()?;
    budget.spend(message.len(), Instant::now());
    (!message.is_close()).then_some(message)
}

/// When the agent is read again.
struct Budget {
    from: Instant,
}

impl Budget {
    fn new() -> Self {
        Self { from: Instant::now() }
    }

    /// Each byte puts off the next reading; a second that was not used may be made up for.
    fn spend(&mut self, bytes: usize, now: Instant) {
        let cost = bytes.max(LEAST_COST) as f64 / BYTES_PER_SECOND as f64;
        let earliest = now.checked_sub(Duration::from_secs(1)).unwrap_or(now);
        self.from = self.from.max(earliest) + Duration::from_secs_f64(cost);
    }
}

/// What was said on one connection.
#[derive(Debug, Default)]
struct Talk {
    /// How many events of each type the agent has told that it lost before they came here; without a type by an agent of
    /// an earlier version, which knows only how many they were.
    lost: HashMap<Option<Kind>, u64>,
    /// The types of each request that the agent has not answered; none where it removed some.
    unanswered: VecDeque<Kinds>,
}

impl Talk {
    /// Tells the agent what is wanted now; false when it does not take it. A type at a time: an agent of an earlier
    /// version refuses those it does not know.
    async fn ask(
        &mut self,
        feed: &Feed,
        sink: &mut SplitSink<Socket, Message>,
        before: Kinds,
        now: Kinds,
    ) -> bool {
        let (more, less) = (now.without(before), before.without(now));
        feed.set_watched(less, false);
        for kind in more.union(less).iter() {
            let event_types = vec![kind.name().to_owned()];
            let (message, added) = if more.contains(kind) {
                (ClientMessage::Subscribe { event_types }, kind.into())
            } else {
                (ClientMessage::Unsubscribe { event_types }, Kinds::NONE)
            };
            self.unanswered.push_back(added);
            let Ok(text) = serde_json::to_string(&message) else { return false };
            if self.unanswered.len() > MAX_UNANSWERED
                || !matches!(timeout(WRITE_TIMEOUT, sink.send(Message::text(text))).await, Ok(Ok(())))
            {
                return false;
            }
        }
        true
    }

    /// Takes a message; false when it is none that an agent sends. What is published was read and is written anew.
    fn take(&mut self, feed: &Feed, message: &Message) -> bool {
        let text = match message {
            Message::Text(text) if text.len() <= MAX_EVENT_BYTES => text,
            Message::Text(_) | Message::Binary(_) => return false,
            Message::Ping(_) | Message::Pong(_) | Message::Close(_) | Message::Frame(_) => return true,
        };
        match serde_json::from_str(text) {
            Ok(ServerMessage::Event { dropped, dropped_by_type, event }) => {
                let Some(event) = event.checked() else { return false };
                if dropped_by_type.is_empty() {
                    self.lose(feed, None, dropped.unwrap_or_default());
                }
                for (name, count) in dropped_by_type {
                    // What this version does not know nobody has subscribed to.
                    Kind::parse(&name).into_iter().for_each(|kind| self.lose(feed, Some(kind), count));
                }
                // What nobody asked for has no listener.
                feed.publish(event);
                true
            }
            // Also what it refuses is settled: nobody need wait for it.
            Ok(
                ServerMessage::Subscribed { .. }
                | ServerMessage::Unsubscribed { .. }
                | ServerMessage::Error { .. },
            ) => match self.unanswered.pop_front() {
                Some(kinds) => {
                    feed.set_watched(kinds, true);
                    true
                }
                None => false,
            },
            Ok(ServerMessage::Pong) | Err(_) => false,
        }
    }

    fn lose(&mut self, feed: &Feed, kind: Option<Kind>, count: u64) {
        let told = self.lost.entry(kind).or_default();
        if count > *told {
            feed.missed(kind, count - *told);
            *told = count;
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use serde_json::Value;

    use super::*;
    use hotdesk_http::feed::Listener;

    #[test]
    fn what_an_agent_says_is_read_strictly_and_written_anew() {
        let feed = Feed::new();
        let listener = feed.listen();
        listener.add([Kind::Idle, Kind::Clipboard].into_iter().collect());
        let unanswered = [Kind::Idle.into(), Kinds::NONE].into();
        let mut talk = Talk { unanswered, ..Talk::default() };
        let mut take = |text: &str| talk.take(&feed, &Message::text(text.to_owned()));
        let event = |inner: &str| format!(r#"{{"type":"event","event":{inner}}}"#);
        let now = "2026-01-31T09:30:00.120Z";
        let huge = "x".repeat(MAX_EVENT_BYTES);
        for bad in [
            "",
            "{}",
            "[1]",
            r#"{"type":"shout"}"#,
            r#"{"type":"pong"}"#,
            &event("{}"),
            &event(&format!(r#"{{"type":"made_up","timestamp":"{now}","data":{{}}}}"#)),
            &event(&format!(r#"{{"type":"idle","timestamp":"{now}","data":{{"idle_seconds":[]}}}}"#)),
            &event(r#"{"type":"idle","timestamp":"<script>","data":{"idle_seconds":30}}"#),
            &event(&format!(
                r#"{{"type":"clipboard","timestamp":"{now}","data":{{"content":"{huge}","screen":"s"}}}}"#
            )),
        ] {
            assert!(!take(bad), "{bad:.100}");
        }
        for good in [
            r#"{"type":"subscribed","message":"ok"}"#,
            r#"{"type":"error","message":"Unknown event type"}"#,
            // Nobody asked for it.
            &event(&format!(r#"{{"type":"active","timestamp":"{now}","data":{{}}}}"#)),
        ] {
            assert!(take(good), "{good}");
        }
        assert!(!take(r#"{"type":"subscribed","message":"ok"}"#), "an answer without a question");
        assert!(listener.next().now_or_never().is_none(), "nothing of it went on");
        let foreign =
            format!(r#"{{"type":"idle","timestamp":"{now}","data":{{"idle_seconds":30,"x":1}},"y":2}}"#);
        assert!(take(&event(&foreign)));
        let news = listener.next().now_or_never().expect("an event").message();
        assert_eq!(
            serde_json::from_str::<Value>(&news).expect("JSON"),
            serde_json::json!({"type":"event","event":{"type":"idle","timestamp":now,"data":{"idle_seconds":30}}})
        );
        assert!(!talk.take(&feed, &Message::binary(vec![1])));
        assert!(talk.take(&feed, &Message::Ping(Vec::new().into())));
    }

    /// An event before which the agent lost some, and how many its listeners have missed then.
    fn missed_after(talk: &mut Talk, feed: &Feed, lost: &str, listeners: [&Listener; 2]) -> [u64; 2] {
        let events = ["active", "clipboard"].map(|kind| {
            let data = if kind == "clipboard" { r#"{"content":"c","screen":"s"}"# } else { "{}" };
            format!(
                r#"{{"type":"event",{lost},"event":
                {{"type":"{kind}","timestamp":"2026-01-31T09:30:00.120Z","data":{data}}}}}"#
            )
        });
        for event in events {
            assert!(talk.take(feed, &Message::text(event)));
        }
        listeners.map(|listener| listener.next().now_or_never().expect("an event").dropped())
    }

    #[test]
    fn what_the_agent_lost_is_told_once_to_those_who_missed_it() {
        let feed = Feed::new();
        let (active, clipboard) = (feed.listen(), feed.listen());
        active.add(Kind::Active.into());
        clipboard.add(Kind::Clipboard.into());
        let mut talk = Talk::default();
        for (lost, expected) in [
            (r#""dropped":3,"dropped_by_type":{"active":3}"#, [3, 0]),
            (r#""dropped":3,"dropped_by_type":{"active":3}"#, [3, 0]),
            (r#""dropped":5,"dropped_by_type":{"active":3,"clipboard":2}"#, [3, 2]),
            (r#""dropped":9,"dropped_by_type":{"active":4,"idle":2,"made_up":3}"#, [4, 2]),
            (r#""dropped":1,"dropped_by_type":{"active":1}"#, [4, 2]),
        ] {
            assert_eq!(missed_after(&mut talk, &feed, lost, [&active, &clipboard]), expected, "{lost}");
        }
    }

    #[test]
    fn what_an_agent_of_an_earlier_version_lost_may_have_been_anybody_s() {
        let feed = Feed::new();
        let (active, clipboard) = (feed.listen(), feed.listen());
        active.add(Kind::Active.into());
        clipboard.add(Kind::Clipboard.into());
        let mut talk = Talk::default();
        for (told, expected) in [(0, 0), (3, 3), (3, 3), (5, 5), (1, 5), (u64::MAX, u64::MAX)] {
            let lost = format!(r#""dropped":{told}"#);
            assert_eq!(missed_after(&mut talk, &feed, &lost, [&active, &clipboard]), [expected; 2], "{lost}");
        }
    }

    #[test]
    fn an_agent_is_read_at_a_bounded_rate() {
        let mut budget = Budget::new();
        let began = budget.from + Duration::from_secs(3600);
        let mut now = began;
        for _ in 0..11 * BYTES_PER_SECOND / LEAST_COST {
            now = now.max(budget.from);
            budget.spend(1, now);
        }
        let took = now - began;
        assert!(Duration::from_secs(9) <= took && took <= Duration::from_secs(11), "{took:?}");
    }
}
