//! Secrets of accounts and workspaces (docs/api/secrets.md).

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use utoipa::{IntoParams, ToSchema};

use hotdesk_base::secret::Secret;

/// The query of the routes of secrets.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct SecretQuery {
    /// Id of the workspace that has the secrets; the account when absent. A key that is scoped to a workspace
    /// always uses that workspace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace_id: Option<String>,
}

/// A secret, without its value.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = Secret)]
pub struct SecretRecord {
    /// UUID; it stays when the value is replaced.
    pub id: String,
    /// Name of the secret, unique in its account or workspace.
    pub name: String,
    /// `account` or `workspace`.
    pub scope: String,
    /// Id of the workspace that has it; null for a secret of the account.
    pub workspace_id: Option<String>,
    /// Time of creation, ISO 8601.
    pub created_at: String,
    /// Time of the last replacement of the value, ISO 8601.
    pub updated_at: String,
}

/// `GET /secrets`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct SecretList {
    /// Secrets, sorted by name.
    pub secrets: Vec<SecretRecord>,
}

/// `PUT /secrets/{name}`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"value": "correct horse"}))]
#[serde(deny_unknown_fields)]
pub struct SetSecret {
    /// The value: UTF-8 without NUL. No answer contains it.
    #[schema(value_type = String, min_length = 1, max_length = 65536, write_only)]
    #[serde(serialize_with = "revealed", deserialize_with = "text")]
    pub value: Secret,
    /// Id of the workspace that gets the secret; the account when absent. A key that is scoped to a workspace
    /// always uses that workspace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace_id: Option<String>,
}

/// `POST /computers/{id}/secrets/sync`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"names": ["API_KEY"]}))]
#[serde(deny_unknown_fields)]
pub struct SyncSecrets {
    /// Names of the secrets that the computer gets; all that the caller may use on it when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_items = 200)]
    pub names: Option<Vec<String>>,
}

/// The secrets that a computer has now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = SecretsSynced)]
pub struct SyncResult {
    /// Path of the file that sets them as shell variables.
    pub path: String,
    /// Their names, sorted.
    pub names: Vec<String>,
}

/// Serializes the value, which only the service receives.
fn revealed<S: Serializer>(secret: &Secret, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(secret.reveal())
}

/// Deserializes a text. Unlike serde's own error, this one does not repeat a value of another type.
fn text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Secret, D::Error> {
    let value = serde_json::Value::deserialize(deserializer)?;
    value.as_str().map(Secret::new).ok_or_else(|| serde::de::Error::custom("value must be a text"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_read_sent_on_and_never_printed() {
        let text = r#"{"value":"hunter2"}"#;
        let read: SetSecret = serde_json::from_str(text).unwrap();
        assert!(read.value.matches("hunter2") && !format!("{read:?}").contains("hunter2"));
        assert_eq!(serde_json::to_string(&read).unwrap(), text);
        for wrong in ["1234567", "true", "[\"1234567\"]", "{\"1234567\": 1}", "null"] {
            let refused = serde_json::from_str::<SetSecret>(&format!("{{\"value\": {wrong}}}")).unwrap_err();
            assert!(!refused.to_string().contains("1234567"), "{refused}");
        }
    }
}
