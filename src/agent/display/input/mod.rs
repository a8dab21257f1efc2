//! Input actions of a screen, and their visible effect.

mod buttons_down;
pub(super) mod effect;
pub(super) mod keyboard;
mod ping;
pub(super) mod pointer;
mod quiescence;

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::fault::Outcome;
use super::keyboard_layout::keys::Chord;
use super::keyboard_layout::text;
use super::screen::Screen;
use crate::display::damage_history::{Moment, PaintedChange};
use crate::display::screen::x11_worker::{CancelCheck, X11Worker};
use effect::{Effect, Observation};
use hotdesk_domain::desktop::pointer::{Button, Point};
use hotdesk_domain::error::Result;
use keyboard::TypingResult;
use pointer::{PointerState, Press, ScrollResult, Wheel};

/// Input actions. Each fails with `Unavailable` when the screen is down or busy and nothing was done. It
/// fails with `TimedOut` when the X server stops answering during the action. It fails with `Unavailable` and
/// the code `outcome_unknown` when the screen ends during the action.
impl Screen {
    async fn observe<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut X11Worker, CancelCheck<'_>) -> Outcome<T> + Send + 'static,
    ) -> Result<Observation<T>> {
        self.run_after(X11Worker::look_before, move |worker, before, cancelled| {
            worker.observe(before, |worker| work(worker, cancelled))
        })
        .await
    }

    /// Moves the pointer. Coordinates are in screen pixels.
    ///
    /// # Errors
    /// `Invalid` for a point outside of the screen; else those above.
    pub async fn move_to(&self, x: f64, y: f64) -> Result<Observation<Point>> {
        self.observe(move |worker, _| worker.move_to(x, y)).await
    }

    /// Clicks at a point.
    ///
    /// # Errors
    /// `Invalid` for a point outside of the screen; `Conflict` when a viewer holds the button; else those
    /// above.
    pub async fn click(&self, x: f64, y: f64, press: Press) -> Result<Observation<Point>> {
        self.observe(move |worker, _| worker.click(x, y, &press)).await
    }

    /// Presses a button and holds it down. A missing coordinate is the pointer's current one.
    ///
    /// # Errors
    /// `Invalid` for a point outside of the screen; `Conflict` when a viewer holds the button; else those
    /// above.
    pub async fn button_down(
        &self,
        x: Option<f64>,
        y: Option<f64>,
        button: Button,
    ) -> Result<Observation<Point>> {
        self.observe(move |worker, _| worker.button_down(x, y, button)).await
    }

    /// Releases a button.
    ///
    /// # Errors
    /// `Invalid` for a point outside of the screen; `Conflict` when a viewer holds the button; else those
    /// above.
    pub async fn button_up(
        &self,
        x: Option<f64>,
        y: Option<f64>,
        button: Button,
    ) -> Result<Observation<Point>> {
        self.observe(move |worker, _| worker.button_up(x, y, button)).await
    }

    /// Drags along a path of at least two points; on return the button is up. Returns the first and the last
    /// point.
    ///
    /// # Errors
    /// `Invalid` for a point outside of the screen; `Conflict` when a viewer holds the button; else those
    /// above.
    pub async fn drag(
        &self,
        path: Vec<(f64, f64)>,
        press: Press,
        duration: Duration,
    ) -> Result<Observation<(Point, Point)>> {
        self.observe(move |worker, _| worker.drag(&path, &press, duration)).await
    }

    /// Turns the wheel at a point, or at the pointer's position.
    ///
    /// # Errors
    /// `Invalid` for a point outside of the screen; else those above.
    pub async fn scroll(
        &self,
        turn: Wheel,
        x: Option<f64>,
        y: Option<f64>,
    ) -> Result<Observation<ScrollResult>> {
        self.observe(move |worker, _| worker.scroll(&turn, x, y)).await
    }

    /// Types text. With `stop_astray` it stops when another window gets the keyboard.
    ///
    /// # Errors
    /// `Invalid` for control characters, `TooLarge` past [`text::MAX_TEXT_CHARS`]; else those above.
    pub async fn type_text(&self, text: &str, stop_astray: bool) -> Result<Observation<TypingResult>> {
        let keysyms = text::keysyms(text)?;
        self.observe(move |worker, cancelled| worker.type_text(&keysyms, stop_astray, cancelled)).await
    }

    /// Presses keys or chords one after another, each for `hold`.
    ///
    /// # Errors
    /// Those above.
    pub async fn press(&self, chords: Vec<Chord>, hold: Duration) -> Result<Observation<()>> {
        self.observe(move |worker, cancelled| worker.press_chords(&chords, hold, cancelled)).await
    }

    /// Presses a key or a chord and holds it down.
    ///
    /// # Errors
    /// `Invalid` for a key that is not on the layout; else those above.
    pub async fn key_down(&self, chord: Chord) -> Result<Observation<()>> {
        self.observe(move |worker, _| worker.hold_chord(&chord)).await
    }

    /// Releases a key or a chord.
    ///
    /// # Errors
    /// `Invalid` for a key that is not on the layout; else those above.
    pub async fn key_up(&self, chord: Chord) -> Result<Observation<()>> {
        self.observe(move |worker, _| worker.release_chord(&chord)).await
    }

    /// Claims the task that later calls [`Screen::release_held_input`]. True for one caller until that call.
    pub fn claim_release_task(&self) -> bool {
        !self.release_claimed.swap(true, Ordering::Relaxed)
    }

    /// Releases all keys and buttons that clients hold down; returns how many.
    ///
    /// # Errors
    /// Those above.
    pub async fn release_held_input(&self) -> Result<usize> {
        // First, so that input held from now on gets a release task of its own.
        self.release_claimed.store(false, Ordering::Relaxed);
        self.run(|worker, _| worker.release_held_input()).await
    }

    /// The pointer's position, and the buttons and modifiers that are down.
    ///
    /// # Errors
    /// Those above.
    pub async fn pointer(&self) -> Result<PointerState> {
        self.run(|worker, _| worker.pointer()).await
    }

    /// The current position in the screen's content history.
    ///
    /// # Errors
    /// Those above.
    pub async fn moment(&self) -> Result<Moment> {
        self.run(|worker, _| {
            worker.read_events()?;
            Ok(worker.moment())
        })
        .await
    }

    /// The areas painted since a position.
    ///
    /// # Errors
    /// Those above.
    pub async fn change_since(&self, since: Moment) -> Result<PaintedChange> {
        self.run(move |worker, _| worker.change_since(since)).await
    }

    /// The effect of an action that does nothing: the current focus and position.
    ///
    /// # Errors
    /// Those above.
    pub async fn observe_current(&self) -> Result<Effect> {
        Ok(self.observe(|_, _| Ok(())).await?.effect)
    }
}
