//! Hidden screens for self-tests: they occupy a slot but are in no list.

use std::sync::Arc;

use super::Screen;
use crate::display::Displays;
use hotdesk_domain::desktop::resolution::Size;
use hotdesk_domain::error::Result;

/// Id of a hidden screen, which no route finds.
pub(super) const ID: &str = "selftest";

/// A screen that no route finds. Dropping it ends the screen and everything on it.
#[derive(Debug)]
pub struct HiddenScreen {
    displays: Displays,
    screen: Arc<Screen>,
}

impl Displays {
    /// Begins to start a hidden screen.
    ///
    /// # Errors
    /// `Conflict` at the limit of screens, when no X server is installed, or when its display number is
    /// taken.
    pub fn create_hidden(&self, size: Size) -> Result<HiddenScreen> {
        let screen = self.begin(Some(ID), Some(size))?;
        Ok(HiddenScreen { displays: self.clone(), screen })
    }

    /// Whether screens get a session with a window manager.
    pub fn has_session(&self) -> bool {
        self.inner.session.is_some()
    }
}

impl HiddenScreen {
    /// The screen.
    pub fn screen(&self) -> Arc<Screen> {
        Arc::clone(&self.screen)
    }

    /// Ends the screen; on return nothing of it runs.
    pub async fn end(self) {
        self.displays.end(&self.screen).await;
    }
}

impl Drop for HiddenScreen {
    fn drop(&mut self) {
        self.screen.stop.cancel();
    }
}
