//! How does a program ask for a key that a person approves elsewhere? (wire.md 13)

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use hotdesk_base::secret::Secret;

/// `POST /cli/auth/start`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"client": "my tool", "hostname": "laptop"}))]
pub struct StartDevice {
    /// What the program is called; a person reads it.
    #[serde(default)]
    pub client: String,
    /// The host that it runs on; a person reads it, and it is part of the key's name.
    #[serde(default)]
    pub hostname: String,
}

/// What the program does next: it shows the person `user_code` and `verification_uri`, and polls with `device_code`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct DeviceStarted {
    /// For the program alone.
    pub device_code: String,
    /// For the person, as it is to be typed: `XXXX-XXXX`.
    pub user_code: String,
    /// The page that takes it.
    pub verification_uri: String,
    /// The page with the code in it.
    pub verification_uri_complete: String,
    /// Seconds until both codes are worth nothing.
    pub expires_in_seconds: u32,
    /// Seconds to wait before each poll.
    pub interval_seconds: u32,
}

/// `POST /cli/auth/poll`.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[schema(example = json!({"device_code": "of the start's answer"}))]
pub struct PollDevice {
    /// What the start gave.
    #[serde(default = "nothing")]
    #[schema(value_type = String)]
    pub device_code: Secret,
}

fn nothing() -> Secret {
    Secret::new("")
}

/// How the person decided. Once told, an approval or a denial is `expired` too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum DeviceStatus {
    /// Not yet: poll again after `interval_seconds`.
    Pending,
    /// Yes: `api_key` is here, and nowhere else ever again.
    Approved,
    /// No.
    Denied,
    /// No such code, one that was used, or one that nobody approved in time.
    Expired,
}

/// The answer to a poll.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct DevicePolled {
    /// How it stands.
    pub status: DeviceStatus,
    /// While pending: seconds to wait before the next poll; more when the last one came too early.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval_seconds: Option<u32>,
    /// Once approved: the account-wide key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_key: Option<String>,
    /// Once approved: whose it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<DeviceUser>,
}

/// Who approved.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct DeviceUser {
    /// UUID of the account.
    pub id: String,
    /// The address that it signs in with.
    pub email: String,
}
