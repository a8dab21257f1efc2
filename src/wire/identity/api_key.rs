//! What is an API key on the wire? (wire.md 13, 20)

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// A key's record, without its text.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Key {
    /// UUID.
    pub id: String,
    /// What its owner calls it.
    pub name: String,
    /// How its text begins, as every key's does.
    pub prefix: String,
    /// The last four characters of its text.
    pub last_four: String,
    /// `account`, or `workspace` for a key that reaches one workspace only.
    pub scope: String,
    /// That workspace; null for an account-wide key.
    pub workspace_id: Option<String>,
    /// ISO 8601.
    pub created_at: String,
    /// ISO 8601, to the minute; null: never.
    pub last_used_at: Option<String>,
}

/// A new key: the only answer that has its text.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct MintedKey {
    /// The key's text. It is shown this once, and cannot be read again.
    pub key: String,
    /// The same text, under the name that device approval gives it.
    pub api_key: String,
    /// Its record.
    #[serde(flatten)]
    pub record: Key,
}

/// `POST /keys`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"name": "laptop"}))]
pub struct CreateKey {
    /// 1 to 255 characters after trimming; several keys may have one name.
    #[schema(min_length = 1, max_length = 255)]
    pub name: String,
    /// The only workspace that it shall reach; omitted: all of the account's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace_id: Option<String>,
}

/// `GET /keys`'s query.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct KeyQuery {
    /// Only the keys that reach this workspace alone; for its owner and admins those of all its members.
    #[serde(default)]
    pub workspace_id: Option<String>,
}

/// `GET /keys`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct KeyList {
    /// The keys, oldest first.
    pub keys: Vec<Key>,
}
