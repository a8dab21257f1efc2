//! Do keys and chords arrive with what is held, and does nothing stay down?

use std::time::{Duration, Instant};

use super::finding::{Found, Measured, failed, millis};
use super::screen::Lit;
use crate::display::keys::{Chord, parse};
use hotdesk_base::wait;
use hotdesk_domain::error::Result;

/// Chords that no window manager of ours takes for itself.
const CHORDS: [&str; 8] =
    ["ctrl+a", "ctrl+shift+k", "alt+x", "shift+F6", "ctrl+Page_Up", "super+j", "Enter", "F5"];
/// How long the last one may take to arrive.
const ARRIVAL: Duration = Duration::from_secs(6);

pub(super) async fn check(lit: &Lit) -> Found {
    let chords: Vec<Chord> = CHORDS.iter().map(|text| parse(text)).collect::<Result<_>>()?;
    lit.receiver.forget_keys();
    let began = Instant::now();
    lit.screen.press(chords.clone(), Duration::ZERO).await?;
    let took = began.elapsed();
    let whole = || lit.receiver.chords() == chords && lit.receiver.keys_down() == 0;
    let arrived = wait::until(ARRIVAL, || async { whole().then_some(()) }).await;
    let got = lit.receiver.chords();
    let measured = Measured::new(format!("{} arrived, and nothing stayed down", CHORDS.join(", ")))
        .with("sent", chords.len() as f64)
        .with("arrived", got.len() as f64)
        .with("took_ms", millis(took));
    if arrived.is_some() {
        let held = lit.screen.pointer().await?.modifiers;
        return measured.only_if(held.is_empty(), || format!("still held: {}", held.join(", ")));
    }
    let Some(at) = (0..chords.len()).find(|at| got.get(*at) != chords.get(*at)) else {
        return failed(format!("{} keys are still down", lit.receiver.keys_down()));
    };
    measured.only_if(false, || {
        let instead = got.get(at).map_or_else(|| "nothing".to_owned(), |chord| format!("{chord:?}"));
        format!("instead of {} came {instead}", CHORDS[at])
    })
}
