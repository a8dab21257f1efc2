//! Does every step of the wheel arrive, in its direction?

use std::time::{Duration, Instant};

use super::finding::{Found, Measured, millis};
use super::screen::Lit;
use crate::display::Wheel;
use hotdesk_base::wait;
use hotdesk_domain::pointer::Direction;

/// Steps each way.
const STEPS: [(Direction, u32); 4] =
    [(Direction::Down, 40), (Direction::Up, 30), (Direction::Right, 20), (Direction::Left, 10)];
/// How long the last one may take to arrive.
const ARRIVAL: Duration = Duration::from_secs(6);

pub(super) async fn check(lit: &Lit) -> Found {
    let (x, y) = lit.receiver.middle();
    let began = Instant::now();
    for (direction, steps) in STEPS {
        let turn =
            Wheel { direction, amount: f64::from(steps), duration: Duration::ZERO, modifiers: Vec::new() };
        lit.screen.scroll(turn, Some(x), Some(y)).await?;
    }
    let took = began.elapsed();
    let here = || STEPS.map(|(direction, _)| lit.receiver.steps(direction));
    let sent = STEPS.map(|(_, steps)| steps);
    let arrived = wait::until(ARRIVAL, || async { (here() == sent).then_some(()) }).await;
    Measured::new("every step arrived, down, up, right and left")
        .with("sent", sent.iter().sum::<u32>())
        .with("arrived", here().iter().sum::<u32>())
        .with("took_ms", millis(took))
        .only_if(arrived.is_some(), || {
            format!("of {sent:?} steps down, up, right and left {:?} arrived", here())
        })
}
