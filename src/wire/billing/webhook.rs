//! Events of a payment service (`POST /billing/webhook`).

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::field;

/// Change of the billing of one account or one computer at `occurred_at`. Omitted fields are unchanged.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"id": "evt_1", "occurred_at": "2026-01-31T12:00:00.000Z", "account_id": "5f0c8a52-3a1e-4f7b-9a44-0c6c2a1d9b10", "plan": "scale", "payment": "current"}))]
pub struct BillingEvent {
    /// Id of the event, 1 to 255 characters. An event is applied once, even if it is delivered several times.
    #[schema(min_length = 1, max_length = 255)]
    pub id: String,
    /// Time of the change by the payment service's clock, ISO 8601. For each field the newest event counts,
    /// in any order of delivery; of two events of the same time, the one that is delivered later.
    pub occurred_at: String,
    /// Id of the account; this or `computer_id` is required.
    #[serde(default)]
    pub account_id: Option<String>,
    /// UUID or instance id of the computer.
    #[serde(default)]
    pub computer_id: Option<String>,
    /// Plan of the account; null for the default plan.
    #[serde(default, deserialize_with = "field::present", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub plan: Option<Option<String>>,
    /// `current` or `lapsed`.
    #[serde(default)]
    pub payment: Option<String>,
    /// Billing of the computer: `included`, `trial`, `hourly`, `reservation` or `dedicated`.
    #[serde(default)]
    pub variant: Option<String>,
    /// End of the computer's trial, ISO 8601; null when it does not end.
    #[serde(default, deserialize_with = "field::present", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub trial_ends_at: Option<Option<String>>,
    /// Whether the service manages the computer, as a device.
    #[serde(default)]
    pub device: Option<bool>,
}

/// The answer to an event.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = BillingEventTaken)]
pub struct BillingEventResult {
    /// Always true; a failure has an error body.
    pub success: bool,
    /// True when the event had been applied before.
    pub repeated: bool,
    /// Fields that were not changed, because a newer event had already set them.
    pub outdated: Vec<String>,
}
