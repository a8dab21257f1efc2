//! Egress policies of computers (docs/egress.md).

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Which destinations a computer reaches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct EgressPolicyRecord {
    /// `allow`: only the destinations of the rules can be reached. `block`: all but these.
    #[schema(pattern = "^(allow|block)$")]
    pub mode: String,
    /// Domains, which may begin with `*.`, IP addresses and networks in CIDR notation; at most 256.
    #[serde(default)]
    #[schema(max_items = 256, required = false)]
    pub rules: Vec<String>,
}

/// `GET` and `PUT /computers/{id}/egress-policy`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"egress_policy": {"mode": "allow", "rules": ["example.com", "*.example.org", "192.0.2.0/24"]}}))]
#[serde(deny_unknown_fields)]
pub struct EgressSetting {
    /// The policy; null without one.
    // Without a default: a request without the field must not remove the policy.
    #[serde(deserialize_with = "Option::deserialize")]
    #[schema(required = true)]
    pub egress_policy: Option<EgressPolicyRecord>,
}
