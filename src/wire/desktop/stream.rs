//! Streams to RTMP servers and saved connections (docs/api/streaming.md).

use serde::{Deserialize, Serialize, Serializer};
use utoipa::ToSchema;

use hotdesk_base::secret::Secret;

/// `POST /stream/connections`.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[schema(example = json!({"name": "live", "url": "rtmp://203.0.113.1/live", "key": "stream-key"}))]
#[serde(deny_unknown_fields)]
pub struct SaveConnection {
    /// Name, 1 to 255 characters after trimming, without a slash. A connection with the same name, ignoring
    /// case, is replaced.
    #[schema(min_length = 1, max_length = 255, example = "my channel")]
    pub name: String,
    /// Server and application: `rtmp://host[:port]/app` or `rtmps://...`, without user name, password and
    /// parameters.
    #[schema(max_length = 512, example = "rtmps://live.example.org/app")]
    pub url: String,
    /// The stream key. No answer contains it.
    #[schema(value_type = String, min_length = 1, max_length = 512, write_only, example = "live_abc")]
    pub key: Secret,
    /// Workspace whose keys can use the connection too; a key that is scoped to a workspace always saves for
    /// that workspace.
    #[serde(default)]
    pub workspace_id: Option<String>,
}

/// A saved connection, without its key.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Connection {
    /// Name of the connection, unique in the account.
    pub name: String,
    /// Normalized URL of the server and its application.
    pub url: String,
    /// Workspace whose keys can use it; null when only account-wide keys can.
    pub workspace_id: Option<String>,
    /// Time of creation, ISO 8601.
    pub created_at: String,
    /// Time of the last replacement, ISO 8601.
    pub updated_at: String,
}

/// `GET /stream/connections`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ConnectionList {
    /// Connections, sorted by name.
    pub connections: Vec<Connection>,
}

/// `POST /computers/{id}/stream/start`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"connection_name": "live"}))]
#[serde(deny_unknown_fields)]
pub struct StartStream {
    /// Name of a saved connection, or of a server of the computer's template.
    pub connection_name: String,
    /// Id of the screen; the boot screen when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub screen: Option<String>,
}

/// The agent's `POST /stream/start`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StreamTo {
    /// `rtmp[s]://host[:port]/app`.
    pub url: String,
    /// The stream key.
    #[serde(serialize_with = "revealed")]
    pub key: Secret,
    /// Id of the screen; the boot screen when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub screen: Option<String>,
    /// Whether a server with a private address is permitted.
    #[serde(default)]
    pub allow_private: bool,
}

/// Serializes the key, which only the agent receives.
fn revealed<S: Serializer>(secret: &Secret, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(secret.reveal())
}

/// The answer to a started stream.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct StreamStarted {
    /// Always true; a failure has an error body.
    pub success: bool,
    /// `streaming`.
    pub status: String,
    /// Process id of the encoder in the computer.
    pub pid: u32,
}

/// Status of a computer's stream.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct StreamStatus {
    /// `idle`, `streaming` or `terminated`. A stream that ended by itself is `terminated` until it is stopped
    /// or started again.
    pub status: String,
    /// Time at which the server accepted the stream, ISO 8601.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_time: Option<String>,
    /// Process id of the encoder in the computer; it changes when the size of the screen changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// Id of the screen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub screen: Option<String>,
    /// Whether the stream has the computer's sound; false when the computer has no sound and silence is sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sound: Option<bool>,
    /// Reason of the termination: `server_gone`, `server_stalled`, `encoder_ended`, `screen_deleted` or
    /// `agent_stopped`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Last log output of the encoder, without the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_read_sent_on_and_not_printed() {
        let text = r#"{"url":"rtmp://h/a","key":"hunter2","allow_private":true}"#;
        let read: StreamTo = serde_json::from_str(text).unwrap();
        assert!(!format!("{read:?}").contains("hunter2"));
        assert_eq!(serde_json::to_string(&read).unwrap(), text);
        let saved = r#"{"name":"n","url":"rtmp://h/a","key":"hunter2"}"#;
        assert!(!format!("{:?}", serde_json::from_str::<SaveConnection>(saved).unwrap()).contains("hunter2"));
    }
}
