//! Relays between clients and the agents in computers: HTTP, transfers and sockets; and to the controller that leads.

pub mod bounded_body;
pub mod http;
pub mod output_readers;
pub mod peers;
pub mod ports;
pub mod socket;
pub mod ssh;
pub mod transfer;
mod typed_secrets;
