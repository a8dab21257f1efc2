//! Time of the last activity of a connection or a group of them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

/// Time of the last activity; at first, its own creation. A [`Self::touch`] costs a clock read and a store.
#[derive(Debug)]
pub struct LastActivity {
    began: Instant,
    /// Milliseconds after `began`.
    last: AtomicU64,
}

impl Default for LastActivity {
    fn default() -> Self {
        Self { began: Instant::now(), last: AtomicU64::new(0) }
    }
}

impl LastActivity {
    /// Records activity now.
    pub fn touch(&self) {
        let elapsed = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last.store(elapsed, Ordering::Relaxed);
    }

    /// Time since the last activity.
    pub fn idle_for(&self) -> Duration {
        self.began.elapsed().saturating_sub(Duration::from_millis(self.last.load(Ordering::Relaxed)))
    }

    /// Waits until there was no activity for `timeout`.
    pub async fn wait_idle(&self, timeout: Duration) {
        loop {
            let length = self.idle_for();
            if length >= timeout {
                return;
            }
            tokio::time::sleep(timeout - length).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn activity_postpones_the_end_of_the_wait() {
        let activity = LastActivity::default();
        let timeout = Duration::from_millis(300);
        let moving = async {
            for _ in 0..10 {
                tokio::time::sleep(Duration::from_millis(50)).await;
                activity.touch();
            }
        };
        let began = Instant::now();
        tokio::join!(moving, activity.wait_idle(timeout));
        assert!(began.elapsed() >= Duration::from_millis(10 * 50) + timeout - Duration::from_millis(1));
    }
}
