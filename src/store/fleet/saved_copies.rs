//! Which computers' saved states are copied to storage, and which handles did a computer have before it woke from there?

use uuid::Uuid;

use super::{Store, Write, failed, id};
use hotdesk_base::clock::now_ms;
use hotdesk_base::ids::{ComputerId, InstanceId};
use hotdesk_base::secret::Secret;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::lifecycle::Status;
use hotdesk_domain::stored::CopyState;

/// Handles of earlier instances that lead to a computer: one a day for a year and more, or one an hour for a fortnight. Older
/// ones are forgotten.
const MAX_EARLIER: i64 = 400;

/// A copy of a saved state.
#[derive(Clone, Debug)]
pub struct SavedCopy {
    /// The try at copying; a part of its objects' names.
    pub operation: Uuid,
    /// The computer, which may be gone.
    pub computer: ComputerId,
    /// The boot that the saved memory ran since.
    pub generation: u64,
    /// How far it is.
    pub state: CopyState,
    /// The token that the saved memory knows.
    pub token: Secret,
    /// The manifest's sum, once it is whole.
    pub manifest: Option<String>,
    /// When it was asked for: with the suspend, as a rule.
    pub created_at: i64,
}

#[derive(sqlx::FromRow)]
struct Row {
    operation: String,
    computer_id: String,
    generation: i64,
    state: String,
    token: String,
    manifest: Option<String>,
    created_at: i64,
}

impl TryFrom<Row> for SavedCopy {
    type Error = Error;

    fn try_from(row: Row) -> Result<Self> {
        let bad = |what: &str| Error::internal(format!("saved copy {} holds a bad {what}", row.operation));
        Ok(Self {
            operation: id(&row.operation)?,
            computer: id(&row.computer_id)?,
            generation: u64::try_from(row.generation).map_err(|_| bad("generation"))?,
            state: CopyState::parse(&row.state).ok_or_else(|| bad("state"))?,
            token: Secret::new(row.token),
            manifest: row.manifest,
            created_at: row.created_at,
        })
    }
}

impl Store {
    /// The copy of a computer's saved state, unless that is being removed.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn saved_copy(&self, computer: ComputerId) -> Result<Option<SavedCopy>> {
        let row: Option<Row> =
            sqlx::query_as("SELECT * FROM saved_copies WHERE computer_id = $1 AND state <> 'removing'")
                .bind(computer.to_string())
                .fetch_optional(&self.pool)
                .await
                .map_err(failed("read a saved copy"))?;
        row.map(SavedCopy::try_from).transpose()
    }

    /// Every copy, also of computers that are gone.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn saved_copies(&self) -> Result<Vec<SavedCopy>> {
        let rows: Vec<Row> = sqlx::query_as("SELECT * FROM saved_copies ORDER BY created_at, operation")
            .fetch_all(&self.pool)
            .await
            .map_err(failed("list saved copies"))?;
        rows.into_iter().map(SavedCopy::try_from).collect()
    }

    /// Stores that a computer sleeps, with the intent to copy its saved state of this generation. A copy of the same
    /// generation is kept as it is, others are given up. With `first` a computer whose copy is not whole is stored as
    /// `suspending`. The status as it is then.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn fall_asleep(&self, computer: ComputerId, generation: u64, first: bool) -> Result<Status> {
        let mut write = self.write().await?;
        let row = write.computer(computer).await?;
        let generation = i64::try_from(generation).map_err(Error::internal)?;
        sqlx::query("UPDATE saved_copies SET state = 'removing' WHERE computer_id = $1 AND generation <> $2")
            .bind(computer.to_string())
            .bind(generation)
            .execute(&mut *write.tx)
            .await
            .map_err(failed("give up earlier copies"))?;
        let (whole, there): (i64, i64) = sqlx::query_as(
            "SELECT CAST(COALESCE(SUM(CASE WHEN state = 'whole' THEN 1 ELSE 0 END), 0) AS BIGINT), COUNT(*) \
             FROM saved_copies WHERE computer_id = $1 AND state <> 'removing'",
        )
        .bind(computer.to_string())
        .fetch_one(&mut *write.tx)
        .await
        .map_err(failed("look for a saved copy"))?;
        if there == 0 {
            let token = row.saved_token.as_ref().unwrap_or(&row.agent_token);
            sqlx::query(
                "INSERT INTO saved_copies (operation, computer_id, generation, state, token, created_at) \
                 VALUES ($1, $2, $3, 'saving', $4, $5)",
            )
            .bind(Uuid::new_v4().to_string())
            .bind(computer.to_string())
            .bind(generation)
            .bind(token.reveal())
            .bind(now_ms())
            .execute(&mut *write.tx)
            .await
            .map_err(failed("store the intent to copy"))?;
        }
        let status = if first && whole == 0 { Status::Suspending } else { Status::Suspended };
        if row.status != status {
            write.status(computer, status).await?;
        }
        write.commit().await?;
        Ok(status)
    }

    /// Stores that a copy is whole, by its manifest's sum; a computer that was `suspending` for it is `suspended` since
    /// then. A copy that was given up meanwhile stays so.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn copy_is_whole(&self, copy: &SavedCopy, manifest: &str) -> Result<()> {
        let mut write = self.write().await?;
        sqlx::query(
            "UPDATE saved_copies SET state = 'whole', manifest = $2 WHERE operation = $1 AND state = 'saving'",
        )
        .bind(copy.operation.to_string())
        .bind(manifest)
        .execute(&mut *write.tx)
        .await
        .map_err(failed("store that a copy is whole"))?;
        sqlx::query(
            "UPDATE computers SET status = 'suspended', updated_at = $2 WHERE id = $1 AND status = 'suspending'",
        )
        .bind(copy.computer.to_string())
        .bind(now_ms())
        .execute(&mut *write.tx)
        .await
        .map_err(failed("set a status"))?;
        write.commit().await
    }

    /// Stores that nobody needs the copies of a computer's saved state.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn give_up_copies(&self, computer: ComputerId) -> Result<()> {
        let mut write = self.write().await?;
        write.give_up_copies(computer).await?;
        write.commit().await
    }

    /// Forgets a copy whose objects are gone.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn forget_copy(&self, operation: Uuid) -> Result<()> {
        let mut write = self.write().await?;
        sqlx::query("DELETE FROM saved_copies WHERE operation = $1 AND state = 'removing'")
            .bind(operation.to_string())
            .execute(&mut *write.tx)
            .await
            .map_err(failed("forget a saved copy"))?;
        write.commit().await
    }

    /// Stores the intent to wake from storage: as [`Store::begin_resume`], with a new instance handle, the old one kept,
    /// and `converging` from now on.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn begin_wake_from_storage(&self, computer: ComputerId) -> Result<()> {
        let mut write = self.write().await?;
        let row = write.computer(computer).await?;
        sqlx::query(
            "INSERT INTO earlier_instances (instance_id, computer_id, ended_at) VALUES ($1, $2, $3) \
             ON CONFLICT (instance_id) DO NOTHING",
        )
        .bind(row.instance.as_str())
        .bind(computer.to_string())
        .bind(now_ms())
        .execute(&mut *write.tx)
        .await
        .map_err(failed("keep an instance's handle"))?;
        sqlx::query(
            "DELETE FROM earlier_instances WHERE computer_id = $1 AND instance_id NOT IN (SELECT instance_id \
             FROM earlier_instances WHERE computer_id = $1 ORDER BY ended_at DESC, instance_id LIMIT $2)",
        )
        .bind(computer.to_string())
        .bind(MAX_EARLIER)
        .execute(&mut *write.tx)
        .await
        .map_err(failed("forget an instance's handle"))?;
        sqlx::query("UPDATE computers SET instance_id = $2, converging = 1 WHERE id = $1")
            .bind(computer.to_string())
            .bind(InstanceId::random().as_str())
            .execute(&mut *write.tx)
            .await
            .map_err(failed("give a new instance its handle"))?;
        write.next_wake(computer).await?;
        write.commit().await
    }

    /// Stores that a computer sleeps on with the saved state that its whole copy is of: nothing was booted from it, or
    /// what was is gone with its host's power.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn sleep_on(&self, copy: &SavedCopy) -> Result<()> {
        let mut write = self.write().await?;
        write.status(copy.computer, Status::Suspended).await?;
        sqlx::query("UPDATE computers SET saved_token = $2, converging = 0 WHERE id = $1")
            .bind(copy.computer.to_string())
            .bind(copy.token.reveal())
            .execute(&mut *write.tx)
            .await
            .map_err(failed("keep the saved token"))?;
        write.commit().await
    }

    /// Stores that what a computer fetched is on its host's disk: its copy is not needed any more.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn converged(&self, computer: ComputerId) -> Result<()> {
        let mut write = self.write().await?;
        sqlx::query("UPDATE computers SET converging = 0 WHERE id = $1")
            .bind(computer.to_string())
            .execute(&mut *write.tx)
            .await
            .map_err(failed("store that a computer converged"))?;
        write.give_up_copies(computer).await?;
        write.commit().await
    }
}

impl Write {
    /// What is to be removed of a computer that wakes or goes.
    pub(super) async fn give_up_copies(&mut self, computer: ComputerId) -> Result<()> {
        sqlx::query("UPDATE saved_copies SET state = 'removing' WHERE computer_id = $1")
            .bind(computer.to_string())
            .execute(&mut *self.tx)
            .await
            .map_err(failed("give up a saved copy"))?;
        Ok(())
    }
}
