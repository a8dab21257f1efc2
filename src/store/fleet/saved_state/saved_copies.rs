//! Copies of saved states in storage, and the earlier instance ids of computers resumed from there.
//!
//! ```text
//! (no row) --suspend_with_copy--> saving --mark_copy_complete--> whole
//!                                   |                              |
//!                                   +------- discard_copies -------+--> removing --forget_copy--> (no row)
//! ```

use uuid::Uuid;

use crate::fleet::changes::RecordChange;
use crate::vault::columns::{COPY_TOKEN, SAVED_TOKEN, WORKSPACE_KEY};
use crate::vault::{SealedText, Vault};
use crate::{Store, Write, failed, id};
use hotdesk_base::clock;
use hotdesk_base::ids::{ComputerId, InstanceId};
use hotdesk_base::secret::Secret;
use hotdesk_base::secret::sealing::SealingKey;
use hotdesk_base::time::UnixMillis;
use hotdesk_domain::computer::lifecycle::Status;
use hotdesk_domain::computer::saved_state::CopyState;
use hotdesk_domain::error::{Error, Result};

/// Earlier instance ids of a computer that are stored: one a day for more than a year, or one an hour for two
/// weeks. The oldest are removed.
const MAX_EARLIER: i64 = 400;

/// A copy of a saved state in storage.
#[derive(Clone, Debug)]
pub struct SavedCopy {
    /// Id of the copy operation, and part of its objects' names.
    pub operation: Uuid,
    /// The computer, which may be removed already.
    pub computer: ComputerId,
    /// Number of the boot that the memory was saved from.
    pub generation: u64,
    /// Its state.
    pub state: CopyState,
    /// Agent token in the saved memory.
    pub token: Secret,
    /// Key that seals its objects; `None` when they are not sealed.
    pub key: Option<SealingKey>,
    /// Checksum of the manifest, once the copy is complete.
    pub manifest: Option<String>,
    /// Creation time; usually that of the suspend.
    pub created_at: UnixMillis,
}

row! {
    struct Row {
        operation: String,
        computer_id: String,
        generation: i64,
        state: String,
        token: SealedText,
        sealed_for: Option<String>,
        sealing_key: Option<SealedText>,
        manifest: Option<String>,
        created_at: i64,
    }
}

const SELECT: &str = "SELECT c.*, k.sealing_key FROM saved_copies c \
    LEFT JOIN workspace_keys k ON k.workspace_id = c.sealed_for";

impl Row {
    /// Returns the record, with its token opened.
    fn open(self, vault: &Vault) -> Result<SavedCopy> {
        let row = self;
        let bad = |what: &str| Error::internal(format!("saved copy {} holds a bad {what}", row.operation));
        let key = match (&row.sealed_for, &row.sealing_key) {
            (None, _) => None,
            (Some(workspace), Some(sealed)) => {
                let digits = vault.open(&WORKSPACE_KEY, workspace, sealed)?;
                Some(SealingKey::parse(digits.reveal()).ok_or_else(|| bad("key"))?)
            }
            (Some(_), None) => return Err(bad("key")),
        };
        Ok(SavedCopy {
            key,
            operation: id(&row.operation)?,
            computer: id(&row.computer_id)?,
            generation: u64::try_from(row.generation).map_err(|_| bad("generation"))?,
            state: CopyState::parse(&row.state).ok_or_else(|| bad("state"))?,
            token: vault.open(&COPY_TOKEN, &row.operation, &row.token)?,
            manifest: row.manifest,
            created_at: UnixMillis::new(row.created_at),
        })
    }
}

impl Store {
    /// Returns the copy of a computer's saved state, unless it is being removed.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn saved_copy(&self, computer: ComputerId) -> Result<Option<SavedCopy>> {
        let row: Option<Row> = sqlx::query_as(sqlx::AssertSqlSafe(format!(
            "{SELECT} WHERE c.computer_id = $1 AND c.state <> 'removing'"
        )))
        .bind(computer.to_string())
        .fetch_optional(&self.pool)
        .await
        .map_err(failed("read a saved copy"))?;
        row.map(|row| row.open(&self.vault)).transpose()
    }

    /// Returns all copies, also those of removed computers, oldest first.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn saved_copies(&self) -> Result<Vec<SavedCopy>> {
        let rows: Vec<Row> =
            sqlx::query_as(sqlx::AssertSqlSafe(format!("{SELECT} ORDER BY c.created_at, c.operation")))
                .fetch_all(&self.pool)
                .await
                .map_err(failed("list saved copies"))?;
        rows.into_iter().map(|row| row.open(&self.vault)).collect()
    }

    /// Stores that a computer is suspended and that its saved state of this generation must be copied. A copy
    /// of the same generation stays; others are marked for removal. With `seal`, a new copy is sealed with the key of
    /// the workspace. With `first`, the status is `suspending`
    /// until the copy is complete. Returns the status.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails; nothing is changed then.
    pub async fn suspend_with_copy(
        &self,
        computer: ComputerId,
        generation: u64,
        first: bool,
        seal: bool,
    ) -> Result<Status> {
        let mut write = self.write().await?;
        let row = write.computer(computer).await?;
        let generation = i64::try_from(generation).map_err(Error::internal)?;
        sqlx::query("UPDATE saved_copies SET state = 'removing' WHERE computer_id = $1 AND generation <> $2")
            .bind(computer.to_string())
            .bind(generation)
            .execute(&mut *write.tx)
            .await
            .map_err(failed("discard earlier copies"))?;
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
            let operation = Uuid::new_v4();
            if seal {
                write.ensure_workspace_key(row.workspace).await?;
            }
            sqlx::query(
                "INSERT INTO saved_copies (operation, computer_id, generation, state, token, created_at, sealed_for) \
                 VALUES ($1, $2, $3, 'saving', $4, $5, $6)",
            )
            .bind(operation.to_string())
            .bind(computer.to_string())
            .bind(generation)
            .bind(write.vault.seal(&COPY_TOKEN, operation, token)?)
            .bind(clock::now().as_i64())
            .bind(seal.then(|| row.workspace.to_string()))
            .execute(&mut *write.tx)
            .await
            .map_err(failed("store a new saved copy"))?;
        }
        let status = if first && whole == 0 { Status::Suspending } else { Status::Suspended };
        if row.status != status {
            write.status(computer, status).await?;
        }
        write.commit().await?;
        Ok(status)
    }

    /// Stores that a copy is complete, with the checksum of its manifest. A computer that is `suspending` for
    /// it becomes `suspended`. A copy marked for removal stays so.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails; nothing is changed then.
    pub async fn mark_copy_complete(&self, copy: &SavedCopy, manifest: &str) -> Result<()> {
        let mut write = self.write().await?;
        sqlx::query(
            "UPDATE saved_copies SET state = 'whole', manifest = $2 WHERE operation = $1 AND state = 'saving'",
        )
        .bind(copy.operation.to_string())
        .bind(manifest)
        .execute(&mut *write.tx)
        .await
        .map_err(failed("mark a copy as complete"))?;
        sqlx::query(
            "UPDATE computers SET status = 'suspended', updated_at = $2 WHERE id = $1 AND status = 'suspending'",
        )
        .bind(copy.computer.to_string())
        .bind(clock::now().as_i64())
        .execute(&mut *write.tx)
        .await
        .map_err(failed("set a status"))?;
        write.note(RecordChange::Computer(copy.computer));
        write.commit().await
    }

    /// Marks the copies of a computer's saved state for removal.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails; nothing is changed then.
    pub async fn discard_copies(&self, computer: ComputerId) -> Result<()> {
        let mut write = self.write().await?;
        write.discard_copies(computer).await?;
        write.commit().await
    }

    /// Removes the record of a copy whose objects are removed.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails; nothing is changed then.
    pub async fn forget_copy(&self, operation: Uuid) -> Result<()> {
        let mut write = self.write().await?;
        sqlx::query("DELETE FROM saved_copies WHERE operation = $1 AND state = 'removing'")
            .bind(operation.to_string())
            .execute(&mut *write.tx)
            .await
            .map_err(failed("remove a saved copy's record"))?;
        write.remove_unused_workspace_keys().await?;
        write.commit().await
    }

    /// Stores that a computer resumes from storage: like [`Store::begin_resume`], with a new instance id and
    /// `converging` set. The previous instance id still leads to the computer.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails; nothing is changed then.
    pub async fn begin_wake_from_storage(&self, computer: ComputerId) -> Result<()> {
        let mut write = self.write().await?;
        let row = write.computer(computer).await?;
        sqlx::query(
            "INSERT INTO earlier_instances (instance_id, computer_id, ended_at) VALUES ($1, $2, $3) \
             ON CONFLICT (instance_id) DO NOTHING",
        )
        .bind(row.instance.as_str())
        .bind(computer.to_string())
        .bind(clock::now().as_i64())
        .execute(&mut *write.tx)
        .await
        .map_err(failed("store an earlier instance id"))?;
        sqlx::query(
            "DELETE FROM earlier_instances WHERE computer_id = $1 AND instance_id NOT IN (SELECT instance_id \
             FROM earlier_instances WHERE computer_id = $1 ORDER BY ended_at DESC, instance_id LIMIT $2)",
        )
        .bind(computer.to_string())
        .bind(MAX_EARLIER)
        .execute(&mut *write.tx)
        .await
        .map_err(failed("remove earlier instance ids"))?;
        sqlx::query("UPDATE computers SET instance_id = $2, converging = 1 WHERE id = $1")
            .bind(computer.to_string())
            .bind(InstanceId::random().as_str())
            .execute(&mut *write.tx)
            .await
            .map_err(failed("store a new instance id"))?;
        write.next_wake(computer).await?;
        write.commit().await
    }

    /// Stores that a computer stays suspended with the state of its complete copy: nothing booted from it, or
    /// what did was lost with its host.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails; nothing is changed then.
    pub async fn keep_suspended(&self, copy: &SavedCopy) -> Result<()> {
        let mut write = self.write().await?;
        write.status(copy.computer, Status::Suspended).await?;
        sqlx::query("UPDATE computers SET saved_token = $2, converging = 0 WHERE id = $1")
            .bind(copy.computer.to_string())
            .bind(write.vault.seal(&SAVED_TOKEN, copy.computer, &copy.token)?)
            .execute(&mut *write.tx)
            .await
            .map_err(failed("store the saved token"))?;
        write.commit().await
    }

    /// Stores that the fetched state is on the host's disk, so that the copy is not needed any more.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails; nothing is changed then.
    pub async fn mark_converged(&self, computer: ComputerId) -> Result<()> {
        let mut write = self.write().await?;
        sqlx::query("UPDATE computers SET converging = 0 WHERE id = $1")
            .bind(computer.to_string())
            .execute(&mut *write.tx)
            .await
            .map_err(failed("store that a computer converged"))?;
        write.discard_copies(computer).await?;
        write.commit().await
    }
}

impl Write {
    /// Marks the copies of a computer for removal.
    pub(crate) async fn discard_copies(&mut self, computer: ComputerId) -> Result<()> {
        sqlx::query("UPDATE saved_copies SET state = 'removing' WHERE computer_id = $1")
            .bind(computer.to_string())
            .execute(&mut *self.tx)
            .await
            .map_err(failed("discard saved copies"))?;
        Ok(())
    }
}
