//! What is a client of an operator on the wire, and what did it use? (wire.md 14, "Clients API")

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::omitted;

/// A client's record.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Client {
    /// UUID.
    pub id: String,
    /// What the operator calls it; unique among the operator's clients.
    pub external_id: String,
    /// What it is called.
    pub name: String,
    /// Its workspace.
    pub workspace_id: String,
    /// Computers that it may have, beside the bound of the operator's account; null: no other.
    pub max_computers: Option<u32>,
    /// Computers that it has.
    pub computers_used: u32,
    /// Dollars that AI models may cost it in a month of UTC; null: without a bound.
    pub monthly_ai_cap_usd: Option<f64>,
    /// `operator` or `client`.
    pub billed_to: String,
    /// ISO 8601.
    pub created_at: String,
    /// ISO 8601.
    pub updated_at: String,
}

/// `POST /v1/accounts`'s answer: the only one with the key.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct MadeClient {
    /// The client.
    #[serde(flatten)]
    pub client: Client,
    /// The key that reaches its workspace and no other; it is shown once.
    pub key: String,
    /// The same under its other name.
    pub api_key: String,
}

/// `GET /v1/accounts`, under both of its names.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ClientList {
    /// The clients, oldest first.
    pub accounts: Vec<Client>,
    /// The same list.
    pub clients: Vec<Client>,
}

/// `POST /v1/accounts`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"external_id": "customer-17", "name": "Example Ltd", "max_computers": 3}))]
pub struct CreateClient {
    /// 1 to 255 characters after trimming.
    #[schema(min_length = 1, max_length = 255)]
    pub external_id: String,
    /// What it is called, and its workspace; as `external_id` when absent.
    #[serde(default)]
    #[schema(min_length = 1, max_length = 255)]
    pub name: Option<String>,
    /// Computers that it may have; as many as the operator's account when absent.
    #[serde(default)]
    pub max_computers: Option<u32>,
    /// Dollars that AI models may cost it in a month of UTC; without a bound when absent.
    #[serde(default)]
    #[schema(minimum = 0, maximum = 1000000000)]
    pub monthly_ai_cap_usd: Option<f64>,
    /// `operator` (default) or `client`.
    #[serde(default)]
    pub billed_to: Option<String>,
}

/// `PATCH /v1/accounts/{client_id}`. Omitted fields stay; null takes a bound away.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"max_computers": 5}))]
pub struct UpdateClient {
    /// A new name; the workspace keeps its own.
    #[serde(default)]
    #[schema(min_length = 1, max_length = 255)]
    pub name: Option<String>,
    /// Computers that it may have.
    #[serde(default, deserialize_with = "omitted::present", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<u32>)]
    pub max_computers: Option<Option<u32>>,
    /// Dollars that AI models may cost it in a month of UTC.
    #[serde(default, deserialize_with = "omitted::present", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<f64>, minimum = 0, maximum = 1000000000)]
    pub monthly_ai_cap_usd: Option<Option<f64>>,
    /// `operator` or `client`.
    #[serde(default)]
    pub billed_to: Option<String>,
}

/// `DELETE /v1/accounts/{client_id}`'s query.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct RemoveClientQuery {
    /// `delete`: the client's computers go with it. Without it a client that has some is not removed.
    #[serde(default)]
    pub computers: Option<String>,
}

/// `GET /v1/accounts/{client_id}/usage`'s query.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct UsageQuery {
    /// A month of UTC, `YYYY-MM`; the present one when absent.
    #[serde(default)]
    pub month: Option<String>,
    /// `json` (default) or `csv`.
    #[serde(default)]
    pub format: Option<String>,
}

/// What a client used in a month.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ClientUsage {
    /// The client.
    pub account_id: String,
    /// What the operator calls it.
    pub external_id: String,
    /// `YYYY-MM`.
    pub month: String,
    /// `operator` or `client`.
    pub billed_to: String,
    /// Hours that its computers ran, added up.
    pub computer_hours: f64,
    /// Those hours times the GB of RAM.
    pub ram_gb_hours: f64,
    /// What AI models cost, in dollars.
    pub ai_spend_usd: f64,
    /// The computers that ran, also those that are gone.
    pub computers: Vec<ComputerUsage>,
}

/// What one computer used in a month.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ComputerUsage {
    /// UUID.
    pub computer_id: String,
    /// Hours that it ran.
    pub computer_hours: f64,
    /// Those hours times the GB of RAM.
    pub ram_gb_hours: f64,
}

/// `POST /v1/accounts/{client_id}/spend`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"entry_id": "2026-11-22-1", "amount_usd": 0.25}))]
pub struct RecordSpend {
    /// The cost's own id, 1 to 255 characters: it is written down once, however often it comes (the newest 10,000 of a
    /// client's month are known).
    #[schema(min_length = 1, max_length = 255)]
    pub entry_id: String,
    /// Dollars.
    #[schema(minimum = 0, maximum = 1000000000)]
    pub amount_usd: f64,
    /// What for, at most 255 characters.
    #[serde(default)]
    #[schema(max_length = 255)]
    pub note: Option<String>,
}

/// The answer to a cost.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct SpendRecorded {
    /// Always true; a refusal is an error body.
    pub success: bool,
    /// Whether it had been written down before.
    pub repeated: bool,
    /// What AI models cost this month, in dollars.
    pub ai_spend_usd: f64,
}
