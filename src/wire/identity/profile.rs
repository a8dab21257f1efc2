//! Who does a key belong to? (wire.md 13)

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// `GET /user/profile`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Profile {
    /// UUID of the account.
    pub id: String,
    /// The address that it signs in with.
    pub email: String,
    /// What it is called; may be empty.
    pub full_name: String,
}
