//! What passes through the controller as it is?

pub mod http;
