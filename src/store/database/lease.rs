//! Lease of the controller that leads, among several over one database: its times, its row, and the check of each write.
//!
//! ```text
//!            request, epoch + 1                 request each RENEWAL_PAUSE, same epoch
//! no leader --------------------> leader ----------------------------------------------+
//!     ^                           |    ^                                               |
//!     +---- release, LEASE_TIME --+    +-----------------------------------------------+
//! ```
//! The clock of the database's server decides whether a lease has ended. Its holder counts from before its request, so that it
//! stops before others may take the lease.

use std::time::Duration;

use sqlx::{Any, AnyConnection, Transaction};
use uuid::Uuid;

/// How long a lease holds after a request of its holder.
const LEASE_TIME: Duration = Duration::from_secs(10);
/// Pause between two renewals: two of them may fail before the lease ends.
pub(super) const RENEWAL_PAUSE: Duration = Duration::from_secs(3);
/// Time before the end of the lease at which its holder stops: enough to end a process on a busy host.
const STOP_MARGIN: Duration = Duration::from_millis(500);
/// The only lease.
const NAME: &str = "controller";

/// A time of one leader: the number of changes of the leader, and the process that led. A database that forgot the last change
/// gives its number to another process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Epoch {
    number: i64,
    holder: Uuid,
}

/// The controller that leads, as the database names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leader {
    /// Its epoch.
    pub epoch: Epoch,
    /// URL at which other controllers reach it.
    pub address: String,
}

/// Answer to a request for the lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaseAnswer {
    /// The caller leads.
    Leading(Epoch),
    /// Another controller leads.
    Following(Leader),
}

/// Returns how long a holder may still act, by the time since it began its last successful request; `None`: it must stop.
pub(super) fn remaining(since_request: Duration) -> Option<Duration> {
    let left = LEASE_TIME.saturating_sub(STOP_MARGIN).saturating_sub(since_request);
    (!left.is_zero()).then_some(left)
}

/// Takes or renews the lease for `holder` at a time of the server, in Unix milliseconds, unless another one holds it.
pub(super) async fn request_at(
    tx: &mut Transaction<'_, Any>,
    holder: Uuid,
    address: &str,
    now: i64,
) -> sqlx::Result<LeaseAnswer> {
    let holder = holder.to_string();
    let until = now.saturating_add(i64::try_from(LEASE_TIME.as_millis()).unwrap_or(i64::MAX));
    sqlx::query(
        "INSERT INTO leases (name, holder, epoch, until, address) VALUES ($1, '', 0, 0, '') ON CONFLICT (name) DO NOTHING",
    )
    .bind(NAME)
    .execute(&mut **tx)
    .await?;
    // Of two that ask at once, the second one waits for the first, and then sees the row of that one.
    sqlx::query(
        "UPDATE leases SET epoch = CASE WHEN holder = $1 THEN epoch ELSE epoch + 1 END, holder = $1, until = $2, \
         address = $3 WHERE name = $4 AND (holder = $1 OR until <= $5)",
    )
    .bind(holder.as_str())
    .bind(until)
    .bind(address)
    .bind(NAME)
    .bind(now)
    .execute(&mut **tx)
    .await?;
    let (found, number, address): (String, i64, String) =
        sqlx::query_as("SELECT holder, epoch, address FROM leases WHERE name = $1")
            .bind(NAME)
            .fetch_one(&mut **tx)
            .await?;
    // Of another holder, the id is only compared.
    let leader = Uuid::parse_str(&found).unwrap_or_default();
    let epoch = Epoch { number, holder: leader };
    Ok(if found == holder {
        LeaseAnswer::Leading(epoch)
    } else {
        LeaseAnswer::Following(Leader { epoch, address })
    })
}

/// Ends the lease of `holder`, if it has it.
pub(super) async fn release(connection: &mut AnyConnection, holder: Uuid) -> sqlx::Result<()> {
    sqlx::query("UPDATE leases SET until = 0 WHERE name = $1 AND holder = $2")
        .bind(NAME)
        .bind(holder.to_string())
        .execute(connection)
        .await
        .map(drop)
}

/// Refuses a write of a former leader. It is part of each write transaction of a leader.
///
/// # Errors
/// One that is temporary for clients, when another controller has taken the lease.
pub(super) async fn check_epoch(tx: &mut Transaction<'static, Any>, own: Epoch) -> sqlx::Result<()> {
    let (number, holder): (i64, String) = sqlx::query_as("SELECT epoch, holder FROM leases WHERE name = $1")
        .bind(NAME)
        .fetch_one(&mut **tx)
        .await?;
    if number == own.number && holder == own.holder.to_string() {
        return Ok(());
    }
    Err(sqlx::Error::Io(std::io::Error::other("another controller leads since then")))
}

/// Returns the name of a leader's writing session. It tells the session from that of a single controller, and is shorter than
/// the 63 bytes that PostgreSQL keeps of one.
pub(super) fn session_name(epoch: Epoch) -> String {
    format!("hotdesk leader {} {}", epoch.number, epoch.holder.simple())
}

/// Ends the writing sessions of former leaders of PostgreSQL. A process that stands still may have an open transaction, which
/// would block all writes. One that is a former leader itself meanwhile ends none.
pub(super) async fn end_former_sessions(connection: &mut AnyConnection, own: Epoch) -> sqlx::Result<()> {
    let ended: i64 = sqlx::query_scalar(
        "SELECT COUNT(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = current_database() \
         AND application_name LIKE 'hotdesk leader %' AND application_name <> $1 \
         AND EXISTS (SELECT 1 FROM leases WHERE name = $2 AND epoch = $3 AND holder = $4)",
    )
    .bind(session_name(own))
    .bind(NAME)
    .bind(own.number)
    .bind(own.holder.to_string())
    .fetch_one(connection)
    .await?;
    if ended > 0 {
        tracing::info!(sessions = ended, "ended sessions of the former leader in the database");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::database::connections::{Access, Connections};
    use crate::database::fixture::TestDatabase;
    use crate::database::schema;

    #[test]
    fn a_holder_stops_before_others_may_take_the_lease() {
        for (since_request, left) in [
            (0, Some(9500)),
            (3000, Some(6500)),
            (9499, Some(1)),
            (9500, None),
            (10_000, None),
            (600_000, None),
        ] {
            let found = remaining(Duration::from_millis(since_request));
            assert_eq!(found, left.map(Duration::from_millis), "{since_request}");
        }
    }

    #[tokio::test]
    async fn the_lease_changes_its_holder_only_after_its_end() {
        let test = TestDatabase::new();
        let connections = Connections::open(&test.database, Access::Shared).await.unwrap();
        schema::migrate(&connections).await.unwrap();
        let [a, b] = [1, 2].map(Uuid::from_u128);
        // Time, who asks, who holds the lease afterwards, and its epoch.
        for (now, asks, holds, number) in [
            (1_000, a, a, 1),
            (1_000, b, a, 1),
            (4_000, a, a, 1),
            (10_999, b, a, 1),
            (13_999, b, a, 1),
            // The end of a's lease.
            (14_000, b, b, 2),
            // A clock that was set back takes nothing from its holder.
            (100, a, b, 2),
            (14_001, a, b, 2),
            (23_999, b, b, 2),
            (34_000, a, a, 3),
            // A holder that is late gets its epoch again while nobody else has asked.
            (90_000, a, a, 3),
            (100_000, b, b, 4),
        ] {
            let mut tx = connections.begin_write().await.unwrap();
            let answer = request_at(&mut tx, asks, &format!("http://{asks}"), now).await.unwrap();
            let epoch = Epoch { number, holder: holds };
            let expected = if asks == holds {
                LeaseAnswer::Leading(epoch)
            } else {
                LeaseAnswer::Following(Leader { epoch, address: format!("http://{holds}") })
            };
            assert_eq!(answer, expected, "{now} {asks}");
            let other = if holds == a { b } else { a };
            for (own, accepted) in [
                (epoch, true),
                (Epoch { number: number - 1, ..epoch }, false),
                (Epoch { number: number + 1, ..epoch }, false),
                // A standby that forgot the last change gave the number again.
                (Epoch { holder: other, ..epoch }, false),
            ] {
                assert_eq!(check_epoch(&mut tx, own).await.is_ok(), accepted, "{now} {own:?}");
            }
            tx.commit().await.unwrap();
        }
        let mut connection = connections.pool.acquire().await.unwrap();
        for (releases, holds) in [(a, b), (b, a)] {
            release(&mut connection, releases).await.unwrap();
            let mut tx = connections.begin_write().await.unwrap();
            let answer = request_at(&mut tx, a, "http://a", 100_001).await.unwrap();
            assert_eq!(matches!(answer, LeaseAnswer::Leading(_)), holds == a, "{releases}");
            tx.commit().await.unwrap();
        }
    }
}
