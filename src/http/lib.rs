//! HTTP transport for the controller and the agent: serving, extractors, error responses, WebSockets, event
//! feeds (floor 3).

pub mod bearer;
pub mod edge;
pub mod encode;
pub mod error_response;
pub mod extract;
pub mod feed;
pub mod guarded_fetch;
pub mod headers;
pub mod idempotency;
pub mod serve;
pub mod socket;
pub mod unread_body;
pub mod untrusted_content;
