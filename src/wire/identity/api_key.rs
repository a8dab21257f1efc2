//! API keys (docs/api/authentication.md).

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// An API key without its secret.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ApiKey {
    /// Id of the key, a UUID.
    pub id: String,
    /// Name of the key.
    pub name: String,
    /// First characters of the key, the same for every key.
    pub prefix: String,
    /// Last four characters of the key.
    pub last_four: String,
    /// `account`, or `workspace` for a key that can access one workspace only.
    pub scope: String,
    /// Id of that workspace; null for an account-wide key.
    pub workspace_id: Option<String>,
    /// Time of creation, ISO 8601.
    pub created_at: String,
    /// Time of the last use to the minute, ISO 8601; null if it was never used.
    pub last_used_at: Option<String>,
}

/// A new key with its secret, which no other answer has.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct MintedKey {
    /// The secret. It is shown once and cannot be read again.
    pub key: String,
    /// The same secret, under its name in device authorization.
    pub api_key: String,
    /// The key without its secret.
    #[serde(flatten)]
    pub record: ApiKey,
}

/// `POST /keys`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"name": "laptop"}))]
#[serde(deny_unknown_fields)]
pub struct CreateKey {
    /// Name, 1 to 255 characters after trimming; it need not be unique.
    #[schema(min_length = 1, max_length = 255)]
    pub name: String,
    /// The only workspace that the key can access; all workspaces of the account when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace_id: Option<String>,
}

/// The query of `GET /keys`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct KeyQuery {
    /// Only keys that are scoped to this workspace. Its owner and admins get those of all members.
    #[serde(default)]
    pub workspace_id: Option<String>,
}

/// `GET /keys`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct KeyList {
    /// Keys, oldest first.
    pub keys: Vec<ApiKey>,
}
