//! Web server layers: host and origin checks, CORS, request metrics, and the viewer page.

pub mod cors;
pub mod hosts;
pub mod metrics;
pub mod origin;
pub mod viewer;
