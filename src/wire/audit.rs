//! What is the audit log on the wire?

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// One request: who sent it, what it was, on what, and what became of it. Nothing of its body, its query or its path.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct AuditEntry {
    /// Its number: later entries have higher ones.
    pub id: i64,
    /// When it came; ISO 8601.
    pub at: String,
    /// The account that sent it; null: nobody known.
    pub account_id: Option<String>,
    /// The e-mail address of that account; null also once it is gone, and for whoever has no part in the workspace.
    #[serde(default)]
    pub account_email: Option<String>,
    /// What was shown: `key`, `session` or `grant`.
    pub credential: Option<String>,
    /// Its id; that of a key is the one in `/keys`.
    pub credential_id: Option<String>,
    /// What it is called: the key's name, or the MCP client's. Of a person's decision, what the MCP client or the program that it
    /// is about calls itself.
    pub client: Option<String>,
    /// The address that it came from.
    pub source: Option<String>,
    /// The request's method; empty for what the service did by itself, or `hotdesk admin`.
    pub method: String,
    /// The route's pattern, for example `/computers/{id}/bash`; `/mcp` is who was refused there, before any tool.
    pub route: String,
    /// What it is about, where the route does not say it: `sign_in`, `sign_out`, `password_change`, `consent_given`,
    /// `consent_refused`, `token_issued`, `token_refreshed`, `token_reused` (a code or a refresh token came a second time,
    /// which ended the connection), `connection_revoked`, `device_approved`, `device_denied`, `trial_end` (the service ended a
    /// computer whose trial was over), `billing_change` (a plan, a payment, or how a computer is paid for), `account_made` and
    /// `key_made` (by `hotdesk admin`).
    pub action: Option<String>,
    /// The workspace that it was about.
    pub workspace_id: Option<String>,
    /// The computer that it was about.
    pub computer_id: Option<String>,
    /// What else it was about: the id of a key that was made or deleted, of a connection of an MCP client, of the member that
    /// was changed or taken out, of the account that a payment or `hotdesk admin` is about, or that somebody failed to sign in to
    /// (of addresses without an account nothing is kept).
    pub target_id: Option<String>,
    /// `done`, `refused` (401, 403), `failed` or `unanswered` (the client left before the answer).
    pub result: String,
    /// The answer's status.
    pub status: Option<u16>,
    /// The refusal's `code`.
    pub code: Option<String>,
    /// The answer's `X-Request-Id`.
    pub request_id: String,
}

/// `GET /audit`'s query.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct AuditQuery {
    /// Only what was about this workspace.
    #[serde(default)]
    pub workspace_id: Option<String>,
    /// Only what was about this computer, which may be gone.
    #[serde(default)]
    pub computer_id: Option<String>,
    /// Only what was done with this key, which may be gone.
    #[serde(default)]
    pub key_id: Option<String>,
    /// Only what came at this moment or later; ISO 8601 with a zone.
    #[serde(default)]
    pub since: Option<String>,
    /// Only what came at this moment or earlier; ISO 8601 with a zone.
    #[serde(default)]
    pub until: Option<String>,
    /// `next_cursor` of the page before.
    #[serde(default)]
    pub cursor: Option<String>,
    /// At most so many, 1 to 500; 100 when absent.
    #[serde(default)]
    pub limit: Option<u32>,
}

/// `GET /audit`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct AuditPage {
    /// The entries, the newest first.
    pub entries: Vec<AuditEntry>,
    /// Where the next page begins; null on the last.
    pub next_cursor: Option<String>,
}
