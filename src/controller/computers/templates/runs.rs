//! End of throw-away computers. Their rows have the time, so that it outlives the controller.

use futures_util::{StreamExt, stream};

use super::Templates;
use hotdesk_base::clock;
use hotdesk_domain::computer::lifecycle::Command;
use hotdesk_domain::error::Result;
use hotdesk_store::fleet::computers::Computer;

/// Computers that are deleted concurrently: one whose runner is busy must not delay the others.
const AT_ONCE: usize = 16;

impl Templates {
    /// Deletes the computers whose time is over. What fails is retried in the next round.
    ///
    /// # Errors
    /// `Internal` when the database fails.
    pub async fn delete_expired_runs(&self) -> Result<()> {
        let computers = self.0.store.expired_computers(clock::now()).await?;
        stream::iter(&computers).for_each_concurrent(AT_ONCE, |computer| self.delete_run(computer)).await;
        Ok(())
    }

    async fn delete_run(&self, computer: &Computer) {
        tracing::info!(computer = %computer.id, "the time of a throw-away computer is over");
        let deleted = match self.0.fleet.command(computer, Command::Delete).await {
            Ok(accepted) => accepted.finish().await,
            Err(error) => Err(error),
        };
        if let Err(error) = deleted {
            tracing::warn!(
                computer = %computer.id,
                error = format_args!("{error:#}"),
                "could not delete a throw-away computer; it is retried in the next round"
            );
        }
    }
}
