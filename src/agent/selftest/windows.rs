//! Self-test of the window manager: it manages a new window.

use std::time::{Duration, Instant};

use super::outcome::{CheckResult, Measurement, failed, millis, skipped};
use super::screen::TestScreen;
use crate::display::TEST_WINDOW_TITLE;
use hotdesk_base::wait;
use hotdesk_wire::desktop::window::Window;

/// How long a window may take to be listed with all its properties: its manager draws a frame first.
const LIST_TIMEOUT: Duration = Duration::from_secs(6);

/// `managed`: whether screens should have a window manager.
pub(super) async fn check(target: &TestScreen, managed: bool) -> CheckResult {
    if !managed {
        return skipped("this computer's screens have no window manager");
    }
    let listed = || async {
        let all = target.screen.windows().await;
        all.map(|all| all.into_iter().find(|window| window.title == TEST_WINDOW_TITLE))
    };
    let (x, y) = target.window.middle();
    let is_correct = |window: &Window| {
        let middle = (
            f64::from(window.x) + f64::from(window.width / 2),
            f64::from(window.y) + f64::from(window.height / 2),
        );
        middle == (x, y) && window.pid == Some(std::process::id()) && window.focused
    };
    let complete = wait::until(LIST_TIMEOUT, || async {
        match listed().await {
            Ok(window) => window.filter(is_correct).map(Ok),
            Err(error) => Some(Err(error)),
        }
    });
    complete.await.transpose()?;
    let began = Instant::now();
    let Some(window) = listed().await? else {
        return failed("a new window is not listed: no window manager manages it");
    };
    Measurement::new("the window is listed where it is, with its program, and has the keyboard focus")
        .with("list_ms", millis(began.elapsed()))
        .pass_if(is_correct(&window), || {
            format!("the window is listed wrongly: {window:?} instead of one with its middle at ({x}, {y})")
        })
}
