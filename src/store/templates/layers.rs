//! Layers of disks that builds made. A layer is stored before it is made, and removed from the host before its row.

use std::collections::HashSet;

use crate::templates::parse_layers;
use crate::{Store, failed, id};
use hotdesk_base::clock;
use hotdesk_base::ids::{AccountId, LayerId};
use hotdesk_base::time::UnixMillis;
use hotdesk_domain::computer::template::build::RetainedLayer;
use hotdesk_domain::error::Result;

row! {
    struct Row {
        layer_id: String,
        ready: i64,
        used_at: i64,
    }
}

impl Store {
    /// Returns the finished layer of an account for these inputs, and stores its use.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn use_template_layer(&self, account: AccountId, inputs: &str) -> Result<Option<LayerId>> {
        let mut write = self.write().await?;
        let found: Option<(String,)> = sqlx::query_as(
            "UPDATE template_layers SET used_at = $3 WHERE account_id = $1 AND inputs = $2 AND ready = 1 \
             RETURNING layer_id",
        )
        .bind(account.to_string())
        .bind(inputs)
        .bind(clock::now().as_i64())
        .fetch_optional(&mut *write.tx)
        .await
        .map_err(failed("look for a layer"))?;
        write.commit().await?;
        found.map(|(layer,)| id(&layer)).transpose()
    }

    /// Stores the use of layers. Returns whether all of them are there and complete.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn use_template_layers(&self, layers: &[LayerId]) -> Result<bool> {
        let mut write = self.write().await?;
        let mut found = 0;
        for layer in layers {
            let used =
                sqlx::query("UPDATE template_layers SET used_at = $2 WHERE layer_id = $1 AND ready = 1")
                    .bind(layer.to_string())
                    .bind(clock::now().as_i64())
                    .execute(&mut *write.tx)
                    .await
                    .map_err(failed("store the use of a layer"))?;
            found += used.rows_affected();
        }
        write.commit().await?;
        Ok(found == layers.len() as u64)
    }

    /// Claims an unused layer for its removal: nothing uses it any more. Returns false when something does, or used it since
    /// `used_at`.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn claim_template_layer(&self, layer: LayerId, used_at: UnixMillis) -> Result<bool> {
        let mut write = self.write().await?;
        let claimed = sqlx::query(
            "UPDATE template_layers SET ready = 0 WHERE layer_id = $1 AND used_at = $2 AND ready = 1 \
             AND NOT EXISTS (SELECT 1 FROM template_builds WHERE layers LIKE $3) \
             AND NOT EXISTS (SELECT 1 FROM computers WHERE layers LIKE $3)",
        )
        .bind(layer.to_string())
        .bind(used_at.as_i64())
        .bind(format!("%{layer}%"))
        .execute(&mut *write.tx)
        .await
        .map_err(failed("claim an unused layer"))?;
        write.commit().await?;
        Ok(claimed.rows_affected() > 0)
    }

    /// Stores a layer before it is made. It takes the place of one for these inputs that was never completed.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails, or already has a complete one for these inputs.
    pub async fn add_template_layer(&self, account: AccountId, layer: LayerId, inputs: &str) -> Result<()> {
        let mut write = self.write().await?;
        sqlx::query("DELETE FROM template_layers WHERE account_id = $1 AND inputs = $2 AND ready = 0")
            .bind(account.to_string())
            .bind(inputs)
            .execute(&mut *write.tx)
            .await
            .map_err(failed("remove an unfinished layer"))?;
        sqlx::query(
            "INSERT INTO template_layers (layer_id, account_id, inputs, ready, bytes, used_at) \
             VALUES ($1, $2, $3, 0, 0, $4)",
        )
        .bind(layer.to_string())
        .bind(account.to_string())
        .bind(inputs)
        .bind(clock::now().as_i64())
        .execute(&mut *write.tx)
        .await
        .map_err(failed("store a layer"))?;
        write.commit().await
    }

    /// Stores that a layer is complete, with its size in bytes.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn finish_template_layer(&self, layer: LayerId, bytes: u64) -> Result<()> {
        let mut write = self.write().await?;
        sqlx::query("UPDATE template_layers SET ready = 1, bytes = $2 WHERE layer_id = $1")
            .bind(layer.to_string())
            .bind(i64::try_from(bytes).unwrap_or(i64::MAX))
            .execute(&mut *write.tx)
            .await
            .map_err(failed("finish a layer"))?;
        write.commit().await
    }

    /// Removes a layer's row, after the layer is gone from the host.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn remove_template_layer(&self, layer: LayerId) -> Result<()> {
        let mut write = self.write().await?;
        sqlx::query("DELETE FROM template_layers WHERE layer_id = $1")
            .bind(layer.to_string())
            .execute(&mut *write.tx)
            .await
            .map_err(failed("remove a layer"))?;
        write.commit().await
    }

    /// Returns all layers, with what their retention depends on.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn template_layers(&self) -> Result<Vec<(LayerId, RetainedLayer)>> {
        let lists: Vec<(String,)> = sqlx::query_as(
            "SELECT layers FROM template_builds WHERE layers <> '' \
             UNION SELECT layers FROM computers WHERE layers <> ''",
        )
        .fetch_all(&self.pool)
        .await
        .map_err(failed("list the used layers"))?;
        let mut used = HashSet::new();
        for (list,) in lists {
            used.extend(parse_layers(&list)?);
        }
        let rows: Vec<Row> =
            sqlx::query_as("SELECT layer_id, ready, used_at FROM template_layers ORDER BY layer_id")
                .fetch_all(&self.pool)
                .await
                .map_err(failed("list the layers"))?;
        let retained = |row: Row| {
            let layer = id(&row.layer_id)?;
            let (ready, used_at) = (row.ready != 0, UnixMillis::new(row.used_at));
            Ok((layer, RetainedLayer { ready, used: used.contains(&layer), used_at }))
        };
        rows.into_iter().map(retained).collect()
    }
}
