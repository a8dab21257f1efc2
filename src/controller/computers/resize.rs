//! Resizes of a computer's hardware and of its screens. The hardware is resized by the computer's runner; the stored
//! resolution follows the boot screen.

use std::sync::Arc;

use axum::http::Method;

use super::fleet::Fleet;
use super::runner::registry::stopping;
pub use super::runner::resize::{DimensionResult, ResizeOutcome, ResizeParams};
use super::runner::resize::{ResizeJob, check_running};
use super::runner::{Work, boot_screen};
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::identity::access::actor::Actor;
use hotdesk_guest::{QUICK_TIMEOUT, percent_encode};
use hotdesk_store::fleet::computers::Computer;
use hotdesk_wire::desktop::action::{ResizeScreen, Screen};

impl Fleet {
    /// Resizes a running computer. The work continues if the caller disconnects.
    ///
    /// # Errors
    /// `Conflict` when it does not run; the errors of [`hotdesk_domain::computer::resize::plan`]; `Internal`
    /// for an invalid auto-stop (after the hardware changed) or a failed restart.
    pub async fn resize(&self, computer: &Computer, order: ResizeParams) -> Result<ResizeOutcome> {
        check_running(computer.status)?;
        let job = Arc::new(ResizeJob::new(order));
        let (_, finished) = self.shared.send(computer.id, Work::Resize(Arc::clone(&job)))?;
        finished.await.map_err(|_| stopping())??;
        job.outcome().ok_or_else(|| Error::internal("a resize ended without a report"))
    }

    /// Resizes a screen for an actor; the size of the boot screen is stored. The work continues if the caller
    /// disconnects.
    ///
    /// # Errors
    /// The errors of [`Fleet::guest`] and [`Guest::call`](hotdesk_guest::Guest::call); `Unavailable` or `Internal` when the size cannot
    /// be stored. The screen may have the size then.
    pub async fn resize_screen(
        &self,
        computer: &Computer,
        screen: &str,
        size: ResizeScreen,
        by: Actor,
    ) -> Result<Screen> {
        let guest = self.guest(computer).await?.acting_as(by);
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
