//! Floor 3: the transport kit that both faces share: serving, extracting, refusing, request ids.

pub mod bearer;
pub mod edge;
pub mod encode;
pub mod error_response;
pub mod extract;
pub mod feed;
pub mod guarded;
pub mod idempotency;
pub mod leftover;
pub mod marks;
pub mod serve;
pub mod socket;
mod violation;
