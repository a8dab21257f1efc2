//! Does the window manager manage a new window?

use std::time::{Duration, Instant};

use super::finding::{Found, Measured, failed, millis, skipped};
use super::screen::Lit;
use crate::display::RECEIVER_TITLE;
use hotdesk_base::wait;
use hotdesk_wire::window::Window;

/// How long a window may take to be in the list with all that is said of it: its manager draws a frame first.
const LIST_TIMEOUT: Duration = Duration::from_secs(6);

/// `managed`: whether screens are to have a window manager.
pub(super) async fn check(lit: &Lit, managed: bool) -> Found {
    if !managed {
        return skipped("no window manager runs on this computer's screens");
    }
    let listed = || async {
        let all = lit.screen.windows().await;
        all.map(|all| all.into_iter().find(|window| window.title == RECEIVER_TITLE))
    };
    let (x, y) = lit.receiver.middle();
    let whole = |window: &Window| {
        let middle = (
            f64::from(window.x) + f64::from(window.width / 2),
            f64::from(window.y) + f64::from(window.height / 2),
        );
        middle == (x, y) && window.pid == Some(std::process::id()) && window.focused
    };
    let seen = wait::until(LIST_TIMEOUT, || async {
        match listed().await {
            Ok(window) => window.filter(whole).map(Ok),
            Err(error) => Some(Err(error)),
        }
    });
    seen.await.transpose()?;
    let began = Instant::now();
    let Some(window) = listed().await? else {
        return failed("a new window is not listed: no window manager manages it");
    };
    Measured::new("the window is listed where it is, with its program, and has the keyboard")
        .with("list_ms", millis(began.elapsed()))
        .only_if(whole(&window), || {
            format!("the window is listed wrongly: {window:?}, and not around ({x}, {y})")
        })
}
