//! Stream tickets: single-use links to a screen (docs/api/authentication.md).

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Permission of a ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = TicketMode)]
pub enum TicketMode {
    /// View the screen; input is discarded.
    View,
    /// View the screen and send input.
    Control,
}

/// `POST /computers/{id}/stream-tickets`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"mode": "view", "ttl_seconds": 60}))]
#[serde(deny_unknown_fields)]
pub struct NewTicket {
    /// Permission of the ticket.
    pub mode: TicketMode,
    /// Id of the screen; the boot screen, `default`, when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub screen: Option<String>,
    /// Lifetime in seconds, 1 to 3600; 60 when absent. A connection that the ticket opened can last longer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 3600)]
    pub ttl_seconds: Option<u32>,
}

/// A ticket for one connection. It also expires when the computer or the controller restarts.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Ticket {
    /// URL of the viewer page. The ticket is in its fragment, which browsers do not send.
    pub url: String,
    /// URL of the RFB socket, for programs.
    pub ws_url: String,
    /// The ticket alone, for the socket's query parameter `ticket`.
    pub ticket: String,
    /// Permission of the ticket.
    pub mode: TicketMode,
    /// Id of the screen.
    pub screen: String,
    /// Time of expiry, ISO 8601.
    pub expires_at: String,
}
