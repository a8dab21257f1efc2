//! Do queues keep what they promise? Many events, slow listeners, changing subscriptions.

use futures_util::FutureExt;
use serde_json::{Value, json};

use super::*;
use hotdesk_wire::event::{Data, MAX_CONTENT_BYTES, ServerMessage};

fn started(pid: u32) -> Event {
    Event::now(Data::ProcessStart { pid, name: "p".into() })
}

/// What waits for a listener, as its client would read it.
fn waiting(listener: &Listener) -> Vec<Value> {
    std::iter::from_fn(|| listener.next().now_or_never())
        .map(|news| serde_json::from_str(&news.message()).expect("a message is JSON"))
        .collect()
}

fn pids(messages: &[Value]) -> Vec<u64> {
    messages.iter().filter_map(|message| message["event"]["data"]["pid"].as_u64()).collect()
}

#[tokio::test]
async fn a_slow_listener_keeps_the_newest_256_and_learns_how_many_it_missed() {
    let feed = Feed::new();
    let (slow, quick) = (feed.listen(), feed.listen());
    slow.add(Kind::ProcessStart.into());
    quick.add(Kind::ProcessStart.into());
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
    feed.missed(Some(Kind::ProcessStart), 3);
    feed.missed(Some(Kind::Clipboard), 100);
    feed.missed(None, 2);
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
async fn large_events_are_bounded_in_bytes_and_the_newest_is_always_kept() {
    let feed = Feed::new();
    let listener = feed.listen();
    listener.add(Kind::Clipboard.into());
    let large = Event::now(Data::clipboard("\u{1}".repeat(MAX_CONTENT_BYTES), "default"));
    for _ in 0..MAX_WAITING {
        feed.publish(large.clone());
    }
    let kept = waiting(&listener);
    assert!((2..=MAX_WAITING_BYTES / (6 * MAX_CONTENT_BYTES)).contains(&kept.len()), "{}", kept.len());
    assert_eq!(kept[0]["dropped"], MAX_WAITING - kept.len());
}

/// Whoever floods pays for it, in places and in bytes.
#[tokio::test]
async fn a_flood_of_one_type_costs_the_others_nothing() {
    let feed = Feed::new();
    let listener = feed.listen();
    listener.add([Kind::ProcessStart, Kind::Clipboard, Kind::Active].into_iter().collect());
    let large = Event::now(Data::clipboard("\u{1}".repeat(MAX_CONTENT_BYTES), "default"));
    feed.publish(Event::now(Data::Active {}));
    feed.publish(large.clone());
    for pid in 1..=1000 {
        feed.publish(started(pid));
    }
    let kept = waiting(&listener);
    let types: Vec<&Value> = kept.iter().map(|message| &message["event"]["type"]).take(2).collect();
    assert_eq!(types, ["active", "clipboard"], "the oldest of all, and the largest");
    assert_eq!(pids(&kept), (1000 - 253..=1000).collect::<Vec<_>>());
    assert_eq!(kept[0]["dropped_by_type"], json!({"process_start": 746}));
    feed.publish(started(7));
    for _ in 0..100 {
        feed.publish(large.clone());
    }
    let kept = waiting(&listener);
    assert_eq!(pids(&kept), [7]);
    let clipboards = 100 - (kept.len() - 1);
    assert_eq!(kept[0]["dropped"], 746 + clipboards);
    assert_eq!(kept[0]["dropped_by_type"], json!({"process_start": 746, "clipboard": clipboards}));
    assert!(serde_json::from_value::<ServerMessage>(kept[0].clone()).is_ok());
}

/// A source that waits loses nothing to who reads, however much it has; who does not read is waited for once.
#[tokio::test]
async fn a_source_that_waits_for_room_waits_for_those_who_read() {
    let feed = Feed::new();
    let (reads, sleeps) = (feed.listen(), feed.listen());
    reads.add(Kind::ProcessStart.into());
    sleeps.add(Kind::ProcessStart.into());
    let began = std::time::Instant::now();
    let publishing = async {
        for pid in 1..=10_000 {
            feed.room(Duration::from_secs(3)).await;
            feed.publish(started(pid));
        }
    };
    let reading = async {
        for pid in 1..=10_000_u32 {
            let news = reads.next().await;
            assert_eq!(news.dropped(), 0, "before {pid}");
            tokio::task::yield_now().await;
        }
    };
    tokio::join!(publishing, reading);
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    assert_eq!(waiting(&sleeps)[0]["dropped"], 10_000 - MAX_WAITING);
}

/// Who reads all, leaves or wants nothing any more lets a source go on at once, be it a task or a thread: none of them waits
/// for its patience to end, which here it never does.
#[tokio::test(flavor = "multi_thread")]
async fn room_is_told_as_soon_as_there_is_some() {
    let patience = Duration::from_secs(100_000);
    for way in 0..3 {
        let feed = Feed::new();
        let listener = feed.listen();
        listener.add(Kind::ProcessStart.into());
        for pid in 1..=200 {
            feed.publish(started(pid));
        }
        let (task, thread) = (feed.clone(), feed.clone());
        let thread = tokio::task::spawn_blocking(move || thread.block_for_room(patience));
        let mut both = std::pin::pin!(async { tokio::join!(task.room(patience), thread) });
        assert!(both.as_mut().now_or_never().is_none(), "there is no room yet");
        match way {
            0 => assert_eq!(waiting(&listener).len(), 200),
            1 => listener.remove(Kind::ProcessStart.into()),
            _ => drop(listener),
        }
        let both = tokio::time::timeout(Duration::from_secs(30), both).await;
        both.expect("both go on").1.expect("the thread ends");
    }
}

#[tokio::test]
async fn subscriptions_add_up_can_be_taken_back_and_say_what_is_wanted() {
    let feed = Feed::new();
    let mut wanted = feed.wanted();
    let (one, other) = (feed.listen(), feed.listen());
    let publish_both = || {
        feed.publish(started(1));
        feed.publish(Event::now(Data::Active {}));
    };
    publish_both();
    assert!(waiting(&one).is_empty(), "nothing without a subscription");
    one.add(Kind::Active.into());
    other.add(Kind::Active.into());
    assert!(wanted.has_changed().expect("a feed") && *wanted.borrow_and_update() == Kind::Active.into());
    publish_both();
    one.add(Kind::ProcessStart.into());
    assert_eq!(wanted.borrow_and_update().iter().count(), 2);
    publish_both();
    let kinds: Vec<Value> = waiting(&one).iter().map(|message| message["event"]["type"].clone()).collect();
    assert_eq!(kinds, ["active", "process_start", "active"]);
    publish_both();
    one.remove(Kind::Active.into());
    assert!(!wanted.has_changed().expect("a feed"), "another still wants it");
    let left = waiting(&one);
    assert_eq!(pids(&left), [1], "what was waiting of a removed type is gone");
    assert!(left[0].get("dropped").is_none(), "and was not missed");
    drop(other);
    assert_eq!(*wanted.borrow_and_update(), Kind::ProcessStart.into());
    drop(one);
    assert!(wanted.borrow_and_update().is_empty());
    assert!(feed.lock().queues.is_empty());
}

#[tokio::test]
async fn a_listener_that_waits_is_woken_and_a_broken_wait_loses_nothing() {
    let feed = Feed::new();
    let listener = feed.listen();
    listener.add(Kind::ProcessStart.into());
    assert!(listener.next().now_or_never().is_none());
    let (news, ()) = tokio::join!(listener.next(), async { feed.publish(started(7)) });
    assert!(news.message().contains(r#""pid":7"#));
    feed.publish(started(8));
    feed.publish(started(9));
    assert_eq!(pids(&waiting(&listener)), [8, 9]);
}
