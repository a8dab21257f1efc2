//! Durations of the phases of an operation on a computer, in the log at level `debug`.

use std::time::Instant;

use crate::ids::ComputerId;

/// Timer of a phase, which runs until this value is dropped. Then a line with its name and its milliseconds
/// is logged, whatever came of it. The filter `info,hotdesk_base::time::phase=debug` shows these lines alone
/// (docs/performance.md); with others a phase costs two readings of the clock.
#[derive(Debug)]
#[must_use = "a phase ends when it is dropped"]
pub struct PhaseTimer {
    computer: ComputerId,
    name: &'static str,
    begun: Instant,
}

impl PhaseTimer {
    /// Begins a phase of an operation on a computer. Phases of one operation may overlap.
    pub fn begin(computer: ComputerId, name: &'static str) -> Self {
        Self { computer, name, begun: Instant::now() }
    }
}

impl Drop for PhaseTimer {
    fn drop(&mut self) {
        let ms = self.begun.elapsed().as_secs_f64() * 1e3;
        tracing::debug!(computer = %self.computer, phase = self.name, ms, "a phase ended");
    }
}
