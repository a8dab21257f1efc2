//! Size of a computer's boot screen, as its agent reports it and the store has it.

use axum::http::Method;

use hotdesk_base::ids::ComputerId;
use hotdesk_domain::desktop::resolution::Size;
use hotdesk_domain::error::Result;
use hotdesk_guest::{Guest, QUICK_TIMEOUT};
use hotdesk_store::Store;
use hotdesk_wire::desktop::action::ScreenList;

/// Attempts to store a size that changes meanwhile: enough for concurrent resizes, and few for an agent that
/// reports another size each time.
const ATTEMPTS: usize = 8;

/// Stores the size of a computer's boot screen. An agent without screens changes nothing.
///
/// # Errors
/// Those of [`Guest::call`]; `Invalid` for a size out of range; `Unavailable` or `Internal` when the store
/// fails.
pub(in crate::computers) async fn store_size(
    store: &Store,
    computer: ComputerId,
    guest: &Guest,
) -> Result<()> {
    let mut stored = None;
    for _ in 0..ATTEMPTS {
        // Read again after each write, so that of concurrent resizes the last size remains.
        let list: ScreenList = guest.call(Method::GET, "/screens", (), None::<&()>, QUICK_TIMEOUT).await?;
        let Some(boot) = list.screens.iter().find(|screen| screen.default) else { return Ok(()) };
        let size = Size::new(boot.width, boot.height)?;
        if stored == Some(size) {
            return Ok(());
        }
        store.set_screen_size(computer, size).await?;
        stored = Some(size);
    }
    Ok(())
}
