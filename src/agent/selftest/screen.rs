//! Does a screen come up, and can a program show a window on it?

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::finding::{Flaw, Measured, millis};
use crate::display::{Hidden, Receiver, Screen};

/// The hidden screen with the window that receives everything.
pub(super) struct Lit {
    pub(super) screen: Arc<Screen>,
    pub(super) receiver: Receiver,
}

/// Waits for the screen and opens the window.
pub(super) async fn light(hidden: &Hidden, patience: Duration) -> Result<(Lit, Measured), Flaw> {
    let began = Instant::now();
    let screen = hidden.screen();
    screen.ready(patience).await?;
    let up = began.elapsed();
    let receiver = Receiver::open(&screen).await?;
    let size = screen.size();
    let measured = Measured::new(format!("a screen of {}x{} with a window", size.width, size.height))
        .with("up_ms", millis(up))
        .with("window_ms", millis(began.elapsed().saturating_sub(up)));
    Ok((Lit { screen, receiver }, measured))
}
