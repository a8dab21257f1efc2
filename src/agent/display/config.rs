//! How is the display room set up? Plain data.

use std::path::PathBuf;

use hotdesk_domain::resolution::Resolution;

/// Where the session script tells its environment, unless the configuration says otherwise.
pub const SESSION_DIR: &str = "/run/hotdesk-session";

/// Whose X servers are used.
#[derive(Clone, Debug)]
pub enum XServer {
    /// The agent starts one per screen: Xvnc, or Xvfb where that is missing.
    Own {
        /// Size of the boot screen. Its depth is what was asked; screens run at 24.
        boot: Resolution,
    },
    /// One that somebody else started, for example `:0`. It is the boot screen.
    Attach(String),
}

/// What runs on a screen.
#[derive(Clone, Debug)]
pub enum Session {
    /// Nothing: the screen is ready as soon as its X server answers.
    None,
    /// The scripts that came inside this program, unpacked to `<runtime_dir>/xsession`.
    Embedded,
    /// The scripts of this folder.
    Folder(PathBuf),
}

/// The display room's configuration.
#[derive(Clone, Debug)]
pub struct Config {
    /// Whose X servers are used.
    pub xserver: XServer,
    /// What runs on a screen.
    pub session: Session,
    /// A folder of this agent's own, for VNC sockets, process notes and the unpacked session.
    pub runtime_dir: PathBuf,
    /// Where the session script tells its environment; [`SESSION_DIR`] in a computer.
    pub session_dir: PathBuf,
    /// Display number of the boot screen; further screens have the next three. 99 in a computer.
    pub display_base: u16,
}
