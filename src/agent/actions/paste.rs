//! How is a long text put into a program at once? Through the clipboard, which gets back what it held.

use std::sync::Arc;
use std::time::Duration;

use super::delivered;
use crate::display::{Content, Effect, Loan, Observed, Screen, Selection, keys};
use hotdesk_domain::error::Result;

/// The key that pastes in every toolkit: GTK, Qt and browsers take the clipboard by it, terminals the primary selection.
const PASTE_KEY: &str = "shift+Insert";
/// How long a program may take to fetch the text: a person would have looked up by then.
const FETCH_TIMEOUT: Duration = Duration::from_secs(3);
/// What a program that asks twice (once for each of two forms) gets before the clipboard changes again.
const GRACE: Duration = Duration::from_millis(100);

/// Pastes a text into the program that has the keyboard; false when no program took it.
///
/// # Errors
/// `Invalid` or `TooLarge` for a text that no clipboard holds; what the screen or its clipboard fails with.
pub(super) async fn paste(screen: &Arc<Screen>, text: String) -> Result<Observed<bool>> {
    let content = Content::Text(text);
    let clipboard = screen.clipboard_lend(Selection::Clipboard, content.clone()).await?;
    let primary = match screen.clipboard_lend(Selection::Primary, content).await {
        Ok(primary) => primary,
        Err(error) => {
            screen.clipboard_give_back(clipboard).await?;
            return Err(error);
        }
    };
    let pasted = press(screen, clipboard, primary).await;
    let (done, clipboard, primary) = pasted;
    // Also after a failure: what was there comes back.
    let back = screen.clipboard_give_back(clipboard).await;
    let chosen_back = screen.clipboard_give_back(primary).await;
    let done = done?;
    back.and(chosen_back).map_err(delivered)?;
    Ok(done)
}

async fn press(
    screen: &Arc<Screen>,
    mut clipboard: Loan,
    mut primary: Loan,
) -> (Result<Observed<bool>>, Loan, Loan) {
    let (held, chosen) = (clipboard.fetches(), primary.fetches());
    let chord = match keys::parse(PASTE_KEY) {
        Ok(chord) => chord,
        Err(error) => return (Err(error), clipboard, primary),
    };
    let pressed = match screen.press(vec![chord], Duration::ZERO).await {
        Ok(pressed) => pressed,
        Err(error) => return (Err(error), clipboard, primary),
    };
    let taken = tokio::select! {
        taken = clipboard.fetched_beyond(held, FETCH_TIMEOUT) => taken,
        taken = primary.fetched_beyond(chosen, FETCH_TIMEOUT) => taken,
    };
    if taken {
        tokio::time::sleep(GRACE).await;
    }
    let observed = observe(screen, pressed.effect).await.map(|effect| Observed { value: taken, effect });
    (observed.map_err(delivered), clipboard, primary)
}

/// What could be seen since the key was pressed.
async fn observe(screen: &Screen, pressed: Effect) -> Result<Effect> {
    let now = screen.look_around().await?;
    let change = screen.change_since(pressed.since).await?;
    Ok(Effect { after: now.after, change, ..pressed })
}
