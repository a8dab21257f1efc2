//! Tables of OAuth: registered clients, grants, and device authorization requests.

pub mod clients;
pub mod device_codes;
pub mod grants;
