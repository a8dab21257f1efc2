//! What do commands and the health answer need to know of the screens? This, and nothing of X.

use std::path::PathBuf;

use super::display::{Displays, session_env_in};
use hotdesk_domain::error::{Error, Result};

/// The computer's desktop as the rest of the agent sees it.
pub trait Desktop: Send + Sync {
    /// Whether the boot screen has a window manager.
    fn ready(&self) -> bool;
    /// How many screens there are.
    fn screens(&self) -> u32;
    /// What programs need to reach a screen, the boot screen when none is named: `DISPLAY`, `XAUTHORITY`, the session
    /// bus.
    ///
    /// # Errors
    /// `NotFound` for a screen that is not there.
    fn environment(&self, screen: Option<&str>) -> Result<Vec<(String, String)>>;
}

/// No desktop at all: an agent for commands and files only.
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

/// The desktop on the screens of this agent.
#[derive(Debug)]
pub struct Seen {
    displays: Displays,
    session_dir: PathBuf,
}

impl Seen {
    /// `session_dir` is where the session tells its environment.
    pub fn new(displays: Displays, session_dir: PathBuf) -> Self {
        Self { displays, session_dir }
    }
}

impl Desktop for Seen {
    fn ready(&self) -> bool {
        self.displays.screen(None).is_ok_and(|boot| boot.is_ready())
    }

    fn screens(&self) -> u32 {
        self.displays.list().len() as u32
    }

    fn environment(&self, screen: Option<&str>) -> Result<Vec<(String, String)>> {
        let mut all = session_env_in(&self.session_dir);
        // The file may be of an earlier session; the screen itself knows its display.
        all.retain(|(name, _)| name != "DISPLAY");
        // Without a boot screen, only who asks for a screen misses it.
        match self.displays.screen(screen) {
            Ok(screen) => all.push((String::from("DISPLAY"), screen.display_name())),
            Err(error) if screen.is_some() => return Err(error),
            Err(_) => {}
        }
        // For a display that was started with access control by whoever started the agent.
        if let Ok(cookies) = std::env::var("XAUTHORITY")
            && !all.iter().any(|(name, _)| name == "XAUTHORITY")
        {
            all.push((String::from("XAUTHORITY"), cookies));
        }
        Ok(all)
    }
}
