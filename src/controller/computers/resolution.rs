//! Resize of a computer's screens. Its stored resolution follows the boot screen.

use axum::http::Method;

use super::fleet::Fleet;
use super::runner::boot_screen;
use hotdesk_domain::error::{Error, Result};
use hotdesk_guest::{QUICK_TIMEOUT, percent_encode};
use hotdesk_store::fleet::computers::Computer;
use hotdesk_wire::desktop::action::{ResizeScreen, Screen};

impl Fleet {
    /// Resizes a screen; the size of the boot screen is stored. The work continues if the caller disconnects.
    ///
    /// # Errors
    /// The errors of [`Fleet::guest`] and [`Guest::call`](hotdesk_guest::Guest::call); `Unavailable` or `Internal` when the size cannot
    /// be stored. The screen may have the size then.
    pub async fn resize_screen(
        &self,
        computer: &Computer,
        screen: &str,
        size: ResizeScreen,
    ) -> Result<Screen> {
        let guest = self.guest(computer).await?;
        let path = format!("/screens/{}", percent_encode(screen));
        let (store, id) = (self.shared.store.clone(), computer.id);
        let resized = self.shared.tasks.spawn("resize of a screen", async move {
            let screen: Screen = guest.call(Method::PATCH, &path, (), Some(&size), QUICK_TIMEOUT).await?;
            if screen.default {
                boot_screen::store_size(&store, id, &guest).await?;
            }
            Ok(screen)
        });
        let resized = resized.await.map_err(Error::internal)?;
        resized.unwrap_or_else(|| Err(Error::internal("a resize of a screen panicked")))
    }
}
