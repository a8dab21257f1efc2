//! Interface of the desktop for commands and the health check, with and without X screens.

use std::path::PathBuf;

use crate::display::template_environment::template_environment;
use crate::display::{Displays, session_env_in};
use hotdesk_domain::error::{Error, Result};

/// The computer's desktop.
pub trait Desktop: Send + Sync {
    /// Whether the boot screen has a window manager.
    fn ready(&self) -> bool;
    /// Number of screens.
    fn screens(&self) -> u32;
    /// Environment variables with which a program reaches a screen (the boot screen for `None`): `DISPLAY`,
    /// `XAUTHORITY`, the session bus.
    ///
    /// # Errors
    /// `NotFound` when no screen has that id.
    fn environment(&self, screen: Option<&str>) -> Result<Vec<(String, String)>>;
}

/// No desktop: an agent for commands and files only.
#[derive(Clone, Copy, Debug)]
pub struct Headless;

impl Desktop for Headless {
    fn ready(&self) -> bool {
        true
    }

    fn screens(&self) -> u32 {
        0
    }

    fn environment(&self, screen: Option<&str>) -> Result<Vec<(String, String)>> {
        match screen {
            None => Ok(Vec::new()),
            Some(id) => Err(Error::not_found(format!("Screen not found: {id}"))),
        }
    }
}

/// The desktop on the X screens of this agent.
#[derive(Debug)]
pub struct X11Desktop {
    displays: Displays,
    session_dir: PathBuf,
}

impl X11Desktop {
    /// `session_dir` is the folder in which the session writes its environment.
    pub fn new(displays: Displays, session_dir: PathBuf) -> Self {
        Self { displays, session_dir }
    }
}

impl Desktop for X11Desktop {
    fn ready(&self) -> bool {
        self.displays.screen(None).is_ok_and(|boot| boot.is_ready())
    }

    fn screens(&self) -> u32 {
        self.displays.list().len() as u32
    }

    fn environment(&self, screen: Option<&str>) -> Result<Vec<(String, String)>> {
        let mut session = session_env_in(&self.session_dir);
        // The file may be of an earlier session.
        session.retain(|(name, _)| name != "DISPLAY");
        let mut all = template_environment();
        all.extend(session);
        // A missing boot screen is an error only for a caller that names a screen.
        match self.displays.screen(screen) {
            Ok(screen) => all.push((String::from("DISPLAY"), screen.display_name())),
            Err(error) if screen.is_some() => return Err(error),
            Err(_) => {}
        }
        // An attached display may have access control; its cookies then come from the agent's own
        // environment.
        if let Ok(cookies) = std::env::var("XAUTHORITY")
            && !all.iter().any(|(name, _)| name == "XAUTHORITY")
        {
            all.push((String::from("XAUTHORITY"), cookies));
        }
        Ok(all)
    }
}
