//! Arguments of the tools for the control of a screen.

use schemars::JsonSchema;
use serde::Deserialize;

/// `get_control`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct ReadControl {
    /// The computer: its id or instance_id.
    pub computer_id: String,
    /// Id of the screen; the boot screen when absent.
    #[serde(default)]
    pub screen: Option<String>,
    /// Wait until the revision is another one than this, the last that you have seen.
    #[serde(default)]
    pub after: Option<u64>,
    /// Longest time to wait in seconds, at most 30; no wait when absent.
    #[serde(default)]
    pub wait_seconds: Option<u32>,
}

/// `take_control`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct HoldScreen {
    /// The computer: its id or instance_id.
    pub computer_id: String,
    /// Id of the screen; the boot screen when absent.
    #[serde(default)]
    pub screen: Option<String>,
    /// Time until the control ends by itself in seconds, 1 to 3600; 60 when absent. Call again to renew it.
    #[serde(default)]
    pub seconds: Option<u32>,
    /// What others are told, the former holder as well, at most 2,000 characters.
    #[serde(default)]
    pub note: Option<String>,
    /// True takes it from another holder; only admins and the owner of the workspace may do that.
    #[serde(default)]
    pub force: Option<bool>,
}

/// `hand_back_control`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct ReleaseScreen {
    /// The computer: its id or instance_id.
    pub computer_id: String,
    /// Id of the screen; the boot screen when absent.
    #[serde(default)]
    pub screen: Option<String>,
    /// What the one who acts next is told, at most 2,000 characters.
    #[serde(default)]
    pub note: Option<String>,
    /// True hands back for another holder; only admins and the owner of the workspace may do that.
    #[serde(default)]
    pub force: Option<bool>,
}

/// `answer_help`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct HelpAnswer {
    /// The computer: its id or instance_id.
    pub computer_id: String,
    /// Id of the screen; the boot screen when absent.
    #[serde(default)]
    pub screen: Option<String>,
    /// The answer, at most 2,000 characters.
    #[serde(default)]
    pub note: Option<String>,
}
