//! Is a computer idle after exactly 30 s without input, and active with the first input after that?

use std::time::{Duration, Instant};

use hotdesk::domain::event::Kind;
use serde_json::json;

use super::watch::Hearing;
use crate::display::desk::Desk;

/// How much later than told an event may be heard. None may be early.
const LATE: Duration = Duration::from_millis(2500);
/// The same on a loaded machine; one of two is held to [`LATE`].
const LOADED: Duration = Duration::from_secs(10);
const THRESHOLD: Duration = Duration::from_secs(30);

/// Hears the next `idle`, which is as long after the last input as promised; how late it was.
async fn idle(hearing: &Hearing, before: Instant, after: Instant) -> Duration {
    // Nothing may come before, and a test's usual patience is too short.
    let early = tokio::time::timeout(THRESHOLD / 2, hearing.next()).await;
    assert!(early.is_err(), "{early:?}");
    let heard = hearing.next().await;
    assert_eq!(heard, ("idle".to_owned(), json!({"idle_seconds": 30})));
    // The server counts from a moment between these two.
    assert!(before.elapsed() >= THRESHOLD, "{:?} after the input began", before.elapsed());
    let late = after.elapsed().saturating_sub(THRESHOLD);
    assert!(late < LOADED, "{late:?} late");
    late
}

#[tokio::test]
async fn idle_comes_30_s_after_the_last_input_on_any_screen_and_active_with_the_next() {
    let desk = Desk::bare(320, 240).await;
    desk.ok("POST", "/screens", json!({})).await;
    let hearing = Hearing::begin(Some(&desk.displays), desk.home(), &[Kind::Idle, Kind::Active]).await;
    desk.ok("POST", "/click", json!({"x": 10, "y": 10})).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let before = Instant::now();
    desk.ok("POST", "/click?screen=screen-100", json!({"x": 10, "y": 10})).await;
    let first = idle(&hearing, before, Instant::now()).await;
    hearing.quiet().await;
    let before = Instant::now();
    desk.ok("POST", "/key", json!({"key": "a"})).await;
    hearing.expect("active", json!({})).await;
    desk.ok("POST", "/key", json!({"key": "a"})).await;
    let second = idle(&hearing, before, Instant::now()).await;
    assert!(first.min(second) < LATE, "{first:?} and {second:?} late");
    desk.ok("POST", "/click?screen=screen-100", json!({"x": 20, "y": 20})).await;
    hearing.expect("active", json!({})).await;
    hearing.quiet().await;
    hearing.end().await;
    desk.close().await;
}
