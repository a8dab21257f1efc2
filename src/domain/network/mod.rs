//! Rules about addresses and hosts of requests.

pub mod address;
pub mod forwarded;
pub mod host;
