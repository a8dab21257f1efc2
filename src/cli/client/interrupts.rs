//! Signals that ask this program to end.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure::Outcome;

/// Receiver of SIGINT, SIGTERM and SIGHUP; they no longer end this program by themselves.
pub struct Interrupts {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
}

impl Interrupts {
    /// Begins to receive the signals.
    ///
    /// # Errors
    /// When the handlers cannot be installed.
    pub fn receive() -> Outcome<Self> {
        let handler =
            |kind| signal(kind).map_err(|error| format!("cannot handle signals of this program: {error}"));
        Ok(Self {
            interrupt: handler(SignalKind::interrupt())?,
            terminate: handler(SignalKind::terminate())?,
            hang_up: handler(SignalKind::hangup())?,
        })
    }

    /// Waits for a signal; returns the exit code for it, 128 + its number. Cancel-safe.
    pub async fn next(&mut self) -> u8 {
        let kind = tokio::select! {
            _ = self.interrupt.recv() => SignalKind::interrupt(),
            _ = self.terminate.recv() => SignalKind::terminate(),
            _ = self.hang_up.recv() => SignalKind::hangup(),
        };
        u8::try_from(128 + kind.as_raw_value()).unwrap_or(u8::MAX)
    }
}
