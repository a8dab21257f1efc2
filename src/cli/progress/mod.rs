//! Progress spinner and bar on standard error; hidden when that is no terminal.

use std::fmt;
use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressState, ProgressStyle};

mod durations;

/// Time between two frames of a spinner: smooth, at a negligible CPU cost.
const FRAME_INTERVAL: Duration = Duration::from_millis(120);

/// A visible spinner or bar; dropping it removes it from the terminal.
pub struct Progress {
    bar: ProgressBar,
    /// Name and beginning of an operation whose duration is recorded.
    operation: Option<(&'static str, Instant)>,
}

impl Progress {
    /// Shows a spinner with a message and the time that has passed.
    pub fn waiting(message: impl Into<String>) -> Self {
        let bar = ProgressBar::new_spinner().with_message(message.into());
        // The template is a constant and parses; the default style is a fallback without a panic.
        let style = ProgressStyle::with_template("{spinner} {msg} ({elapsed})");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
        bar.enable_steady_tick(FRAME_INTERVAL);
        Self { bar, operation: None }
    }

    /// Shows a spinner like [`Self::waiting`], and the time left by the durations of earlier operations of
    /// this name.
    pub fn operation(name: &'static str, message: impl Into<String>) -> Self {
        let mut progress = Self::waiting(message);
        if let Some(expected) = durations::expected(name) {
            let left = move |state: &ProgressState, out: &mut dyn fmt::Write| {
                // A terminal's line that cannot be written is not shown.
                let _written = out.write_str(&time_left(expected, state.elapsed()));
            };
            let style = ProgressStyle::with_template("{spinner} {msg} ({elapsed}{left})");
            let style = style.unwrap_or_else(|_| ProgressStyle::default_spinner());
            progress.bar.set_style(style.with_key("left", left));
        }
        progress.operation = Some((name, Instant::now()));
        progress
    }

    /// Removes the spinner of an operation that succeeded, whose duration counts for the next estimate.
    pub fn complete(mut self) {
        let Some((name, began)) = self.operation.take() else { return };
        if io::stderr().is_terminal() {
            // Without the record the next operation shows no estimate, which is no reason for an error.
            drop(durations::record(name, began.elapsed()));
        }
    }

    /// Shows a bar of bytes, or a byte counter when the total is unknown.
    pub fn bytes(message: impl Into<String>, total: Option<u64>) -> Self {
        let (bar, template) = match total {
            Some(total) => (
                ProgressBar::new(total),
                "{msg} [{bar:30}] {bytes}/{total_bytes} {bytes_per_sec}, {eta} left",
            ),
            None => (ProgressBar::new_spinner(), "{msg} {spinner} {bytes} {bytes_per_sec}"),
        };
        // The templates are constants and parse; the default style is a fallback without a panic.
        let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
        let bar = bar.with_style(style.progress_chars("=> ")).with_message(message.into());
        Self { bar, operation: None }
    }

    /// Replaces the message of a spinner.
    pub fn set_message(&self, message: impl Into<String>) {
        self.bar.set_message(message.into());
    }

    /// Advances the bar by `bytes`.
    pub fn add(&self, bytes: u64) {
        self.bar.inc(bytes);
    }

    /// Number of bytes so far.
    pub fn position(&self) -> u64 {
        self.bar.position()
    }

    /// Sets the number of bytes; those before it do not count for the rate.
    pub fn skip_to(&self, position: u64) {
        self.bar.set_position(position);
        self.bar.reset_eta();
    }

    /// Waits until the position has not changed for this long.
    pub async fn stalled(&self, timeout: Duration) {
        loop {
            let before = self.bar.position();
            tokio::time::sleep(timeout).await;
            if self.bar.position() == before {
                return;
            }
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// Time left of an operation, behind the time that has passed.
fn time_left(expected: Duration, elapsed: Duration) -> String {
    match expected.checked_sub(elapsed) {
        Some(left) => format!(", about {} s left", left.as_secs() + 1),
        None => ", longer than usual".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left_is_what_earlier_operations_needed() {
        for (expected, elapsed, text) in [
            (9000, 0, ", about 10 s left"),
            (9000, 4500, ", about 5 s left"),
            (9000, 8999, ", about 1 s left"),
            (9000, 9001, ", longer than usual"),
        ] {
            let left = time_left(Duration::from_millis(expected), Duration::from_millis(elapsed));
            assert_eq!(left, text, "{expected} {elapsed}");
        }
    }
}
