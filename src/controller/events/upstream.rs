//! Connection to a computer's agent that receives its events.
//!
//! The agent is not trusted, T5 (docs/security.md): its messages are parsed strictly, and their rate and size
//! are bounded.

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
use hotdesk_domain::desktop::channel::Channel;
use hotdesk_domain::desktop::event::{EventKind, EventKinds};
use hotdesk_guest::Socket;
use hotdesk_http::feed::Feed;
use hotdesk_wire::desktop::event::{EventClientMessage, EventServerMessage, MAX_EVENT_BYTES};

/// Pause after the first failure; it doubles with each further one.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// Longest pause between two attempts: what a client may miss after its agent is back.
const MAX_PAUSE: Duration = Duration::from_secs(3);
/// A connection that lasted this long resets the pauses.
const STABLE_AFTER: Duration = Duration::from_secs(10);
/// Time in which an agent must read a request.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest silence of an agent. It sends a heartbeat every 30 s: two of them and a margin.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(75);
/// Requests that an agent may leave unanswered: each type added and removed several times.
const MAX_UNANSWERED: usize = 256;
/// Bytes that are read from an agent per second; the rest waits in its own queues. This is ten of the largest
/// events, or thousands of common ones.
const BYTES_PER_SECOND: usize = 4 * 1024 * 1024;
/// Time in which events wait for a client with a full queue. A client that reads takes 128 of them in
/// milliseconds, or tenths of a second on a busy machine. Others do not wait longer for one that does not
/// read.
const QUEUE_TIMEOUT: Duration = Duration::from_millis(500);
/// Least cost of a message in bytes: the work of parsing it.
const MIN_COST: usize = 512;

/// The types that an agent publishes.
pub(super) fn from_agent(kinds: EventKinds) -> EventKinds {
    kinds.without(EventKind::AgentChange.into())
}

/// Forwards a computer's events to its hub. It never returns; it ends by being dropped.
pub(super) async fn run(feed: Feed, fleet: Fleet, computer: ComputerId) -> Infallible {
    let mut wanted = feed.wanted();
    let mut pauses = Backoff::new(FIRST_PAUSE, MAX_PAUSE, STABLE_AFTER);
    loop {
        // The feed is owned here, so the sender is not closed.
        let _ = wanted.wait_for(|kinds| !from_agent(*kinds).is_empty()).await;
        let began = Instant::now();
        // `None` while the computer restarts; each boot has a new guest.
        if let Some(guest) = fleet.running_guest(computer) {
            match guest.socket(&format!("/ws/{}", Channel::Events.name()), ()).await {
                Ok(socket) => {
                    let unwanted = listen(&feed, &mut wanted, socket, computer).await;
                    feed.set_watched(from_agent(EventKind::ALL.into_iter().collect()), false);
                    if unwanted.is_break() {
                        continue;
                    }
                }
                Err(error) => tracing::debug!(
                    %computer,
                    error = format_args!("{error:#}"),
                    "could not open the event socket of an agent; it is retried"
                ),
            }
        }
        sleep(pauses.after(began.elapsed())).await;
    }
}

/// Reads events until no client wants any (`Break`) or the agent is gone (`Continue`).
async fn listen(
    feed: &Feed,
    wanted: &mut watch::Receiver<EventKinds>,
    socket: Socket,
    computer: ComputerId,
) -> ControlFlow<()> {
    let (mut sink, mut stream) = socket.split();
    let mut subscribed = EventKinds::NONE;
    let mut subscription = Subscription::default();
    let mut budget = Budget::new();
    wanted.mark_changed();
    loop {
        tokio::select! {
            changed = wanted.changed() => {
                if changed.is_err() {
                    return ControlFlow::Continue(());
                }
                let now = from_agent(*wanted.borrow_and_update());
                if now.is_empty() {
                    let _late = timeout(WRITE_TIMEOUT, sink.close()).await;
                    return ControlFlow::Break(());
                }
                if !subscription.send_changes(feed, &mut sink, subscribed, now).await {
                    return ControlFlow::Continue(());
                }
                subscribed = now;
            }
            message = next(feed, &mut stream, &mut budget) => {
                let Some(message) = message else { return ControlFlow::Continue(()) };
                if !subscription.handle(feed, &message) {
                    tracing::debug!(%computer, "ignored an invalid message of an agent's event socket");
                    metrics::counter!("hotdesk_events_refused_total").increment(1);
                }
            }
        }
    }
}

/// Returns the agent's next message within its budget; `None` once it closed, failed or was silent for too
/// long. Cancel-safe.
async fn next(feed: &Feed, stream: &mut SplitStream<Socket>, budget: &mut Budget) -> Option<Message> {
    sleep_until(budget.from).await;
    feed.wait_for_space(QUEUE_TIMEOUT).await;
    let message = timeout(SILENCE_TIMEOUT, stream.next()).await.ok()??.ok()?;
    budget.spend(message.len(), Instant::now());
    (!message.is_close()).then_some(message)
}

/// Time at which the agent is read again.
struct Budget {
    from: Instant,
}

impl Budget {
    fn new() -> Self {
        Self { from: Instant::now() }
    }

    /// Charges for a message. Up to one second of unused budget can be caught up.
    fn spend(&mut self, bytes: usize, now: Instant) {
        let cost = bytes.max(MIN_COST) as f64 / BYTES_PER_SECOND as f64;
        let earliest = now.checked_sub(Duration::from_secs(1)).unwrap_or(now);
        self.from = self.from.max(earliest) + Duration::from_secs_f64(cost);
    }
}

/// Protocol state of one connection.
#[derive(Debug, Default)]
struct Subscription {
    /// Events of each type that the agent reported as lost. Agents of an earlier version report only a total
    /// (`None`).
    lost: HashMap<Option<EventKind>, u64>,
    /// Types added by each unanswered request; empty for a removal.
    unanswered: VecDeque<EventKinds>,
}

impl Subscription {
    /// Sends the changed subscriptions to the agent; false when it does not read them. Each type has its own
    /// request, because agents of an earlier version refuse requests with an unknown type.
    async fn send_changes(
        &mut self,
        feed: &Feed,
        sink: &mut SplitSink<Socket, Message>,
        before: EventKinds,
        now: EventKinds,
    ) -> bool {
        let (more, less) = (now.without(before), before.without(now));
        feed.set_watched(less, false);
        for kind in more.union(less).iter() {
            let event_types = vec![kind.name().to_owned()];
            let (message, added) = if more.contains(kind) {
                (EventClientMessage::Subscribe { event_types }, kind.into())
            } else {
                (EventClientMessage::Unsubscribe { event_types }, EventKinds::NONE)
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

    /// Handles a message; false when it is invalid. A published event was parsed and is serialized again.
    fn handle(&mut self, feed: &Feed, message: &Message) -> bool {
        let text = match message {
            Message::Text(text) if text.len() <= MAX_EVENT_BYTES => text,
            Message::Text(_) | Message::Binary(_) => return false,
            Message::Ping(_) | Message::Pong(_) | Message::Close(_) | Message::Frame(_) => return true,
        };
        match serde_json::from_str(text) {
            Ok(EventServerMessage::Event { dropped, dropped_by_type, event }) => {
                let Some(event) = event.checked().filter(|event| event.kind() != EventKind::AgentChange)
                else {
                    return false;
                };
                if dropped_by_type.is_empty() {
                    self.lose(feed, None, dropped.unwrap_or_default());
                }
                for (name, count) in dropped_by_type {
                    // Nobody has subscribed to types that this version does not know.
                    EventKind::parse(&name).into_iter().for_each(|kind| self.lose(feed, Some(kind), count));
                }
                // An unwanted event has no listener.
                feed.publish(event);
                true
            }
            // A refusal also settles the request, so that nobody waits for it.
            Ok(
                EventServerMessage::Subscribed { .. }
                | EventServerMessage::Unsubscribed { .. }
                | EventServerMessage::Error { .. },
            ) => match self.unanswered.pop_front() {
                Some(kinds) => {
                    feed.set_watched(kinds, true);
                    true
                }
                None => false,
            },
            Ok(EventServerMessage::Pong) | Err(_) => false,
        }
    }

    fn lose(&mut self, feed: &Feed, kind: Option<EventKind>, count: u64) {
        let reported = self.lost.entry(kind).or_default();
        if count > *reported {
            feed.report_missed(kind, count - *reported);
            *reported = count;
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
    fn messages_are_parsed_strictly_and_serialized_again() {
        let feed = Feed::new();
        let listener = feed.listen();
        listener.add([EventKind::Idle, EventKind::Clipboard].into_iter().collect());
        let unanswered = [EventKind::Idle.into(), EventKinds::NONE].into();
        let mut subscription = Subscription { unanswered, ..Subscription::default() };
        let mut take = |text: &str| subscription.handle(&feed, &Message::text(text.to_owned()));
        let event = |inner: &str| format!(r#"{{"type":"event","event":{inner}}}"#);
        let now = "2026-01-31T09:30:00.120Z";
        let huge = "x".repeat(MAX_EVENT_BYTES);
        for bad in [
            "",
            "{}",
            "[1]",
            r#"{"type":"shout"}"#,
            r#"{"type":"pong"}"#,
            // Only the controller says that.
            &event(&format!(
                r#"{{"type":"agent_change","timestamp":"{now}","data":{{"state":"responsive","since":"{now}"}}}}"#
            )),
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
            // An event that no client wants.
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
        assert!(!subscription.handle(&feed, &Message::binary(vec![1])));
        assert!(subscription.handle(&feed, &Message::Ping(Vec::new().into())));
    }

    /// An event before which the agent lost some, and how many its listeners have missed then.
    fn missed_after(
        subscription: &mut Subscription,
        feed: &Feed,
        lost: &str,
        listeners: [&Listener; 2],
    ) -> [u64; 2] {
        let events = ["active", "clipboard"].map(|kind| {
            let data = if kind == "clipboard" { r#"{"content":"c","screen":"s"}"# } else { "{}" };
            format!(
                r#"{{"type":"event",{lost},"event":
                {{"type":"{kind}","timestamp":"2026-01-31T09:30:00.120Z","data":{data}}}}}"#
            )
        });
        for event in events {
            assert!(subscription.handle(feed, &Message::text(event)));
        }
        listeners.map(|listener| listener.next().now_or_never().expect("an event").dropped())
    }

    #[test]
    fn lost_events_are_reported_once_to_affected_listeners() {
        let feed = Feed::new();
        let (active, clipboard) = (feed.listen(), feed.listen());
        active.add(EventKind::Active.into());
        clipboard.add(EventKind::Clipboard.into());
        let mut subscription = Subscription::default();
        for (lost, expected) in [
            (r#""dropped":3,"dropped_by_type":{"active":3}"#, [3, 0]),
            (r#""dropped":3,"dropped_by_type":{"active":3}"#, [3, 0]),
            (r#""dropped":5,"dropped_by_type":{"active":3,"clipboard":2}"#, [3, 2]),
            (r#""dropped":9,"dropped_by_type":{"active":4,"idle":2,"made_up":3}"#, [4, 2]),
            (r#""dropped":1,"dropped_by_type":{"active":1}"#, [4, 2]),
        ] {
            assert_eq!(
                missed_after(&mut subscription, &feed, lost, [&active, &clipboard]),
                expected,
                "{lost}"
            );
        }
    }

    #[test]
    fn a_total_of_lost_events_counts_for_every_listener() {
        let feed = Feed::new();
        let (active, clipboard) = (feed.listen(), feed.listen());
        active.add(EventKind::Active.into());
        clipboard.add(EventKind::Clipboard.into());
        let mut subscription = Subscription::default();
        for (reported, expected) in [(0, 0), (3, 3), (3, 3), (5, 5), (1, 5), (u64::MAX, u64::MAX)] {
            let lost = format!(r#""dropped":{reported}"#);
            assert_eq!(
                missed_after(&mut subscription, &feed, &lost, [&active, &clipboard]),
                [expected; 2],
                "{lost}"
            );
        }
    }

    #[test]
    fn an_agent_is_read_at_a_bounded_rate() {
        let mut budget = Budget::new();
        let began = budget.from + Duration::from_secs(3600);
        let mut now = began;
        for _ in 0..11 * BYTES_PER_SECOND / MIN_COST {
            now = now.max(budget.from);
            budget.spend(1, now);
        }
        let took = now - began;
        assert!(Duration::from_secs(9) <= took && took <= Duration::from_secs(11), "{took:?}");
    }
}
