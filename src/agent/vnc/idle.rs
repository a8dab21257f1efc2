//! Since when has nothing moved?

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

/// When something moved last. Noting costs a clock and a store.
#[derive(Debug)]
pub(super) struct Activity {
    began: Instant,
    /// Milliseconds after `began`.
    last: AtomicU64,
}

impl Default for Activity {
    fn default() -> Self {
        Self { began: Instant::now(), last: AtomicU64::new(0) }
    }
}

impl Activity {
    /// Something moved now.
    pub(super) fn note(&self) {
        let elapsed = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last.store(elapsed, Ordering::Relaxed);
    }

    /// Waits until nothing has moved for a time.
    pub(super) async fn lacking_for(&self, patience: Duration) {
        loop {
            let last = Duration::from_millis(self.last.load(Ordering::Relaxed));
            if self.began.elapsed().saturating_sub(last) >= patience {
                return;
            }
            tokio::time::sleep_until(self.began + last + patience).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_moves_is_not_idle() {
        let activity = Activity::default();
        let patience = Duration::from_millis(300);
        let moving = async {
            for _ in 0..10 {
                tokio::time::sleep(Duration::from_millis(50)).await;
                activity.note();
            }
        };
        let began = Instant::now();
        tokio::join!(moving, activity.lacking_for(patience));
        assert!(began.elapsed() >= Duration::from_millis(10 * 50) + patience - Duration::from_millis(1));
    }
}
