//! Stars: templates that an account marked.

use crate::{Store, failed};
use hotdesk_base::clock;
use hotdesk_base::ids::AccountId;
use hotdesk_domain::computer::template::TemplateRef;
use hotdesk_domain::computer::template::bounds::MAX_STARS;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::error_code::ErrorCode;

impl Store {
    /// Marks a template, or removes its mark.
    ///
    /// # Errors
    /// `Forbidden` (`PLAN_LIMIT`) above [`MAX_STARS`]; `Unavailable` or `Internal` when the store fails.
    pub async fn star_template(
        &self,
        account: AccountId,
        reference: &TemplateRef,
        starred: bool,
    ) -> Result<()> {
        let (account, reference) = (account.to_string(), reference.to_string());
        let mut write = self.write().await?;
        sqlx::query("DELETE FROM template_stars WHERE account_id = $1 AND template_ref = $2")
            .bind(&account)
            .bind(&reference)
            .execute(&mut *write.tx)
            .await
            .map_err(failed("remove a star"))?;
        if starred {
            let (count,): (i64,) =
                sqlx::query_as("SELECT COUNT(*) FROM template_stars WHERE account_id = $1")
                    .bind(&account)
                    .fetch_one(&mut *write.tx)
                    .await
                    .map_err(failed("count stars"))?;
            if count >= MAX_STARS {
                let message =
                    format!("An account has at most {MAX_STARS} starred templates: remove a star first");
                return Err(Error::forbidden(message).code(ErrorCode::PlanLimit));
            }
            sqlx::query(
                "INSERT INTO template_stars (account_id, template_ref, starred_at) VALUES ($1, $2, $3)",
            )
            .bind(&account)
            .bind(&reference)
            .bind(clock::now().as_i64())
            .execute(&mut *write.tx)
            .await
            .map_err(failed("store a star"))?;
        }
        write.commit().await
    }

    /// Returns the templates that an account marked, in the order in which it did. Some may be deleted.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn starred_templates(&self, account: AccountId) -> Result<Vec<TemplateRef>> {
        let rows: Vec<(String,)> = sqlx::query_as(
            "SELECT template_ref FROM template_stars WHERE account_id = $1 ORDER BY starred_at, template_ref",
        )
        .bind(account.to_string())
        .fetch_all(&self.pool)
        .await
        .map_err(failed("list stars"))?;
        Ok(rows.iter().filter_map(|(text,)| TemplateRef::parse(text)).collect())
    }
}
