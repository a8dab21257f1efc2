//! Attempts of a stream of bytes whose connection breaks.

use std::time::Duration;

use crate::failure::{Failure, Outcome};
use hotdesk_base::backoff::Backoff;

/// Attempts in a row without progress; with the pauses between them about a minute, in which a server restarts.
const MAX_ATTEMPTS: u32 = 12;
/// First pause.
const LEAST_PAUSE: Duration = Duration::from_millis(500);
/// Longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(8);

/// Why an attempt ended early.
pub enum Interruption {
    /// The connection failed; another attempt may succeed.
    Connection(Failure),
    /// Another attempt cannot succeed.
    Final(Failure),
}

impl<T: Into<Failure>> From<T> for Interruption {
    fn from(failure: T) -> Self {
        Self::Final(failure.into())
    }
}

/// Count of attempts without progress.
pub struct Attempts {
    position: u64,
    failed: u32,
    pauses: Backoff,
}

impl Attempts {
    /// No attempt yet, at this number of transferred bytes.
    pub fn from(position: u64) -> Self {
        Self { position, failed: 0, pauses: Self::pauses() }
    }

    fn pauses() -> Backoff {
        Backoff::new(LEAST_PAUSE, LONGEST_PAUSE, Duration::MAX)
    }

    /// Waits before the next attempt. `position` is the number of bytes that are transferred by now.
    ///
    /// # Errors
    /// When the interruption is final, or this was the last attempt.
    pub async fn next(&mut self, interruption: Interruption, position: u64) -> Outcome<()> {
        let failure = match interruption {
            Interruption::Final(failure) => return Err(failure),
            Interruption::Connection(failure) => failure,
        };
        if position > self.position {
            *self = Self::from(position);
        }
        self.failed += 1;
        if self.failed == MAX_ATTEMPTS {
            return Err(failure);
        }
        tokio::time::sleep(self.pauses.after(Duration::ZERO)).await;
        Ok(())
    }
}
