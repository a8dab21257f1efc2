//! What is sent to stream a screen to an RTMP server, and what is told of it? (wire.md 8)

use serde::{Deserialize, Serialize, Serializer};
use utoipa::ToSchema;

use hotdesk_base::secret::Secret;

/// `POST /stream/connections`.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[schema(example = json!({"name": "live", "url": "rtmp://203.0.113.1/live", "key": "stream-key"}))]
pub struct SaveConnection {
    /// What it is called: 1 to 255 characters after trimming, no slash. One of the same name, whatever the case, is
    /// replaced.
    #[schema(min_length = 1, max_length = 255, example = "my channel")]
    pub name: String,
    /// `rtmp://host[:port]/app` or `rtmps://...`, without user name, password and parameters.
    #[schema(max_length = 512, example = "rtmps://live.example.org/app")]
    pub url: String,
    /// The stream key. It is never shown again.
    #[schema(value_type = String, min_length = 1, max_length = 512, write_only, example = "live_abc")]
    pub key: Secret,
    /// The workspace whose keys may use it too; a key of a workspace saves for its own.
    #[serde(default)]
    pub workspace_id: Option<String>,
}

/// A saved connection, without its key.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Connection {
    /// What it is called.
    pub name: String,
    /// The server and its application, in the usual form.
    pub url: String,
    /// The workspace whose keys may use it; null: account-wide keys alone.
    pub workspace_id: Option<String>,
    /// ISO 8601.
    pub created_at: String,
    /// ISO 8601: when it was last replaced.
    pub updated_at: String,
}

/// `GET /stream/connections`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ConnectionList {
    /// By name.
    pub connections: Vec<Connection>,
}

/// `POST /computers/{id}/stream/start`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"connection_name": "live"}))]
pub struct StartStream {
    /// The name of a saved connection.
    pub connection_name: String,
    /// Screen id; the boot screen when absent.
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
    /// Screen id; the boot screen when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub screen: Option<String>,
    /// Whether the server may have an address that is not public.
    #[serde(default)]
    pub allow_private: bool,
}

/// The agent is the one to whom a key is sent.
fn revealed<S: Serializer>(secret: &Secret, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(secret.reveal())
}

/// The server takes the stream.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct StreamStarted {
    /// Always true; a failure is an error body.
    pub success: bool,
    /// `streaming`.
    pub status: String,
    /// The encoder's process in the computer.
    pub pid: u32,
}

/// How the stream of a computer is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct StreamStatus {
    /// `idle`, `streaming`, or `terminated`: it ended by itself, until it is stopped or started again.
    pub status: String,
    /// ISO 8601: when the server took it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_time: Option<String>,
    /// The encoder's process in the computer; another after the screen changed its size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// The screen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub screen: Option<String>,
    /// Whether what the computer plays is heard; false: it has no sound, and silence is sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sound: Option<bool>,
    /// Why it was terminated: `server_gone`, `server_stalled`, `encoder_ended`, `screen_deleted` or `agent_stopped`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The encoder's last words about that, without the key.
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
