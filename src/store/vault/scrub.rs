//! Removal of former values from the files of the database.
//!
//! SQLite leaves replaced values in free space of its pages and in its log. A row of `meta` requests the removal in
//! the transaction that replaces them, so that a crash only delays it.

use sqlx::{Any, AnyPool, Executor, Transaction};

use crate::failed;
use hotdesk_domain::error::Result;

/// Requests the removal as part of a transaction.
pub(super) async fn request(tx: &mut Transaction<'static, Any>) -> Result<()> {
    sqlx::query("INSERT INTO meta (name, value) VALUES ('scrub', '') ON CONFLICT (name) DO NOTHING")
        .execute(&mut **tx)
        .await
        .map(drop)
        .map_err(failed("request the removal of former values"))
}

/// Carries out a requested removal. A failure, for example on a full disk, is logged; the next start tries again.
pub(super) async fn finish(pool: &AnyPool) {
    if let Err(error) = remove(pool).await {
        tracing::warn!(
            %error,
            "former values of secrets may still be in the files of the store: they could not be removed; the next start tries again"
        );
    }
}

async fn remove(pool: &AnyPool) -> Result<(), sqlx::Error> {
    let requested: Option<(String,)> =
        sqlx::query_as("SELECT name FROM meta WHERE name = 'scrub'").fetch_optional(pool).await?;
    if requested.is_none() {
        return Ok(());
    }
    let mut connection = pool.acquire().await?;
    // VACUUM writes every page anew, without free space. The checkpoint then empties the log.
    connection.execute("VACUUM").await?;
    let (busy, _, _): (i64, i64, i64) =
        sqlx::query_as("PRAGMA wal_checkpoint(TRUNCATE)").fetch_one(&mut *connection).await?;
    if busy != 0 {
        return Err(sqlx::Error::Io(std::io::Error::other("another program uses the store")));
    }
    connection.execute("DELETE FROM meta WHERE name = 'scrub'").await?;
    Ok(())
}
