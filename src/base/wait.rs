//! Polling of a condition, with growing pauses and a deadline.

use std::future::Future;
use std::time::{Duration, Instant};

/// First pause between two polls.
const FIRST_PAUSE: Duration = Duration::from_millis(2);
/// By what part of itself a pause grows: a pause then is a sixteenth of the time that was waited, so that the
/// end of a wait is noticed 6 % late at most.
const GROWTH: u32 = 16;
/// Longest pause between two polls: a person does not notice it, and it costs an idle core little.
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

/// Polls `probe` until it yields a value, or returns `None` after `timeout`. Pauses grow from 2 ms to 50 ms.
pub async fn until<T, F: Future<Output = Option<T>>>(
    timeout: Duration,
    mut probe: impl FnMut() -> F,
) -> Option<T> {
    let deadline = Instant::now() + timeout;
    let mut pause = FIRST_PAUSE;
    loop {
        if let Some(value) = probe().await {
            return Some(value);
        }
        let left = deadline.checked_duration_since(Instant::now())?;
        tokio::time::sleep(pause.min(left)).await;
        pause = (pause + pause / GROWTH).min(LONGEST_PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_condition_is_polled_until_it_holds_or_the_time_is_over() {
        let mut polls = 0;
        let found = until(Duration::from_secs(60), || {
            polls += 1;
            let holds = (polls == 5).then_some(polls);
            async move { holds }
        });
        assert_eq!(found.await, Some(5));
        let mut polls = 0;
        let never = until(Duration::ZERO, || {
            polls += 1;
            async { None::<()> }
        });
        assert_eq!(never.await, None);
        assert!(polls > 0, "it is polled at least once");
    }
}
