//! An engine in another process: the host helper owns the real one, and a controller without privileges calls it over a unix
//! socket.
//!
//! ```text
//!   hotdesk serve (user hotdesk)                    hotdesk host (root)
//!     runner -> RemoteEngine -- one connection, ----> server: SO_PEERCRED, checks, fence -> engine
//!                               one request, one reply
//!     guest client ------------ agent's socket or address ------------------------------> guest
//! ```
//! Clicks, streams and files go from the controller to the agent; only changes of machines pass through the helper.
//!
//! - A call that has begun runs to its end, also when its caller dies.
//! - Calls of an earlier controller end before those of the next one begin on the same machine (`fence.rs`). So the next
//!   one never observes a machine that an operation is still changing.
//! - A call whose answer is lost is repeated once: every operation of an engine is idempotent.
//! - The helper trusts no argument: `validate.rs` checks each one. A request contains ids, numbers and names from a list,
//!   never a path.

mod client;
mod fence;
mod frames;
mod intern;
mod protocol;
mod server;
mod validate;

pub use crate::remote::client::RemoteEngine;
pub use crate::remote::server::{listen, listener_of_systemd, serve};
