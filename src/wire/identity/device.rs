//! Device authorization: a program gets a key after a person approves it in a browser
//! (docs/api/authentication.md).

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use hotdesk_base::secret::Secret;

/// `POST /cli/auth/start`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"client": "my tool", "hostname": "laptop"}))]
pub struct StartDevice {
    /// Name of the program, for the person who approves it.
    #[serde(default)]
    pub client: String,
    /// Host on which the program runs, for the person who approves it; it becomes part of the key's name.
    #[serde(default)]
    pub hostname: String,
}

/// A device authorization. The program shows `user_code` and `verification_uri` to the person and polls with
/// `device_code`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = DeviceStarted)]
pub struct DeviceAuthorization {
    /// Code for polling; it is secret.
    pub device_code: String,
    /// Code that the person types: `XXXX-XXXX`.
    pub user_code: String,
    /// URL of the page on which the person types the code.
    pub verification_uri: String,
    /// The same URL with the code.
    pub verification_uri_complete: String,
    /// Lifetime of both codes, in seconds.
    pub expires_in_seconds: u32,
    /// Interval between polls, in seconds.
    pub interval_seconds: u32,
}

/// `POST /cli/auth/poll`.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[schema(example = json!({"device_code": "of the start's answer"}))]
pub struct PollDevice {
    /// `device_code` of the start's answer.
    #[serde(default = "nothing")]
    #[schema(value_type = String)]
    pub device_code: Secret,
}

fn nothing() -> Secret {
    Secret::new("")
}

/// State of a device authorization. After an approval or denial was returned once, it is `expired`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum DeviceStatus {
    /// The person has not decided yet: poll again after `interval_seconds`.
    Pending,
    /// Approved. This answer has `api_key`, which no later answer has.
    Approved,
    /// Denied.
    Denied,
    /// The code is unknown, used or expired.
    Expired,
}

/// The answer to a poll.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = DevicePolled)]
pub struct DevicePollResult {
    /// State of the authorization.
    pub status: DeviceStatus,
    /// While pending: interval before the next poll, in seconds; it increases after an early poll.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval_seconds: Option<u32>,
    /// After approval: an account-wide key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_key: Option<String>,
    /// After approval: the account of the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<DeviceUser>,
}

/// The account of the person who approved.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct DeviceUser {
    /// UUID of the account.
    pub id: String,
    /// E-mail address for sign-in.
    pub email: String,
}
