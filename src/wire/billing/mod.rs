//! Plans, capacity and payment events.

pub mod capacity;
pub mod webhook;
