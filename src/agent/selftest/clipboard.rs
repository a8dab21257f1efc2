//! Self-test of the clipboard: a text is read back by the agent and pasted by a program.

use std::time::{Duration, Instant};

use super::outcome::{CheckResult, Measurement, failed, millis};
use super::screen::TestScreen;
use crate::display::{ClipboardItem, Selection};
use hotdesk_base::wait;

/// Size of the long text in bytes.
const LONG: usize = 64 * 1024;
/// A short text in several scripts.
const SHORT: &str = "hotdesk \u{e4}\u{4e00}\u{1f600}";
/// Timeout for a paste.
const ARRIVAL_TIMEOUT: Duration = Duration::from_secs(6);

pub(super) async fn check(target: &TestScreen) -> CheckResult {
    let long: String = ('a'..='z').cycle().take(LONG).collect();
    let mut took = [Duration::ZERO; 2];
    for (text, took) in [SHORT, &long].into_iter().zip(&mut took) {
        let began = Instant::now();
        target.screen.clipboard_set(Selection::Clipboard, ClipboardItem::Text(text.to_owned())).await?;
        let clipboard = target.screen.clipboard_get(Selection::Clipboard).await?;
        *took = began.elapsed();
        if clipboard.content != Some(ClipboardItem::Text(text.to_owned())) {
            return failed(format!(
                "the clipboard returned another text than the {} bytes that were set",
                text.len()
            ));
        }
        target.window.paste();
        let pasted = wait::until(ARRIVAL_TIMEOUT, || async { target.window.pasted() }).await;
        if pasted.as_deref() != Some(text) {
            return failed(match pasted {
                None => format!("a program could not paste a text of {} bytes", text.len()),
                Some(other) => {
                    format!("a program pasted another text: {} bytes instead of {}", other.len(), text.len())
                }
            });
        }
    }
    let [short, long] = took;
    Ok(Measurement::new("a short text and one of 64 KiB were read back, and a program pasted both")
        .with("short_ms", millis(short))
        .with("long_ms", millis(long))
        .with("long_bytes", LONG as f64))
}
