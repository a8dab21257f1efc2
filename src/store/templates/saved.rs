//! Templates that were saved from computers: document, layers and build appear together, or not at all.

use crate::templates::builds::BuiltLayers;
use crate::templates::definitions::StoredTemplate;
use crate::templates::layers_text;
use crate::{Store, failed};
use hotdesk_base::clock;
use hotdesk_base::ids::LayerId;
use hotdesk_domain::computer::template::build::BuildStatus;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::error_code::ErrorCode;

/// The layer that was made of a computer's own writes.
#[derive(Clone, Copy, Debug)]
pub struct SavedLayer {
    /// Its id, which [`Store::add_template_layer`] has stored.
    pub id: LayerId,
    /// Its size.
    pub bytes: u64,
}

impl Store {
    /// Publishes a saved template with its build, and completes its new layer.
    ///
    /// # Errors
    /// `Conflict` (`template_exists`) when something is published at its reference; `Conflict` when a layer is gone;
    /// `Forbidden` (`PLAN_LIMIT`) at the bounds of [`Store::publish_template`]; `Unavailable` or `Internal` when the store
    /// fails. Nothing is changed then.
    pub async fn publish_saved_template(
        &self,
        new: &StoredTemplate,
        layer: SavedLayer,
        built: &BuiltLayers,
    ) -> Result<()> {
        let mut write = self.write().await?;
        if write.published_digest(new.account, &new.reference).await?.is_some() {
            let message = format!("{} is published already: raise the version", new.reference);
            return Err(Error::conflict(message).code(ErrorCode::TemplateExists));
        }
        let now = clock::now().as_i64();
        sqlx::query("UPDATE template_layers SET ready = 1, bytes = $2 WHERE layer_id = $1")
            .bind(layer.id.to_string())
            .bind(i64::try_from(layer.bytes).unwrap_or(i64::MAX))
            .execute(&mut *write.tx)
            .await
            .map_err(failed("finish a saved layer"))?;
        for used in &built.layers {
            let found =
                sqlx::query("UPDATE template_layers SET used_at = $2 WHERE layer_id = $1 AND ready = 1")
                    .bind(used.to_string())
                    .bind(now)
                    .execute(&mut *write.tx)
                    .await
                    .map_err(failed("store the use of a layer"))?;
            if found.rows_affected() == 0 {
                return Err(Error::conflict(format!("the layer {used} of the computer is gone")));
            }
        }
        write.store_template(new).await?;
        sqlx::query(
            "INSERT INTO template_builds (account_id, digest, status, image, layers, began_at, ended_at) \
             VALUES ($1, $2, $3, $4, $5, $6, $7)",
        )
        .bind(new.account.to_string())
        .bind(&new.digest)
        .bind(BuildStatus::Ready.name())
        .bind(&built.image)
        .bind(layers_text(&built.layers))
        .bind(new.created_at.as_i64())
        .bind(now)
        .execute(&mut *write.tx)
        .await
        .map_err(failed("store a saved build"))?;
        write.commit().await
    }
}
