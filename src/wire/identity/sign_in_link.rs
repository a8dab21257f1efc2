//! Sign-in links: single-use links that sign a person's browser in (docs/api/authentication.md).

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// `POST /user/sign-in-links`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({}))]
#[serde(deny_unknown_fields)]
pub struct CreateSignInLink {
    /// Computer whose desktop the link opens (UUID or instance id); the console when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub computer_id: Option<String>,
}

/// A link that signs one browser in, once.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct SignInLink {
    /// The link. Its token is in the fragment, which browsers do not send.
    pub url: String,
    /// Time of expiry, ISO 8601.
    pub expires_at: String,
}
