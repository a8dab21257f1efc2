//! What passes through the controller as it is?

pub mod http;
pub mod paced;
pub mod socket;
pub mod transfer;
