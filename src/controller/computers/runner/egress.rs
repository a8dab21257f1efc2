//! Egress policy of a computer in its runner.

use super::{Runner, refused};
use hotdesk_domain::computer::lifecycle::Status;
use hotdesk_domain::computer::template::network::egress::EgressPolicy;
use hotdesk_domain::error::Result;
use hotdesk_engine::EngineError;
use hotdesk_store::fleet::computers::Computer;

const FAILED: &str = "The egress policy could not be changed";

impl Runner {
    /// Stores another policy, and puts it into effect where a machine runs. Other computers get it at their next boot.
    pub(super) async fn set_egress(&self, row: &Computer, policy: Option<&EgressPolicy>) -> Result<()> {
        self.shared.store.set_egress_policy(self.id, policy).await?;
        // After a failed stop the machine may still run.
        if !matches!(row.status, Status::Running | Status::Error) {
            return Ok(());
        }
        match self.shared.engine.set_egress(self.id, policy).await {
            Ok(()) => Ok(()),
            Err(EngineError::Absent) if row.status == Status::Error => Ok(()),
            Err(error) => {
                self.shared.store.set_egress_policy(self.id, row.egress.as_ref()).await?;
                // The engine may have changed it, and only its answer was lost.
                self.restore_egress(row).await;
                Err(refused(FAILED, &error))
            }
        }
    }

    /// Puts the stored policy into effect on a machine that runs, should a change have been interrupted.
    pub(super) async fn restore_egress(&self, row: &Computer) {
        if let Err(error) = self.shared.engine.set_egress(self.id, row.egress.as_ref()).await {
            tracing::error!(
                computer = %self.id,
                error = format_args!("{error:#}"),
                "could not restore the egress policy; the computer has an earlier one until its next boot"
            );
        }
    }
}
