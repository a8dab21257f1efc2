//! Address of a machine's agent, as an engine returns it and a guest client uses it.

use std::net::SocketAddr;
use std::path::PathBuf;

/// Address of a machine's agent. Only the controller's host can reach it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// A Unix socket on the controller's host, in a folder that no guest can write.
    Unix(PathBuf),
    /// A TCP address that only the controller's host can reach.
    Tcp(SocketAddr),
}
