//! Relays between clients and the agents in computers: HTTP, transfers and sockets.

pub mod bounded_body;
pub mod http;
pub mod output_readers;
pub mod ports;
pub mod socket;
pub mod ssh;
pub mod transfer;
mod typed_secrets;
