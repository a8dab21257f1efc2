//! Text input by pasting: through the clipboard, whose content is restored afterwards.

use std::sync::Arc;
use std::time::Duration;

use super::after_delivery;
use crate::display::{ClipboardItem, Effect, Observation, Screen, Selection, TemporaryContent, keys};
use hotdesk_domain::error::Result;

/// Key that pastes in every toolkit: GTK, Qt and browsers paste the clipboard, terminals the primary
/// selection.
const PASTE_KEY: &str = "shift+Insert";
/// How long a program may take to fetch the text; a user would have noticed a longer delay.
const FETCH_TIMEOUT: Duration = Duration::from_secs(3);
/// Delay before the clipboard is restored, for a program that fetches twice (for two formats).
const GRACE: Duration = Duration::from_millis(100);

/// Pastes a text into the focused program; the value is false when no program fetched it.
///
/// # Errors
/// `Invalid` or `TooLarge` for a text that the clipboard does not accept; those of the screen and its
/// clipboard.
pub(super) async fn paste(screen: &Arc<Screen>, text: String) -> Result<Observation<bool>> {
    let content = ClipboardItem::Text(text);
    let clipboard = screen.clipboard_set_temporarily(Selection::Clipboard, content.clone()).await?;
    let primary = match screen.clipboard_set_temporarily(Selection::Primary, content).await {
        Ok(primary) => primary,
        Err(error) => {
            screen.clipboard_restore(clipboard).await?;
            return Err(error);
        }
    };
    let pasted = press(screen, clipboard, primary).await;
    let (done, clipboard, primary) = pasted;
    // The clipboard is restored also after a failure.
    let clipboard_restored = screen.clipboard_restore(clipboard).await;
    let primary_restored = screen.clipboard_restore(primary).await;
    let done = done?;
    clipboard_restored.and(primary_restored).map_err(after_delivery)?;
    Ok(done)
}

async fn press(
    screen: &Arc<Screen>,
    mut clipboard: TemporaryContent,
    mut primary: TemporaryContent,
) -> (Result<Observation<bool>>, TemporaryContent, TemporaryContent) {
    let (clipboard_fetches, primary_fetches) = (clipboard.fetches(), primary.fetches());
    let chord = match keys::parse(PASTE_KEY) {
        Ok(chord) => chord,
        Err(error) => return (Err(error), clipboard, primary),
    };
    let pressed = match screen.press(vec![chord], Duration::ZERO).await {
        Ok(pressed) => pressed,
        Err(error) => return (Err(error), clipboard, primary),
    };
    let taken = tokio::select! {
        taken = clipboard.wait_for_fetch_after(clipboard_fetches, FETCH_TIMEOUT) => taken,
        taken = primary.wait_for_fetch_after(primary_fetches, FETCH_TIMEOUT) => taken,
    };
    if taken {
        tokio::time::sleep(GRACE).await;
    }
    let observed = observe(screen, pressed.effect).await.map(|effect| Observation { value: taken, effect });
    (observed.map_err(after_delivery), clipboard, primary)
}

/// Observes the effect since the key was pressed.
async fn observe(screen: &Screen, pressed: Effect) -> Result<Effect> {
    let now = screen.observe_current().await?;
    let change = screen.change_since(pressed.since).await?;
    Ok(Effect { after: now.after, change, ..pressed })
}
