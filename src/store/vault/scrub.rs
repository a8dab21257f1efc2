//! Removal of former values from the files of the database.
//!
//! Replaced values stay in free space of pages, and in SQLite's log. A row of `meta` requests the removal in the
//! transaction that replaces them, so that a crash only delays it.

use std::collections::BTreeSet;

use sqlx::{Any, Transaction};

use super::columns::ALL;
use crate::database::Connections;
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
pub(super) async fn finish(connections: &Connections) {
    if let Err(error) = remove(connections).await {
        tracing::warn!(
            %error,
            "former values of secrets may still be in the files of the store: they could not be removed; the next start tries again"
        );
    }
}

async fn remove(connections: &Connections) -> Result<(), sqlx::Error> {
    let requested: Option<(String,)> = sqlx::query_as("SELECT name FROM meta WHERE name = 'scrub'")
        .fetch_optional(&connections.pool)
        .await?;
    if requested.is_none() {
        return Ok(());
    }
    let tables: BTreeSet<&'static str> = ALL.into_iter().map(|column| column.table).collect();
    connections.remove_replaced_values(&tables.into_iter().collect::<Vec<_>>()).await?;
    let mut tx = connections.begin_write().await?;
    sqlx::query("DELETE FROM meta WHERE name = 'scrub'").execute(&mut *tx).await?;
    tx.commit().await
}
