//! Progress spinner and bar on standard error; hidden when that is no terminal.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// Time between two frames of a spinner: smooth, at a negligible CPU cost.
const FRAME_INTERVAL: Duration = Duration::from_millis(120);

/// A visible spinner or bar; dropping it removes it from the terminal.
pub struct Progress(ProgressBar);

impl Progress {
    /// Shows a spinner with a message and the time that has passed.
    pub fn waiting(message: impl Into<String>) -> Self {
        let bar = ProgressBar::new_spinner().with_message(message.into());
        // The template is a constant and parses; the default style is a fallback without a panic.
        let style = ProgressStyle::with_template("{spinner} {msg} ({elapsed})");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
        bar.enable_steady_tick(FRAME_INTERVAL);
        Self(bar)
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
        Self(bar.with_style(style.progress_chars("=> ")).with_message(message.into()))
    }

    /// Replaces the message of a spinner.
    pub fn set_message(&self, message: impl Into<String>) {
        self.0.set_message(message.into());
    }

    /// Advances the bar by `bytes`.
    pub fn add(&self, bytes: u64) {
        self.0.inc(bytes);
    }

    /// Number of bytes so far.
    pub fn position(&self) -> u64 {
        self.0.position()
    }

    /// Sets the number of bytes; those before it do not count for the rate.
    pub fn skip_to(&self, position: u64) {
        self.0.set_position(position);
        self.0.reset_eta();
    }

    /// Waits until the position has not changed for this long.
    pub async fn stalled(&self, timeout: Duration) {
        loop {
            let before = self.0.position();
            tokio::time::sleep(timeout).await;
            if self.0.position() == before {
                return;
            }
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
