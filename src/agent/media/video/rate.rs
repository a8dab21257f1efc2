//! Rule of a video's rate: how many frames and bits a second its encoder makes, by how late viewers get them.
//!
//! ```text
//!   8 Mbit/s, 30 frames  --late-->  4 Mbit/s, 30  --late-->  2 Mbit/s, 20  --late-->  1 Mbit/s, 10
//!                       <-in time-               <-in time-               <-in time-
//! ```

use std::time::Duration;

/// Frames and bits a second of an encoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct VideoRate {
    /// Frames a second.
    pub(super) fps: u32,
    /// At most so many thousand bits a second.
    pub(super) kbits: u32,
}

/// The rates, the best one first. Beyond 8 Mbit/s the picture gets worse, because more would wait in the
/// network. Each step halves the bits; from 2 Mbit/s on there are fewer frames, so that text in one stays
/// readable.
const RATES: [VideoRate; 4] = [
    VideoRate { fps: 30, kbits: 8000 },
    VideoRate { fps: 30, kbits: 4000 },
    VideoRate { fps: 20, kbits: 2000 },
    VideoRate { fps: 10, kbits: 1000 },
];
/// Lag from which a video is late: a person who acts on what was there a second ago misses.
const LATE: Duration = Duration::from_secs(1);
/// Lag up to which a video is in time: the round trip around the world, and the time between two reports.
const IN_TIME: Duration = Duration::from_millis(400);
/// Late notes in a row after which the rate is lowered: one alone is a hitch.
const LATE_NOTES: u32 = 2;
/// Notes after a change that do not count: three seconds, in which what was coded before arrives.
const SETTLE_NOTES: u32 = 6;
/// Notes in time in a row after which the rate is raised: ten seconds, because a change begins another
/// encoder, and there are no frames meanwhile.
const IN_TIME_NOTES: u32 = 20;
/// Most of them, two minutes: they double whenever a raised rate was too much.
const MAX_IN_TIME_NOTES: u32 = 240;

/// Control of the rate of one source. It is told the lag twice a second.
#[derive(Debug)]
pub(super) struct RateControl {
    /// Index of the rate.
    step: usize,
    late: u32,
    in_time: u32,
    settle: u32,
    /// Notes in time that the next higher rate needs.
    needed: u32,
    /// Whether the rate was raised and is not proven yet.
    is_trial: bool,
}

impl Default for RateControl {
    /// The best rate.
    fn default() -> Self {
        Self { step: 0, late: 0, in_time: 0, settle: 0, needed: IN_TIME_NOTES, is_trial: false }
    }
}

impl RateControl {
    /// The present rate.
    pub(super) fn rate(&self) -> VideoRate {
        RATES[self.step]
    }

    /// Notes how late the video is, `None` when no viewer reports. Returns whether the rate changed.
    pub(super) fn note(&mut self, lag: Option<Duration>) -> bool {
        if self.settle > 0 {
            self.settle -= 1;
            return false;
        }
        let lag = lag.unwrap_or_default();
        self.late = if lag >= LATE { self.late + 1 } else { 0 };
        self.in_time = if lag <= IN_TIME { self.in_time.saturating_add(1) } else { 0 };
        if self.is_trial && self.in_time >= IN_TIME_NOTES {
            (self.is_trial, self.needed) = (false, IN_TIME_NOTES);
        }
        if self.late >= LATE_NOTES && self.step + 1 < RATES.len() {
            if self.is_trial {
                self.needed = (2 * self.needed).min(MAX_IN_TIME_NOTES);
            }
            self.change(self.step + 1, false);
            return true;
        }
        if self.in_time >= self.needed && self.step > 0 {
            self.change(self.step - 1, true);
            return true;
        }
        false
    }

    fn change(&mut self, step: usize, is_trial: bool) {
        (self.step, self.is_trial) = (step, is_trial);
        (self.late, self.in_time, self.settle) = (0, 0, SETTLE_NOTES);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_follows_the_lag() {
        // Milliseconds of lag, how often, and the bits after that.
        let table: &[(Option<u64>, u32, u32)] = &[
            (Some(100), 1000, 8000),
            (Some(1000), 1, 8000),
            (Some(600), 1, 8000),
            (Some(1000), 1, 8000),
            (Some(1000), 1, 4000),
            // It settles first.
            (Some(5000), SETTLE_NOTES + 1, 4000),
            (Some(5000), 1, 2000),
            (Some(5000), SETTLE_NOTES + LATE_NOTES, 1000),
            (Some(5000), 1000, 1000),
            // Neither late nor in time.
            (Some(600), 1000, 1000),
            (Some(400), IN_TIME_NOTES - 1, 1000),
            (Some(600), 1, 1000),
            (Some(400), IN_TIME_NOTES, 2000),
            // Too much: the next attempt is later.
            (Some(1000), SETTLE_NOTES + LATE_NOTES, 1000),
            (Some(0), SETTLE_NOTES + 2 * IN_TIME_NOTES - 1, 1000),
            (Some(0), 1, 2000),
            (Some(1000), SETTLE_NOTES + LATE_NOTES, 1000),
            (Some(0), SETTLE_NOTES + 4 * IN_TIME_NOTES - 1, 1000),
            (Some(0), 1, 2000),
            // Proven: the next step needs ten seconds again.
            (Some(0), SETTLE_NOTES + IN_TIME_NOTES, 4000),
            // Nobody reports.
            (None, SETTLE_NOTES + IN_TIME_NOTES, 8000),
            (None, 1000, 8000),
        ];
        let mut control = RateControl::default();
        for (number, (lag, count, kbits)) in table.iter().enumerate() {
            for _ in 0..*count {
                control.note(lag.map(Duration::from_millis));
            }
            assert_eq!(control.rate().kbits, *kbits, "row {number}");
        }
    }

    #[test]
    fn attempts_become_rare_but_do_not_end() {
        let mut control = RateControl::default();
        for _ in 0..LATE_NOTES {
            control.note(Some(LATE));
        }
        for _ in 0..20 {
            let mut notes = 0;
            while !control.note(Some(Duration::ZERO)) {
                notes += 1;
                assert!(notes <= SETTLE_NOTES + MAX_IN_TIME_NOTES);
            }
            while !control.note(Some(LATE)) {}
            assert_eq!(control.rate(), RATES[1]);
        }
        assert_eq!(control.needed, MAX_IN_TIME_NOTES);
    }
}
