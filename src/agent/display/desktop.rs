//! Interface of the desktop for commands and the health check, with and without X screens.

use std::path::PathBuf;
use std::time::Duration;

use futures_util::future::BoxFuture;

use crate::display::template_environment::template_environment;
use crate::display::{Displays, session_env_in};
use hotdesk_domain::error::{Error, Result};

/// The computer's desktop.
pub trait Desktop: Send + Sync {
    /// Whether the boot screen has a window manager.
    fn ready(&self) -> bool;
    /// Waits until the boot screen has a window manager, for at most `timeout`.
    fn until_ready(&self, timeout: Duration) -> BoxFuture<'_, ()>;
    /// Number of screens.
    fn screens(&self) -> u32;
    /// Environment variables with which a program reaches a screen (the boot screen for `None`): `DISPLAY`,
    /// `XAUTHORITY`, the session bus.
    ///
    /// # Errors
    /// `NotFound` when no screen has that id.
    fn environment(&self, screen: Option<&str>) -> Result<Vec<(String, String)>>;
    /// Forgets who controls the screens: they are of the computer that this one is a copy of. Blocks while it
    /// writes a file.
    ///
    /// # Errors
    /// `Unavailable` when a change cannot be stored; the other screens are free then.
    fn clear_control(&self) -> Result<()>;
}

/// No desktop: an agent for commands and files only.
#[derive(Clone, Copy, Debug)]
pub struct Headless;

impl Desktop for Headless {
    fn ready(&self) -> bool {
        true
    }

    fn until_ready(&self, _timeout: Duration) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
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

    fn clear_control(&self) -> Result<()> {
        Ok(())
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

    fn until_ready(&self, timeout: Duration) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            if let Ok(boot) = self.displays.screen(None) {
                // `ready` tells what came of it.
                let _waited = boot.ready(timeout).await;
            }
        })
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

    fn clear_control(&self) -> Result<()> {
        let cleared: Vec<_> = self.displays.list().iter().map(|screen| screen.control.clear()).collect();
        cleared.into_iter().collect()
    }
}
