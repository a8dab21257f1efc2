//! What do commands and the health answer need to know of the screens? This, and nothing of X.

use std::path::PathBuf;

use super::display::{Displays, session_env_in};

/// The computer's desktop as the rest of the agent sees it.
pub trait Desktop: Send + Sync {
    /// Whether the boot screen has a window manager.
    fn ready(&self) -> bool;
    /// How many screens there are.
    fn screens(&self) -> u32;
    /// What programs need to reach the boot screen: `DISPLAY`, `XAUTHORITY`, the session bus.
    fn environment(&self) -> Vec<(String, String)>;
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

    fn environment(&self) -> Vec<(String, String)> {
        Vec::new()
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

    fn environment(&self) -> Vec<(String, String)> {
        let mut all = session_env_in(&self.session_dir);
        // The file may be of an earlier session; the screen itself knows its display.
        all.retain(|(name, _)| name != "DISPLAY");
        if let Ok(boot) = self.displays.screen(None) {
            all.push((String::from("DISPLAY"), boot.display_name()));
        }
        // For a display that was started with access control by whoever started the agent.
        if let Ok(cookies) = std::env::var("XAUTHORITY")
            && !all.iter().any(|(name, _)| name == "XAUTHORITY")
        {
            all.push((String::from("XAUTHORITY"), cookies));
        }
        all
    }
}
