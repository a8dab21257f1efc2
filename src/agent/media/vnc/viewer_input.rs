//! Input of one viewer: it reaches the VNC server unless somebody else holds the screen.
//!
//! A viewer that loses its input stays connected and sees the screen. The keys and buttons that it holds down
//! are released on its own connection, because Xvnc ignores pointer events of others while a button is down.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::unix::OwnedWriteHalf;
use tokio::sync::watch;

use super::action_log::ActionLog;
use super::{closed, server_ended};
use crate::display::Screen;
use hotdesk_domain::desktop::channel::Failure;
use hotdesk_domain::desktop::rfb::{InputFilter, PointerTracker, UnreadableInput};
use hotdesk_domain::desktop::screen::control::Control;
use hotdesk_domain::identity::access::actor::Actor;
use hotdesk_http::socket::CloseReason;

/// How long Xvnc may take to read a client's bytes. It runs on this machine; only one that hangs takes
/// longer. Somebody who takes the screen waits for a write in progress, and waits longer than this.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);

/// Input of a viewer.
pub(super) struct ViewerInput {
    screen: Arc<Screen>,
    by: Option<Actor>,
    filter: InputFilter,
    pressed: PointerTracker,
    log: ActionLog,
    /// Whether its last message was forwarded while its input was admitted.
    was_admitted: bool,
}

impl ViewerInput {
    /// The input of a new viewer. `by` is who acts by it; `log` notes what reaches the server.
    pub(super) fn new(screen: Arc<Screen>, by: Option<Actor>, log: ActionLog) -> Self {
        let (filter, pressed) = (InputFilter::default(), PointerTracker::default());
        Self { screen, by, filter, pressed, log, was_admitted: true }
    }

    /// A receiver that is notified when input may have been lost or regained. [`ViewerInput::forward`] must
    /// be called then, with the client's bytes or none.
    pub(super) fn changes(&self) -> watch::Receiver<Control> {
        self.screen.control().changes()
    }

    /// Forwards the next bytes of the client, without input that is not admitted.
    ///
    /// # Errors
    /// Why the connection must end.
    pub(super) async fn forward(
        &mut self,
        bytes: &[u8],
        server: &mut OwnedWriteHalf,
    ) -> Result<(), CloseReason> {
        let screen = Arc::clone(&self.screen);
        // Held until the server has the bytes: whoever takes the screen waits for it. A viewer that is
        // refused sends no input, so it waits for nobody and goes on to see the screen.
        let input = screen.control().admit(self.by).await.ok();
        let passed = self.filtered(bytes, input.is_some()).map_err(|UnreadableInput| {
            let why = "somebody else controls the screen, and this client's input cannot be held back";
            closed(Failure::Failed, why)
        })?;
        if passed.is_empty() {
            return Ok(());
        }
        self.pressed.note(&passed);
        // Before the server has it, so that the picture before an action comes in time.
        self.log.note(&passed);
        match tokio::time::timeout(WRITE_TIMEOUT, server.write_all(&passed)).await {
            Ok(Ok(())) => {
                self.pressed.written();
                Ok(())
            }
            Ok(Err(_)) => Err(server_ended()),
            Err(_) => Err(closed(Failure::Failed, "the screen's VNC server does not read")),
        }
    }

    /// Returns the bytes for the server: releases when the input was just lost, then what passes.
    fn filtered(&mut self, bytes: &[u8], is_admitted: bool) -> Result<Vec<u8>, UnreadableInput> {
        let is_lost_now = self.was_admitted && !is_admitted;
        self.was_admitted = is_admitted;
        let mut passed = if is_lost_now { self.filter.release(self.pressed.release())? } else { Vec::new() };
        passed.append(&mut self.filter.pass(bytes, is_admitted)?);
        Ok(passed)
    }

    /// Returns a PointerEvent that releases the buttons of the viewer; `None` when none can be down.
    pub(super) fn release(&self) -> Option<[u8; 6]> {
        self.pressed.release()
    }

    /// Ends the log of what the viewer did.
    pub(super) async fn close(self) {
        self.log.close().await;
    }
}
