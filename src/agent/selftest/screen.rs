//! Self-test of screens: a screen starts, and a program can open a window on it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::outcome::{Measurement, NotPassed, millis};
use crate::display::{HiddenScreen, Screen, TestWindow};

/// Hidden screen with the window that receives all input.
pub(super) struct TestScreen {
    pub(super) screen: Arc<Screen>,
    pub(super) window: TestWindow,
}

/// Waits until the screen is ready, for at most `timeout`, and opens the window.
///
/// # Errors
/// `Failed` when the screen does not start or the window does not open.
pub(super) async fn open(
    hidden: &HiddenScreen,
    timeout: Duration,
) -> Result<(TestScreen, Measurement), NotPassed> {
    let began = Instant::now();
    let screen = hidden.screen();
    screen.ready(timeout).await?;
    let ready_after = began.elapsed();
    let window = TestWindow::open(&screen).await?;
    let size = screen.size();
    let measurement = Measurement::new(format!("a screen of {}x{} with a window", size.width, size.height))
        .with("up_ms", millis(ready_after))
        .with("window_ms", millis(began.elapsed().saturating_sub(ready_after)));
    Ok((TestScreen { screen, window }, measurement))
}
