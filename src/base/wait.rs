//! Polling of a condition, with growing pauses and a deadline.

use std::future::Future;
use std::time::{Duration, Instant};

/// Longest pause between two polls: a person does not notice it, and it costs an idle core little.
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

/// Polls `probe` until it yields a value, or returns `None` after `timeout`. Pauses grow from 2 ms to 50 ms.
pub async fn until<T, F: Future<Output = Option<T>>>(
    timeout: Duration,
    mut probe: impl FnMut() -> F,
) -> Option<T> {
    let deadline = Instant::now() + timeout;
    let mut pause = Duration::from_millis(2);
    loop {
        if let Some(value) = probe().await {
            return Some(value);
        }
        let left = deadline.checked_duration_since(Instant::now())?;
        tokio::time::sleep(pause.min(left)).await;
        pause = (pause * 3 / 2).min(LONGEST_PAUSE);
    }
}
