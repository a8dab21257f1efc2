//! Idle and active events after 30 s without input and at the next input.

use std::time::{Duration, Instant};

use hotdesk::domain::desktop::event::EventKind;
use serde_json::json;

use super::watch::WatchListener;
use crate::display::fixture::DisplayFixture;

/// Longest delay of an event. An event must never be early.
const MAX_DELAY: Duration = Duration::from_millis(2500);
/// The same on a loaded machine; one of two attempts must meet [`MAX_DELAY`].
const MAX_DELAY_LOADED: Duration = Duration::from_secs(10);
const THRESHOLD: Duration = Duration::from_secs(30);

/// Waits for the next `idle` event, which must not be early; returns its delay.
async fn wait_for_idle(listener: &WatchListener, before: Instant, after: Instant) -> Duration {
    // No event may arrive before. The usual timeout of a test is too short for this.
    let early = tokio::time::timeout(THRESHOLD / 2, listener.next()).await;
    assert!(early.is_err(), "{early:?}");
    let event = listener.next().await;
    assert_eq!(event, ("idle".to_owned(), json!({"idle_seconds": 30})));
    // The server counts from a moment between these two.
    assert!(before.elapsed() >= THRESHOLD, "{:?} after the input began", before.elapsed());
    let delay = after.elapsed().saturating_sub(THRESHOLD);
    assert!(delay < MAX_DELAY_LOADED, "{delay:?} late");
    delay
}

#[tokio::test]
async fn idle_comes_30_s_after_the_last_input_on_any_screen_and_active_with_the_next() {
    let fixture = DisplayFixture::bare(320, 240).await;
    fixture.ok("POST", "/screens", json!({})).await;
    let listener =
        WatchListener::start(Some(&fixture.displays), fixture.home(), &[EventKind::Idle, EventKind::Active])
            .await;
    fixture.ok("POST", "/click", json!({"x": 10, "y": 10})).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let before = Instant::now();
    fixture.ok("POST", "/click?screen=screen-100", json!({"x": 10, "y": 10})).await;
    let first = wait_for_idle(&listener, before, Instant::now()).await;
    listener.expect_none().await;
    let before = Instant::now();
    fixture.ok("POST", "/key", json!({"key": "a"})).await;
    listener.expect("active", json!({})).await;
    fixture.ok("POST", "/key", json!({"key": "a"})).await;
    let second = wait_for_idle(&listener, before, Instant::now()).await;
    assert!(first.min(second) < MAX_DELAY, "{first:?} and {second:?} of delay");
    fixture.ok("POST", "/click?screen=screen-100", json!({"x": 20, "y": 20})).await;
    listener.expect("active", json!({})).await;
    listener.expect_none().await;
    listener.end().await;
    fixture.close().await;
}
