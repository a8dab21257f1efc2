//! Result of a self-test, the same for the agent (`/selftest`) and the controller.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// `GET selftest`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct SelfTest {
    /// True when no check failed. A skipped check did not fail.
    pub passed: bool,
    /// Duration of all checks, in milliseconds.
    pub took_ms: f64,
    /// Checks, in the order in which they ran.
    pub checks: Vec<Check>,
}

/// Result of one check.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Check {
    /// `screen`, `windows`, `screenshot`, `click`, `scroll`, `type`, `keys`, `clipboard`, `bash`, `python`,
    /// `files`, `audio` or `elements`.
    pub name: String,
    /// Outcome of the check.
    pub outcome: CheckOutcome,
    /// Verified facts, the fault, or the reason why the check was skipped.
    pub detail: String,
    /// Measurements by name. The suffix is the unit: `_ms` (milliseconds), `_bytes`, `_mb_per_s` (10^6 bytes
    /// per second), `_per_s`; a name without a suffix is a count.
    pub figures: BTreeMap<String, f64>,
}

/// Outcome of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum CheckOutcome {
    /// It passed.
    Passed,
    /// It failed.
    Failed,
    /// It does not apply to this computer.
    Skipped,
}
