//! Does every click arrive, once?

use std::time::{Duration, Instant};

use super::finding::{Found, Measured, median};
use super::screen::Lit;
use crate::display::Press;
use hotdesk_base::wait;
use hotdesk_domain::pointer::Button;

/// How many clicks.
const CLICKS: u32 = 101;
/// How long the last one may take to arrive.
const ARRIVAL: Duration = Duration::from_secs(6);

pub(super) async fn check(lit: &Lit) -> Found {
    let (x, y) = lit.receiver.middle();
    let press = Press { button: Button::Left, count: 1, modifiers: Vec::new() };
    let mut took = Vec::with_capacity(CLICKS as usize);
    for _ in 0..CLICKS {
        let began = Instant::now();
        lit.screen.click(x, y, press.clone()).await?;
        took.push(began.elapsed());
    }
    let all = (CLICKS, CLICKS);
    let arrived =
        wait::until(ARRIVAL, || async { (lit.receiver.clicks(Button::Left) == all).then_some(()) }).await;
    let (pressed, released) = lit.receiver.clicks(Button::Left);
    Measured::new("every click arrived, pressed and released once")
        .with("sent", CLICKS)
        .with("arrived", pressed)
        .with("median_ms", median(took))
        .only_if(arrived.is_some(), || {
            format!("of {CLICKS} clicks {pressed} were pressed and {released} released")
        })
}
