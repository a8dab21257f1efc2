//! What can be done on a screen? Input, and what could be seen of its effect.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::changes::{Change, Moment};
use super::fault::Outcome;
use super::keyboard::{self, Typed};
use super::keys::Chord;
use super::observe::{Effect, Observed};
use super::pointer::{Pointer, Press, Scrolled, Wheel};
use super::screen::Screen;
use super::seat::{Gone, Seat};
use hotdesk_domain::error::Result;
use hotdesk_domain::pointer::{Button, Point};

/// Every action: `Invalid` for a point that is not on the screen; `Unavailable` or `TimedOut` when the screen cannot be
/// acted on now.
impl Screen {
    async fn observed<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Seat, Gone<'_>) -> Outcome<T> + Send + 'static,
    ) -> Result<Observed<T>> {
        self.run(move |seat, gone| seat.observed(|seat| work(seat, gone))).await
    }

    /// Moves the pointer.
    ///
    /// # Errors
    /// As every action.
    pub async fn move_to(&self, x: f64, y: f64) -> Result<Observed<Point>> {
        self.observed(move |seat, _| seat.move_to(x, y)).await
    }

    /// Clicks.
    ///
    /// # Errors
    /// As every action.
    pub async fn click(&self, x: f64, y: f64, press: Press) -> Result<Observed<Point>> {
        self.observed(move |seat, _| seat.click(x, y, &press)).await
    }

    /// Presses a button, which stays down; an axis that is not given keeps the pointer's value.
    ///
    /// # Errors
    /// As every action.
    pub async fn button_down(
        &self,
        x: Option<f64>,
        y: Option<f64>,
        button: Button,
    ) -> Result<Observed<Point>> {
        self.observed(move |seat, _| seat.button_down(x, y, button)).await
    }

    /// Lets a button come up.
    ///
    /// # Errors
    /// As every action.
    pub async fn button_up(&self, x: Option<f64>, y: Option<f64>, button: Button) -> Result<Observed<Point>> {
        self.observed(move |seat, _| seat.button_up(x, y, button)).await
    }

    /// Drags along a path; on return the button is up.
    ///
    /// # Errors
    /// As every action.
    pub async fn drag(
        &self,
        path: Vec<(f64, f64)>,
        press: Press,
        duration: Duration,
    ) -> Result<Observed<(Point, Point)>> {
        self.observed(move |seat, _| seat.drag(&path, &press, duration)).await
    }

    /// Turns the wheel at a place, or where the pointer is.
    ///
    /// # Errors
    /// As every action.
    pub async fn scroll(&self, turn: Wheel, x: Option<f64>, y: Option<f64>) -> Result<Observed<Scrolled>> {
        self.observed(move |seat, _| seat.scroll(&turn, x, y)).await
    }

    /// Types text. With `stop_astray` it stops when another window gets the keyboard.
    ///
    /// # Errors
    /// As every action; `Invalid` for control characters, `TooLarge` past [`keyboard::MAX_TEXT_CHARS`].
    pub async fn type_text(&self, text: &str, stop_astray: bool) -> Result<Observed<Typed>> {
        let keysyms = keyboard::keysyms(text)?;
        self.observed(move |seat, gone| seat.type_text(&keysyms, stop_astray, gone)).await
    }

    /// Presses keys or chords one after another, each held for `hold`.
    ///
    /// # Errors
    /// As every action.
    pub async fn press(&self, chords: Vec<Chord>, hold: Duration) -> Result<Observed<()>> {
        self.observed(move |seat, gone| seat.press_chords(&chords, hold, gone)).await
    }

    /// Presses a key or a chord, which stays down.
    ///
    /// # Errors
    /// As every action; `Invalid` for a key that is not on the layout.
    pub async fn key_down(&self, chord: Chord) -> Result<Observed<()>> {
        self.observed(move |seat, _| seat.keep(&chord)).await
    }

    /// Lets a key or a chord come up.
    ///
    /// # Errors
    /// As every action; `Invalid` for a key that is not on the layout.
    pub async fn key_up(&self, chord: Chord) -> Result<Observed<()>> {
        self.observed(move |seat, _| seat.lift(&chord)).await
    }

    /// Whether the caller is the one to wait for [`Screen::release_kept`]; nobody else is until that is called.
    pub fn watches_kept(&self) -> bool {
        !self.watched.swap(true, Ordering::Relaxed)
    }

    /// Lets everything come up that a client asked to keep down; how much that was.
    ///
    /// # Errors
    /// As every action.
    pub async fn release_kept(&self) -> Result<usize> {
        // First: what is pressed from now on is somebody else's to let go.
        self.watched.store(false, Ordering::Relaxed);
        self.run(|seat, _| seat.release_kept()).await
    }

    /// Where the pointer is, and what is down.
    ///
    /// # Errors
    /// As every action.
    pub async fn pointer(&self) -> Result<Pointer> {
        self.run(|seat, _| seat.pointer()).await
    }

    /// The present moment of the screen's content.
    ///
    /// # Errors
    /// As every action.
    pub async fn moment(&self) -> Result<Moment> {
        self.run(|seat, _| {
            seat.read_events()?;
            Ok(seat.moment())
        })
        .await
    }

    /// What was painted since a moment.
    ///
    /// # Errors
    /// As every action.
    pub async fn change_since(&self, since: Moment) -> Result<Change> {
        self.run(move |seat, _| seat.change_since(since)).await
    }

    /// What can be seen now, as if of an action that did nothing.
    ///
    /// # Errors
    /// As every action.
    pub async fn look_around(&self) -> Result<Effect> {
        Ok(self.observed(|_, _| Ok(())).await?.effect)
    }
}
