//! What does a payment service tell? (`POST /billing/webhook`)

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::omitted;

/// An event: what is so of one account or of one computer since `occurred_at`. Omitted fields stay.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"id": "evt_1", "occurred_at": "2026-01-31T12:00:00.000Z", "account_id": "5f0c8a52-3a1e-4f7b-9a44-0c6c2a1d9b10", "plan": "scale", "payment": "current"}))]
pub struct BillingEvent {
    /// The event's own id, 1 to 255 characters: it is carried out once, however often it comes.
    #[schema(min_length = 1, max_length = 255)]
    pub id: String,
    /// ISO 8601: when it came to be so, by the payment service's own clock. Of each field the newest event counts, in whatever
    /// order they come; of two of the same time the one that comes later.
    pub occurred_at: String,
    /// The account that it is about, by its id (this or `computer_id`).
    #[serde(default)]
    pub account_id: Option<String>,
    /// The computer that it is about, by its UUID or instance id.
    #[serde(default)]
    pub computer_id: Option<String>,
    /// The account's plan; null is the default one.
    #[serde(default, deserialize_with = "omitted::present", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub plan: Option<Option<String>>,
    /// `current` or `lapsed`.
    #[serde(default)]
    pub payment: Option<String>,
    /// How the computer is paid for: `included`, `trial`, `hourly`, `reservation` or `dedicated`.
    #[serde(default)]
    pub variant: Option<String>,
    /// ISO 8601: when the computer's trial ends; null: never.
    #[serde(default, deserialize_with = "omitted::present", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub trial_ends_at: Option<Option<String>>,
    /// Whether the service itself manages the computer, as a device.
    #[serde(default)]
    pub device: Option<bool>,
}

/// The answer to an event.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct BillingEventTaken {
    /// Always true; a refusal is an error body.
    pub success: bool,
    /// Whether it had been carried out before.
    pub repeated: bool,
    /// The fields that were left as they are, because an event that occurred later had come before.
    pub outdated: Vec<String>,
}
