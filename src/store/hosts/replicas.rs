//! Replicas of computers, and hosts of which the operator confirmed that they are gone.

use crate::fleet::changes::RecordChange;
use crate::{Store, failed};
use hotdesk_base::clock;
use hotdesk_base::ids::ComputerId;
use hotdesk_base::time::UnixMillis;
use hotdesk_domain::computer::lifecycle::Status;
use hotdesk_domain::computer::status_reason::StatusReason;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::host::outage::ReplicaState;

/// Most hosts that are gone: more than a cluster of Incus has members.
const MAX_GONE_HOSTS: i64 = 1000;

/// A host that is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GoneHost {
    /// Its name.
    pub name: String,
    /// When the operator confirmed it.
    pub confirmed_at: UnixMillis,
}

row! {
    struct GoneHostRow {
        name: String,
        confirmed_at: i64,
    }
}

impl Store {
    /// Sets the minutes between two refreshes of a computer's replica; 0 means that it has none.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails; nothing is changed then.
    pub async fn set_replication(&self, computer: ComputerId, minutes: i64) -> Result<()> {
        let mut write = self.write().await?;
        sqlx::query("UPDATE computers SET replicate_minutes = $2, updated_at = $3 WHERE id = $1")
            .bind(computer.to_string())
            .bind(minutes)
            .bind(clock::now().as_i64())
            .execute(&mut *write.tx)
            .await
            .map_err(failed("set the replication"))?;
        write.note(RecordChange::Computer(computer));
        write.commit().await
    }

    /// Stores an attempt to refresh a computer's replica, before it begins.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails; nothing is changed then.
    pub async fn note_refresh_attempt(&self, computer: ComputerId) -> Result<()> {
        let mut write = self.write().await?;
        sqlx::query("UPDATE computers SET replica_tried_at = $2 WHERE id = $1")
            .bind(computer.to_string())
            .bind(clock::now().as_i64())
            .execute(&mut *write.tx)
            .await
            .map_err(failed("store an attempt to refresh a replica"))?;
        write.commit().await
    }

    /// Stores a computer's replica; `None` when it is removed.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails; nothing is changed then.
    pub async fn set_replica(&self, computer: ComputerId, replica: Option<&ReplicaState>) -> Result<()> {
        let mut write = self.write().await?;
        sqlx::query("UPDATE computers SET replica_host = $2, replica_refreshed_at = $3 WHERE id = $1")
            .bind(computer.to_string())
            .bind(replica.map(|replica| replica.host.as_str()))
            .bind(replica.map(|replica| replica.refreshed_at.as_i64()))
            .execute(&mut *write.tx)
            .await
            .map_err(failed("store a replica"))?;
        write.note(RecordChange::Computer(computer));
        write.commit().await
    }

    /// Stores that a computer has begun from its replica, because its host is gone. It has none then.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails; nothing is changed then.
    pub async fn note_recovery(&self, computer: ComputerId, host: &str) -> Result<()> {
        let mut write = self.write().await?;
        sqlx::query(
            "UPDATE computers SET recovered_from = $2, recovered_state_at = replica_refreshed_at, \
             replica_host = NULL, replica_refreshed_at = NULL, replica_tried_at = NULL, updated_at = $3 WHERE id = $1",
        )
        .bind(computer.to_string())
        .bind(host)
        .bind(clock::now().as_i64())
        .execute(&mut *write.tx)
        .await
        .map_err(failed("store a start from a replica"))?;
        write.note(RecordChange::Computer(computer));
        write.commit().await
    }

    /// Stores that a computer is stopped because its host is gone. Memory may be saved on the host, so its token stays: the host
    /// may return.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails; nothing is changed then.
    pub async fn stop_lost(&self, computer: ComputerId) -> Result<()> {
        let mut write = self.write().await?;
        let row = write.computer(computer).await?;
        write.status(computer, Status::Stopped).await?;
        sqlx::query("UPDATE computers SET status_reason = $2 WHERE id = $1")
            .bind(computer.to_string())
            .bind(StatusReason::HostGone.name())
            .execute(&mut *write.tx)
            .await
            .map_err(failed("store that the host of a computer is gone"))?;
        if let Some(token) = &row.saved_token {
            write.set_saved_token(computer, token).await?;
        }
        write.commit().await
    }

    /// Stores that a host is gone, and returns that with the time of the first confirmation.
    ///
    /// # Errors
    /// `Conflict` when too many are; `Unavailable` or `Internal` when the store fails. Nothing is changed then.
    pub async fn add_gone_host(&self, name: &str) -> Result<GoneHost> {
        let mut write = self.write().await?;
        let others: i64 = sqlx::query_scalar("SELECT COUNT(*) FROM gone_hosts WHERE name <> $1")
            .bind(name)
            .fetch_one(&mut *write.tx)
            .await
            .map_err(failed("count the hosts that are gone"))?;
        if others >= MAX_GONE_HOSTS {
            return Err(Error::conflict(format!("{others} hosts are gone already")));
        }
        sqlx::query(
            "INSERT INTO gone_hosts (name, confirmed_at) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING",
        )
        .bind(name)
        .bind(clock::now().as_i64())
        .execute(&mut *write.tx)
        .await
        .map_err(failed("store that a host is gone"))?;
        let row: GoneHostRow = sqlx::query_as("SELECT name, confirmed_at FROM gone_hosts WHERE name = $1")
            .bind(name)
            .fetch_one(&mut *write.tx)
            .await
            .map_err(failed("read a host that is gone"))?;
        write.commit().await?;
        Ok(row.into())
    }

    /// Returns the hosts that are gone, by name.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn gone_hosts(&self) -> Result<Vec<GoneHost>> {
        let rows: Vec<GoneHostRow> =
            sqlx::query_as("SELECT name, confirmed_at FROM gone_hosts ORDER BY name")
                .fetch_all(&self.pool)
                .await
                .map_err(failed("list the hosts that are gone"))?;
        Ok(rows.into_iter().map(GoneHost::from).collect())
    }

    /// Stores that a host answers again.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails; nothing is changed then.
    pub async fn remove_gone_host(&self, name: &str) -> Result<()> {
        let mut write = self.write().await?;
        sqlx::query("DELETE FROM gone_hosts WHERE name = $1")
            .bind(name)
            .execute(&mut *write.tx)
            .await
            .map_err(failed("store that a host is back"))?;
        write.commit().await
    }
}

impl From<GoneHostRow> for GoneHost {
    fn from(row: GoneHostRow) -> Self {
        Self { name: row.name, confirmed_at: UnixMillis::new(row.confirmed_at) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::threads::fixture::Fixture;
    use hotdesk_base::ids::ComputerRef;

    type Columns = (i64, Option<String>, Option<i64>, Option<i64>, Option<String>, Option<i64>);

    async fn columns(fixture: &Fixture) -> Columns {
        let read = sqlx::query_as(
            "SELECT replicate_minutes, replica_host, replica_refreshed_at, replica_tried_at, recovered_from, \
             recovered_state_at FROM computers WHERE id = $1",
        );
        read.bind(fixture.computer.to_string()).fetch_one(&fixture.store.pool).await.unwrap()
    }

    #[tokio::test]
    async fn a_replica_becomes_the_state_that_a_computer_began_from() {
        let fixture = Fixture::new().await;
        let (store, computer) = (&fixture.store, fixture.computer);
        assert_eq!(columns(&fixture).await, (0, None, None, None, None, None));
        store.set_replication(computer, 5).await.unwrap();
        store.note_refresh_attempt(computer).await.unwrap();
        let replica = ReplicaState { host: "m3".to_owned(), refreshed_at: UnixMillis::new(7) };
        store.set_replica(computer, Some(&replica)).await.unwrap();
        let (minutes, host, refreshed_at, tried_at, from, _) = columns(&fixture).await;
        assert_eq!((minutes, host.as_deref(), refreshed_at), (5, Some("m3"), Some(7)));
        assert!(tried_at.is_some() && from.is_none());
        store.note_recovery(computer, "m2").await.unwrap();
        let expected = (5, None, None, None, Some("m2".to_owned()), Some(7));
        assert_eq!(columns(&fixture).await, expected);
        store.set_replica(computer, None).await.unwrap();
        assert_eq!(columns(&fixture).await, expected);
    }

    #[tokio::test]
    async fn a_computer_whose_host_is_gone_keeps_the_token_of_its_memory() {
        let fixture = Fixture::new().await;
        let (store, computer) = (&fixture.store, fixture.computer);
        let row = async || store.computer(&ComputerRef::Id(computer)).await.unwrap().unwrap();
        store.begin_boot(computer, Status::Running).await.unwrap();
        let token = row().await.agent_token;
        // Its host is gone in the middle of a resume.
        store.begin_resume(computer).await.unwrap();
        store.stop_lost(computer).await.unwrap();
        let lost = row().await;
        assert_eq!((lost.status, lost.status_reason), (Status::Stopped, Some(StatusReason::HostGone)));
        assert_eq!(lost.saved_token.unwrap().reveal(), token.reveal());
        // The host returns with the memory.
        store.set_status(computer, Status::Suspended).await.unwrap();
        assert!(row().await.saved_token.is_some());
        store.stop_lost(computer).await.unwrap();
        store.begin_boot(computer, Status::Starting).await.unwrap();
        assert!(row().await.saved_token.is_none());
    }

    #[tokio::test]
    async fn computers_with_replicas_are_those_that_have_or_want_one() {
        let fixture = Fixture::new().await;
        let (store, computer) = (&fixture.store, fixture.computer);
        // Its secrets are sealed then, and are opened.
        store.begin_boot(computer, Status::Running).await.unwrap();
        let replica = ReplicaState { host: "m3".to_owned(), refreshed_at: UnixMillis::new(7) };
        for (minutes, replica, is_listed) in
            [(0, None, false), (5, None, true), (5, Some(&replica), true), (0, Some(&replica), true)]
        {
            store.set_replication(computer, minutes).await.unwrap();
            store.set_replica(computer, replica).await.unwrap();
            let listed: Vec<ComputerId> =
                store.computers_with_replicas().await.unwrap().into_iter().map(|it| it.id).collect();
            let expected = if is_listed { vec![computer] } else { Vec::new() };
            assert_eq!(listed, expected, "{minutes} {replica:?}");
        }
    }

    #[tokio::test]
    async fn a_host_is_gone_until_it_answers() {
        let fixture = Fixture::new().await;
        let store = &fixture.store;
        assert!(store.gone_hosts().await.unwrap().is_empty());
        let first = store.add_gone_host("m2").await.unwrap();
        assert_eq!(
            store.add_gone_host("m2").await.unwrap(),
            first,
            "the time is that of the first confirmation"
        );
        store.add_gone_host("m1").await.unwrap();
        let names: Vec<String> =
            store.gone_hosts().await.unwrap().into_iter().map(|host| host.name).collect();
        assert_eq!(names, ["m1", "m2"]);
        for _ in 0..2 {
            store.remove_gone_host("m1").await.unwrap();
        }
        assert_eq!(store.gone_hosts().await.unwrap(), [first]);
    }
}
