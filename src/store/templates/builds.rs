//! Builds of templates: the last one of each document.

use crate::templates::{layers_text, parse_layers};
use crate::{Store, Write, failed};
use hotdesk_base::clock;
use hotdesk_base::ids::{AccountId, LayerId};
use hotdesk_base::time::UnixMillis;
use hotdesk_domain::computer::template::build::BuildStatus;
use hotdesk_domain::error::{Error, Result};

/// Layers that a build made.
#[derive(Clone, Debug)]
pub struct BuiltLayers {
    /// The guest image below the layers.
    pub image: String,
    /// The layers, the lowest first.
    pub layers: Vec<LayerId>,
}

/// The last build of a document.
#[derive(Clone, Debug)]
pub struct StoredBuild {
    /// Its status.
    pub status: BuildStatus,
    /// Why it failed.
    pub error: Option<String>,
    /// Layers that it made, when it is ready.
    pub built: Option<BuiltLayers>,
    /// When it began.
    pub began_at: UnixMillis,
    /// When it ended.
    pub ended_at: Option<UnixMillis>,
}

row! {
    struct Row {
        status: String,
        error: Option<String>,
        image: Option<String>,
        layers: String,
        began_at: i64,
        ended_at: Option<i64>,
    }
}

impl Row {
    fn open(self) -> Result<StoredBuild> {
        let status = BuildStatus::parse(&self.status);
        let status =
            status.ok_or_else(|| Error::internal(format!("a build has the status {}", self.status)))?;
        let layers = parse_layers(&self.layers)?;
        let built = self.image.map(|image| BuiltLayers { image, layers });
        Ok(StoredBuild {
            status,
            error: self.error,
            built: built.filter(|_| status == BuildStatus::Ready),
            began_at: UnixMillis::new(self.began_at),
            ended_at: self.ended_at.map(UnixMillis::new),
        })
    }
}

impl Store {
    /// Returns the last build of a document.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn template_build(&self, account: AccountId, digest: &str) -> Result<Option<StoredBuild>> {
        let row: Option<Row> = sqlx::query_as(
            "SELECT status, error, image, layers, began_at, ended_at FROM template_builds \
             WHERE account_id = $1 AND digest = $2",
        )
        .bind(account.to_string())
        .bind(digest)
        .fetch_optional(&self.pool)
        .await
        .map_err(failed("look for a build"))?;
        row.map(Row::open).transpose()
    }

    /// Stores that a build of a document begins. Returns false when no template of the account has the document any more.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn begin_template_build(&self, account: AccountId, digest: &str) -> Result<bool> {
        let mut write = self.write().await?;
        let begun = sqlx::query(
            "INSERT INTO template_builds (account_id, digest, status, layers, began_at) \
             SELECT $1, $2, $3, '', $4 WHERE EXISTS \
              (SELECT 1 FROM templates WHERE account_id = $1 AND digest = $2) \
             ON CONFLICT (account_id, digest) \
             DO UPDATE SET status = $3, error = NULL, image = NULL, layers = '', began_at = $4, ended_at = NULL",
        )
        .bind(account.to_string())
        .bind(digest)
        .bind(BuildStatus::Building.name())
        .bind(clock::now().as_i64())
        .execute(&mut *write.tx)
        .await
        .map_err(failed("begin a build"))?;
        write.commit().await?;
        Ok(begun.rows_affected() > 0)
    }

    /// Stores how a build ended: with what it made, or with its error. A build whose template was deleted meanwhile has no
    /// row any more.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn end_template_build(
        &self,
        account: AccountId,
        digest: &str,
        outcome: std::result::Result<&BuiltLayers, &str>,
    ) -> Result<()> {
        let (status, error, built) = match outcome {
            Ok(built) => (BuildStatus::Ready, None, Some(built)),
            Err(error) => (BuildStatus::Failed, Some(error), None),
        };
        let mut write = self.write().await?;
        sqlx::query(
            "UPDATE template_builds SET status = $3, error = $4, image = $5, layers = $6, ended_at = $7 \
             WHERE account_id = $1 AND digest = $2",
        )
        .bind(account.to_string())
        .bind(digest)
        .bind(status.name())
        .bind(error)
        .bind(built.map(|built| built.image.as_str()))
        .bind(built.map(|built| layers_text(&built.layers)).unwrap_or_default())
        .bind(clock::now().as_i64())
        .execute(&mut *write.tx)
        .await
        .map_err(failed("end a build"))?;
        write.commit().await
    }

    /// Ends the builds that an earlier run of the controller did not finish, as failed with this error.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn fail_unfinished_builds(&self, error: &str) -> Result<()> {
        let mut write = self.write().await?;
        sqlx::query("UPDATE template_builds SET status = $1, error = $2, ended_at = $3 WHERE status = $4")
            .bind(BuildStatus::Failed.name())
            .bind(error)
            .bind(clock::now().as_i64())
            .bind(BuildStatus::Building.name())
            .execute(&mut *write.tx)
            .await
            .map_err(failed("end unfinished builds"))?;
        write.commit().await
    }
}

impl Write {
    /// Removes the builds of documents that no template of the account has any more.
    pub(crate) async fn remove_unused_builds(&mut self, account: AccountId) -> Result<()> {
        sqlx::query(
            "DELETE FROM template_builds WHERE account_id = $1 \
             AND digest NOT IN (SELECT digest FROM templates WHERE account_id = $1)",
        )
        .bind(account.to_string())
        .execute(&mut *self.tx)
        .await
        .map(drop)
        .map_err(failed("remove unused builds"))
    }
}
