//! Context of every request: host and origin checks, CORS, client address, caller, leases and metrics; the
//! frame of HTML pages, the console and the viewer page.

pub mod caller;
pub mod console;
pub mod cors;
pub mod failures;
pub mod hosts;
pub mod metrics;
pub mod origin;
pub mod page;
pub mod port_hosts;
pub mod request_lease;
pub mod source;
pub mod transport_security;
pub mod unread_answers;
pub mod viewer;
