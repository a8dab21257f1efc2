//! What does a self-test say? The same for the agent (`/selftest`) and the controller.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// `GET selftest`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct SelfTest {
    /// True when no check failed. What was skipped did not fail.
    pub passed: bool,
    /// Milliseconds that all of it took.
    pub took_ms: f64,
    /// In the order in which they were done.
    pub checks: Vec<Check>,
}

/// What came of one check.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Check {
    /// `screen`, `windows`, `screenshot`, `click`, `scroll`, `type`, `keys`, `clipboard`, `bash`, `python`, `files`,
    /// `audio` or `elements`.
    pub name: String,
    /// How it ended.
    pub outcome: CheckOutcome,
    /// What was proved, what was wrong, or why it was skipped.
    pub detail: String,
    /// What was measured, by name. The end of a name is its unit: `_ms` milliseconds, `_bytes`, `_mb_per_s` (10^6 bytes
    /// a second), `_per_s`; a name without one is a count.
    pub figures: BTreeMap<String, f64>,
}

/// How a check ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum CheckOutcome {
    /// It works.
    Passed,
    /// It does not.
    Failed,
    /// There is nothing to check here.
    Skipped,
}
