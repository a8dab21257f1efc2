//! Configuration of the displays.

use std::path::PathBuf;

use hotdesk_domain::desktop::resolution::Resolution;
use hotdesk_http::feed::Feed;

/// Folder where the session script writes its environment, unless configured otherwise.
pub const SESSION_DIR: &str = "/run/hotdesk-session";

/// Source of the X servers.
#[derive(Clone, Debug)]
pub enum XServer {
    /// The agent starts one per screen: Xvnc, or Xvfb where Xvnc is missing.
    Own {
        /// Size of the boot screen in pixels. Its depth is ignored: screens run at depth 24.
        boot: Resolution,
    },
    /// An X server that something else started, for example `:0`. It is the boot screen.
    Attach(String),
}

/// What runs on a screen.
#[derive(Clone, Debug)]
pub enum ScreenSession {
    /// Nothing: the screen is ready as soon as its X server answers.
    None,
    /// The scripts embedded in this binary, unpacked to `<runtime_dir>/xsession`.
    Embedded,
    /// The scripts in this folder.
    Folder(PathBuf),
}

/// Configuration of [`Displays`](super::Displays).
#[derive(Clone, Debug)]
pub struct DisplayConfig {
    /// Source of the X servers.
    pub xserver: XServer,
    /// What runs on a screen.
    pub session: ScreenSession,
    /// The agent's own folder for VNC sockets, pid files and the unpacked session.
    pub runtime_dir: PathBuf,
    /// Folder where the session script writes its environment; [`SESSION_DIR`] in a computer.
    pub session_dir: PathBuf,
    /// X display number of the boot screen (99 in a computer); further screens get the next three.
    pub display_base: u16,
    /// Feed for changes of the control of screens.
    pub feed: Feed,
}
