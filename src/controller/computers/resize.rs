//! Resize of a computer's hardware, as the fleet requests it from the computer's runner.

use std::sync::Arc;

use super::fleet::Fleet;
use super::runner::Work;
use super::runner::registry::stopping;
pub use super::runner::resize::{DimensionResult, ResizeOutcome, ResizeParams};
use super::runner::resize::{ResizeJob, check_running};
use hotdesk_domain::error::{Error, Result};
use hotdesk_store::fleet::computers::Computer;

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
}
