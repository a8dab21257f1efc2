//! Dynamically registered MCP clients. Their number is bounded, and unused ones are removed.

use std::time::Duration;

use crate::{Store, Write, failed};
use hotdesk_base::clock;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::identity::oauth::client::Client;

/// Most registered clients, of up to 20 KB each.
const MAX_CLIENTS: i64 = 2_000;
/// Retention of a client without any connection so far; a sign-in takes minutes.
const UNUSED_RETENTION: Duration = Duration::from_secs(24 * 3600);
/// Retention of a client whose connections all ended; clients reuse their ids.
const LEFT_RETENTION: Duration = Duration::from_secs(90 * 24 * 3600);
/// Clients with a connection, or with a code for one, at time `$1`.
const CONNECTED: &str = "SELECT client_id FROM oauth_grants WHERE expires_at > $1 \
    AND (refresh IS NOT NULL OR code_expires_at > $1)";

row! {
    struct Row {
        id: String,
        name: Option<String>,
        redirect_uris: String,
    }
}

impl TryFrom<Row> for Client {
    type Error = Error;

    fn try_from(row: Row) -> Result<Self> {
        let redirect_uris = serde_json::from_str(&row.redirect_uris).map_err(Error::internal)?;
        Ok(Self { id: row.id, name: row.name, redirect_uris })
    }
}

impl Store {
    /// Registers a client. Removes unused clients. At the bound, evicts one without a connection: the oldest
    /// that never had any, else the one that was used longest ago.
    ///
    /// # Errors
    /// `Unavailable` when the bound is reached and all clients are connected; `Unavailable` or `Internal`
    /// when the store fails. Nothing is changed then.
    pub async fn add_oauth_client(&self, client: &Client) -> Result<()> {
        let mut write = self.write().await?;
        sweep(&mut write).await?;
        make_room(&mut write).await?;
        let redirect_uris = serde_json::to_string(&client.redirect_uris).map_err(Error::internal)?;
        sqlx::query(
            "INSERT INTO oauth_clients (id, name, redirect_uris, created_at) VALUES ($1, $2, $3, $4)",
        )
        .bind(&client.id)
        .bind(&client.name)
        .bind(redirect_uris)
        .bind(clock::now().as_i64())
        .execute(&mut *write.tx)
        .await
        .map_err(failed("store a client"))?;
        write.commit().await
    }

    /// Returns a registered client, or `None`.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn oauth_client(&self, id: &str) -> Result<Option<Client>> {
        let row: Option<Row> =
            sqlx::query_as("SELECT id, name, redirect_uris FROM oauth_clients WHERE id = $1")
                .bind(id)
                .fetch_optional(&self.pool)
                .await
                .map_err(failed("look up a client"))?;
        row.map(Client::try_from).transpose()
    }
}

async fn sweep(write: &mut Write) -> Result<()> {
    let now = clock::now();
    let delete = format!(
        "DELETE FROM oauth_clients WHERE ((used_at IS NULL AND created_at <= $2) OR used_at <= $3) \
         AND id NOT IN ({CONNECTED})"
    );
    sqlx::query(sqlx::AssertSqlSafe(delete))
        .bind(now.as_i64())
        .bind(now.minus(UNUSED_RETENTION).as_i64())
        .bind(now.minus(LEFT_RETENTION).as_i64())
        .execute(&mut *write.tx)
        .await
        .map(|_| ())
        .map_err(failed("sweep clients"))
}

async fn make_room(write: &mut Write) -> Result<()> {
    let delete = format!(
        "DELETE FROM oauth_clients WHERE id IN (SELECT id FROM oauth_clients WHERE id NOT IN ({CONNECTED}) \
         AND (SELECT COUNT(*) FROM oauth_clients) >= $2 \
         ORDER BY CASE WHEN used_at IS NULL THEN 0 ELSE 1 END, COALESCE(used_at, created_at), id LIMIT 1)"
    );
    sqlx::query(sqlx::AssertSqlSafe(delete))
        .bind(clock::now().as_i64())
        .bind(MAX_CLIENTS)
        .execute(&mut *write.tx)
        .await
        .map_err(failed("evict an MCP client"))?;
    let (count,): (i64,) = sqlx::query_as("SELECT COUNT(*) FROM oauth_clients")
        .fetch_one(&mut *write.tx)
        .await
        .map_err(failed("count clients"))?;
    if count < MAX_CLIENTS {
        return Ok(());
    }
    Err(Error::unavailable("The maximum number of clients is registered: use a URL as client_id instead"))
}
