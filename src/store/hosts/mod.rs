//! Hosts of computers: drains, moves, hosts that are gone, and replicas.

pub mod moves;
pub mod replicas;

use crate::{Store, failed};
use hotdesk_base::clock;
use hotdesk_base::time::UnixMillis;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::host::drain::DrainState;

/// A host that takes no new computers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostDrain {
    /// Name of the host.
    pub host: String,
    /// Its state.
    pub state: DrainState,
    /// Why the last attempt to move a computer failed; empty when none did.
    pub message: String,
    /// When the operator asked for it.
    pub begun_at: UnixMillis,
}

row! {
    struct Row {
        host: String,
        state: String,
        message: String,
        begun_at: i64,
    }
}

impl Row {
    fn open(self) -> Result<HostDrain> {
        let state = DrainState::parse(&self.state)
            .ok_or_else(|| Error::internal(format!("the drain of {} holds a bad state", self.host)))?;
        Ok(HostDrain {
            host: self.host,
            state,
            message: self.message,
            begun_at: UnixMillis::new(self.begun_at),
        })
    }
}

impl Store {
    /// Returns the drains, in the order of the names of their hosts.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn host_drains(&self) -> Result<Vec<HostDrain>> {
        let rows: Vec<Row> =
            sqlx::query_as("SELECT host, state, message, begun_at FROM host_drains ORDER BY host")
                .fetch_all(&self.pool)
                .await
                .map_err(failed("list the drains of hosts"))?;
        rows.into_iter().map(Row::open).collect()
    }

    /// Stores that a host is drained from now on. One that is already keeps its state.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails; nothing is changed then.
    pub async fn begin_drain(&self, host: &str) -> Result<()> {
        let mut write = self.write().await?;
        sqlx::query(
            "INSERT INTO host_drains (host, state, begun_at) VALUES ($1, $2, $3) ON CONFLICT (host) DO NOTHING",
        )
        .bind(host)
        .bind(DrainState::Draining.name())
        .bind(clock::now().as_i64())
        .execute(&mut *write.tx)
        .await
        .map_err(failed("begin a drain"))?;
        write.commit().await
    }

    /// Stores the state of a drain, unless the host was restored meanwhile.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails; nothing is changed then.
    pub async fn note_drain(&self, host: &str, state: DrainState, message: &str) -> Result<()> {
        let mut write = self.write().await?;
        sqlx::query("UPDATE host_drains SET state = $2, message = $3 WHERE host = $1")
            .bind(host)
            .bind(state.name())
            .bind(message)
            .execute(&mut *write.tx)
            .await
            .map_err(failed("store the state of a drain"))?;
        write.commit().await
    }

    /// Ends a drain: the host takes new computers again. A host without a drain is left alone.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails; nothing is changed then.
    pub async fn end_drain(&self, host: &str) -> Result<()> {
        let mut write = self.write().await?;
        sqlx::query("DELETE FROM host_drains WHERE host = $1")
            .bind(host)
            .execute(&mut *write.tx)
            .await
            .map_err(failed("end a drain"))?;
        write.commit().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::database::Access;
    use crate::database::fixture::TestDatabase;

    #[tokio::test]
    async fn a_drain_keeps_its_state_until_the_host_is_restored() {
        let test = TestDatabase::new();
        let store = test.store(Access::Shared).await;
        assert_eq!(store.host_drains().await.unwrap(), []);
        store.begin_drain("m2").await.unwrap();
        store.begin_drain("m1").await.unwrap();
        store.note_drain("m1", DrainState::Drained, "").await.unwrap();
        // A repeated request does not begin it anew.
        store.begin_drain("m1").await.unwrap();
        let drains = store.host_drains().await.unwrap();
        let states: Vec<_> = drains.iter().map(|drain| (drain.host.as_str(), drain.state)).collect();
        assert_eq!(states, [("m1", DrainState::Drained), ("m2", DrainState::Draining)]);
        store.end_drain("m2").await.unwrap();
        // The last pass over a host that was restored meanwhile.
        store.note_drain("m2", DrainState::Drained, "late").await.unwrap();
        assert_eq!(store.host_drains().await.unwrap().len(), 1);
    }
}
