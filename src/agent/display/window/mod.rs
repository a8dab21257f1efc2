//! What can be asked of the windows of a screen? Seen and changed through the window manager (EWMH), never around it.
//!
//! A change is a message to the window manager, which may refuse it, change it or ask the user. So each is sent in one
//! piece of work and then looked for in others: the screen does other work meanwhile, and the answer is what is so.

use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;
use x11rb::protocol::xproto;

use super::screen::Screen;
use hotdesk_base::wait;
use hotdesk_domain::error::{Error, Result};
use hotdesk_wire::window::{Window, WindowPlace};

pub(super) mod atoms;
mod change;
pub(super) mod read;
mod ready;

pub use change::Change;

/// How long a change is waited for: a window manager needs milliseconds, a program that closes on a busy machine seconds, a person
/// who is asked needs longer anyhow.
const CHANGE_TIMEOUT: Duration = Duration::from_secs(5);
/// A window that moved or changed its size, but not to what was asked, is taken as it is once it stayed so for this
/// long: terminals only take sizes of whole characters.
const SETTLED: Duration = Duration::from_millis(150);
/// Longest pause between two looks at a window that moves.
const LONGEST_PAUSE: Duration = Duration::from_millis(32);
/// How often a place is asked for: window managers count a border that they took away, which the first answer shows.
const PLACE_ATTEMPTS: usize = 2;
/// Furthest place and largest size of a window, in pixels; X has 15 bits for the sum of both.
const MAX_COORDINATE: i32 = 16_384;

impl Screen {
    /// The managed windows, the topmost first; none where no window manager runs.
    ///
    /// # Errors
    /// `Unavailable` or `TimedOut` when the screen cannot be asked now.
    pub async fn windows(&self) -> Result<Vec<Window>> {
        let screen = self.id.clone();
        self.run(move |seat, _| seat.windows(&screen)).await
    }

    /// One window.
    ///
    /// # Errors
    /// `NotFound` when no managed window has that id; else as [`Screen::windows`].
    pub async fn window(&self, id: &str) -> Result<Window> {
        let found = self.windows().await?.into_iter().find(|window| window.id == id);
        found.ok_or_else(|| unknown(id))
    }

    /// Changes the state of a window and waits until it has it; returns what became true.
    ///
    /// # Errors
    /// As [`Screen::window`].
    pub async fn change_window(&self, id: &str, change: Change) -> Result<Window> {
        let before = self.window(id).await?;
        let window = parse_id(id)?;
        // A focused window may still be below others.
        if change == Change::Focus || !change.is_so(&before) {
            self.run(move |seat, _| seat.change_window(window, change)).await?;
        }
        let seen = wait::until(CHANGE_TIMEOUT, || async {
            match self.window(id).await {
                Ok(window) if !change.is_so(&window) => None,
                done => Some(done),
            }
        });
        match seen.await {
            Some(done) => done,
            None => self.window(id).await,
        }
    }

    /// Moves and resizes a window; returns what became true. One that is maximized, minimized or fullscreen becomes a
    /// normal window first.
    ///
    /// # Errors
    /// `Invalid` for a place that is none; else as [`Screen::window`].
    pub async fn place_window(&self, id: &str, place: &WindowPlace) -> Result<Window> {
        check(place)?;
        let mut last = self.window(id).await?;
        let window = parse_id(id)?;
        if !Change::Restore.is_so(&last) {
            last = self.change_window(id, Change::Restore).await?;
        }
        let until = Instant::now() + CHANGE_TIMEOUT;
        let mut asked = place.clone();
        for _ in 0..PLACE_ATTEMPTS {
            if is_at(&last, place) {
                break;
            }
            let request = framed(&asked, &last);
            self.run(move |seat, _| seat.place_window(window, &request)).await?;
            last = self.placed(id, &last, place, until).await?;
            let better = corrected(&asked, place, &last);
            if (better.x, better.y) == (asked.x, asked.y) {
                break;
            }
            asked = better;
        }
        Ok(last)
    }

    /// Waits until a window is where it was to be, or where it stays.
    async fn placed(&self, id: &str, before: &Window, place: &WindowPlace, until: Instant) -> Result<Window> {
        let (mut last, mut since) = (before.clone(), Instant::now());
        let mut pause = Duration::from_millis(2);
        loop {
            let now = self.window(id).await?;
            if bounds(&now) != bounds(&last) {
                since = Instant::now();
            }
            let settled = bounds(&now) != bounds(before) && since.elapsed() >= SETTLED;
            if is_at(&now, place) || settled || Instant::now() >= until {
                return Ok(now);
            }
            last = now;
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Closes a window, or ends the connection of its program; false when it is still there after a while.
    ///
    /// # Errors
    /// As [`Screen::window`].
    pub async fn close_window(&self, id: &str, force: bool) -> Result<bool> {
        self.window(id).await?;
        let window = parse_id(id)?;
        self.run(move |seat, _| if force { seat.kill_client(window) } else { seat.close_window(window) })
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

    /// Set when nothing of the screen runs any more.
    pub fn end(&self) -> CancellationToken {
        self.ended.clone()
    }
}

fn unknown(id: &str) -> Error {
    let shown: String = id.chars().filter(|c| !c.is_control()).take(20).collect();
    Error::not_found(format!("Window not found: {shown}"))
}

/// A window's id as text.
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
        return Err(Error::invalid("x, y, width or height is needed"));
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

/// Whether a window is where it was to be.
fn is_at(window: &Window, place: &WindowPlace) -> bool {
    place.x.is_none_or(|x| x == window.x)
        && place.y.is_none_or(|y| y == window.y)
        && place.width.is_none_or(|width| width == window.width)
        && place.height.is_none_or(|height| height == window.height)
}

/// The corner of the frame around a content that is to be at a place.
fn framed(place: &WindowPlace, window: &Window) -> WindowPlace {
    let beside = |content: Option<i32>, frame: u32| Some(content?.saturating_sub_unsigned(frame));
    let (x, y) = (beside(place.x, window.frame.left), beside(place.y, window.frame.top));
    WindowPlace { x, y, ..place.clone() }
}

/// What to ask for next when a place led to another: off by as much the other way.
fn corrected(asked: &WindowPlace, place: &WindowPlace, became: &Window) -> WindowPlace {
    let aim = |asked: Option<i32>, wanted: Option<i32>, became: i32| Some(asked? + wanted? - became);
    WindowPlace { x: aim(asked.x, place.x, became.x), y: aim(asked.y, place.y, became.y), ..place.clone() }
}

#[cfg(test)]
mod tests {
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
    fn places_have_bounds_and_say_something() {
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
}
