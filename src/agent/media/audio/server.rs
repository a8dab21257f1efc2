//! Where is the session's PulseAudio? In its environment, as PulseAudio's own programs find it.

use std::path::PathBuf;

use crate::desktop::Desktop;
use hotdesk_domain::error::{Error, Result};

/// The variable that names the server.
const SERVER: &str = "PULSE_SERVER";
/// The variable that names the file of its cookie.
const COOKIE: &str = "PULSE_COOKIE";

/// A sound server's place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its socket.
    pub socket: PathBuf,
    /// The file of its cookie.
    pub cookie: Option<PathBuf>,
}

/// Where the session's sound server is.
///
/// # Errors
/// `Unavailable` when the session has none, or none on this computer.
pub fn place(desktop: &dyn Desktop) -> Result<Place> {
    let environment = desktop.environment(None)?;
    let value = |name| environment.iter().find(|(given, _)| given == name).map(|(_, value)| value.as_str());
    let server = value(SERVER).ok_or_else(|| Error::unavailable("the session has no sound server"))?;
    let socket = server.strip_prefix("unix:").unwrap_or(server);
    if !socket.starts_with('/') {
        return Err(Error::unavailable("the session's sound server is not on this computer").context(server));
    }
    Ok(Place { socket: PathBuf::from(socket), cookie: value(COOKIE).map(PathBuf::from) })
}
