//! Address of the session's PulseAudio server, from the session's environment.

use std::path::PathBuf;

use crate::display::desktop::Desktop;
use hotdesk_domain::error::{Error, Result};

/// Variable with the server's address.
const SERVER: &str = "PULSE_SERVER";
/// Variable with the path of the cookie file.
const COOKIE: &str = "PULSE_COOKIE";

/// Address of a sound server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerAddress {
    /// Path of its socket.
    pub socket: PathBuf,
    /// Path of its cookie file.
    pub cookie: Option<PathBuf>,
}

/// Returns the address of the session's sound server.
///
/// # Errors
/// `Unavailable` when the session has no sound server, or one on another host.
pub fn find(desktop: &dyn Desktop) -> Result<ServerAddress> {
    let environment = desktop.environment(None)?;
    let value = |name| environment.iter().find(|(given, _)| given == name).map(|(_, value)| value.as_str());
    let server = value(SERVER).ok_or_else(|| Error::unavailable("the session has no sound server"))?;
    let socket = server.strip_prefix("unix:").unwrap_or(server);
    if !socket.starts_with('/') {
        return Err(Error::unavailable("the session's sound server is not on this computer").context(server));
    }
    Ok(ServerAddress { socket: PathBuf::from(socket), cookie: value(COOKIE).map(PathBuf::from) })
}
