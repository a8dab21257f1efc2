//! Where does a machine's agent answer? An address that an engine gives and a guest client uses.

use std::net::SocketAddr;
use std::path::PathBuf;

/// Where a machine's agent answers. Only the controller's host can reach it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// A unix socket on the controller's host, in a folder that no guest can write.
    Unix(PathBuf),
    /// An address that only the controller's host reaches.
    Tcp(SocketAddr),
}
