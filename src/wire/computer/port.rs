//! Ports of a computer, and links to them (docs/api/ports.md).

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A port that the template of a computer declares.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = ComputerPort)]
pub struct Port {
    /// Number in the computer.
    pub port: u16,
    /// The template's application that listens on it.
    pub name: String,
    /// `tcp`, `udp`, `http` or `ws`.
    pub protocol: String,
    /// Whether HTTP and WebSocket requests to the URL need no key.
    pub public: bool,
    /// Its URL, which stays the same for the life of the computer; absent for UDP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

/// The ports of a computer.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = ComputerPortList)]
pub struct PortList {
    /// Ports that its template declares, in the order of the definition file.
    pub ports: Vec<Port>,
}

/// `POST /computers/{id}/port-tickets`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"port": 3000, "ttl_seconds": 60}))]
#[serde(deny_unknown_fields)]
pub struct NewPortTicket {
    /// The port, 1 to 65535, without those that the computer itself uses.
    #[schema(minimum = 1, maximum = 65535)]
    pub port: u32,
    /// Time in which the link can be opened, in seconds, 1 to 3600; 60 when absent. What it opened lasts longer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 3600)]
    pub ttl_seconds: Option<u32>,
}

/// A link that opens a port in a browser, once.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct PortTicket {
    /// The link, which works without an API key until it expires.
    pub url: String,
    /// Port in the computer that the link leads to.
    pub port: u16,
    /// When the link expires, ISO 8601.
    pub expires_at: String,
}
