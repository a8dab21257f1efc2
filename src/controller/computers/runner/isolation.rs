//! Isolation of a computer in its runner: the change while it is stopped, and the check before a boot.

use super::Runner;
use hotdesk_domain::computer::isolation::{
    Isolation, IsolationChange, check_isolation_change, check_offered,
};
use hotdesk_domain::computer::lifecycle::Operation;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::error_code::ErrorCode;
use hotdesk_store::fleet::computers::Computer;

/// Name of the engine over Incus, whose instances have the form of one isolation.
const INCUS: &str = "incus";

impl Runner {
    /// Refuses a boot with an isolation that the host offers no more, before anything ends.
    pub(super) fn check_isolation(&self, operation: Operation, row: &Computer) -> Result<()> {
        let offers = self.shared.engine.offers();
        match operation {
            Operation::Start | Operation::Restart | Operation::Resume
                if offers.find(row.isolation).is_none() =>
            {
                check_offered(row.isolation, "the isolation of the computer", &offers.isolations()).map(drop)
            }
            Operation::Start
            | Operation::Restart
            | Operation::Resume
            | Operation::Stop
            | Operation::Suspend
            | Operation::Delete => Ok(()),
        }
    }

    /// Stores another isolation. The runner does nothing else meanwhile, so the computer stays stopped.
    pub(super) async fn change_isolation(&self, row: &Computer, to: Isolation) -> Result<()> {
        let store = &self.shared.store;
        let snapshots = store.snapshots(self.id).await?;
        check_isolation_change(&IsolationChange {
            from: row.isolation,
            to,
            status: row.status,
            has_memory_snapshots: snapshots.iter().any(|snapshot| snapshot.memory),
        })?;
        if row.isolation == to {
            return Ok(());
        }
        if self.shared.engine.offers().default().engine == INCUS {
            let text = "An Incus instance keeps the isolation with which it was made. Create a computer with the \
                        other isolation and copy the files";
            return Err(Error::conflict(text).code(ErrorCode::IsolationFixed));
        }
        store.set_isolation(self.id, to).await
    }
}
