//! Self-test of clicks: each one arrives exactly once.

use std::time::{Duration, Instant};

use super::outcome::{CheckResult, Measurement, median};
use super::screen::TestScreen;
use crate::display::Press;
use hotdesk_base::wait;
use hotdesk_domain::desktop::pointer::Button;

/// Number of clicks.
const CLICKS: u32 = 101;
/// Timeout for the delivery of the last click.
const ARRIVAL_TIMEOUT: Duration = Duration::from_secs(6);

pub(super) async fn check(target: &TestScreen) -> CheckResult {
    let (x, y) = target.window.middle();
    let press = Press { button: Button::Left, count: 1, modifiers: Vec::new() };
    let mut took = Vec::with_capacity(CLICKS as usize);
    for _ in 0..CLICKS {
        let began = Instant::now();
        target.screen.click(x, y, press.clone()).await?;
        took.push(began.elapsed());
    }
    let all = (CLICKS, CLICKS);
    let delivered =
        wait::until(ARRIVAL_TIMEOUT, || async { (target.window.clicks(Button::Left) == all).then_some(()) })
            .await;
    let (pressed, released) = target.window.clicks(Button::Left);
    Measurement::new("every click was delivered: one press and one release each")
        .with("sent", CLICKS)
        .with("arrived", pressed)
        .with("median_ms", median(took))
        .pass_if(delivered.is_some(), || {
            format!("a window received {pressed} presses and {released} releases of {CLICKS} clicks")
        })
}
