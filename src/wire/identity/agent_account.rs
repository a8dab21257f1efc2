//! Accounts that AI agents create for themselves (docs/api/accounts.md).

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// `POST /agent-accounts`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"name": "research agent"}))]
#[serde(deny_unknown_fields)]
pub struct CreateAgentAccount {
    /// Name of the agent, 1 to 255 characters; the person who claims the account reads it.
    #[serde(default)]
    #[schema(min_length = 1, max_length = 255)]
    pub name: Option<String>,
    /// The solved challenge, if proof of work is required.
    #[serde(default)]
    pub challenge: Option<String>,
    /// Nonce that solves the challenge.
    #[serde(default)]
    pub nonce: Option<String>,
}

/// `GET /agent-accounts/challenge`: find a `nonce` of at most 64 characters so that SHA-256 of `challenge`,
/// `.` and `nonce` begins with `bits` zero bits.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct AgentChallenge {
    /// Whether agents can create accounts on this server.
    pub enabled: bool,
    /// Challenge to send back with a nonce; valid for one account.
    pub challenge: String,
    /// Hash algorithm, `sha256`.
    pub algorithm: String,
    /// Required number of zero bits; 0 when no work is required.
    pub bits: u32,
    /// Time of expiry of the challenge, ISO 8601.
    pub expires_at: String,
}

/// A new account with its key and its claim link, which no other answer has.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = MadeAgentAccount)]
pub struct CreatedAgentAccount {
    /// The account's id.
    pub id: String,
    /// Name of the agent.
    pub name: String,
    /// The key; it is shown only once.
    pub key: String,
    /// The same key under its other name.
    pub api_key: String,
    /// Limits of the account until it is claimed.
    pub limits: AgentLimits,
    /// URL of the page on which a person claims the account; it works once.
    pub claim_url: String,
    /// Time at which the account is removed with all its data unless it is claimed, ISO 8601.
    pub expires_at: String,
}

/// Limits of an agent's account.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct AgentLimits {
    /// Name of the plan.
    pub plan: String,
    /// Number of computers.
    pub max_computers: u32,
    /// Number of vCPUs of one computer.
    pub max_cpu: u32,
    /// RAM of one computer, in GB.
    pub max_ram_gb: u32,
    /// RAM of all computers, in GB.
    pub max_account_ram_gb: u32,
    /// Disk of one computer, in GB.
    pub max_disk_gb: u32,
}

/// `GET /agent-accounts/claim-link`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct AgentAccountState {
    /// The account's id.
    pub id: String,
    /// Name of the agent.
    pub name: String,
    /// Whether a valid claim link exists.
    pub claimable: bool,
    /// Time at which the account is removed unless it is claimed, ISO 8601.
    pub expires_at: String,
}

/// A new claim link; the previous one is invalid.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct NewClaimLink {
    /// URL of the page on which a person claims the account; it works once.
    pub claim_url: String,
}
