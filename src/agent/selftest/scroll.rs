//! Self-test of scrolling: each wheel step arrives, in its direction.

use std::time::{Duration, Instant};

use super::outcome::{CheckResult, Measurement, millis};
use super::screen::TestScreen;
use crate::display::Wheel;
use hotdesk_base::wait;
use hotdesk_domain::desktop::pointer::Direction;

/// Steps in each direction.
const STEPS: [(Direction, u32); 4] =
    [(Direction::Down, 40), (Direction::Up, 30), (Direction::Right, 20), (Direction::Left, 10)];
/// Timeout for the delivery of the last step.
const ARRIVAL_TIMEOUT: Duration = Duration::from_secs(6);

pub(super) async fn check(target: &TestScreen) -> CheckResult {
    let (x, y) = target.window.middle();
    let began = Instant::now();
    for (direction, steps) in STEPS {
        let wheel =
            Wheel { direction, amount: f64::from(steps), duration: Duration::ZERO, modifiers: Vec::new() };
        target.screen.scroll(wheel, Some(x), Some(y)).await?;
    }
    let took = began.elapsed();
    let received = || STEPS.map(|(direction, _)| target.window.steps(direction));
    let sent = STEPS.map(|(_, steps)| steps);
    let delivered = wait::until(ARRIVAL_TIMEOUT, || async { (received() == sent).then_some(()) }).await;
    Measurement::new("every step was delivered, down, up, right and left")
        .with("sent", sent.iter().sum::<u32>())
        .with("arrived", received().iter().sum::<u32>())
        .with("took_ms", millis(took))
        .pass_if(delivered.is_some(), || {
            format!("a window received {:?} of {sent:?} steps down, up, right and left", received())
        })
}
