//! Header fields of hotdesk: who acts, and what describes an image.

pub mod actor;
pub mod image_headers;
