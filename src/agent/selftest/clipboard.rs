//! Does what is put on the clipboard come back, to us and to a program that pastes?

use std::time::{Duration, Instant};

use super::finding::{Found, Measured, failed, millis};
use super::screen::Lit;
use crate::display::{Content, Selection};
use hotdesk_base::wait;

/// Size of the long text.
const LONG: usize = 64 * 1024;
/// A short text of several scripts.
const SHORT: &str = "hotdesk \u{e4}\u{4e00}\u{1f600}";
/// How long a paste may take.
const ARRIVAL: Duration = Duration::from_secs(6);

pub(super) async fn check(lit: &Lit) -> Found {
    let long: String = ('a'..='z').cycle().take(LONG).collect();
    let mut took = [Duration::ZERO; 2];
    for (text, took) in [SHORT, &long].into_iter().zip(&mut took) {
        let began = Instant::now();
        lit.screen.clipboard_set(Selection::Clipboard, Content::Text(text.to_owned())).await?;
        let seen = lit.screen.clipboard_get(Selection::Clipboard).await?;
        *took = began.elapsed();
        if seen.content != Some(Content::Text(text.to_owned())) {
            return failed(format!("a text of {} bytes came back as another", text.len()));
        }
        lit.receiver.paste();
        let pasted = wait::until(ARRIVAL, || async { lit.receiver.pasted() }).await;
        if pasted.as_deref() != Some(text) {
            return failed(match pasted {
                None => format!("a program could not paste a text of {} bytes", text.len()),
                Some(other) => format!("a program pasted {} bytes of {}", other.len(), text.len()),
            });
        }
    }
    let [short, long] = took;
    Ok(Measured::new("a short text and one of 64 KiB came back, and a program pasted both")
        .with("short_ms", millis(short))
        .with("long_ms", millis(long))
        .with("long_bytes", LONG as f64))
}
