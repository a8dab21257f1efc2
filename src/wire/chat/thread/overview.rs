//! Threads of all computers (docs/api/threads.md#threads-of-all-computers).

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::ThreadSummary;

/// The query of `GET /threads`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct ThreadOverviewQuery {
    /// Only threads of computers of this workspace.
    #[serde(default)]
    pub workspace_id: Option<String>,
    /// Only threads of this computer.
    #[serde(default)]
    pub computer_id: Option<String>,
    /// Only `active` or only `archived` threads.
    #[serde(default)]
    #[param(pattern = "^(active|archived)$")]
    pub status: Option<String>,
    /// Only threads whose last run has this state: `running`, `done`, `confirm`, `max_steps`, `max_tokens`,
    /// `max_cost`, `refused`, `control_held`, `cancelled`, `failed` or `interrupted`.
    #[serde(default)]
    pub run: Option<String>,
    /// `next_cursor` of the previous page.
    #[serde(default)]
    pub cursor: Option<String>,
    /// Largest number of threads, 1 to 100; 50 when absent.
    #[serde(default)]
    #[param(minimum = 1, maximum = 100)]
    pub limit: Option<u32>,
}

/// `GET /threads`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ThreadOverview {
    /// Threads, the last changed first.
    pub threads: Vec<ThreadSummary>,
    /// Cursor of the next page; null on the last.
    pub next_cursor: Option<String>,
}
