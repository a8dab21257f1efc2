//! Tests of feeds with many events, slow listeners and changing subscriptions.

use futures_util::FutureExt;
use serde_json::{Value, json};

use super::*;
use hotdesk_wire::desktop::event::{EventData, EventServerMessage, MAX_CONTENT_BYTES};

fn started(pid: u32) -> Event {
    Event::now(EventData::ProcessStart { pid, name: "p".into() })
}

/// The queued events of a listener, as messages to its client.
fn waiting(listener: &Listener) -> Vec<Value> {
    std::iter::from_fn(|| listener.next().now_or_never())
        .map(|event| serde_json::from_str(&event.message()).expect("a message is JSON"))
        .collect()
}

fn pids(messages: &[Value]) -> Vec<u64> {
    messages.iter().filter_map(|message| message["event"]["data"]["pid"].as_u64()).collect()
}

#[tokio::test]
async fn a_slow_listener_gets_the_newest_256_and_the_number_of_missed_events() {
    let feed = Feed::new();
    let (slow, quick) = (feed.listen(), feed.listen());
    slow.add(EventKind::ProcessStart.into());
    quick.add(EventKind::ProcessStart.into());
    for pid in 1..=300 {
        feed.publish(started(pid));
        assert_eq!(pids(&waiting(&quick)), [u64::from(pid)], "a slow listener changes nothing for others");
    }
    let late = waiting(&slow);
    assert_eq!(pids(&late), (45..=300).collect::<Vec<_>>());
    assert!(late.iter().all(|message| message["dropped"] == 44));
    for pid in 301..=557 {
        feed.publish(started(pid));
    }
    let late = waiting(&slow);
    assert_eq!((late.len(), &late[0]["dropped"]), (MAX_WAITING, &Value::from(45)), "the count is cumulative");
    feed.report_missed(Some(EventKind::ProcessStart), 3);
    feed.report_missed(Some(EventKind::Clipboard), 100);
    feed.report_missed(None, 2);
    feed.publish(started(1));
    let late = waiting(&slow);
    assert_eq!(
        (&late[0]["dropped"], &late[0]["dropped_by_type"]),
        (&json!(50), &json!({"process_start": 48}))
    );
    // One of the last 257 was dropped for the quick one too, which had stopped reading.
    assert_eq!(waiting(&quick)[0]["dropped"], 2 + 5);
}

#[tokio::test]
async fn large_events_are_bounded_in_bytes_and_the_newest_is_never_dropped() {
    let feed = Feed::new();
    let listener = feed.listen();
    listener.add(EventKind::Clipboard.into());
    let large = Event::now(EventData::clipboard("\u{1}".repeat(MAX_CONTENT_BYTES), "default"));
    for _ in 0..MAX_WAITING {
        feed.publish(large.clone());
    }
    let left = waiting(&listener);
    assert!((2..=MAX_WAITING_BYTES / (6 * MAX_CONTENT_BYTES)).contains(&left.len()), "{}", left.len());
    assert_eq!(left[0]["dropped"], MAX_WAITING - left.len());
}

/// A full queue drops events of the type with most events or most bytes.
#[tokio::test]
async fn a_flood_of_one_type_displaces_no_other_type() {
    let feed = Feed::new();
    let listener = feed.listen();
    listener.add([EventKind::ProcessStart, EventKind::Clipboard, EventKind::Active].into_iter().collect());
    let large = Event::now(EventData::clipboard("\u{1}".repeat(MAX_CONTENT_BYTES), "default"));
    feed.publish(Event::now(EventData::Active {}));
    feed.publish(large.clone());
    for pid in 1..=1000 {
        feed.publish(started(pid));
    }
    let left = waiting(&listener);
    let types: Vec<&Value> = left.iter().map(|message| &message["event"]["type"]).take(2).collect();
    assert_eq!(types, ["active", "clipboard"], "the oldest of all, and the largest");
    assert_eq!(pids(&left), (1000 - 253..=1000).collect::<Vec<_>>());
    assert_eq!(left[0]["dropped_by_type"], json!({"process_start": 746}));
    feed.publish(started(7));
    for _ in 0..100 {
        feed.publish(large.clone());
    }
    let left = waiting(&listener);
    assert_eq!(pids(&left), [7]);
    let clipboards = 100 - (left.len() - 1);
    assert_eq!(left[0]["dropped"], 746 + clipboards);
    assert_eq!(left[0]["dropped_by_type"], json!({"process_start": 746, "clipboard": clipboards}));
    assert!(serde_json::from_value::<EventServerMessage>(left[0].clone()).is_ok());
}

/// A source that waits for space loses no event of a listener that reads. It waits only once for one that
/// does not read.
#[tokio::test]
async fn a_source_that_waits_loses_no_event_of_a_reading_listener() {
    let feed = Feed::new();
    let (reader, sleeper) = (feed.listen(), feed.listen());
    reader.add(EventKind::ProcessStart.into());
    sleeper.add(EventKind::ProcessStart.into());
    let began = std::time::Instant::now();
    let publishing = async {
        for pid in 1..=10_000 {
            feed.wait_for_space(Duration::from_secs(3)).await;
            feed.publish(started(pid));
        }
    };
    let reading = async {
        for pid in 1..=10_000_u32 {
            let event = reader.next().await;
            assert_eq!(event.dropped(), 0, "before {pid}");
            tokio::task::yield_now().await;
        }
    };
    tokio::join!(publishing, reading);
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    assert_eq!(waiting(&sleeper)[0]["dropped"], 10_000 - MAX_WAITING);
}

/// A task and a thread stop waiting at once when a listener reads everything, unsubscribes or is dropped. The
/// timeout is too long to end in this test.
#[tokio::test(flavor = "multi_thread")]
async fn waiting_sources_continue_as_soon_as_there_is_space() {
    let timeout = Duration::from_secs(100_000);
    for way in 0..3 {
        let feed = Feed::new();
        let listener = feed.listen();
        listener.add(EventKind::ProcessStart.into());
        for pid in 1..=200 {
            feed.publish(started(pid));
        }
        let (task, thread) = (feed.clone(), feed.clone());
        let thread = tokio::task::spawn_blocking(move || thread.block_for_space(timeout));
        let mut both = std::pin::pin!(async { tokio::join!(task.wait_for_space(timeout), thread) });
        assert!(both.as_mut().now_or_never().is_none(), "there is no space yet");
        match way {
            0 => assert_eq!(waiting(&listener).len(), 200),
            1 => listener.remove(EventKind::ProcessStart.into()),
            _ => drop(listener),
        }
        let both = tokio::time::timeout(Duration::from_secs(30), both).await;
        both.expect("both go on").1.expect("the thread ends");
    }
}

#[tokio::test]
async fn subscriptions_add_up_and_determine_the_wanted_types() {
    let feed = Feed::new();
    let mut wanted = feed.wanted();
    let (one, other) = (feed.listen(), feed.listen());
    let publish_both = || {
        feed.publish(started(1));
        feed.publish(Event::now(EventData::Active {}));
    };
    publish_both();
    assert!(waiting(&one).is_empty(), "nothing without a subscription");
    one.add(EventKind::Active.into());
    other.add(EventKind::Active.into());
    assert!(wanted.has_changed().expect("a feed") && *wanted.borrow_and_update() == EventKind::Active.into());
    publish_both();
    one.add(EventKind::ProcessStart.into());
    assert_eq!(wanted.borrow_and_update().iter().count(), 2);
    publish_both();
    let kinds: Vec<Value> = waiting(&one).iter().map(|message| message["event"]["type"].clone()).collect();
    assert_eq!(kinds, ["active", "process_start", "active"]);
    publish_both();
    one.remove(EventKind::Active.into());
    assert!(!wanted.has_changed().expect("a feed"), "another still wants it");
    let left = waiting(&one);
    assert_eq!(pids(&left), [1], "queued events of a removed type are discarded");
    assert!(left[0].get("dropped").is_none(), "and do not count as missed");
    drop(other);
    assert_eq!(*wanted.borrow_and_update(), EventKind::ProcessStart.into());
    drop(one);
    assert!(wanted.borrow_and_update().is_empty());
    assert!(feed.lock().queues.is_empty());
}

#[tokio::test]
async fn an_event_wakes_a_waiting_listener_and_a_cancelled_wait_loses_nothing() {
    let feed = Feed::new();
    let listener = feed.listen();
    listener.add(EventKind::ProcessStart.into());
    assert!(listener.next().now_or_never().is_none());
    let (event, ()) = tokio::join!(listener.next(), async { feed.publish(started(7)) });
    assert!(event.message().contains(r#""pid":7"#));
    feed.publish(started(8));
    feed.publish(started(9));
    assert_eq!(pids(&waiting(&listener)), [8, 9]);
}
