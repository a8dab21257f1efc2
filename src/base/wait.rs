//! How is a condition awaited? By asking with growing pauses until a deadline; never by sleeping and hoping.

use std::future::Future;
use std::time::{Duration, Instant};

/// Longest pause between two looks: what a person would not notice, and cheap enough for an idle core.
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

/// Asks `probe` until it yields a value or `patience` has passed (then `None`). Pauses grow from 2 ms.
pub async fn until<T, F: Future<Output = Option<T>>>(
    patience: Duration,
    mut probe: impl FnMut() -> F,
) -> Option<T> {
    let deadline = Instant::now() + patience;
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
