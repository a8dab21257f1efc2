//! Signing of webhooks.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// `GET account/webhook-secret`.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
pub struct WebhookSigningSecret {
    /// The secret, `whsec_` and Base64, as libraries of Standard Webhooks take it.
    pub secret: String,
}
