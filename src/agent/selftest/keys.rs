//! Self-test of keys: chords arrive with their modifiers, and no key stays pressed.

use std::time::{Duration, Instant};

use super::outcome::{CheckResult, Measurement, failed, millis};
use super::screen::TestScreen;
use crate::display::keys::{Chord, parse};
use hotdesk_base::wait;
use hotdesk_domain::error::Result;

/// Chords that our window managers do not use themselves.
const CHORDS: [&str; 8] =
    ["ctrl+a", "ctrl+shift+k", "alt+x", "shift+F6", "ctrl+Page_Up", "super+j", "Enter", "F5"];
/// Timeout for the delivery of the last chord.
const ARRIVAL_TIMEOUT: Duration = Duration::from_secs(6);

pub(super) async fn check(target: &TestScreen) -> CheckResult {
    let chords: Vec<Chord> = CHORDS.iter().map(|text| parse(text)).collect::<Result<_>>()?;
    target.window.forget_keys();
    let began = Instant::now();
    target.screen.press(chords.clone(), Duration::ZERO).await?;
    let took = began.elapsed();
    let is_complete = || target.window.chords() == chords && target.window.keys_down() == 0;
    let delivered = wait::until(ARRIVAL_TIMEOUT, || async { is_complete().then_some(()) }).await;
    let got = target.window.chords();
    let measurement =
        Measurement::new(format!("{} were delivered, and all keys were released", CHORDS.join(", ")))
            .with("sent", chords.len() as f64)
            .with("arrived", got.len() as f64)
            .with("took_ms", millis(took));
    if delivered.is_some() {
        let held = target.screen.pointer().await?.modifiers;
        return measurement.pass_if(held.is_empty(), || format!("still pressed: {}", held.join(", ")));
    }
    let Some(at) = (0..chords.len()).find(|at| got.get(*at) != chords.get(*at)) else {
        return failed(format!("{} keys are still pressed", target.window.keys_down()));
    };
    measurement.pass_if(false, || {
        let instead = got.get(at).map_or_else(|| "no chord".to_owned(), |chord| format!("{chord:?}"));
        format!("a window received {instead} instead of {}", CHORDS[at])
    })
}
