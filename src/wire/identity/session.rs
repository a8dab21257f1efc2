//! Browser sessions of an account (docs/api/authentication.md).

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A browser that is signed in to an account.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct BrowserSession {
    /// Id of the session, a UUID.
    pub id: String,
    /// Browser and system by its `User-Agent`, such as `Firefox on Linux`; null when it names neither.
    pub browser: Option<String>,
    /// `User-Agent` of the browser at the sign-in, at most 256 characters; null when it sent none.
    pub user_agent: Option<String>,
    /// IP address of the browser at the sign-in, if it was recorded.
    pub address: Option<String>,
    /// Whether a sign-in link began it. It ends with the API key of that link.
    pub by_link: bool,
    /// Time of the sign-in, ISO 8601.
    pub created_at: String,
    /// Time of the last use, ISO 8601, to the minute; null when there was none since the sign-in.
    pub last_used_at: Option<String>,
    /// End in any case, ISO 8601.
    pub expires_at: String,
}

/// `GET /user/sessions`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct BrowserSessionList {
    /// Sessions, newest sign-in first.
    pub sessions: Vec<BrowserSession>,
}
