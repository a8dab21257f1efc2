//! Machines without a computer, which are booted before somebody asks for them. Boot snapshots and the pool have a table each:
//! a snapshot is used by many computers and removed when others are used more, a machine of the pool becomes one computer's.

use std::collections::BTreeSet;

use crate::fleet::status::BootSecrets;
use crate::{Store, failed, id};
use hotdesk_base::ids::ComputerId;
use hotdesk_base::secret::Secret;
use hotdesk_domain::computer::prepared::DesktopSize;
use hotdesk_domain::error::Result;

pub mod boot_snapshots;
pub mod pooled_machines;

/// A machine that is being made.
#[derive(Clone, Debug)]
pub struct PreparedMachine {
    /// Its id.
    pub id: ComputerId,
    /// Digest of what its boot depends on besides the size.
    pub inputs: String,
    /// Its size.
    pub size: DesktopSize,
    /// Token of its agent.
    pub token: Secret,
}

impl PreparedMachine {
    /// Returns one with a random id and a random token.
    pub fn random(inputs: String, size: DesktopSize) -> Self {
        Self { id: ComputerId::random(), inputs, size, token: BootSecrets::random().agent_token }
    }
}

impl Store {
    /// Returns every machine that a row owns: those of computers, of boot snapshots and of the pool, at one
    /// moment. Another machine on the host is a leftover.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn owned_machines(&self) -> Result<BTreeSet<ComputerId>> {
        let rows: Vec<(String,)> = sqlx::query_as(
            "SELECT id FROM computers UNION SELECT machine_id FROM boot_snapshots \
             UNION SELECT machine_id FROM pooled_machines",
        )
        .fetch_all(&self.pool)
        .await
        .map_err(failed("list the machines that have an owner"))?;
        rows.iter().map(|(machine,)| id(machine)).collect()
    }
}
