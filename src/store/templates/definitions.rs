//! Published templates: one immutable document per namespace, name and version.
//!
//! Those of the service are rows of the operator's account, in their own namespace, from their first build on.

use crate::{Store, failed, id};
use hotdesk_base::clock;
use hotdesk_base::ids::AccountId;
use hotdesk_base::time::UnixMillis;
use hotdesk_domain::computer::template::bounds::{MAX_TEMPLATE_BYTES, MAX_TEMPLATES};
use hotdesk_domain::computer::template::reference::OWN;
use hotdesk_domain::computer::template::{PLAIN_DESKTOP, TemplateRef};
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::error_code::ErrorCode;

/// A published template.
#[derive(Clone, Debug)]
pub struct StoredTemplate {
    /// The account that published it.
    pub account: AccountId,
    /// Its reference, in the account's own namespace or in that of the service.
    pub reference: TemplateRef,
    /// Digest of the document.
    pub digest: String,
    /// The normalised document as JSON.
    pub definition: String,
    /// Whether it was saved from a computer: nothing can build it again.
    pub saved: bool,
    /// When it was published.
    pub created_at: UnixMillis,
}

impl StoredTemplate {
    /// Whether it is the guest image without additions, which needs no build.
    pub fn is_plain_desktop(&self) -> bool {
        self.reference.to_string() == PLAIN_DESKTOP
    }
}

row! {
    struct Row {
        account_id: String,
        namespace: String,
        name: String,
        version: String,
        digest: String,
        definition: String,
        saved: i64,
        created_at: i64,
    }
}

impl Row {
    fn open(self) -> Result<StoredTemplate> {
        Ok(StoredTemplate {
            account: id(&self.account_id)?,
            reference: TemplateRef { namespace: self.namespace, name: self.name, version: self.version },
            digest: self.digest,
            definition: self.definition,
            saved: self.saved != 0,
            created_at: UnixMillis::new(self.created_at),
        })
    }
}

impl Store {
    /// Publishes a template. The same document again changes nothing. With `replace` another document takes the place of
    /// one that no computer was launched from.
    ///
    /// # Errors
    /// `Conflict` (`template_exists`) for another document at a published reference; (`template_in_use`) when a computer of
    /// the account was launched from it; `Forbidden` (`PLAN_LIMIT`) above [`MAX_TEMPLATES`] and
    /// [`MAX_TEMPLATE_BYTES`]; `Unavailable` or `Internal` when the store fails.
    pub async fn publish_template(&self, new: &StoredTemplate, replace: bool) -> Result<()> {
        let reference = &new.reference;
        let mut write = self.write().await?;
        match write.published_digest(new.account, reference).await? {
            Some(digest) if digest == new.digest => return Ok(()),
            Some(_) if !replace => {
                let message = format!(
                    "{reference} is published with another content: raise its version, or send force=true while no \
                     computer was launched from it"
                );
                return Err(Error::conflict(message).code(ErrorCode::TemplateExists));
            }
            Some(_) => write.check_template_unused(new.account, reference).await?,
            None => {}
        }
        write.store_template(new).await?;
        write.remove_unused_builds(new.account).await?;
        write.commit().await
    }

    /// Publishes a template of the service, in the place of one at its reference: the file that the service has is the
    /// document. Computers that were launched from another one keep their layers.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails; nothing is changed then.
    pub async fn publish_system_template(&self, new: &StoredTemplate) -> Result<()> {
        let mut write = self.write().await?;
        write.store_document(new).await?;
        write.remove_unused_builds(new.account).await?;
        write.commit().await
    }

    /// Returns an account's own templates, or those of one name, sorted by name and time.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn templates(&self, account: AccountId, name: Option<&str>) -> Result<Vec<StoredTemplate>> {
        let rows: Vec<Row> = sqlx::query_as(
            "SELECT account_id, namespace, name, version, digest, definition, saved, created_at FROM templates \
             WHERE account_id = $1 AND namespace = $3 AND ($2 IS NULL OR name = $2) \
             ORDER BY name, created_at, version",
        )
        .bind(account.to_string())
        .bind(name)
        .bind(OWN)
        .fetch_all(&self.pool)
        .await
        .map_err(failed("list templates"))?;
        rows.into_iter().map(Row::open).collect()
    }

    /// Whether a template of the account has a document.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn is_published(&self, account: AccountId, digest: &str) -> Result<bool> {
        let found: Option<(i64,)> =
            sqlx::query_as("SELECT created_at FROM templates WHERE account_id = $1 AND digest = $2 LIMIT 1")
                .bind(account.to_string())
                .bind(digest)
                .fetch_optional(&self.pool)
                .await
                .map_err(failed("look for a document"))?;
        Ok(found.is_some())
    }

    /// Returns one of an account's templates.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn template(
        &self,
        account: AccountId,
        reference: &TemplateRef,
    ) -> Result<Option<StoredTemplate>> {
        let row: Option<Row> = sqlx::query_as(
            "SELECT account_id, namespace, name, version, digest, definition, saved, created_at FROM templates \
             WHERE account_id = $1 AND name = $2 AND version = $3 AND namespace = $4",
        )
        .bind(account.to_string())
        .bind(&reference.name)
        .bind(&reference.version)
        .bind(&reference.namespace)
        .fetch_optional(&self.pool)
        .await
        .map_err(failed("look for a template"))?;
        row.map(Row::open).transpose()
    }

    /// Removes a template, and its build unless another template has the same document. Computers that were launched from it
    /// keep their layers. Returns false when there is none.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails; nothing is changed then.
    pub async fn remove_template(&self, account: AccountId, reference: &TemplateRef) -> Result<bool> {
        let mut write = self.write().await?;
        let removed = sqlx::query(
            "DELETE FROM templates WHERE account_id = $1 AND name = $2 AND version = $3 AND namespace = $4",
        )
        .bind(account.to_string())
        .bind(&reference.name)
        .bind(&reference.version)
        .bind(&reference.namespace)
        .execute(&mut *write.tx)
        .await
        .map_err(failed("remove a template"))?;
        write.remove_unused_builds(account).await?;
        write.commit().await?;
        Ok(removed.rows_affected() > 0)
    }
}

impl crate::Write {
    /// Returns the digest of the document at a reference of the account; `None` when nothing is published there.
    pub(crate) async fn published_digest(
        &mut self,
        account: AccountId,
        reference: &TemplateRef,
    ) -> Result<Option<String>> {
        let stored: Option<(String,)> = sqlx::query_as(
            "SELECT digest FROM templates WHERE account_id = $1 AND name = $2 AND version = $3 AND namespace = $4",
        )
        .bind(account.to_string())
        .bind(&reference.name)
        .bind(&reference.version)
        .bind(&reference.namespace)
        .fetch_optional(&mut *self.tx)
        .await
        .map_err(failed("look for a template"))?;
        Ok(stored.map(|(digest,)| digest))
    }

    /// Stores a template within the bounds of an account, in the place of one at its reference.
    ///
    /// # Errors
    /// `Forbidden` (`PLAN_LIMIT`) above [`MAX_TEMPLATES`] and [`MAX_TEMPLATE_BYTES`]; `Unavailable` or `Internal` when the
    /// store fails.
    pub(crate) async fn store_template(&mut self, new: &StoredTemplate) -> Result<()> {
        let reference = &new.reference;
        let (count, bytes): (i64, i64) = sqlx::query_as(
            "SELECT COUNT(*), CAST(COALESCE(SUM(LENGTH(definition)), 0) AS BIGINT) FROM templates \
             WHERE account_id = $1 AND namespace = $4 AND NOT (name = $2 AND version = $3)",
        )
        .bind(new.account.to_string())
        .bind(&reference.name)
        .bind(&reference.version)
        .bind(OWN)
        .fetch_one(&mut *self.tx)
        .await
        .map_err(failed("count templates"))?;
        if count >= MAX_TEMPLATES || bytes.saturating_add(new.definition.len() as i64) > MAX_TEMPLATE_BYTES {
            let message = format!(
                "An account has at most {MAX_TEMPLATES} templates, with {MAX_TEMPLATE_BYTES} bytes together: delete one \
                 first"
            );
            return Err(Error::forbidden(message).code(ErrorCode::PlanLimit));
        }
        self.store_document(new).await
    }

    /// Stores a template in the place of one at its reference.
    async fn store_document(&mut self, new: &StoredTemplate) -> Result<()> {
        sqlx::query(
            "INSERT INTO templates (account_id, name, version, digest, definition, created_at, saved, namespace) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (account_id, namespace, name, version) \
             DO UPDATE SET digest = $4, definition = $5, created_at = $6, saved = $7",
        )
        .bind(new.account.to_string())
        .bind(&new.reference.name)
        .bind(&new.reference.version)
        .bind(&new.digest)
        .bind(&new.definition)
        .bind(clock::now().as_i64())
        .bind(i64::from(new.saved))
        .bind(&new.reference.namespace)
        .execute(&mut *self.tx)
        .await
        .map(drop)
        .map_err(failed("publish a template"))
    }

    /// Refuses while a computer in a workspace of the account was launched from a template.
    async fn check_template_unused(&mut self, account: AccountId, reference: &TemplateRef) -> Result<()> {
        let (count,): (i64,) = sqlx::query_as(
            "SELECT COUNT(*) FROM computers c JOIN workspaces w ON w.id = c.workspace_id \
             WHERE w.account_id = $1 AND c.template_ref = $2",
        )
        .bind(account.to_string())
        .bind(reference.to_string())
        .fetch_one(&mut *self.tx)
        .await
        .map_err(failed("look for computers of a template"))?;
        if count == 0 {
            return Ok(());
        }
        let message = format!("A computer was launched from {reference}: raise its version");
        Err(Error::conflict(message).code(ErrorCode::TemplateInUse))
    }
}
