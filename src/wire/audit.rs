//! Audit log entries and queries.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// A recorded request: caller, route, subject and result. It has nothing of the body, the query or the path.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct AuditEntry {
    /// Number of the entry; later entries have higher numbers.
    pub id: i64,
    /// Time of the request, ISO 8601.
    pub at: String,
    /// Account of the caller; null when it is unknown.
    pub account_id: Option<String>,
    /// E-mail address of that account; also null after the account was removed, and for callers that are not
    /// members of the workspace.
    #[serde(default)]
    pub account_email: Option<String>,
    /// Kind of credential: `key`, `session` or `grant`.
    pub credential: Option<String>,
    /// Id of the credential; for a key, the one in `/keys`.
    pub credential_id: Option<String>,
    /// Name of the key or of the MCP client. For a person's decision about an MCP client or a program: the
    /// name that it gave itself.
    pub client: Option<String>,
    /// IP address of the client.
    pub source: Option<String>,
    /// HTTP method; empty for actions of the service itself and of `hotdesk admin`.
    pub method: String,
    /// Pattern of the route, for example `/computers/{id}/bash`; `/mcp` for a request that was refused before
    /// any tool ran.
    pub route: String,
    /// Subject, where the route does not name it. Sign-in: `sign_in`, `sign_out`, `password_change`,
    /// `second_factor_asked` (the password was right), `second_factor_added`, `second_factor_removed`,
    /// `recovery_codes_made`, `passkey_added`, `passkey_removed`, `provider_connected`, `provider_disconnected`,
    /// `address_verified`. OAuth: `consent_given`, `consent_refused`, `token_issued`, `token_refreshed`,
    /// `token_reused` (a code or refresh token was used twice, which ended the connection), `connection_revoked`.
    /// Devices: `device_approved`, `device_denied`. Billing: `trial_end` (the service ended a computer after its
    /// trial), `billing_change` (a plan, a payment or the billing of a computer). By `hotdesk admin`:
    /// `account_made`, `key_made`.
    pub action: Option<String>,
    /// Workspace of the request.
    pub workspace_id: Option<String>,
    /// Computer of the request.
    pub computer_id: Option<String>,
    /// Id of another object of the request: a created or deleted key, a connection of an MCP client, or a changed
    /// or removed member. Otherwise the account of a payment, of `hotdesk admin` or of a failed
    /// sign-in. Nothing is recorded for addresses without an account.
    pub target_id: Option<String>,
    /// `done`, `refused` (401, 403), `failed` or `unanswered` (the client left before the answer).
    pub result: String,
    /// HTTP status of the answer.
    pub status: Option<u16>,
    /// `code` of the error.
    pub code: Option<String>,
    /// `X-Request-Id` of the answer.
    pub request_id: String,
}

/// `GET /audit`'s query.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct AuditQuery {
    /// Only entries of this workspace.
    #[serde(default)]
    pub workspace_id: Option<String>,
    /// Only entries of this computer, which may have been deleted.
    #[serde(default)]
    pub computer_id: Option<String>,
    /// Only requests with this key, which may have been deleted.
    #[serde(default)]
    pub key_id: Option<String>,
    /// Only requests at or after this time; ISO 8601 with a time zone.
    #[serde(default)]
    #[param(format = DateTime)]
    pub since: Option<String>,
    /// Only requests at or before this time; ISO 8601 with a time zone.
    #[serde(default)]
    #[param(format = DateTime)]
    pub until: Option<String>,
    /// `next_cursor` of the previous page.
    #[serde(default)]
    pub cursor: Option<String>,
    /// Largest number of entries, 1 to 500; 100 when absent.
    #[serde(default)]
    #[param(minimum = 1, maximum = 500)]
    pub limit: Option<u32>,
}

/// `GET /audit`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct AuditPage {
    /// Entries, newest first.
    pub entries: Vec<AuditEntry>,
    /// Cursor of the next page; null on the last.
    pub next_cursor: Option<String>,
}
