//! What moves while something takes long? A spinner or a bar on standard error, only when that is a terminal.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// How often a spinner turns: smooth enough, and nothing for a CPU.
const TURN: Duration = Duration::from_millis(120);

/// Shows that something is under way until it is dropped.
pub struct Progress(ProgressBar);

impl Progress {
    /// A spinner with a sentence.
    pub fn waiting(message: impl Into<String>) -> Self {
        let bar = ProgressBar::new_spinner().with_message(message.into());
        bar.enable_steady_tick(TURN);
        Self(bar)
    }

    /// A bar of bytes; with no known total, a count of them.
    pub fn bytes(message: impl Into<String>, total: Option<u64>) -> Self {
        let (bar, template) = match total {
            Some(total) => (
                ProgressBar::new(total),
                "{msg} [{bar:30}] {bytes}/{total_bytes} {bytes_per_sec}, {eta} left",
            ),
            None => (ProgressBar::new_spinner(), "{msg} {spinner} {bytes} {bytes_per_sec}"),
        };
        // The templates are constants; one that did not parse would show as the default style.
        let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
        Self(bar.with_style(style.progress_chars("=> ")).with_message(message.into()))
    }

    /// So many more bytes went by.
    pub fn add(&self, bytes: u64) {
        self.0.inc(bytes);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
