//! Records of a workspace's files and their deliveries to computers. The contents are in the blob folder.

use crate::{Store, Write, failed, id};
use hotdesk_base::clock;
use hotdesk_base::ids::{ComputerId, FileId, WorkspaceId};
use hotdesk_base::time::UnixMillis;
use hotdesk_domain::billing::plan::Plans;
use hotdesk_domain::computer::lifecycle::Status;
use hotdesk_domain::error::{Error, Result};

/// Record of a file.
#[derive(Clone, Debug)]
pub struct File {
    /// Its id, which is also the name of its blob.
    pub id: FileId,
    /// Its workspace.
    pub workspace: WorkspaceId,
    /// The computer that it is for or from; `None` for a file of the whole workspace or of a removed
    /// computer.
    pub computer: Option<ComputerId>,
    /// Its base name.
    pub filename: String,
    /// Its size in bytes.
    pub size_bytes: u64,
    /// Its media type.
    pub content_type: String,
    /// `upload` or `export`.
    pub source: String,
    /// Creation time.
    pub created_at: UnixMillis,
}

row! {
    struct Row {
        id: String,
        workspace_id: String,
        computer_id: Option<String>,
        filename: String,
        size_bytes: i64,
        content_type: String,
        source: String,
        created_at: i64,
    }
}

impl TryFrom<Row> for File {
    type Error = Error;

    fn try_from(row: Row) -> Result<Self> {
        Ok(Self {
            id: id(&row.id)?,
            workspace: id(&row.workspace_id)?,
            computer: row.computer_id.as_deref().map(id).transpose()?,
            filename: row.filename,
            size_bytes: u64::try_from(row.size_bytes).unwrap_or_default(),
            content_type: row.content_type,
            source: row.source,
            created_at: UnixMillis::new(row.created_at),
        })
    }
}

/// Outcome of a delivery that is still to be made.
const PENDING: &str = "pending";
/// Statuses of computers that get an upload of their workspace: they run, or will run soon.
const RECEIVING: [Status; 4] = [Status::Creating, Status::Starting, Status::Running, Status::Restarting];

impl Store {
    /// Stores a file's record if the quota of the workspace's owner admits it. An upload is to be delivered to
    /// its computer, or to those computers of the workspace that run now or are about to.
    ///
    /// # Errors
    /// Those of [`Quota::admit_file`](hotdesk_domain::billing::quota::Quota::admit_file); `NotFound` when the
    /// workspace does not exist; `Unavailable` or `Internal` when the store fails or the computer does not
    /// exist. Nothing is stored then.
    pub async fn add_file(&self, file: &File, plans: &Plans) -> Result<()> {
        let mut write = self.write().await?;
        write.check_file(file.workspace, file.size_bytes, plans).await?;
        sqlx::query(
            "INSERT INTO files (id, workspace_id, computer_id, filename, size_bytes, content_type, source, created_at) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
        )
        .bind(file.id.to_string())
        .bind(file.workspace.to_string())
        .bind(file.computer.map(|computer| computer.to_string()))
        .bind(&file.filename)
        .bind(i64::try_from(file.size_bytes).unwrap_or(i64::MAX))
        .bind(&file.content_type)
        .bind(&file.source)
        .bind(file.created_at.as_i64())
        .execute(&mut *write.tx)
        .await
        .map_err(failed("store a file's record"))?;
        if file.source == "upload" {
            write.request_deliveries(file).await?;
        }
        write.commit().await
    }

    /// Returns a workspace's files, newest first. With a computer, returns only those for or from it, and the
    /// uploads for the whole workspace.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn files(&self, workspace: WorkspaceId, computer: Option<ComputerId>) -> Result<Vec<File>> {
        let rows: Vec<Row> = sqlx::query_as(
            "SELECT * FROM files WHERE workspace_id = $1 AND ($2 = '' OR computer_id = $2 \
             OR (computer_id IS NULL AND source = 'upload')) ORDER BY created_at DESC, id",
        )
        .bind(workspace.to_string())
        .bind(computer.map(|computer| computer.to_string()).unwrap_or_default())
        .fetch_all(&self.pool)
        .await
        .map_err(failed("list files"))?;
        rows.into_iter().map(File::try_from).collect()
    }

    /// Returns a file's record, or `None` when it does not exist.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn file(&self, file: FileId) -> Result<Option<File>> {
        let row: Option<Row> = sqlx::query_as("SELECT * FROM files WHERE id = $1")
            .bind(file.to_string())
            .fetch_optional(&self.pool)
            .await
            .map_err(failed("read a file's record"))?;
        row.map(File::try_from).transpose()
    }

    /// Returns the ids of all files, so that a sweep can find blobs without a record.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn file_ids(&self) -> Result<Vec<FileId>> {
        let rows: Vec<(String,)> = sqlx::query_as("SELECT id FROM files")
            .fetch_all(&self.pool)
            .await
            .map_err(failed("list files"))?;
        rows.iter().map(|(text,)| id(text)).collect()
    }

    /// Removes a file's record; a missing record is not an error.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails; nothing is changed then.
    pub async fn remove_file(&self, file: FileId) -> Result<()> {
        let mut write = self.write().await?;
        sqlx::query("DELETE FROM files WHERE id = $1")
            .bind(file.to_string())
            .execute(&mut *write.tx)
            .await
            .map_err(failed("remove a file's record"))?;
        write.commit().await
    }

    /// Returns the uploads that are still to be delivered to a computer, oldest first.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn undelivered_files(&self, computer: ComputerId, workspace: WorkspaceId) -> Result<Vec<File>> {
        let rows: Vec<Row> = sqlx::query_as(
            "SELECT f.* FROM files f JOIN deliveries d ON d.file_id = f.id WHERE d.computer_id = $1 \
             AND d.outcome = $3 AND f.workspace_id = $2 ORDER BY f.created_at, f.id",
        )
        .bind(computer.to_string())
        .bind(workspace.to_string())
        .bind(PENDING)
        .fetch_all(&self.pool)
        .await
        .map_err(failed("list undelivered files"))?;
        rows.into_iter().map(File::try_from).collect()
    }

    /// Records the outcome of a delivery to a computer. A removed file or computer is not an error.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails; nothing is changed then.
    pub async fn record_delivery(&self, file: FileId, computer: ComputerId, outcome: &str) -> Result<()> {
        let mut write = self.write().await?;
        sqlx::query(
            "INSERT INTO deliveries (file_id, computer_id, outcome, delivered_at) \
             SELECT f.id, c.id, $3, $4 FROM files f, computers c WHERE f.id = $1 AND c.id = $2 \
             ON CONFLICT (file_id, computer_id) DO UPDATE SET outcome = excluded.outcome, \
             delivered_at = excluded.delivered_at",
        )
        .bind(file.to_string())
        .bind(computer.to_string())
        .bind(outcome)
        .bind(clock::now().as_i64())
        .execute(&mut *write.tx)
        .await
        .map_err(failed("record a delivery"))?;
        write.commit().await
    }
}

impl Write {
    /// Stores which computers are to get a new upload.
    async fn request_deliveries(&mut self, file: &File) -> Result<()> {
        let receiving = RECEIVING.map(|status| format!("'{}'", status.name())).join(", ");
        sqlx::query(sqlx::AssertSqlSafe(format!(
            "INSERT INTO deliveries (file_id, computer_id, outcome, delivered_at) \
             SELECT $1, id, $4, $5 FROM computers \
             WHERE workspace_id = $2 AND (id = $3 OR ($3 = '' AND status IN ({receiving})))"
        )))
        .bind(file.id.to_string())
        .bind(file.workspace.to_string())
        .bind(file.computer.map(|computer| computer.to_string()).unwrap_or_default())
        .bind(PENDING)
        .bind(file.created_at.as_i64())
        .execute(&mut *self.tx)
        .await
        .map_err(failed("store the deliveries of a file"))?;
        Ok(())
    }

    /// Stores that a new computer is to get the earlier uploads of its whole workspace.
    pub(crate) async fn request_earlier_files(
        &mut self,
        computer: ComputerId,
        workspace: WorkspaceId,
    ) -> Result<()> {
        sqlx::query(
            "INSERT INTO deliveries (file_id, computer_id, outcome, delivered_at) \
             SELECT id, $1, $3, $4 FROM files \
             WHERE workspace_id = $2 AND source = 'upload' AND computer_id IS NULL",
        )
        .bind(computer.to_string())
        .bind(workspace.to_string())
        .bind(PENDING)
        .bind(clock::now().as_i64())
        .execute(&mut *self.tx)
        .await
        .map_err(failed("store the deliveries to a new computer"))?;
        Ok(())
    }
}
