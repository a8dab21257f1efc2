//! Windows of a screen, read and changed through the window manager (EWMH).
//!
//! A change is a message to the window manager, which may refuse it, alter it or ask the user. So one job
//! sends the message, and further jobs read the windows until the change is visible. The screen runs other
//! jobs meanwhile, and the response shows the actual state.

use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;
use x11rb::protocol::xproto;

use super::screen::Screen;
use hotdesk_base::wait;
use hotdesk_domain::error::{Error, Result};
use hotdesk_wire::desktop::window::{Window, WindowPlace};

pub(super) mod atoms;
pub(super) mod change;
mod initial_windows;
mod manager_ready;
pub(super) mod read;
pub(super) mod test_window;
pub(super) mod toplevel_windows;

use change::WindowChange;

/// Timeout of a change. A window manager needs milliseconds, a program that closes on a busy machine seconds;
/// a person who is asked needs longer anyway.
const CHANGE_TIMEOUT: Duration = Duration::from_secs(5);
/// A window that moved or resized, but not as requested, counts as settled after this time: terminals only
/// take sizes of whole characters.
const SETTLE_TIME: Duration = Duration::from_millis(150);
/// Longest pause between two reads of a window that moves.
const MAX_PAUSE: Duration = Duration::from_millis(32);
/// Attempts to place a window. Window managers count a border that they removed, which the first attempt
/// shows.
const PLACE_ATTEMPTS: usize = 2;
/// Largest coordinate and size of a window, in pixels; X has 15 bits for the sum of both.
const MAX_COORDINATE: i32 = 16_384;

impl Screen {
    /// The managed windows, topmost first; empty without a window manager.
    ///
    /// # Errors
    /// `Unavailable` when the screen is down or busy; `TimedOut` when the X server stops answering.
    pub async fn windows(&self) -> Result<Vec<Window>> {
        let screen = self.id.clone();
        self.run(move |worker, _| worker.windows(&screen)).await
    }

    /// The window with this id.
    ///
    /// # Errors
    /// `NotFound` when no managed window has that id; else those of [`Screen::windows`].
    pub async fn window(&self, id: &str) -> Result<Window> {
        let found = self.windows().await?.into_iter().find(|window| window.id == id);
        found.ok_or_else(|| unknown(id))
    }

    /// The window with this id, once the window manager has handled all that came before: openbox lists a new
    /// window below the focused one first and raises it afterwards. `None` when the window is gone.
    ///
    /// # Errors
    /// Those of [`Screen::windows`].
    pub async fn managed_window(&self, id: &str) -> Result<Option<Window>> {
        let handled = wait::until(CHANGE_TIMEOUT, || async {
            match self.run(|worker, _| worker.window_manager_responds()).await {
                Ok(false) => None,
                Ok(true) => Some(Ok(())),
                Err(error) => Some(Err(error)),
            }
        });
        handled.await.transpose()?;
        Ok(self.windows().await?.into_iter().find(|window| window.id == id))
    }

    /// Changes the state of a window and waits for it; returns the window as it is then, changed or not.
    ///
    /// # Errors
    /// Those of [`Screen::window`].
    pub async fn change_window(&self, id: &str, change: WindowChange) -> Result<Window> {
        let before = self.window(id).await?;
        let window = parse_id(id)?;
        // A focused window may still be below others.
        if change == WindowChange::Focus || !change.is_in_effect(&before) {
            self.run(move |worker, _| worker.change_window(window, change)).await?;
        }
        let seen = wait::until(CHANGE_TIMEOUT, || async {
            match self.window(id).await {
                Ok(window) if !change.is_in_effect(&window) => None,
                done => Some(done),
            }
        });
        match seen.await {
            Some(done) => done,
            None => self.window(id).await,
        }
    }

    /// Moves and resizes a window; returns the window as it is then. A maximized, minimized or fullscreen
    /// window is restored first.
    ///
    /// # Errors
    /// `Invalid` for an empty or out-of-range place; else those of [`Screen::window`].
    pub async fn place_window(&self, id: &str, place: &WindowPlace) -> Result<Window> {
        check(place)?;
        let mut last = self.window(id).await?;
        let window = parse_id(id)?;
        if !WindowChange::Restore.is_in_effect(&last) {
            last = self.change_window(id, WindowChange::Restore).await?;
        }
        let until = Instant::now() + CHANGE_TIMEOUT;
        let mut request = framed(place, &last);
        for _ in 0..PLACE_ATTEMPTS {
            if is_at(&last, place) {
                break;
            }
            let sent = request.clone();
            self.run(move |worker, _| worker.place_window(window, &sent)).await?;
            last = self.placed(id, &last, place, until).await?;
            let better = corrected(&request, place, &last);
            if (better.x, better.y) == (request.x, request.y) {
                break;
            }
            request = better;
        }
        Ok(last)
    }

    /// Waits until a window is at its place, or stays elsewhere.
    async fn placed(&self, id: &str, before: &Window, place: &WindowPlace, until: Instant) -> Result<Window> {
        let (mut last, mut since) = (before.clone(), Instant::now());
        let mut pause = Duration::from_millis(2);
        loop {
            let now = self.window(id).await?;
            if bounds(&now) != bounds(&last) {
                since = Instant::now();
            }
            let settled = bounds(&now) != bounds(before) && since.elapsed() >= SETTLE_TIME;
            if is_at(&now, place) || settled || Instant::now() >= until {
                return Ok(now);
            }
            last = now;
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(MAX_PAUSE);
        }
    }

    /// Closes a window, or with `force` ends the connection of its program. False when the window still
    /// exists after a timeout.
    ///
    /// # Errors
    /// Those of [`Screen::window`].
    pub async fn close_window(&self, id: &str, force: bool) -> Result<bool> {
        self.window(id).await?;
        let window = parse_id(id)?;
        self.run(
            move |worker, _| if force { worker.kill_client(window) } else { worker.close_window(window) },
        )
        .await?;
        let gone = wait::until(CHANGE_TIMEOUT, || async {
            match self.windows().await {
                Ok(all) if all.iter().any(|window| window.id == id) => None,
                Ok(_) => Some(Ok(())),
                Err(error) => Some(Err(error)),
            }
        });
        gone.await.transpose().map(|gone| gone.is_some())
    }

    /// A token that is cancelled when nothing of the screen runs any more.
    pub fn ended_token(&self) -> CancellationToken {
        self.ended.clone()
    }
}

fn unknown(id: &str) -> Error {
    let shown: String = id.chars().filter(|c| !c.is_control()).take(20).collect();
    Error::not_found(format!("Window not found: {shown}"))
}

/// The wire id of a window.
pub(super) fn id_text(window: xproto::Window) -> String {
    format!("{window:#x}")
}

fn parse_id(id: &str) -> Result<xproto::Window> {
    let digits = id.strip_prefix("0x").and_then(|digits| u32::from_str_radix(digits, 16).ok());
    digits.filter(|window| id_text(*window) == id).ok_or_else(|| unknown(id))
}

fn check(place: &WindowPlace) -> Result<()> {
    let WindowPlace { x, y, width, height } = place;
    if x.is_none() && y.is_none() && width.is_none() && height.is_none() {
        return Err(Error::invalid("At least one of x, y, width and height is required"));
    }
    for (name, value) in [("x", x), ("y", y)] {
        if value.is_some_and(|value| value.abs() > MAX_COORDINATE) {
            return Err(Error::invalid(format!("{name} must be -{MAX_COORDINATE} to {MAX_COORDINATE}")));
        }
    }
    for (name, value) in [("width", width), ("height", height)] {
        if value.is_some_and(|value| !(1..=MAX_COORDINATE.unsigned_abs()).contains(&value)) {
            return Err(Error::invalid(format!("{name} must be 1 to {MAX_COORDINATE}")));
        }
    }
    Ok(())
}

fn bounds(window: &Window) -> (i32, i32, u32, u32) {
    (window.x, window.y, window.width, window.height)
}

/// Whether a window is at its place.
fn is_at(window: &Window, place: &WindowPlace) -> bool {
    place.x.is_none_or(|x| x == window.x)
        && place.y.is_none_or(|y| y == window.y)
        && place.width.is_none_or(|width| width == window.width)
        && place.height.is_none_or(|height| height == window.height)
}

/// The position of the frame for a position of the content.
fn framed(place: &WindowPlace, window: &Window) -> WindowPlace {
    let beside = |content: Option<i32>, frame: u32| Some(content?.saturating_sub_unsigned(frame));
    let (x, y) = (beside(place.x, window.frame.left), beside(place.y, window.frame.top));
    WindowPlace { x, y, ..place.clone() }
}

/// The next request after a window ended elsewhere: the last one, moved by the error in the opposite
/// direction. The frame does not count again: the error contains it, even if the frame only appeared after
/// the last request.
fn corrected(request: &WindowPlace, place: &WindowPlace, became: &Window) -> WindowPlace {
    let aim = |sent: Option<i32>, wanted: Option<i32>, became: i32| Some(sent? + wanted? - became);
    WindowPlace {
        x: aim(request.x, place.x, became.x),
        y: aim(request.y, place.y, became.y),
        ..place.clone()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn ids_have_one_spelling() {
        assert_eq!(parse_id("0x1400003").unwrap(), 0x140_0003);
        for bad in
            ["", "0x", "1400003", "0X1400003", "0x01400003", "0x140000A", "-0x1", "0x+1", "0x100000000"]
        {
            assert!(parse_id(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn places_have_bounds_and_are_not_empty() {
        let place = |x, y, width, height| WindowPlace { x, y, width, height };
        for good in [
            place(Some(-5), None, None, None),
            place(None, Some(16_384), None, None),
            place(Some(-16_384), Some(0), Some(1), Some(16_384)),
        ] {
            assert!(check(&good).is_ok(), "{good:?}");
        }
        for bad in [
            place(None, None, None, None),
            place(Some(16_385), None, None, None),
            place(None, Some(-16_385), None, None),
            place(None, None, Some(0), None),
            place(None, None, None, Some(16_385)),
            place(Some(i32::MAX), None, None, None),
        ] {
            assert!(check(&bad).is_err(), "{bad:?}");
        }
    }

    /// A frame of one pixel that is not listed before the first request, or never.
    #[test]
    fn a_request_is_corrected_by_the_error_whether_the_frame_is_listed_or_not() {
        let place = WindowPlace { x: Some(30), y: Some(40), ..WindowPlace::default() };
        for listed_later in [0, 1] {
            let before = window(0, 0, 0);
            let first = framed(&place, &before);
            let became = window(first.x.unwrap() + 1, first.y.unwrap() + 1, listed_later);
            let second = corrected(&first, &place, &became);
            assert_eq!((second.x, second.y), (Some(29), Some(39)), "frame of {listed_later}");
        }
    }

    fn window(x: i32, y: i32, frame: u32) -> Window {
        let frame = json!({"left": frame, "right": frame, "top": frame, "bottom": frame});
        serde_json::from_value(json!({
            "id": "0x1", "title": "", "class": "", "instance": "", "pid": null, "screen": "0", "x": x, "y": y,
            "width": 10, "height": 10, "frame": frame, "focused": true, "minimized": false, "maximized": false,
            "fullscreen": false, "desktop": 0, "type": "normal",
        }))
        .unwrap()
    }
}
