//! Authorization of every operation, secrecy of credentials, and HTTP parsing limits.
//!
//! T13 and T24 (docs/security.md).

mod audit;
pub mod cast;
mod console;
mod console_pages;
mod edge;
mod keys;
mod limits;
mod locked;
mod matrix;
mod operator_host;
mod page;
mod pages_elsewhere;
mod protocol;
mod revocation;
pub mod ssh_keys;
mod tls;
