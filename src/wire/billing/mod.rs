//! Plans, capacity, payment events, and the report of the host.

pub mod capacity;
pub mod gone;
pub mod host;
pub mod hosts;
pub mod webhook;
