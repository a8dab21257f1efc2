//! Where can a self-test act without anybody seeing it? On a screen that takes one of the places but is in no list.

use std::sync::Arc;

use super::{Displays, Screen};
use hotdesk_domain::error::Result;
use hotdesk_domain::resolution::Size;

/// Its id, which no route finds.
pub(super) const ID: &str = "selftest";

/// A screen that no route finds. When it is dropped it ends, with all that runs on it.
#[derive(Debug)]
pub struct Hidden {
    displays: Displays,
    screen: Arc<Screen>,
}

impl Displays {
    /// Makes a hidden screen; on return it is being started.
    ///
    /// # Errors
    /// `Conflict` at the limit of screens, or when no X server can be started here.
    pub fn hide(&self, size: Size) -> Result<Hidden> {
        let screen = self.begin(Some(ID), Some(size))?;
        Ok(Hidden { displays: self.clone(), screen })
    }

    /// Whether screens are to have a window manager.
    pub fn has_session(&self) -> bool {
        self.room.session.is_some()
    }
}

impl Hidden {
    /// The screen.
    pub fn screen(&self) -> Arc<Screen> {
        Arc::clone(&self.screen)
    }

    /// Ends it; on return nothing of it runs.
    pub async fn end(self) {
        self.displays.end(&self.screen).await;
    }
}

impl Drop for Hidden {
    fn drop(&mut self) {
        self.screen.stop.cancel();
    }
}
