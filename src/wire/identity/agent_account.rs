//! What is an account that an AI agent makes for itself on the wire?

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// `POST /agent-accounts`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"name": "research agent"}))]
pub struct CreateAgentAccount {
    /// What the agent calls itself, 1 to 255 characters: whoever claims the account reads it.
    #[serde(default)]
    #[schema(min_length = 1, max_length = 255)]
    pub name: Option<String>,
    /// The challenge that was solved, where work is asked for.
    #[serde(default)]
    pub challenge: Option<String>,
    /// What solves it.
    #[serde(default)]
    pub nonce: Option<String>,
}

/// `GET /agent-accounts/challenge`: find a `nonce` of at most 64 characters so that SHA-256 of `challenge`, `.` and `nonce`
/// begins with `bits` zero bits.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct AgentChallenge {
    /// Whether agents may make accounts here.
    pub enabled: bool,
    /// To be sent back with what solves it; good for one account.
    pub challenge: String,
    /// `sha256`.
    pub algorithm: String,
    /// Zero bits; 0: no work is asked for.
    pub bits: u32,
    /// ISO 8601: until when it counts.
    pub expires_at: String,
}

/// The account, its key and its claim link: the only answer with them.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct MadeAgentAccount {
    /// The account's id.
    pub id: String,
    /// What the agent calls itself.
    pub name: String,
    /// The key; it is shown once.
    pub key: String,
    /// The same under its other name.
    pub api_key: String,
    /// What the account may do until somebody claims it.
    pub limits: AgentLimits,
    /// The page on which a person takes the account over, once.
    pub claim_url: String,
    /// ISO 8601: when the account goes with all that it holds, unless somebody claims it.
    pub expires_at: String,
}

/// What an agent's account may do.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct AgentLimits {
    /// The plan's name.
    pub plan: String,
    /// Computers.
    pub max_computers: u32,
    /// vCPUs of one computer.
    pub max_cpu: u32,
    /// GB of RAM of one computer.
    pub max_ram_gb: u32,
    /// GB of RAM of all of them together.
    pub max_account_ram_gb: u32,
    /// GB of disk of one computer.
    pub max_disk_gb: u32,
}

/// `GET /agent-accounts/claim-link`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct AgentAccountState {
    /// The account's id.
    pub id: String,
    /// What the agent calls itself.
    pub name: String,
    /// Whether a claim link is valid.
    pub claimable: bool,
    /// ISO 8601: when the account goes, unless somebody claims it.
    pub expires_at: String,
}

/// A new claim link; the one before is dead.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct NewClaimLink {
    /// The page on which a person takes the account over, once.
    pub claim_url: String,
}
