//! Does the window manager manage a new window?

use std::time::{Duration, Instant};

use super::finding::{Found, Measured, failed, millis, skipped};
use super::screen::Lit;
use crate::agent::display::RECEIVER_TITLE;
use crate::base::wait;

/// How long a window may take to get into the list: its manager draws a frame first.
const LIST_PATIENCE: Duration = Duration::from_secs(2);

/// `managed`: whether screens are to have a window manager.
pub(super) async fn check(lit: &Lit, managed: bool) -> Found {
    if !managed {
        return skipped("no window manager runs on this computer's screens");
    }
    let listed = wait::until(LIST_PATIENCE, || async {
        let began = Instant::now();
        match lit.screen.windows().await {
            Ok(all) => {
                let took = began.elapsed();
                all.into_iter().find(|window| window.title == RECEIVER_TITLE).map(|window| Ok((window, took)))
            }
            Err(error) => Some(Err(error)),
        }
    });
    let Some(listed) = listed.await else {
        return failed("a new window is not listed: no window manager manages it");
    };
    let (window, took) = listed?;
    let (x, y) = lit.receiver.middle();
    let middle = (
        f64::from(window.x) + f64::from(window.width / 2),
        f64::from(window.y) + f64::from(window.height / 2),
    );
    let right = middle == (x, y) && window.pid == Some(std::process::id()) && window.focused;
    Measured::new("the window is listed where it is, with its program, and has the keyboard")
        .with("list_ms", millis(took))
        .only_if(right, || format!("the window is listed wrongly: {window:?}, and not around ({x}, {y})"))
}
