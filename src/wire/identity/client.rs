//! Clients of an operator, their usage and their spend (docs/api/accounts.md).

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::field;

/// A client of an operator.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Client {
    /// Id of the client, a UUID.
    pub id: String,
    /// Id that the operator chose; unique among the operator's clients.
    pub external_id: String,
    /// Name of the client.
    pub name: String,
    /// Id of its workspace.
    pub workspace_id: String,
    /// Largest number of its computers; null when only the limit of the operator's account applies.
    pub max_computers: Option<u32>,
    /// Number of its computers.
    pub computers_used: u32,
    /// Largest spend for AI models in a calendar month (UTC), in US dollars; null means no limit.
    #[serde(serialize_with = "field::number_or_null")]
    pub monthly_ai_cap_usd: Option<f64>,
    /// Payer: `operator` or `client`.
    pub billed_to: String,
    /// Time of creation, ISO 8601.
    pub created_at: String,
    /// Time of the last change, ISO 8601.
    pub updated_at: String,
}

/// The answer to `POST /v1/accounts`; no other answer has the key.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = MadeClient)]
pub struct CreatedClient {
    /// The client.
    #[serde(flatten)]
    pub client: Client,
    /// Key that is scoped to the client's workspace; it is shown only once.
    pub key: String,
    /// The same key under its other name.
    pub api_key: String,
}

/// `GET /v1/accounts`. The list has two names, because clients read both.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ClientList {
    /// Clients, oldest first.
    pub accounts: Vec<Client>,
    /// The same list under its other name.
    pub clients: Vec<Client>,
}

/// `POST /v1/accounts`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"external_id": "customer-17", "name": "Example Ltd", "max_computers": 3}))]
#[serde(deny_unknown_fields)]
pub struct CreateClient {
    /// Id that the operator chooses, 1 to 255 characters after trimming.
    #[schema(min_length = 1, max_length = 255)]
    pub external_id: String,
    /// Name of the client and of its workspace; same as `external_id` when absent.
    #[serde(default)]
    #[schema(min_length = 1, max_length = 255)]
    pub name: Option<String>,
    /// Largest number of its computers; only the limit of the operator's account when absent.
    #[serde(default)]
    pub max_computers: Option<u32>,
    /// Largest spend for AI models in a calendar month (UTC), in US dollars; no limit when absent.
    #[serde(default)]
    #[schema(minimum = 0, maximum = 1000000000)]
    pub monthly_ai_cap_usd: Option<f64>,
    /// Payer: `operator` (default) or `client`.
    #[serde(default)]
    pub billed_to: Option<String>,
}

/// `PATCH /v1/accounts/{client_id}`. Omitted fields are unchanged; null removes a limit.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"max_computers": 5}))]
#[serde(deny_unknown_fields)]
pub struct UpdateClient {
    /// The new name; the name of the workspace is unchanged.
    #[serde(default)]
    #[schema(min_length = 1, max_length = 255)]
    pub name: Option<String>,
    /// Largest number of its computers.
    #[serde(default, deserialize_with = "field::present", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<u32>)]
    pub max_computers: Option<Option<u32>>,
    /// Largest spend for AI models in a calendar month (UTC), in US dollars.
    #[serde(default, deserialize_with = "field::present", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<f64>, minimum = 0, maximum = 1000000000)]
    pub monthly_ai_cap_usd: Option<Option<f64>>,
    /// Payer: `operator` or `client`.
    #[serde(default)]
    pub billed_to: Option<String>,
}

/// The query of `DELETE /v1/accounts/{client_id}`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct RemoveClientQuery {
    /// `delete` to remove the client's computers too. Without it, a client that has computers is not removed.
    #[serde(default)]
    #[param(pattern = "^(keep|delete)$")]
    pub computers: Option<String>,
}

/// The query of `GET /v1/accounts/{client_id}/usage`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct UsageQuery {
    /// Calendar month (UTC), `YYYY-MM`; the current one when absent.
    #[serde(default)]
    #[param(pattern = "^[0-9]{4}-(0[1-9]|1[0-2])$")]
    pub month: Option<String>,
    /// Format of the answer: `json` (default) or `csv`.
    #[serde(default)]
    #[param(pattern = "^(json|csv)$")]
    pub format: Option<String>,
}

/// Usage of a client in a month.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ClientUsage {
    /// Id of the client.
    pub account_id: String,
    /// Id that the operator chose.
    pub external_id: String,
    /// Calendar month (UTC), `YYYY-MM`.
    pub month: String,
    /// Payer: `operator` or `client`.
    pub billed_to: String,
    /// Running time of its computers, in hours.
    #[serde(serialize_with = "field::number")]
    pub computer_hours: f64,
    /// Running time in hours times RAM in GB.
    #[serde(serialize_with = "field::number")]
    pub ram_gb_hours: f64,
    /// Spend for AI models, in US dollars.
    #[serde(serialize_with = "field::number")]
    pub ai_spend_usd: f64,
    /// Computers that ran, including deleted ones.
    pub computers: Vec<ComputerUsage>,
}

/// Usage of one computer in a month.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ComputerUsage {
    /// Id of the computer, a UUID.
    pub computer_id: String,
    /// Running time, in hours.
    #[serde(serialize_with = "field::number")]
    pub computer_hours: f64,
    /// Running time in hours times RAM in GB.
    #[serde(serialize_with = "field::number")]
    pub ram_gb_hours: f64,
}

/// `POST /v1/accounts/{client_id}/spend`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"entry_id": "2026-11-22-1", "amount_usd": 0.25}))]
#[serde(deny_unknown_fields)]
pub struct RecordSpend {
    /// Id of the entry, 1 to 255 characters. An entry is recorded once, even if it is sent several times; the
    /// server compares it with the newest 10,000 entries of the client's month.
    #[schema(min_length = 1, max_length = 255)]
    pub entry_id: String,
    /// Amount in US dollars.
    #[schema(minimum = 0, maximum = 1000000000)]
    pub amount_usd: f64,
    /// Note, at most 255 characters.
    #[serde(default)]
    #[schema(max_length = 255)]
    pub note: Option<String>,
}

/// The answer to a recorded spend.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct SpendRecorded {
    /// Always true; a failure has an error body.
    pub success: bool,
    /// True when the entry had been recorded before.
    pub repeated: bool,
    /// Spend for AI models in this month, in US dollars.
    #[serde(serialize_with = "field::number")]
    pub ai_spend_usd: f64,
}
