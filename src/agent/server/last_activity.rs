//! Since when has nothing moved?

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

/// When something moved last: at first, when this was made. Noting costs a clock and a store.
#[derive(Debug)]
pub struct Quiet {
    began: Instant,
    /// Milliseconds after `began`.
    last: AtomicU64,
}

impl Default for Quiet {
    fn default() -> Self {
        Self { began: Instant::now(), last: AtomicU64::new(0) }
    }
}

impl Quiet {
    /// Something moved now.
    pub fn note(&self) {
        let elapsed = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last.store(elapsed, Ordering::Relaxed);
    }

    /// For how long nothing has moved.
    pub fn length(&self) -> Duration {
        self.began.elapsed().saturating_sub(Duration::from_millis(self.last.load(Ordering::Relaxed)))
    }

    /// Waits until nothing has moved for a time.
    pub async fn lasts(&self, patience: Duration) {
        loop {
            let length = self.length();
            if length >= patience {
                return;
            }
            tokio::time::sleep(patience - length).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_moves_is_not_idle() {
        let quiet = Quiet::default();
        let patience = Duration::from_millis(300);
        let moving = async {
            for _ in 0..10 {
                tokio::time::sleep(Duration::from_millis(50)).await;
                quiet.note();
            }
        };
        let began = Instant::now();
        tokio::join!(moving, quiet.lasts(patience));
        assert!(began.elapsed() >= Duration::from_millis(10 * 50) + patience - Duration::from_millis(1));
    }
}
