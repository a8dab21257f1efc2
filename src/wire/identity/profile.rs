//! Profile of the account that owns a key.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// `GET /user/profile`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Profile {
    /// UUID of the account.
    pub id: String,
    /// E-mail address for sign-in.
    pub email: String,
    /// Whether a link that was mailed to the address was opened.
    pub email_verified: bool,
    /// Full name; it may be empty.
    pub full_name: String,
}
