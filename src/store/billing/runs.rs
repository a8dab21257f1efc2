//! Running times of computers: one row per run of one size for one payer.
//!
//! The rows are written in the transactions that change the computer's own row, so that the two never differ.
//!
//! Machines run on while the controller is down, and so do their runs. Each running computer is stamped
//! periodically. If a computer is found dead and was not seen since this store was opened, its run ends at
//! its last stamp.

use std::collections::HashSet;
use std::ops::Range;

use crate::fleet::changes::RecordChange;
use crate::{Store, Write, failed, id};
use hotdesk_base::clock;
use hotdesk_base::ids::{ClientId, ComputerId};
use hotdesk_base::time::UnixMillis;
use hotdesk_domain::billing::usage::Run;
use hotdesk_domain::computer::lifecycle::Status;
use hotdesk_domain::error::{Error, Result};

/// Stamps of one statement: SQLite binds at most 32,766 values, and PostgreSQL 65,535.
const STAMPS_AT_ONCE: usize = 1000;
/// Computers whose runs are compared one by one: a statement for all reads every computer.
const COMPARED_ALONE: usize = 16;
/// Computers whose run in progress is missing, superfluous, or of another size or payer.
const DIFFERENT: &str = "SELECT c.id FROM computers c JOIN workspaces w ON w.id = c.workspace_id \
    LEFT JOIN clients k ON k.workspace_id = w.id LEFT JOIN runs r ON r.computer_id = c.id AND r.ended_at IS NULL \
    WHERE (c.status = $1 AND (r.id IS NULL OR r.cpu <> c.cpu OR r.ram_gb <> c.ram_gb OR r.account_id <> w.account_id \
    OR COALESCE(r.client_id, '') <> COALESCE(k.id, ''))) OR (c.status <> $1 AND r.id IS NOT NULL)";

row! {
    /// Charged resources and payer; a run ends when they change.
    #[derive(Clone, Debug, PartialEq)]
    struct Load {
        cpu: f64,
        ram_gb: i64,
        account_id: String,
        client_id: Option<String>,
    }
}

row! {
    struct Row {
        computer_id: String,
        ram_gb: i64,
        started_at: i64,
        ended_at: Option<i64>,
    }
}

impl TryFrom<Row> for Run {
    type Error = Error;

    fn try_from(row: Row) -> Result<Self> {
        Ok(Self {
            computer: id(&row.computer_id)?,
            ram_gb: u32::try_from(row.ram_gb).map_err(|_| Error::internal("a run holds a bad ram_gb"))?,
            started_at: UnixMillis::new(row.started_at),
            ended_at: row.ended_at.map(UnixMillis::new),
        })
    }
}

impl Store {
    /// Stamps computers that are known to run now.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails; nothing is changed then.
    pub async fn mark_running(&self, computers: &[ComputerId]) -> Result<()> {
        if computers.is_empty() {
            return Ok(());
        }
        let mut write = self.write().await?;
        // Also starts the run of a computer that ran before runs were recorded.
        for computer in write.with_different_runs(computers).await? {
            write.update_runs(computer).await?;
        }
        let now = clock::now().as_i64();
        for some in computers.chunks(STAMPS_AT_ONCE) {
            let places: Vec<String> = (2..some.len() + 2).map(|place| format!("${place}")).collect();
            let update = format!(
                "UPDATE runs SET seen_at = $1 WHERE ended_at IS NULL AND seen_at < $1 AND computer_id IN ({})",
                places.join(", ")
            );
            let mut query = sqlx::query(sqlx::AssertSqlSafe(update)).bind(now);
            for computer in some {
                query = query.bind(computer.to_string());
            }
            query.execute(&mut *write.tx).await.map_err(failed("stamp runs"))?;
        }
        write.commit().await
    }

    /// Returns the runs of a client's computers that overlap a range of times.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn runs_of(&self, client: ClientId, within: &Range<UnixMillis>) -> Result<Vec<Run>> {
        let rows: Vec<Row> = sqlx::query_as(
            "SELECT computer_id, ram_gb, started_at, ended_at FROM runs WHERE client_id = $1 AND started_at < $2 \
             AND (ended_at IS NULL OR ended_at > $3) ORDER BY started_at, id",
        )
        .bind(client.to_string())
        .bind(within.end.as_i64())
        .bind(within.start.as_i64())
        .fetch_all(&self.pool)
        .await
        .map_err(failed("list runs"))?;
        rows.into_iter().map(Run::try_from).collect()
    }
}

impl Write {
    /// Updates a computer's runs from its row, and notes the change for watchers. Every transaction that changes
    /// its status, size, workspace or that workspace's owner, or removes it, calls this last.
    pub(crate) async fn meter(&mut self, computer: ComputerId) -> Result<()> {
        self.note(RecordChange::Computer(computer));
        self.update_runs(computer).await
    }

    /// Returns those of the computers whose runs may have to be updated. Of few computers these are all; of more, one statement
    /// finds them.
    async fn with_different_runs(&mut self, computers: &[ComputerId]) -> Result<Vec<ComputerId>> {
        if computers.len() <= COMPARED_ALONE {
            return Ok(computers.to_vec());
        }
        let different: Vec<(String,)> = sqlx::query_as(DIFFERENT)
            .bind(Status::Running.name())
            .fetch_all(&mut *self.tx)
            .await
            .map_err(failed("compare runs with computers"))?;
        let different = different.iter().map(|(text,)| id(text)).collect::<Result<HashSet<ComputerId>>>()?;
        Ok(computers.iter().copied().filter(|computer| different.contains(computer)).collect())
    }

    async fn update_runs(&mut self, computer: ComputerId) -> Result<()> {
        let text = computer.to_string();
        let runs: Option<Load> = sqlx::query_as(
            "SELECT c.cpu, c.ram_gb, w.account_id, k.id AS client_id FROM computers c \
             JOIN workspaces w ON w.id = c.workspace_id LEFT JOIN clients k ON k.workspace_id = w.id \
             WHERE c.id = $1 AND c.status = $2",
        )
        .bind(&text)
        .bind(Status::Running.name())
        .fetch_optional(&mut *self.tx)
        .await
        .map_err(failed("read a computer's load"))?;
        let noted: Option<Load> = sqlx::query_as(
            "SELECT cpu, ram_gb, account_id, client_id FROM runs WHERE computer_id = $1 AND ended_at IS NULL",
        )
        .bind(&text)
        .fetch_optional(&mut *self.tx)
        .await
        .map_err(failed("read a run"))?;
        if runs == noted {
            return Ok(());
        }
        let now = clock::now();
        sqlx::query(
            "UPDATE runs SET ended_at = CASE WHEN seen_at < $2 THEN seen_at WHEN started_at > $3 THEN started_at \
             ELSE $3 END WHERE computer_id = $1 AND ended_at IS NULL",
        )
        .bind(&text)
        .bind(self.opened_at.as_i64())
        .bind(now.as_i64())
        .execute(&mut *self.tx)
        .await
        .map_err(failed("end a run"))?;
        if noted.is_some() {
            self.fold_runs(computer).await?;
        }
        let Some(load) = runs else { return Ok(()) };
        sqlx::query(
            "INSERT INTO runs (id, computer_id, account_id, client_id, cpu, ram_gb, started_at, seen_at) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, $7)",
        )
        .bind(uuid::Uuid::new_v4().to_string())
        .bind(&text)
        .bind(load.account_id)
        .bind(load.client_id)
        .bind(load.cpu)
        .bind(load.ram_gb)
        .bind(now.as_i64())
        .execute(&mut *self.tx)
        .await
        .map_err(failed("begin a run"))?;
        Ok(())
    }
}
