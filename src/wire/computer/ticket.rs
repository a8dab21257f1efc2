//! Tickets: one-use links to a screen.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What the holder of a ticket may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = TicketMode)]
pub enum Mode {
    /// See the screen; input that is sent nevertheless reaches nobody.
    View,
    /// See it and act on it.
    Control,
}

/// `POST /computers/{id}/stream-tickets`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"mode": "view", "ttl_seconds": 60}))]
pub struct NewTicket {
    /// What its holder may do.
    pub mode: Mode,
    /// The screen; the boot screen, `default`, when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub screen: Option<String>,
    /// Seconds until it is worth nothing, 1 to 3600; 60 when absent. A connection that it opened may last longer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 3600)]
    pub ttl_seconds: Option<u32>,
}

/// A ticket. It opens one connection, until the computer starts again or the controller does.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Ticket {
    /// The viewer page with the ticket in its fragment, which browsers send to nobody.
    pub url: String,
    /// The socket that speaks RFB, for programs.
    pub ws_url: String,
    /// The ticket alone, the socket's query parameter `ticket`.
    pub ticket: String,
    /// What its holder may do.
    pub mode: Mode,
    /// The one screen that it opens.
    pub screen: String,
    /// When it is worth nothing any more, ISO 8601.
    pub expires_at: String,
}
